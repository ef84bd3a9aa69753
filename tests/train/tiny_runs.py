"""Helpers for testing training: a tiny text, its token tables, and learners of tiny models."""

import itertools

import torch
from lightning.fabric import Fabric

from elmo.config import (
    EncoderConfig,
    LossConfig,
    LSTMConfig,
    ModelConfig,
    OptimizerConfig,
    PretrainConfig,
    RegularizationConfig,
    RunConfig,
    StreamConfig,
    TextConfig,
)
from elmo.corpus.bptt_segments import SegmentLoader
from elmo.corpus.shards import DistinctWords, Split
from elmo.corpus.token_tables import token_tables
from elmo.model.initialization import initialize
from elmo.model.network import ELMoNetwork
from elmo.text.token_batches import token_mapper
from elmo.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from elmo.train.cuda_graph import round_up
from elmo.train.learner import Learner

WORDS = [f"w{number}" for number in range(60)]
# The last ten words of the text are not in the softmax vocabulary.
VOCABULARY = Vocabulary([*SPECIAL_TOKENS, *WORDS[:50]])
SENTENCES = [[(7 * n + 3 * k * k) % 60 for k in range(n % 6)] for n in range(40)]
DIM = 16

CHARACTER_MODEL = ModelConfig(
    TextConfig(max_characters=6),
    EncoderConfig(character_dim=4, filters=((1, 4), (2, 8)), n_highway=1),
    LSTMConfig(cell_dim=12, projection_dim=DIM),
    n_softmax_words=len(VOCABULARY),
)
WORD_MODEL = ModelConfig(
    TextConfig(characters="none"),
    EncoderConfig(n_characters=0, project=False, n_words=len(VOCABULARY) + 1, word_dim=DIM),
    LSTMConfig(cell_dim=12, projection_dim=DIM),
    n_softmax_words=len(VOCABULARY),
)
ADAPTIVE_MODEL = ModelConfig(
    CHARACTER_MODEL.text,
    CHARACTER_MODEL.encoder,
    CHARACTER_MODEL.lstm,
    n_softmax_words=len(VOCABULARY),
    softmax_cutoffs=(10, 30),
)


def fabric():
    return Fabric(accelerator="cpu", devices=1)


def make_config(
    softmax="full", optimizer=None, regularization=None, accumulate=1, seed=1, **stream
) -> PretrainConfig:
    return PretrainConfig(
        data=(),
        out="",
        stream=StreamConfig(**{"batch_size": 4, "unroll": 5, **stream}),
        loss=LossConfig(softmax, n_samples=8),
        optimizer=optimizer or OptimizerConfig(),
        regularization=regularization or RegularizationConfig(),
        run=RunConfig(accumulate=accumulate, seed=seed),
    )


def make_network(shape=CHARACTER_MODEL, seed=0):
    network = ELMoNetwork(config=shape)
    initialize(network, seed)
    return network


def make_learner(config, shape=CHARACTER_MODEL, *, n_steps=10, softmax_steps=0, seed=0):
    network = make_network(shape, seed)
    steps = {"n_steps": n_steps, "softmax_steps": softmax_steps}
    return Learner(fabric(), network, config, make_tables(shape), **steps)


def make_tables(shape=CHARACTER_MODEL):
    words = VOCABULARY.ids if shape.encoder.n_words else None
    mapper = token_mapper(shape, None, words)
    return token_tables(DistinctWords.of(WORDS), mapper, VOCABULARY)


def segments(config, count):
    """Return the first BPTT segments of the text."""
    loader = SegmentLoader(Split.of(SENTENCES), config.stream, seed=config.run.seed)
    return list(itertools.islice(loader, count))


def batches(learner, count):
    """Return the batches for the first steps of a learner."""
    return [learner.batches(segment) for segment in segments(learner.config, count)]


def without_capture(learner):
    """Make a learner pad its inputs as for a CUDA graph while running its steps eagerly.

    Returns:
        A list to which each step appends the number of distinct words after padding.
    """
    sizes = []

    class EagerStep:
        n_words = 0

        def forget(self):
            pass

        def __call__(self, update, step_input, *, frozen):
            self.n_words = max(self.n_words, round_up(len(step_input.batches[0].words)))
            sizes.append(self.n_words)
            step_input = step_input.pad_words(self.n_words)
            flat = torch.empty(step_input.size(), dtype=torch.int32)
            step_input.flatten(flat)
            return update(step_input.split(flat.to(learner.fabric.device)), frozen)

    learner.graph_step = EagerStep()
    return sizes


def weights(learner):
    """Return a copy of all network weights of a learner."""
    return {name: value.clone() for name, value in learner.network.state_dict().items()}


def changed(before, after):
    """Return the names of weights that are not bitwise equal."""
    return {name for name, value in before.items() if not torch.equal(value, after[name])}
