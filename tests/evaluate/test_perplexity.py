"""Tests of perplexity: comparison with a slow word-by-word loop, metrics and counts."""

import dataclasses
import itertools
import math

import pytest
import torch
from slow_language_model import (
    ADAPTIVE_CONFIG,
    CONFIG,
    COUNTS,
    SENTENCES,
    VOCABULARY,
    make_model,
    network_of,
    slow_carry,
    slow_reset,
)

from elmo.config import RegularizationConfig
from elmo.corpus.bptt_segments import read_once
from elmo.corpus.character_counts import CharacterRatio
from elmo.corpus.sentence_reader import corpus_of
from elmo.evaluate import perplexity
from elmo.evaluate.perplexity import Perplexity, exp, measure, model_tables, perplexity_of
from elmo.model.bidirectional_lm import BidirectionalLM


def measured(model, *, carry=False, n_streams=2, n_steps=3, order="queue", **options):
    words, split = corpus_of(SENTENCES)
    segments = read_once(
        split, n_streams=n_streams, n_steps=n_steps, reset=not carry, order=order, **options
    )
    network = network_of(model)
    wrapped = BidirectionalLM(bilm=network.bilm, regularization=RegularizationConfig())
    return measure(wrapped, network.softmax, model_tables(model, words), segments, carry=carry)


@pytest.mark.parametrize("config", [CONFIG, ADAPTIVE_CONFIG], ids=["full", "adaptive"])
def test_loss_with_reset_state_equals_slow_loop(config):
    model = make_model(config)
    sums = measured(model)
    assert sums[:2].tolist() == pytest.approx(slow_reset(model), rel=1e-5)
    assert sums[2:].tolist() == COUNTS
    assert sums.dtype == torch.float64


@pytest.mark.parametrize(("n_streams", "n_steps"), [(1, 4), (2, 1), (3, 5), (9, 3)])
def test_loss_with_carried_state_equals_slow_loop(n_streams, n_steps):
    model = make_model()
    sums = measured(model, carry=True, n_streams=n_streams, n_steps=n_steps)
    assert sums[:2].tolist() == pytest.approx(slow_carry(model, n_streams, n_steps), rel=1e-5)
    assert sums[2:].tolist() == COUNTS


def test_carried_state_changes_the_loss():
    model = make_model()
    carried = measured(model, carry=True, n_streams=1)
    assert carried[0].item() != pytest.approx(slow_reset(model)[0], rel=1e-4)


@pytest.mark.parametrize("order", ["queue", "text"])
@pytest.mark.parametrize("n_streams", [1, 2, 7, 12])
@pytest.mark.parametrize("n_steps", [1, 4, 50])
def test_loss_with_reset_state_does_not_depend_on_batch_size_and_unroll(order, n_streams, n_steps):
    """Every word also counts exactly once."""
    model = make_model()
    sums = measured(model, n_streams=n_streams, n_steps=n_steps, order=order)
    expected = measured(model, n_streams=3, n_steps=7)
    torch.testing.assert_close(sums[:2], expected[:2], rtol=1e-6, atol=0)
    assert sums[2:].tolist() == COUNTS


@pytest.mark.parametrize("carry", [False, True])
def test_sums_of_two_processes_add_up_to_the_total(carry):
    model = make_model()
    whole = measured(model, carry=carry, n_streams=4)
    parts = [
        measured(model, carry=carry, n_streams=4, local_streams=rows)
        for rows in (range(2), range(2, 4))
    ]
    torch.testing.assert_close(parts[0] + parts[1], whole, rtol=1e-6, atol=0)


def test_sums_of_a_process_without_text_are_zero():
    """With order="text", a text with fewer sentences than batch rows leaves some rows empty."""
    sums = measured(make_model(), n_streams=10, order="text", local_streams=range(8, 10))
    assert not sums.any()


def test_measure_disables_dropout_and_restores_training_mode():
    model = make_model()
    words, split = corpus_of(SENTENCES)
    network = network_of(model)
    regularization = RegularizationConfig(dropout=0.5, weight_drop=0.5, embedding_dropout=0.5)
    wrapped = BidirectionalLM(bilm=network.bilm, regularization=regularization).train()
    modes = []
    inner = wrapped.bilm.encoder.forward
    wrapped.bilm.encoder.forward = lambda rows, kernels: (
        modes.append(wrapped.training) or inner(rows, kernels=kernels)
    )

    def segments():
        yield from read_once(split, n_streams=2, n_steps=3, reset=True)

    sums = measure(wrapped, network.softmax, model_tables(model, words), segments(), carry=False)
    assert torch.equal(sums, measured(model))
    assert wrapped.training
    assert set(modes) == {False}

    def failing_segments():
        yield from itertools.islice(segments(), 1)
        raise ValueError("failed")

    with pytest.raises(ValueError, match="failed"):
        measure(
            wrapped, network.softmax, model_tables(model, words), failing_segments(), carry=False
        )
    assert wrapped.training
    assert not wrapped.eval().training


def test_perplexity_with_zero_softmax_weights_is_the_vocabulary_size():
    """With equal logits, all words have the same probability."""
    model = make_model()
    weights = {n: v * 0 if n.startswith("softmax.") else v for n, v in model.weights.items()}
    sums = measured(dataclasses.replace(model, weights=weights))
    metrics = perplexity_of(sums, CharacterRatio(1.0, False))
    assert metrics.forward == pytest.approx(len(VOCABULARY), rel=1e-6)
    assert metrics.backward == pytest.approx(len(VOCABULARY), rel=1e-6)


# ------------------------------------------------------------------------- metrics and counts


def test_metrics_computed_from_sums_match_hand_calculation():
    # "ab  c" and "d": 3 words, 2 ends, so 5 predictions. The tables count 3 + 2 + 1 and 2 + 1
    # characters; the text has 8 with two spaces and two line ends.
    sums = torch.tensor([10.0, 20.0, 5, 3, 1, 9], dtype=torch.float64)
    metrics = perplexity_of(sums, CharacterRatio(8 / 9, False))
    assert metrics == Perplexity(2.0, 4.0, 5, 3, 1, 8)
    assert metrics.loss == 3.0
    values = metrics.values()
    assert values["forward"] == pytest.approx(math.e**2)
    assert values["backward"] == pytest.approx(math.e**4)
    assert values["mean"] == pytest.approx(math.e**3)
    assert values["forward_bits_per_character"] == pytest.approx(10 / math.log(2) / 8)
    assert values["backward_bits_per_character"] == pytest.approx(20 / math.log(2) / 8)
    assert values["bits_per_character"] == pytest.approx(15 / math.log(2) / 8)
    assert values["bits_per_word"] == pytest.approx(15 / math.log(2) / 3)
    assert values["unknown_rate"] == pytest.approx(1 / 3)


def test_counts_of_a_tiny_text_match_hand_count():
    model = make_model()
    words, split = corpus_of([["cat", "日本"], ["unseen", "mat"], []])
    network = network_of(model)
    sums = measure(
        BidirectionalLM(bilm=network.bilm, regularization=RegularizationConfig()),
        network.softmax,
        model_tables(model, words),
        read_once(split, n_streams=2, n_steps=2, reset=True),
        carry=False,
    )
    # cat_ 日本_ end, unseen_ mat_ end, end
    assert sums[2:].tolist() == [7, 4, 1, 4 + 3 + 1 + 7 + 4 + 1 + 1]


def test_metrics_of_zero_predictions_are_finite():
    sums = torch.zeros(perplexity.N_SUMS, dtype=torch.float64)
    metrics = perplexity_of(sums, CharacterRatio(0.0, True))
    assert metrics.forward == 1.0
    assert metrics.values()["bits_per_character"] == 0.0
    assert metrics.unknown_rate == 0.0


def test_unknown_words_are_reported_to_lower_the_bits_per_character():
    note = "the bits per character and per word are too low"
    assert note in str(Perplexity(2.0, 4.0, 5, 3, 1, 8))
    assert note not in str(Perplexity(2.0, 4.0, 5, 3, 0, 8))


def test_perplexity_of_a_huge_loss_is_infinite():
    assert exp(699.0) == math.exp(699.0)
    assert exp(1e4) == math.inf
