"""Tiny models with every type of token encoder and LSTM, and helpers to run them."""

import dataclasses

import numpy as np
import onnxruntime
import torch
from conftest import TINY, random_model

from elmo.config import EncoderConfig, ModelConfig, TextConfig
from elmo.embed.embedder import ELMo
from elmo.model.bilm import distinct_rows

WORDS = {word: number for number, word in enumerate(("<S>", "</S>", "<UNK>", "the", "bank"))}
SYMBOLS = ("<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>", *"abehkmnrst")
SENTENCES = [["a", "bank", "on", "the", "river"], ["the"], [], ["rob", "the", "a" * 30, "bank"]]


def with_lstm(**lstm):
    return dataclasses.replace(TINY, lstm=dataclasses.replace(TINY.lstm, **lstm))


def encoder(**changes):
    return dataclasses.replace(TINY.encoder, **changes)


def with_words(role, **changes):
    width = 8 if role == "cache" else 5
    words = encoder(n_words=len(WORDS) + 1, word_dim=width, word_role=role, **changes)
    return ModelConfig(TINY.text, words, TINY.lstm)


def with_dictionary(scheme):
    text = TextConfig(characters=scheme, max_characters=9)
    return ModelConfig(text, encoder(n_characters=len(SYMBOLS) + 1), TINY.lstm)


CONFIGS = {
    "bytes": TINY,
    "code points": with_dictionary("codepoints"),
    "ELMoForManyLangs' characters": with_dictionary("dictionary"),
    "words joined to characters": with_words("join"),
    "cached words": with_words("cache"),
    "words only": ModelConfig(
        TextConfig(characters="none"),
        EncoderConfig(n_characters=0, filters=(), n_highway=0, n_words=6, word_dim=5),
        TINY.lstm,
    ),
    "words only, no projection": ModelConfig(
        TextConfig(characters="none"),
        EncoderConfig(
            n_characters=0, filters=(), n_highway=0, n_words=6, word_dim=8, project=False
        ),
        TINY.lstm,
    ),
    "no projection": ModelConfig(
        TINY.text, encoder(filters=((1, 3), (2, 5)), project=False), TINY.lstm
    ),
    "no highway, tanh": ModelConfig(TINY.text, encoder(n_highway=0, activation="tanh"), TINY.lstm),
    "filter as wide as a word": ModelConfig(TINY.text, encoder(filters=((12, 6),)), TINY.lstm),
    "one layer": with_lstm(n_layers=1),
    "three layers": with_lstm(n_layers=3),
    "cell as wide as projection": with_lstm(cell_dim=8),
    "no residual": with_lstm(residual=False),
    "no clips": with_lstm(cell_clip=None, projection_clip=None),
    "one clip": with_lstm(cell_clip=0.5, projection_clip=None),
    "almost equal clips": with_lstm(cell_clip=0.3, projection_clip=0.30000001),
    "no forget bias": with_lstm(forget_bias=0.0),
}


def model_of(config=TINY, scale=1.5, **extra):
    """Return a random model."""
    has_symbols = config.text.characters not in ("bytes", "none")
    dictionary = {symbol: number for number, symbol in enumerate(SYMBOLS)} if has_symbols else None
    words = WORDS if config.encoder.n_words else None
    elmo = ELMo(random_model(config, scale=scale, characters=dictionary, words=words, **extra))
    for bias in (value for name, value in elmo.named_parameters() if name.endswith("bias")):
        bias.data.uniform_(-0.5, 0.5, generator=torch.Generator().manual_seed(len(bias)))
    return elmo


def expected_layers(elmo, ids):
    """Return all layers of the model, including boundary tokens, as an array."""
    with torch.no_grad():
        return elmo.network.bilm(*distinct_rows(ids), (ids != 0).any(dim=2)).layers.numpy()


def onnx_runner(source):
    """Return a function that runs an ONNX file, given as path or bytes, on character ids."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    return lambda ids: session.run(["layers"], {"character_ids": np.asarray(ids)})[0]


def cosines(vectors, expected):
    """Return the cosine similarities of all vectors that are not padding."""
    vectors, expected = (torch.from_numpy(item).double() for item in (vectors, expected))
    real = (expected != 0).any(dim=-1)
    return torch.cosine_similarity(vectors[real], expected[real], dim=-1)
