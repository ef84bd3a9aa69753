"""Small networks and texts for the tests of language models."""

import numpy as np

from elmo.config import RunConfig
from elmo.config.language_model_commands import LMTrainConfig
from elmo.config.language_models import (
    RecurrentConfig,
    RecurrentModelConfig,
    SegmentConfig,
    TextSampleConfig,
)
from elmo.lab.recurrent_network import RecurrentNetwork

TEXT = "the cat sat on the mat.\nthe dog sat on the log.\n" * 12


def small_network(n_symbols=11, seed=1, unit="characters", cutoffs=(), **options):
    """Return an initialized network in evaluation mode."""
    options = {"n_layers": 2, "hidden_dim": 8, **options}
    config = RecurrentModelConfig(
        unit, n_symbols, RecurrentConfig(**options), softmax_cutoffs=cutoffs
    )
    network = RecurrentNetwork(config=config)
    network.initialize(seed)
    return network.eval()


def small_config(folder, text=TEXT, **sections):
    """Return a config that trains a small model on a text in seconds."""
    path = folder / "text.txt"
    path.write_text(text, encoding="utf-8")
    defaults = {
        "network": RecurrentConfig(n_layers=1, hidden_dim=16),
        "segments": SegmentConfig(batch_size=4, unroll=8),
        "samples": TextSampleConfig(sample_every=0),
        "run": RunConfig(epochs=2, log_every=5),
    }
    return LMTrainConfig(text=(str(path),), out=str(folder / "run"), **{**defaults, **sections})


def random_ids(n, n_symbols=11, seed=0):
    """Return random symbol ids."""
    return np.random.default_rng(seed).integers(n_symbols, size=n).astype(np.int32)
