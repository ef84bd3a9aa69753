"""Tests of the names of AllenNLP 1.x and 2.x: indexer, token embedder and character encoder."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from elmo.compat.allennlp import (
    Elmo,
    ELMoCharacterMapper,
    ELMoTokenCharactersIndexer,
    ElmoTokenEmbedder,
    _ElmoBiLm,
    _ElmoCharacterEncoder,
    batch_to_ids,
    remove_sentence_boundaries,
)
from elmo.errors import InputError

BATCH = [["The", "bank", "."], ["A"], []]


# ----------------------------------------------------------------------------- character ids


def test_mapper_returns_shifted_bytes_between_word_ids():
    ids = ELMoCharacterMapper().convert_word_to_char_ids("né")
    assert ids == [259, 111, 196, 170, 260, *[261] * 45]
    long = ELMoCharacterMapper().convert_word_to_char_ids("a" * 99)
    assert long == [259, *[98] * 48, 260]


def test_mapper_reads_boundary_and_added_tokens_as_one_character():
    mapper = ELMoCharacterMapper({"[MASK]": 7, "</S>": 9})
    for token, character in (("[MASK]", 7), ("<S>", 256), ("</S>", 9)):
        expected = [259, character + 1, 260, *[261] * 47]
        assert mapper.convert_word_to_char_ids(token) == expected
    constants = ELMoCharacterMapper.beginning_of_sentence_characters
    assert constants == [258, 256, 259, *[260] * 47]
    assert ELMoCharacterMapper.end_of_sentence_characters[1] == 257
    assert (mapper.bos_token, mapper.eos_token) == ("<S>", "</S>")
    assert (mapper.max_word_length, mapper.padding_character) == (50, 260)


def test_mappers_are_equal_if_their_added_tokens_are():
    assert ELMoCharacterMapper() == ELMoCharacterMapper({})
    assert ELMoCharacterMapper({"a": 1}) != ELMoCharacterMapper({"a": 2})
    assert ELMoCharacterMapper() != "mapper"


@pytest.mark.parametrize("as_token", [str, lambda word: SimpleNamespace(text=word)])
def test_indexer_returns_the_ids_of_batch_to_ids(as_token):
    indexer = ELMoTokenCharactersIndexer()
    expected = batch_to_ids(BATCH)
    for words, ids in zip(BATCH, expected, strict=True):
        indexed = indexer.tokens_to_indices([as_token(word) for word in words], None)
        assert indexer.get_padding_lengths(indexed) == {"elmo_tokens": len(words)}
        padded = indexer.as_padded_tensor_dict(indexed, {"elmo_tokens": 3})
        assert torch.equal(padded["elmo_tokens"], ids)
    assert indexer.get_empty_token_list() == indexer.tokens_to_indices([])


def test_indexer_pads_to_its_minimum_and_cuts_longer_sentences():
    indexer = ELMoTokenCharactersIndexer(tokens_to_add={"x": 3}, token_min_padding_length=4)
    indexed = indexer.tokens_to_indices(["x", "y"])
    lengths = indexer.get_padding_lengths(indexed)
    assert lengths == {"elmo_tokens": 4}
    padded = indexer.as_padded_tensor_dict(indexed, lengths)["elmo_tokens"]
    assert (padded.shape, padded.dtype) == ((4, 50), torch.long)
    assert padded[0, 1] == 4
    assert not padded[2:].any()
    assert indexer.as_padded_tensor_dict(indexed, {"elmo_tokens": 1})["elmo_tokens"].shape[0] == 1


def test_indexer_leaves_the_vocabulary_counter_empty_and_rejects_tokens_without_text():
    indexer, counter = ELMoTokenCharactersIndexer(), {}
    indexer.count_vocab_items("word", counter)
    assert counter == {}
    with pytest.raises(InputError, match="Token 3 has no text"):
        indexer.tokens_to_indices([3])


# ----------------------------------------------------------------------------- modules


def test_remove_sentence_boundaries_drops_first_and_last_real_position():
    tensor = torch.arange(1.0, 16).view(3, 5, 1)
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 1, 0, 0, 0]])
    vectors, inner = remove_sentence_boundaries(tensor, mask)
    assert vectors.squeeze(2).tolist() == [[2, 3, 4], [7, 0, 0], [0, 0, 0]]
    assert inner.tolist() == [[True] * 3, [True, False, False], [False] * 3]


def test_token_embedder_returns_the_representation_of_elmo(allennlp_files):
    embedder = ElmoTokenEmbedder(
        *allennlp_files, dropout=0.0, scalar_mix_parameters=[1.0, 0.0, -1.0]
    )
    elmo = Elmo(*allennlp_files, 1, dropout=0.0, scalar_mix_parameters=[1.0, 0.0, -1.0])
    ids = batch_to_ids(BATCH)
    assert torch.equal(embedder(ids), elmo(ids)["elmo_representations"][0])
    assert embedder.get_output_dim() == 16
    assert [name for name, _ in embedder.named_parameters()] == [
        f"_elmo.{name}" for name, _ in elmo.named_parameters()
    ]


def test_token_embedder_projects_any_number_of_dimensions(allennlp_files):
    embedder = ElmoTokenEmbedder(*allennlp_files, dropout=0.0, projection_dim=5)
    assert embedder.get_output_dim() == 5
    ids = batch_to_ids([["a", "b"], ["c"], ["d"], []])
    flat = embedder(ids)
    assert flat.shape == (4, 2, 5)
    embedder._elmo._elmo_lstm._elmo_lstm.reset_states()
    torch.testing.assert_close(embedder(ids.view(2, 2, 2, 50)).flatten(0, 1), flat)
    flat.sum().backward()
    assert {name for name, value in embedder.named_parameters() if value.grad is not None} == {
        "_projection.weight",
        "_projection.bias",
        *(f"_elmo.scalar_mix_0.scalar_parameters.{n}" for n in range(3)),
        "_elmo.scalar_mix_0.gamma",
    }


def test_token_embedder_accepts_cached_words(allennlp_files):
    words = ["@@PADDING@@", "The", "bank", ".", "A"]
    embedder = ElmoTokenEmbedder(*allennlp_files, dropout=0.0, vocab_to_cache=words)
    ids = batch_to_ids(BATCH)
    word_ids = torch.tensor([[1, 2, 3], [4, 0, 0], [0, 0, 0]])
    cached = embedder(ids, word_ids)
    embedder._elmo._elmo_lstm._elmo_lstm.reset_states()
    torch.testing.assert_close(cached, embedder(ids), rtol=0, atol=1e-5)


def test_character_encoder_returns_layer_zero_with_boundaries(allennlp_files):
    encoder = _ElmoCharacterEncoder(*allennlp_files)
    bilm = _ElmoBiLm(*allennlp_files)
    ids = batch_to_ids(BATCH)
    output, expected = encoder(ids), bilm(ids)
    assert torch.equal(output["mask"], expected["mask"])
    real = expected["mask"]
    for half in expected["activations"][0].chunk(2, dim=2):
        torch.testing.assert_close(output["token_embedding"][real], half[real], rtol=0, atol=1e-6)
    assert output["token_embedding"].shape == (3, 5, encoder.get_output_dim())
    names = [name for name in bilm.state_dict() if name.startswith("_token_embedder.")]
    assert [f"_token_embedder.{name}" for name in encoder.state_dict()] == names
    encoder.load_state_dict(bilm._token_embedder.state_dict())


def test_character_encoder_is_trained_on_request(allennlp_files):
    ids = batch_to_ids(BATCH)
    assert not _ElmoCharacterEncoder(*allennlp_files)(ids)["token_embedding"].requires_grad
    trained = _ElmoCharacterEncoder(*allennlp_files, requires_grad=True)
    trained(ids)["token_embedding"].sum().backward()
    assert all(value.grad.any() for value in trained.parameters())


def test_token_embedder_of_a_bilm_can_be_called(allennlp_files):
    bilm = _ElmoBiLm(*allennlp_files)
    ids = batch_to_ids(BATCH)
    expected = _ElmoCharacterEncoder(*allennlp_files)(ids)["token_embedding"]
    assert torch.equal(bilm._token_embedder(ids)["token_embedding"], expected)


def test_elmo_accepts_another_module(allennlp_files):
    class Doubled(nn.Module):
        num_layers = 3

        def __init__(self):
            super().__init__()
            self.bilm = _ElmoBiLm(*allennlp_files)

        def get_output_dim(self):
            return self.bilm.get_output_dim()

        def forward(self, inputs, word_inputs=None):
            output = self.bilm(inputs)
            return {**output, "activations": [2 * layer for layer in output["activations"]]}

    doubled, elmo = Elmo(module=Doubled(), dropout=0.0), Elmo(*allennlp_files, 1, dropout=0.0)
    ids = batch_to_ids(BATCH)
    torch.testing.assert_close(
        doubled(ids)["elmo_representations"][0], 2 * elmo(ids)["elmo_representations"][0]
    )
    assert doubled.get_output_dim() == 16


@pytest.mark.parametrize(
    "inputs",
    [
        ["x"],
        [["x"]],
        "x",
        torch.zeros(2, 50),
        torch.zeros(1, 2, 50),
        torch.ones(1, 2, 12).long(),
        np.zeros((1, 2, 50)),
    ],
)
def test_modules_reject_inputs_that_are_not_ids(allennlp_files, inputs):
    for module in (
        Elmo(*allennlp_files, 1),
        _ElmoBiLm(*allennlp_files),
        _ElmoCharacterEncoder(*allennlp_files),
    ):
        with pytest.raises(InputError, match=r"^inputs .*batch_to_ids\(sentences\)"):
            module(inputs)
