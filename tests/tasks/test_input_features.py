"""Words to numbers, numbers to vectors."""

import numpy as np
import pytest
import torch
from conftest import random_model
from small_tasks import LABELED, make_fitted_task, write_elmo

from elmo.config import TaskELMoConfig, WordFeaturesConfig
from elmo.tasks.frozen_layers import ComputedLayers
from elmo.tasks.input_features import ELMoMix, InputFeatures, TokenIndexer
from elmo.text.characters import ByteCharacters

TEXTS = [("The", "cat", "THE"), ("dog",), ("the", "unheard", "of", "cat")]
STATIC = {"the": 1, "cat": 2, "The": 3}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_elmo(tmp_path_factory.mktemp("elmo"))


def test_masks():
    batch = TokenIndexer().batch(TEXTS)
    assert batch.mask.tolist() == [[True] * n + [False] * (4 - n) for n in (3, 1, 4)]
    assert batch.layers is batch.token_rows is batch.word_vector_rows is batch.characters is None


def test_static_rows_fall_back_to_small_letters():
    batch = TokenIndexer(word_vector_rows=STATIC).batch(TEXTS)
    assert batch.word_vector_rows.tolist() == [[3, 2, 1, 0], [0, 0, 0, 0], [1, 0, 0, 2]]


def test_letters():
    batch = TokenIndexer(has_characters=True).batch([*TEXTS, ("x" * 99, "한국")])
    spelled = batch.characters[batch.character_index]
    characters = ByteCharacters(25)
    for text, rows in zip([*TEXTS, ("x" * 99, "한국")], spelled, strict=True):
        assert torch.equal(rows[: len(text)], torch.from_numpy(characters.ids(text)))
    # Each distinct word stands there once, behind the two marks.
    assert len(batch.characters) == 2 + len({word for text in TEXTS for word in text}) + 2


def test_layers_are_padded_with_zeros(tiny):
    source = ComputedLayers(tiny, "all")
    batch = TokenIndexer(layers=source).batch(TEXTS)
    assert batch.layers.shape == (3, 3, 4, tiny.config.dim)
    for number, vectors in enumerate(source(TEXTS)):
        found = batch.layers[:, number].permute(1, 0, 2).numpy()
        np.testing.assert_array_equal(found[: len(vectors)], vectors)
        assert not found[len(vectors) :].any()


def test_to_moves_all_that_is_there(tiny):
    fields = TokenIndexer(
        layers=ComputedLayers(tiny, "all"),
        mapper=tiny.mapper,
        word_vector_rows=STATIC,
        has_characters=True,
        max_ngram=2,
        ngram_buckets=30,
    )
    marks = [[0] * len(text) for text in TEXTS]
    moved = fields.batch(TEXTS, marks).to(torch.device("meta"))
    layout, char_ngrams = moved.layout, moved.char_ngrams
    found = [layout.mask, layout.positions, *vars(char_ngrams).values(), *vars(moved).values()]
    inside = [value for value in found if value is not layout and value is not char_ngrams]
    assert {value.device.type for value in inside} == {"meta"}
    assert layout.batch_sizes.device.type == "cpu"
    assert TokenIndexer().batch(TEXTS).to(torch.device("meta")).layers is None


@pytest.mark.parametrize("use", ["frozen", "tuned"])
def test_vectors_are_zero_at_padding_and_as_wide_as_said(tmp_path, model, use):
    static = tmp_path / "static.txt"
    static.write_text("fine 1 2\nfilm 3 4\n")
    trained = make_fitted_task(tmp_path / "run", model=model, use=use, word_vectors=str(static))
    tokens = trained.built.model.features
    batch = trained.built.indexer.batch([example.words for example in LABELED])
    found, layers = tokens(batch)
    assert found.shape[2] == tokens.dim == 16 + 2 + 8
    assert not found[~batch.mask].any()
    assert found[batch.mask].any(dim=1).all()
    assert layers.shape[0] == 3
    assert not layers[:, ~batch.mask].any()
    # The static part of a word without a vector is zero.
    known = torch.tensor([[w in ("fine", "film") for w in e.words] for e in LABELED[:2]])
    assert torch.equal(found[:2, :2, 16:18].any(dim=2), known)


@pytest.mark.parametrize("layers", ["all", "top", "0"])
def test_tuned_and_frozen_begin_alike(tmp_path, model, layers):
    found = []
    for use in ("frozen", "tuned"):
        trained = make_fitted_task(
            tmp_path / "run", model=model, use=use, layers=layers, placement="both"
        )
        batch = trained.built.indexer.batch([example.words for example in LABELED])
        assert (batch.layers is None) == (use == "tuned")
        vectors, given = trained.built.model.features(batch)
        found.append((vectors, given, trained.built.model.vectors(batch)))
    for frozen, tuned in zip(*found, strict=True):
        torch.testing.assert_close(frozen, tuned, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(("layers", "count"), [("all", 3), ("top", 1), ("1", 1)])
def test_a_mix_has_the_layers_chosen(tmp_path, model, layers, count):
    trained = make_fitted_task(tmp_path / "run", model=model, layers=layers)
    assert len(trained.built.model.features.mix.mix.weights) == count
    batch = trained.built.indexer.batch([("fine", "film")])
    found, given = trained.built.model.features(batch)
    expected = trained.built.elmo.encode([["fine", "film"]], layers="all")[0]
    expected = {"all": expected.mean(0), "top": expected[2], "1": expected[1]}[layers]
    torch.testing.assert_close(found[0, :, :16], torch.from_numpy(expected), rtol=2e-3, atol=2e-3)
    assert len(given) == count


def test_gamma_can_be_left_alone():
    for gamma in (True, False):
        mix = ELMoMix(TaskELMoConfig(gamma=gamma, elmo_dropout=0.0), 3)
        mix(torch.randn(3, 2, 4, 5)).sum().backward()
        assert mix.mix.weights.grad is not None
        assert (mix.mix.gamma.grad is not None) == gamma


def test_dropout_of_the_mix_is_for_training_alone():
    torch.manual_seed(0)
    mix, layers = ELMoMix(TaskELMoConfig(elmo_dropout=0.5), 1), torch.ones(1, 4, 50, 5)
    share = (mix(layers) == 0).float().mean()
    assert 0.4 < share < 0.6
    assert torch.equal(mix.eval()(layers), layers[0])


@pytest.mark.parametrize("tune", [True, False])
def test_static_vectors_learn_where_they_are_to(tune):
    vectors = torch.tensor([[0.0, 0.0], [1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    words = WordFeaturesConfig(tune_word_vectors=tune, character_filters=((1, 4),))
    tokens = InputFeatures(elmo=TaskELMoConfig(model=None), words=words, word_vectors=vectors)
    found, layers = tokens(TokenIndexer(word_vector_rows=STATIC, has_characters=True).batch(TEXTS))
    assert layers is None
    assert torch.equal(found[0, :3, :2], vectors[[3, 2, 1]])
    found.square().sum().backward()
    gradient = tokens.word_vectors.weight.grad
    assert (gradient is not None) == tune
    if tune:
        # What is unknown stays zero.
        assert gradient.any(dim=1).tolist() == [False, True, True, True]


def test_a_model_with_a_softmax_keeps_it_frozen(tmp_path, model):
    trained = make_fitted_task(tmp_path / "run", model=model, use="tuned")
    network = trained.built.model.features.network
    assert all(value.requires_grad for value in network.bilm.parameters())
    assert not any(value.requires_grad for value in network.mixes.parameters())
    assert len(network.state_dict()) == len(random_model().weights)
