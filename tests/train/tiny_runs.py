"""A tiny text, its tables, and learners of tiny models on it, for the tests of this room."""

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
from elmo.text.vocabulary import SPECIALS, Vocabulary
from elmo.train.cuda_graph import pad_words, round_up
from elmo.train.learner import Learner

WORDS = [f"w{number}" for number in range(60)]
# The last ten words of the text are unknown to the softmax.
VOCABULARY = Vocabulary([*SPECIALS, *WORDS[:50]])
SENTENCES = [[(7 * n + 3 * k * k) % 60 for k in range(n % 6)] for n in range(40)]
DIM = 16

SPELLED = ModelConfig(
    TextConfig(max_characters=6),
    EncoderConfig(character_dim=4, filters=((1, 4), (2, 8)), n_highway=1),
    LSTMConfig(cell_dim=12, projection_dim=DIM),
    n_softmax_words=len(VOCABULARY),
)
BY_WORD = ModelConfig(
    TextConfig(characters="none"),
    EncoderConfig(n_characters=0, project=False, n_words=len(VOCABULARY) + 1, word_dim=DIM),
    LSTMConfig(cell_dim=12, projection_dim=DIM),
    n_softmax_words=len(VOCABULARY),
)
CLUSTERED = ModelConfig(
    SPELLED.text,
    SPELLED.encoder,
    SPELLED.lstm,
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
        regularization=regular or RegularizationConfig(),
        run=RunConfig(accumulate=accumulate, seed=seed),
    )


def make_network(shape=SPELLED, seed=0):
    network = ELMoNetwork(config=shape)
    initialize(network, seed)
    return network


def make_learner(config, shape=SPELLED, *, n_steps=10, softmax_steps=0, seed=0):
    network = make_network(shape, seed)
    steps = {"n_steps": n_steps, "softmax_steps": softmax_steps}
    return Learner(fabric(), network, config, make_tables(shape), **steps)


def make_tables(shape=SPELLED):
    words = VOCABULARY.ids if shape.encoder.n_words else None
    mapper = token_mapper(shape, None, words)
    return token_tables(DistinctWords.of(WORDS), mapper, VOCABULARY)


def windows(config, count):
    stream = SegmentLoader(Split.of(SENTENCES), config.stream, seed=config.run.seed)
    return list(itertools.islice(stream, count))


def batches(learner, count):
    """Give what the learner takes for each of its first steps."""
    return [learner.batches(window) for window in windows(learner.config, count)]


def without_capture(learner):
    """Let a learner take its steps as one that records them does, but for the recording.

    Gives a list to which each step adds how many words it was filled up to.
    """
    sizes = []

    class Unrecorded:
        n_words = 0

        def forget(self):
            pass

        def __call__(self, update, arrays, *, frozen):
            self.n_words = max(self.n_words, round_up(len(arrays["words"])))
            sizes.append(self.n_words)
            return update(learner._on_device(pad_words(arrays, self.n_words)), frozen)

    learner.recorded = Unrecorded()
    return sizes


def weights(learner):
    """Give a copy of all weights."""
    return {name: value.clone() for name, value in learner.network.state_dict().items()}


def changed(before, after):
    """Give the names of the weights that are not bit for bit the same."""
    return {name for name, value in before.items() if not torch.equal(value, after[name])}
