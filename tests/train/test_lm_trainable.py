"""Tests of `LMTrainable`, the implementation of `Trainable` for language models."""

import dataclasses
import math

import pytest
import torch
from tiny_runs import CHARACTER_MODEL, fabric, make_config

from elmo.config import InputConfig, OptimizerConfig
from elmo.corpus.shards import Corpus
from elmo.errors import ConfigError, TrainingError
from elmo.model.network import ELMoNetwork
from elmo.train.learner import Learner
from elmo.train.pretrain_model import pretrain_job


def make_job(corpus, **settings):
    encoder = CHARACTER_MODEL.encoder
    inputs = InputConfig(filters=encoder.filters, n_highway=1, character_dim=4, max_characters=6)
    config = dataclasses.replace(
        make_config(**settings), out="run/", input=inputs, lstm=CHARACTER_MODEL.lstm
    )
    return pretrain_job(config, Corpus.open(corpus))


def make_trainable(corpus, **settings):
    return make_job(corpus, **settings).make_trainable(fabric())


def test_evaluation_computes_perplexity_from_the_numbers_of_measure(corpus):
    trainable = make_trainable(corpus)
    seen = []

    def watch(segments, n_segments):
        for segment in segments:
            seen.append(segment)
            yield segment

    evaluation = trainable.evaluation(trainable.measure(1, watch))
    assert seen
    assert evaluation.rank == evaluation.loss == pytest.approx(trainable.chance_loss, rel=0.2)
    assert evaluation.line().startswith(
        f"held-out perplexity forward {evaluation.forward:,.2f}, backward "
    )


def test_chance_loss_of_sampled_softmax_depends_on_number_of_candidates(corpus):
    trainable = make_trainable(corpus, softmax="sampled")
    assert trainable.chance_loss == math.log(9)


def test_job_can_have_a_learner_with_another_loss(corpus):
    class ScaledLearner(Learner):
        def mean_losses(self, hidden, part):
            return 3.0 * super().mean_losses(hidden, part)

    job = make_job(corpus, optimizer=OptimizerConfig(clip_norm=1e9))
    results = []
    for changed in (job, dataclasses.replace(job, make_learner=ScaledLearner)):
        network = ELMoNetwork(config=job.network.config)
        network.load_state_dict(job.network.state_dict())
        trainable = dataclasses.replace(changed, network=network).make_trainable(fabric())
        results.append(trainable.step(next(trainable.batches(0)), 0))
    torch.testing.assert_close(results[1].losses, 3.0 * results[0].losses)
    torch.testing.assert_close(results[1].norm, 3.0 * results[0].norm)


def test_measure_raises_an_error_if_the_held_out_loss_diverged(corpus):
    trainable = make_trainable(corpus)
    trainable.job.network.softmax.bias.data[3] = 1e4
    with pytest.raises(
        TrainingError, match=r"before step 7: the held-out loss is .* uniform guessing"
    ):
        trainable.measure(7, lambda items, n: items)
    # The first evaluation measures the initial weights and is not checked.
    assert trainable.measure(0, lambda items, n: items)


def test_saved_text_position_does_not_include_prefetched_batches(corpus):
    trainable = make_trainable(corpus)
    batches = trainable.batches(0)
    first, second = next(batches), next(batches)
    trainable.step(first, 0)
    resumed = make_trainable(corpus)
    resumed.load_state_dict(trainable.state_dict())
    batch = next(resumed.batches(1))
    assert batch.position == second.position
    expected, losses = (
        model.step(b, 1).losses for model, b in ((trainable, second), (resumed, batch))
    )
    assert torch.equal(losses, expected)


def test_load_state_dict_rejects_a_state_from_a_different_corpus(corpus):
    trainable = make_trainable(corpus)
    state = trainable.state_dict()
    fingerprint = state["corpus"]
    state["corpus"] = [1234, *fingerprint[1:]]
    message = (
        rf"run contains a run on another corpus: 1,234 words in .*; now {fingerprint[0]:,} words"
    )
    with pytest.raises(ConfigError, match=message):
        trainable.load_state_dict(state)
    state["corpus"] = [*fingerprint[:3], 0]
    with pytest.raises(ConfigError, match="with other word counts"):
        trainable.load_state_dict(state)


def test_training_job_rejects_batch_size_not_divisible_by_accumulate(corpus):
    with pytest.raises(ConfigError, match="must be a multiple of 3"):
        make_trainable(corpus, accumulate=3)
