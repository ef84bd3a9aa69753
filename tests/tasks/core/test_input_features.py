"""Tests of the token indexer and the input features."""

import numpy as np
import pytest
import torch
from conftest import random_model
from small_tasks import LABELED, make_fitted_task, write_elmo

from elmo.config import TaskELMoConfig, WordFeaturesConfig
from elmo.tasks.core.char_ngrams import CharNgrams
from elmo.tasks.core.frozen_layers import ComputedLayers
from elmo.tasks.core.input_features import ELMoMix, InputFeatures, TokenIndexer
from elmo.text.characters import ByteCharacters

TEXTS = [("The", "cat", "THE"), ("dog",), ("the", "unheard", "of", "cat")]
ROWS = {"the": 1, "cat": 2, "The": 3}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_elmo(tmp_path_factory.mktemp("elmo"))


def test_token_batch_only_contains_mask_and_selected_features():
    batch = TokenIndexer().batch(TEXTS)
    assert batch.mask.tolist() == [[True] * n + [False] * (4 - n) for n in (3, 1, 4)]
    assert batch.layers is batch.token_rows is batch.word_vector_rows is batch.characters is None


def test_word_vector_lookup_falls_back_to_lowercase():
    batch = TokenIndexer(word_vector_rows=ROWS).batch(TEXTS)
    assert batch.word_vector_rows.tolist() == [[3, 2, 1, 0], [0, 0, 0, 0], [1, 0, 0, 2]]


def test_characters_are_stored_once_per_distinct_word():
    batch = TokenIndexer(has_characters=True).batch([*TEXTS, ("x" * 99, "한국")])
    character_ids = batch.characters[batch.character_index]
    encoder = ByteCharacters(25)
    for text, rows in zip([*TEXTS, ("x" * 99, "한국")], character_ids, strict=True):
        assert torch.equal(rows[: len(text)], torch.from_numpy(encoder.ids(text)))
    # Each distinct word is stored once, after the two boundary tokens.
    assert len(batch.characters) == 2 + len({word for text in TEXTS for word in text}) + 2


def test_elmo_layers_in_token_batch_are_padded_with_zeros(tiny):
    source = ComputedLayers(tiny, "all")
    batch = TokenIndexer(layers=source).batch(TEXTS)
    assert batch.layers.shape == (3, 3, 4, tiny.config.dim)
    for number, vectors in enumerate(source(TEXTS)):
        padded = batch.layers[:, number].permute(1, 0, 2).numpy()
        np.testing.assert_array_equal(padded[: len(vectors)], vectors)
        assert not padded[len(vectors) :].any()


def test_token_batch_to_moves_all_tensors_except_batch_sizes(tiny):
    indexer = TokenIndexer(
        layers=ComputedLayers(tiny, "all"),
        mapper=tiny.mapper,
        word_vector_rows=ROWS,
        has_characters=True,
        ngrams=CharNgrams(2, 30),
    )
    indicators = [[0] * len(text) for text in TEXTS]
    moved = indexer.batch(TEXTS, indicators).to(torch.device("meta"))
    layout, char_ngrams = moved.layout, moved.char_ngrams
    values = [layout.mask, layout.positions, *vars(char_ngrams).values(), *vars(moved).values()]
    tensors = [value for value in values if value is not layout and value is not char_ngrams]
    assert {tensor.device.type for tensor in tensors} == {"meta"}
    assert layout.batch_sizes.device.type == "cpu"
    assert TokenIndexer().batch(TEXTS).to(torch.device("meta")).layers is None


@pytest.mark.parametrize("use", ["frozen", "tuned"])
def test_input_vectors_have_declared_dimension_and_zero_padding(tmp_path, model, use):
    word_vectors = tmp_path / "vectors.txt"
    word_vectors.write_text("fine 1 2\nfilm 3 4\n")
    fitted = make_fitted_task(
        tmp_path / "run", model=model, use=use, word_vectors=str(word_vectors)
    )
    features = fitted.built.model.features
    batch = fitted.built.indexer.batch([example.words for example in LABELED])
    vectors, layers = features(batch)
    assert vectors.shape[2] == features.dim == 16 + 2 + 8
    assert not vectors[~batch.mask].any()
    assert vectors[batch.mask].any(dim=1).all()
    assert layers.shape[0] == 3
    assert not layers[:, ~batch.mask].any()
    # The word vector of an unknown word is zero.
    known = torch.tensor([[w in ("fine", "film") for w in e.words] for e in LABELED[:2]])
    assert torch.equal(vectors[:2, :2, 16:18].any(dim=2), known)


@pytest.mark.parametrize("layers", ["all", "top", "0"])
def test_fine_tuned_and_frozen_elmo_start_with_the_same_vectors(tmp_path, model, layers):
    outputs = []
    for use in ("frozen", "tuned"):
        fitted = make_fitted_task(
            tmp_path / "run", model=model, use=use, layers=layers, placement="both"
        )
        batch = fitted.built.indexer.batch([example.words for example in LABELED])
        assert (batch.layers is None) == (use == "tuned")
        vectors, layer_vectors = fitted.built.model.features(batch)
        outputs.append((vectors, layer_vectors, fitted.built.model.vectors(batch)))
    for frozen, tuned in zip(*outputs, strict=True):
        torch.testing.assert_close(frozen, tuned, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(("layers", "count"), [("all", 3), ("top", 1), ("1", 1)])
def test_layer_mix_uses_the_selected_layers(tmp_path, model, layers, count):
    fitted = make_fitted_task(tmp_path / "run", model=model, layers=layers)
    assert len(fitted.built.model.features.mix.mix.weights) == count
    batch = fitted.built.indexer.batch([("fine", "film")])
    vectors, layer_vectors = fitted.built.model.features(batch)
    expected = fitted.elmo.encode([["fine", "film"]], layers="all")[0]
    expected = {"all": expected.mean(0), "top": expected[2], "1": expected[1]}[layers]
    torch.testing.assert_close(vectors[0, :, :16], torch.from_numpy(expected), rtol=2e-3, atol=2e-3)
    assert len(layer_vectors) == count


def test_layer_mix_gamma_is_trained_only_if_configured():
    for gamma in (True, False):
        mix = ELMoMix(TaskELMoConfig(gamma=gamma, elmo_dropout=0.0), 3)
        mix(torch.randn(3, 2, 4, 5)).sum().backward()
        assert mix.mix.weights.grad is not None
        assert (mix.mix.gamma.grad is not None) == gamma


def test_layer_mix_applies_dropout_only_in_training():
    torch.manual_seed(0)
    mix, layers = ELMoMix(TaskELMoConfig(elmo_dropout=0.5), 1), torch.ones(1, 4, 50, 5)
    share = (mix(layers) == 0).float().mean()
    assert 0.4 < share < 0.6
    assert torch.equal(mix.eval()(layers), layers[0])


@pytest.mark.parametrize("tune", [True, False])
def test_word_vectors_are_trained_only_if_configured(tune):
    table = torch.tensor([[0.0, 0.0], [1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    words = WordFeaturesConfig(tune_word_vectors=tune, character_filters=((1, 4),))
    features = InputFeatures(elmo=TaskELMoConfig(model=None), words=words, word_vectors=table)
    indexer = TokenIndexer(word_vector_rows=ROWS, has_characters=True)
    vectors, layers = features(indexer.batch(TEXTS))
    assert layers is None
    assert torch.equal(vectors[0, :3, :2], table[[3, 2, 1]])
    vectors.square().sum().backward()
    gradient = features.word_vectors.weight.grad
    assert (gradient is not None) == tune
    if tune:
        # The vector for unknown words is still zero.
        assert gradient.any(dim=1).tolist() == [False, True, True, True]


def test_fine_tuning_trains_only_the_bilm(tmp_path, model):
    fitted = make_fitted_task(tmp_path / "run", model=model, use="tuned")
    network = fitted.built.model.features.network
    assert all(value.requires_grad for value in network.bilm.parameters())
    assert not any(value.requires_grad for value in network.mixes.parameters())
    assert len(network.state_dict()) == len(random_model().weights)
