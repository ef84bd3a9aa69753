"""Tests of dynamic evaluation."""

import pytest
import torch
from small_language_models import small_network
from test_text_loss import SYMBOLS, TEXT

from elmo.errors import ConfigError
from elmo.lab.dynamic_evaluation import dynamic_loss
from elmo.lab.symbol_text import text_part
from elmo.lab.text_loss import text_loss

PART = text_part(TEXT, SYMBOLS)


def test_repeated_text_is_learned_and_the_network_is_not_changed():
    network = small_network()
    before = [value.clone() for value in network.parameters()]
    fixed = text_loss(network, SYMBOLS, PART, rows=1)
    dynamic = dynamic_loss(network, SYMBOLS, PART, rate=0.5, unroll=5)
    assert dynamic.nats < fixed.nats - 0.05
    assert all(map(torch.equal, before, network.parameters()))


def test_full_decay_returns_to_the_trained_weights():
    network = small_network()
    fixed = text_loss(network, SYMBOLS, PART, rows=1)
    dynamic = dynamic_loss(network, SYMBOLS, PART, rate=0.5, decay=1.0, unroll=5)
    assert dynamic.nats == pytest.approx(fixed.nats, rel=1e-5)


@pytest.mark.parametrize("options", [{"rate": 0.0}, {"rate": 1.0, "decay": 2.0}])
def test_option_out_of_range_is_an_error(options):
    with pytest.raises(ConfigError, match="dynamic evaluation"):
        dynamic_loss(small_network(), SYMBOLS, PART, **options)
