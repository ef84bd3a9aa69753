"""A language model as the loop sees it."""

import dataclasses
import math

import pytest
import torch
from tiny_runs import SPELLED, fabric, make_config

from elmo.config import InputConfig
from elmo.corpus.shards import Corpus
from elmo.errors import ConfigError, TrainingError
from elmo.train.pretrain_model import pretrain_job


def work_of(corpus, **settings):
    shape = SPELLED.encoder
    given = InputConfig(filters=shape.filters, n_highway=1, character_dim=4, max_characters=6)
    config = dataclasses.replace(
        make_config(**settings), out="run/", input=given, lstm=SPELLED.lstm
    )
    return pretrain_job(config, Corpus.open(corpus)).make_trainable(fabric())


def test_numbers_are_a_perplexity(corpus):
    work = work_of(corpus)
    seen = []

    def watch(windows):
        for window in windows:
            seen.append(window)
            yield window

    found = work.evaluation(work.measure(1, watch))
    assert seen
    assert found.rank == found.loss == pytest.approx(work.chance_loss, rel=0.2)
    assert found.line().startswith(f"held-out perplexity forward {found.forward:,.2f}, backward ")


def test_a_sampled_loss_has_another_blind_guess(corpus):
    work = work_of(corpus, softmax="sampled")
    assert work.chance_loss == math.log(9)


def test_a_held_out_loss_astray(corpus):
    work = work_of(corpus)
    work.job.network.softmax.bias.data[3] = 1e4
    with pytest.raises(TrainingError, match=r"before step 7: the held-out loss is .* blind guess"):
        work.measure(7, iter)
    # Before the first step, it is what was given.
    assert work.measure(0, iter)


def test_it_goes_on_from_the_step_done_not_from_what_was_read_ahead(corpus):
    work = work_of(corpus)
    batches = work.batches(0)
    first, second = next(batches), next(batches)
    work.step(first, 0)
    again = work_of(corpus)
    again.load_state_dict(work.state_dict())
    window = next(again.batches(1))
    assert window.position == second.position
    one, other = (w.step(b, 1).losses for w, b in ((work, second), (again, window)))
    assert torch.equal(one, other)


def test_another_corpus_is_refused(corpus):
    work = work_of(corpus)
    state = work.state_dict()
    state["corpus"] = [1, *state["corpus"][1:]]
    with pytest.raises(ConfigError, match=r"run holds a run on another corpus \(\[1, "):
        work.load_state_dict(state)


def test_an_uneven_batch_is_refused_before_anything_is_written(corpus):
    with pytest.raises(ConfigError, match="cannot be cut into 3"):
        work_of(corpus, accumulate=3)
