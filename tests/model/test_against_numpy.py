"""Tests that compare the forward pass of small random models with a slow NumPy reference."""

import dataclasses
import json

import h5py
import numpy as np
import pytest
import torch
from conftest import TINY, random_model
from reference import Clips, ReferenceBiLM, character_batch, scalar_mix, word_batch

from elmo.config import EncoderConfig, LSTMConfig, MixConfig, ModelConfig, TextConfig
from elmo.embed.embedder import ELMo
from elmo.formats import weight_names
from elmo.model.bilm import distinct_rows
from elmo.model.lstm import LSTMState

SEEDS = range(24)
WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", "sat", "naïve", ""]
TOKENS = [
    *(
        "the",
        "cat",
        "sat",
        "a",
        "A",
        "",
        "<S>",
        "</S>",
        "<UNK>",
        "naïve",
        "日本語",
        "😀",
        "e\u0301",
    ),
    *("\0", "a b", "\ud800", "x\udfffy", "w" * 60, "日" * 20, "Donaudampfschifffahrt"),
]


def draw_config(seed):
    """Return a random model config; every eighth one uses word ids instead of characters."""
    rng = np.random.default_rng(seed)
    pick = lambda *values: values[rng.integers(len(values))]  # noqa: E731
    projection = int(rng.integers(3, 7))
    clips = {"cell_clip": pick(None, 0.3, 1.0), "projection_clip": pick(None, 0.1, 0.2)}
    lstm = LSTMConfig(
        cell_dim=pick(projection, projection + 1, 2 * projection),
        projection_dim=projection,
        n_layers=pick(1, 2, 3),
        residual=pick(True, False),
        **clips,
    )
    mix = MixConfig(n_mixes=2, layer_norm=pick("none", "allennlp", "bilm-tf"))
    if seed % 8 == 7:
        encoder = EncoderConfig(
            n_characters=0, project=False, n_words=len(WORDS) + 1, word_dim=projection
        )
        return ModelConfig(TextConfig(characters="none"), encoder, lstm, mix)
    max_characters = pick(7, 12, 50)
    project = pick(True, True, False)
    count = projection - 3 if not project else int(rng.integers(1, 4))
    filters = [(1, 2), (int(rng.integers(2, 6)), 1)] + ([(max_characters, count)] if count else [])
    encoder = EncoderConfig(
        character_dim=int(rng.integers(1, 5)),
        filters=tuple(filters),
        activation=pick("relu", "tanh"),
        n_highway=pick(0, 1, 2),
        project=project,
    )
    return ModelConfig(TextConfig(max_characters=max_characters), encoder, lstm, mix)


CONFIGS = [draw_config(seed) for seed in SEEDS]


def draw_weights(config, seed):
    """Return a model with random weights, biases and mixes, large enough to be clipped."""
    generator = torch.Generator().manual_seed(seed)
    words = {word: number for number, word in enumerate(WORDS)}
    pretrained = random_model(config, seed, words=words if config.encoder.n_words else None)
    weights = {}
    for name, value in pretrained.weights.items():
        noise = torch.randn(value.shape, generator=generator)
        if name.endswith(("embedding.weight", "words.weight")):
            noise[0] = 0.0
            weights[name] = noise
        elif name.startswith("mixes") or name.endswith("bias"):
            weights[name] = value + 0.5 * noise
        else:
            weights[name] = noise / value.shape[1] ** 0.5
    return dataclasses.replace(pretrained, weights=weights)


def reference_of(pretrained):
    config = pretrained.config
    return ReferenceBiLM(
        weight_names.export_weights(weight_names.bilm_hdf5(config), pretrained.weights),
        config.encoder.activation,
        Clips(config.lstm.cell_clip, config.lstm.projection_clip),
        config.lstm.residual,
    )


def reference_ids(config, sentences):
    if config.encoder.n_words:
        # Inside a sentence, <S> and </S> are ordinary words and not in the word table.
        words = [["<UNK>" if w in ("<S>", "</S>") else w for w in words] for words in sentences]
        return word_batch(words, WORDS)
    return character_batch(sentences, config.text.max_characters)


def draw_sentences(rng, count):
    """Return random sentences of 0 to 6 tokens; the first one is empty in half of the cases."""
    lengths = rng.integers(0, 7, size=count)
    if rng.integers(2):
        lengths[0] = 0
    return [[TOKENS[i] for i in rng.integers(len(TOKENS), size=length)] for length in lengths]


def close(ours, expected, tolerance):
    np.testing.assert_allclose(ours.detach().numpy(), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize(
    ("folder", "sentences", "residual"),
    [
        ("bilm-tf/model", "lm_embeddings_sentences.json", False),
        ("allennlp/elmo", "sentences.json", True),
    ],
)
def test_numpy_reference_matches_bilm_tf_vectors(golden_path, folder, sentences, residual):
    folder = golden_path(folder)
    weights = {}
    with h5py.File(folder / "lm_weights.hdf5") as file:
        file.visititems(
            lambda name, item: weights.update({name: item[()]} if hasattr(item, "shape") else {})
        )
    reference = ReferenceBiLM(weights, "relu", Clips(3.0, 3.0), residual)
    sentences = json.loads((folder / sentences).read_text())
    for number in range(2):
        layers, _ = reference.batch(character_batch([row[number].split() for row in sentences], 50))
        for row in range(3):
            with h5py.File(folder / f"lm_embeddings_{row}.hdf5") as file:
                forward, backward = file[str(number)][()]
            expected = np.concatenate([forward, backward], axis=1)
            np.testing.assert_allclose(
                layers[-1, row, 1 : 1 + len(expected)], expected, rtol=0, atol=2e-6
            )


def test_random_configs_cover_all_options():
    lstms = [config.lstm for config in CONFIGS]
    encoders = [config.encoder for config in CONFIGS if config.encoder.n_characters]
    assert {lstm.n_layers for lstm in lstms} == {1, 2, 3}
    assert {lstm.has_projection for lstm in lstms} == {True, False}
    assert {lstm.residual for lstm in lstms} == {True, False}
    clips = {(lstm.cell_clip is None, lstm.projection_clip is None) for lstm in lstms}
    assert len(clips) == 4
    assert {encoder.n_highway for encoder in encoders} == {0, 1, 2}
    assert {encoder.activation for encoder in encoders} == {"relu", "tanh"}
    assert {encoder.project for encoder in encoders} == {True, False}
    assert {config.text.max_characters for config in CONFIGS} == {7, 12, 50}
    assert {config.mix.layer_norm for config in CONFIGS} == {"none", "allennlp", "bilm-tf"}
    assert sum(config.encoder.n_characters == 0 for config in CONFIGS) == 3


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_batches_with_carried_state_match_numpy_reference(seed, dtype):
    config = CONFIGS[seed]
    pretrained = draw_weights(config, seed)
    reference = reference_of(pretrained)
    model = ELMo(pretrained).to(dtype)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-11
    rng = np.random.default_rng(100 + seed)
    table = LSTMState.zeros(config.lstm, 0, dtype=dtype)
    for size in (3, 5, 2, 4):
        sentences = draw_sentences(rng, size)
        ids = reference_ids(config, sentences)
        layers, mask = reference.batch(ids)
        ours = model.character_ids(sentences)
        assert ours.tolist() == ids.tolist()
        output = model(ours, state=table.rows(size))
        table = table.updated(output.state)

        n_words = max(map(len, sentences))
        assert output.mask.tolist() == [[p < len(s) for p in range(n_words)] for s in sentences]
        for row, sentence in enumerate(sentences):
            expected = layers[:, row, 1 : 1 + len(sentence)]
            close(output.layers[:, row, : len(sentence)], expected, tolerance)
            assert not output.layers[:, row, len(sentence) :].any()
        for representation, mix in zip(output.representations, model.network.mixes, strict=True):
            weights, gamma = (value.detach().double().numpy() for value in (mix.weights, mix.gamma))
            expected = scalar_mix(layers, mask, weights, gamma, config.mix.layer_norm)
            close(representation, expected, tolerance)
    h, c = reference.state_table(5)
    close(table.h, h, tolerance)
    close(table.c, c, tolerance)
    if config.lstm.cell_clip:
        assert reference.clips.cells_hit > 0
    if config.lstm.projection_clip and config.lstm.has_projection:
        assert reference.clips.projections_hit > 0
    if not config.lstm.has_projection:
        assert reference.clips.projections_hit == 0


@pytest.mark.parametrize("seed", SEEDS[:8])
@pytest.mark.parametrize("padding", ["mask", "lengths"])
def test_bilm_with_mask_or_lengths_matches_numpy_reference(seed, padding):
    config = CONFIGS[seed]
    pretrained = draw_weights(config, seed)
    model = ELMo(pretrained)
    sentences = draw_sentences(np.random.default_rng(seed), 5)
    layers, mask = reference_of(pretrained).batch(reference_ids(config, sentences))
    tokens = model.mapper.distinct(sentences)
    rows = torch.from_numpy(model.mapper.rows_with_boundaries(tokens.words))
    index = torch.from_numpy(tokens.index)
    lengths = tokens.lengths.tolist() if padding == "lengths" else None
    output = model.network.bilm(rows, index, torch.from_numpy(mask), lengths=lengths)
    assert output.mask.numpy().tolist() == mask.tolist()
    close(output.layers, layers, 1e-5)


@pytest.mark.parametrize("layer_norm", ["none", "allennlp", "bilm-tf"])
def test_top_only_mix_is_scaled_but_not_layer_normalized(layer_norm):
    mix = MixConfig(top_only=True, layer_norm=layer_norm)
    pretrained = draw_weights(dataclasses.replace(TINY, mix=mix), 3)
    model = ELMo(pretrained)
    sentences = [["the", "cat"], [], ["sat"]]
    layers, mask = reference_of(pretrained).batch(reference_ids(model.config, sentences))
    gamma = pretrained.weights["mixes.0.gamma"].numpy()
    expected = scalar_mix(layers, mask, None, gamma, top_only=True)
    close(model(model.character_ids(sentences)).representations[0], expected, 1e-5)


@pytest.mark.parametrize("path", ["forward", "mask", "lengths"])
@pytest.mark.parametrize("other_sentences", ["shorter", "longer", "none"])
def test_padding_does_not_change_word_vectors(path, other_sentences):
    model = ELMo(draw_weights(TINY, 5))
    sentence = ["the", "naïve", "cat", "sat"]
    sentences = {
        "shorter": [["a"], sentence, []],
        "longer": [["a"] * 9, sentence, ["b"] * 6],
        "none": [sentence],
    }[other_sentences]
    row = sentences.index(sentence)
    alone = model(model.character_ids([sentence]))
    ids = model.character_ids(sentences)
    wider = torch.cat([ids, torch.zeros_like(ids[:, :1]).expand(-1, 4, -1)], dim=1)
    mask = (wider != 0).any(dim=2)
    if path == "forward":
        output = model(wider)
    else:
        rows, index = distinct_rows(wider)
        # Any valid row may be at padding.
        index = index.masked_fill(~mask, len(rows) - 1)
        lengths = mask.sum(dim=1).tolist() if path == "lengths" else None
        output = model.network(rows, index, mask, lengths=lengths)
    assert output.mask[row].tolist() == [True] * 4 + [False] * (output.mask.shape[1] - 4)
    torch.testing.assert_close(output.layers[:, row, :4], alone.layers[:, 0], rtol=0, atol=1e-5)
    torch.testing.assert_close(output.state.h[:, :, row], alone.state.h[:, :, 0], rtol=0, atol=1e-5)
    torch.testing.assert_close(output.state.c[:, :, row], alone.state.c[:, :, 0], rtol=0, atol=1e-5)
    assert not output.layers[:, row, 4:].any()
    assert not output.representations[0][row, 4:].any()
