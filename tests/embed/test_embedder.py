"""Tests of `ELMo`: arguments, results and errors of encode and forward."""

import copy
import dataclasses
import pickle
import re
import sys
import unicodedata

import numpy as np
import pytest
import torch
from conftest import TINY, random_model
from torch import nn

import elmo as package
from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError, FormatError, InputError, MissingExtra
from elmo.formats import model_folder
from elmo.text import korean
from elmo.text.tokenizer import EnglishTokenizer

SENTENCES = [["He", "sat", "on", "the", "bank", "."], ["A", "bank"], []]


def test_encode_treats_a_string_as_one_sentence_and_a_list_as_several(tiny):
    assert tiny.encode("He sat down").shape == (3, 16)
    assert [item.shape for item in tiny.encode(["He sat", "down"])] == [(2, 16), (1, 16)]
    assert [item.shape for item in tiny.encode([["He", "sat"], "down you go"])] == [
        (2, 16),
        (3, 16),
    ]
    assert tiny.encode([]) == []
    assert np.array_equal(tiny.encode("He sat"), tiny.encode([["He", "sat"]])[0])


def test_encode_accepts_iterators_and_tuples(tiny):
    from_iterator = tiny.encode(iter([("He", "sat"), iter(["He", "sat"])]))
    assert np.array_equal(*from_iterator)


def test_encode_returns_independent_float32_arrays(tiny):
    first, second = tiny.encode([["same"], ["same"]])
    assert first.dtype == np.float32
    assert not np.shares_memory(first, second)
    assert first.flags.owndata or first.base.nbytes == first.nbytes


@pytest.mark.parametrize(("layers", "number"), [("top", 2), (0, 0), (1, 1), (2, 2), ("1", 1)])
def test_encode_with_one_layer_returns_that_layer_of_all_layers(tiny, layers, number):
    expected = tiny.encode(SENTENCES, layers="all")
    for vectors, all_layers in zip(tiny.encode(SENTENCES, layers=layers), expected, strict=True):
        assert np.array_equal(vectors, all_layers[number])


def test_encode_returns_the_mean_of_all_layers_by_default(tiny):
    for vectors, all_layers in zip(
        tiny.encode(SENTENCES), tiny.encode(SENTENCES, layers="all"), strict=True
    ):
        np.testing.assert_allclose(vectors, all_layers.mean(axis=0), rtol=0, atol=1e-6)


def test_layer_zero_is_the_context_independent_token_vector_twice(tiny):
    first, second = tiny.encode([["a", "bank"], ["bank", "b"]], layers=0)
    np.testing.assert_allclose(first[1], second[0], rtol=0, atol=1e-6)
    assert np.array_equal(first[:, :8], first[:, 8:])


def test_encode_with_layers_mix_requires_a_trained_mix(tiny):
    with pytest.raises(ConfigError, match="needs a trained mix"):
        tiny.encode(SENTENCES, layers="mix")
    tiny.network.mixes[0].weights.data = torch.tensor([0.0, 9e9, 0.0])
    for vectors, all_layers in zip(
        tiny.encode(SENTENCES, layers="mix"), tiny.encode(SENTENCES, layers="all"), strict=True
    ):
        np.testing.assert_allclose(vectors, all_layers[1], rtol=0, atol=1e-6)


def test_pooling_returns_one_vector_per_sentence(tiny):
    words = tiny.encode(SENTENCES)
    pooled = {name: tiny.encode(SENTENCES, pooling=name) for name in ("mean", "max", "first-last")}
    for vectors in pooled.values():
        assert vectors.shape == (3, 16)
        assert not vectors[2].any()
    np.testing.assert_allclose(pooled["mean"][0], words[0].mean(axis=0), rtol=0, atol=1e-6)
    assert np.array_equal(pooled["max"][1], words[1].max(axis=0))
    assert np.array_equal(pooled["first-last"][0][:8], words[0][-1, :8])
    assert np.array_equal(pooled["first-last"][0][8:], words[0][0, 8:])
    assert tiny.encode("He sat", pooling="mean").shape == (16,)
    assert tiny.encode(SENTENCES, layers="all", pooling="mean").shape == (3, 3, 16)
    assert tiny.encode([], pooling="mean").shape == (0, 16)
    assert tiny.encode([], layers="all", pooling="mean").shape == (0, 3, 16)


def test_encode_returns_no_rows_for_empty_sentences(tiny):
    assert tiny.encode([[], "", "  "])[2].shape == (0, 16)
    assert tiny.encode("").shape == (0, 16)
    assert tiny.encode([[]], layers="all")[0].shape == (3, 0, 16)


def test_vectors_depend_on_the_previous_batch_only_with_carried_state(tiny):
    sentences = [["a", "b"], ["c"], ["a", "b"], ["c"]]
    carried = tiny.encode(sentences, state="carry", batch_size=2, layers="top")
    assert np.abs(carried[0] - carried[2]).max() > 1e-4
    again = tiny.encode(sentences, state="carry", batch_size=2, layers="top")
    for vectors, repeated in zip(carried, again, strict=True):
        assert vectors.tobytes() == repeated.tobytes()
    reset = tiny.encode(sentences, layers="top")
    assert reset[0].tobytes() == reset[2].tobytes()


def test_encode_with_carried_state_equals_forward_with_state(tiny):
    batches = [[["a", "b", "c"], ["d"]], [["e"], ["f", "g"]], [["h"]]]
    flat = [sentence for batch in batches for sentence in batch]
    carried = tiny.encode(flat, state="carry", batch_size=2, layers="top")
    state = None
    with torch.no_grad():
        for number, batch in enumerate(batches):
            rows = None if state is None else state.rows(len(batch))
            output = tiny(tiny.character_ids(batch), state=rows)
            state = output.state if state is None else state.updated(output.state)
            for row, sentence in enumerate(batch):
                np.testing.assert_allclose(
                    output.layers[-1, row, : len(sentence)],
                    carried[2 * number + row],
                    rtol=0,
                    atol=1e-6,
                )


def test_literal_boundary_tokens_in_text_are_encoded_as_characters(tiny):
    ids = tiny.character_ids([["<S>", "</S>"]])[0]
    assert not torch.equal(ids[1], ids[0])
    assert ids[1, 1:4].tolist() == [ord(character) + 1 for character in "<S>"]


def test_encode_returns_finite_vectors_for_unusual_words(tiny):
    words = ["\x00", "\ud800", "x" * 10_000_000, "", "a\ud800b", "\u200d"]
    vectors = tiny.encode([words])[0]
    assert np.isfinite(vectors).all()
    np.testing.assert_allclose(vectors[3], tiny.encode([words])[0][3])
    same = tiny.encode([["a\ud800b"], ["ab"]], layers=0)
    np.testing.assert_allclose(same[0], same[1], rtol=0, atol=1e-6)


def test_encode_returns_finite_vectors_for_a_very_long_sentence():
    one_layer = dataclasses.replace(TINY, lstm=dataclasses.replace(TINY.lstm, n_layers=1))
    elmo = ELMo(random_model(one_layer, scale=1.0))
    vectors = elmo.encode([["word"] * 20_000, ["word"]])
    assert vectors[0].shape == (20_000, 16)
    assert np.isfinite(vectors[0]).all()
    np.testing.assert_allclose(vectors[1], elmo.encode([["word"]])[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("precision", ["bfloat16", torch.float16, torch.float64])
def test_precision_changes_dtype_of_tensors_but_not_of_arrays_or_weights(tiny, precision):
    exact = tiny.encode(SENTENCES, pooling="mean")
    vectors = tiny.encode(SENTENCES, pooling="mean", precision=precision)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, exact, rtol=0, atol=0.02)
    tensors = tiny.encode(SENTENCES, precision=precision, convert_to_tensor=True)
    assert tensors[0].dtype == (torch.bfloat16 if precision == "bfloat16" else precision)
    assert next(tiny.parameters()).dtype == torch.float32


def test_convert_to_tensor_returns_the_same_values_as_arrays(tiny):
    tensors = tiny.encode(SENTENCES, convert_to_tensor=True)
    arrays = tiny.encode(SENTENCES, device="cpu")
    for tensor, array in zip(tensors, arrays, strict=True):
        assert np.array_equal(tensor.numpy(), array)
    assert tiny.encode(SENTENCES, pooling="max", convert_to_tensor=True).shape == (3, 16)
    assert tiny.encode("a b", convert_to_tensor=True).shape == (2, 16)


def test_encode_shows_progress_only_on_request(tiny, capsys, monkeypatch):
    monkeypatch.setattr("elmo.progress.PLAIN_INTERVAL", 0.0)
    tiny.encode(SENTENCES, show_progress_bar=True)
    assert "encode: 3 of 3 sentences" in capsys.readouterr().err
    tiny.encode(SENTENCES)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layers": 3}, "number from 0 to 2"),
        ({"layers": -1}, "number from 0 to 2"),
        ({"layers": "last"}, "average, mix, top, all"),
        ({"layers": True}, "Unknown layers True"),
        ({"layers": 1.0}, r"Unknown layers 1\.0"),
        ({"layers": None}, "Unknown layers None"),
        ({"layers": np.arange(2)}, "average, mix, top, all"),
        ({"pooling": "sum"}, "mean, max, first-last"),
        ({"state": "keep"}, "reset, carry"),
        ({"batch_size": 0}, "at least 1"),
        ({"batch_size": "3"}, r"batch_size must be an integer of at least 1 \(got '3'\)"),
        ({"batch_size": 2.5}, "must be an integer"),
        ({"batch_size": True}, "must be an integer"),
        ({"precision": "int32"}, "float32, bfloat16"),
        ({"device": "abacus"}, "Device 'abacus' is not available"),
        ({"precision": "fast"}, "float32, bfloat16"),
        ({"precision": "float8_e4m3fn"}, "float32, bfloat16"),
        ({"precision": np.float32}, "precision must be a torch dtype"),
    ],
)
def test_encode_rejects_invalid_arguments(tiny, arguments, message):
    with pytest.raises(ConfigError, match=message):
        tiny.encode(SENTENCES, **arguments)


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        ([1], "sentence 0 has type int, expected a string or a list of words"),
        ([np.array("a")], "sentence 0 has type ndarray"),
        ([["a", 1]], "sentence 0 contains 1 of type int"),
        ([["a", None]], "sentence 0 contains None"),
        ([[["a"]]], "sentence 0 contains"),
        ([b"bytes"], "sentence 0 has type bytes. Decode it first"),
        (None, "sentences has type NoneType, expected a string or a list of sentences"),
        (7, "sentences has type int"),
        (np.array("a b"), "sentences has type ndarray"),
    ],
)
def test_encode_rejects_invalid_sentences(tiny, sentences, message):
    for call in (tiny.encode, tiny.character_ids):
        with pytest.raises(InputError, match=message):
            call(sentences)


def test_encode_accepts_numpy_integers_as_arguments(tiny):
    actual = tiny.encode(SENTENCES, layers=np.int64(1), batch_size=np.int32(2))
    expected = tiny.encode(SENTENCES, layers=1, batch_size=2)
    for vectors, reference in zip(actual, expected, strict=True):
        assert vectors.tobytes() == reference.tobytes()


def test_tokenizer_splits_strings_and_is_saved_with_the_model(tmp_path, tiny):
    tiny.save_pretrained(tmp_path / "model")
    elmo = ELMo.from_pretrained(tmp_path / "model", tokenizer="english")
    text = "He didn't   sit."
    tokens = elmo.tokenize(text)
    assert [token.text for token in tokens] == ["He", "did", "n't", "sit", "."]
    assert all(text[token.start : token.end] == token.text for token in tokens)
    assert elmo.encode(text).shape == (5, 16)
    assert elmo.encode([text.split()])[0].shape == (3, 16)
    elmo.save_pretrained(tmp_path / "again")
    assert ELMo.from_pretrained(tmp_path / "again").config.text.tokenizer == "english"
    with pytest.raises(ConfigError, match="whitespace"):
        ELMo.from_pretrained(tmp_path / "model", tokenizer="klingon")


def test_from_pretrained_rejects_a_tokenizer_that_is_not_a_name():
    message = "has type EnglishTokenizer. Pass the name of a tokenizer, such as spacy:blank-en."
    with pytest.raises(ConfigError, match=message):
        ELMo.from_pretrained("small-en", tokenizer=EnglishTokenizer())


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [("korean", "kiwipiepy", "ko"), ("spacy:blank-en", "spacy", "spacy")],
)
def test_tokenizer_package_is_only_needed_to_encode_strings(
    tmp_path, tiny, monkeypatch, name, package, extra
):
    """A model can be loaded and can encode lists of words without its tokenizer's package."""
    config = dataclasses.replace(TINY, text=dataclasses.replace(TINY.text, tokenizer=name))
    model_folder.write(random_model(config, scale=1.5), tmp_path / "model")
    monkeypatch.setitem(sys.modules, package, None)
    korean._kiwi.cache_clear()
    elmo = ELMo.from_pretrained(tmp_path / "model")
    expected = tiny.encode(SENTENCES)
    for ours, theirs in zip(elmo.encode(SENTENCES), expected, strict=True):
        assert np.array_equal(ours, theirs)
    message = rf"{name}.*pip install .*\[{extra}\]'"
    for call in (elmo.encode, elmo.tokenize, lambda text: elmo.encode([["a"], text])):
        with pytest.raises(MissingExtra, match=message):
            call("a b")
    elmo.save_pretrained(tmp_path / "again")
    assert ELMo.from_pretrained(tmp_path / "again").config.text.tokenizer == name


@pytest.mark.parametrize(("tokenizer", "warns"), [("korean", True), ("whitespace", False)])
def test_words_of_decomposed_hangul_are_encoded_with_a_warning(caplog, tokenizer, warns):
    text = dataclasses.replace(TINY.text, tokenizer=tokenizer)
    elmo = ELMo(random_model(dataclasses.replace(TINY, text=text), scale=1.5))
    korean._warn_once.cache_clear()
    elmo.encode([["학교", "에"]])
    assert not caplog.records
    for _ in range(2):
        elmo.encode([[unicodedata.normalize("NFD", word) for word in ("학교", "에")]])
    assert len(caplog.records) == warns
    assert ("normalize the text to NFC" in caplog.text) == warns


def test_only_layer_mixes_are_trained_by_default(tmp_path, tiny):
    tiny.save_pretrained(tmp_path / "model")

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.elmo = ELMo.from_pretrained(tmp_path / "model", num_output_representations=2)
            self.head = nn.Linear(32, 3)

        def forward(self, ids):
            return self.head(torch.cat(self.elmo(ids).representations, dim=-1))

    tagger = Tagger()
    trained = {name for name, value in tagger.named_parameters() if value.requires_grad}
    mixes = {f"elmo.network.mixes.{n}.{part}" for n in (0, 1) for part in ("weights", "gamma")}
    assert trained == mixes | {"head.weight", "head.bias"}
    loss = tagger(tagger.elmo.character_ids(SENTENCES)).square().mean()
    (loss + 0.1 * tagger.elmo.mix_penalty()).backward()
    assert all(dict(tagger.named_parameters())[name].grad is not None for name in mixes)


def test_dropout_is_applied_only_in_training_mode(tmp_path, tiny):
    tiny.save_pretrained(tmp_path / "model")
    elmo = ELMo.from_pretrained(tmp_path / "model", dropout=0.5)
    ids = elmo.character_ids(SENTENCES)
    elmo.train()
    torch.manual_seed(0)
    assert (elmo(ids).representations[0][0] == 0).float().mean() > 0.2
    elmo.eval()
    torch.testing.assert_close(elmo(ids).representations[0], tiny(ids).representations[0])


@pytest.mark.parametrize("dropout", [1.5, -0.1, float("nan"), "0.5", None])
def test_from_pretrained_rejects_invalid_dropout(tmp_path, tiny, dropout):
    tiny.save_pretrained(tmp_path / "model")
    message = re.escape(f"dropout must be a number from 0 to 1 (got {dropout!r}).")
    with pytest.raises(ConfigError, match=message):
        ELMo.from_pretrained(tmp_path / "model", dropout=dropout)


def test_keep_sentence_boundaries_adds_two_positions_per_sentence(tmp_path, tiny):
    tiny.save_pretrained(tmp_path / "model")
    elmo = ELMo.from_pretrained(tmp_path / "model", keep_sentence_boundaries=True)
    ids = elmo.character_ids(SENTENCES)
    output, plain = elmo(ids), tiny(ids)
    assert output.mask.sum(1).tolist() == [8, 4, 2]
    assert output.layers.shape[2] == plain.layers.shape[2] + 2
    torch.testing.assert_close(output.layers[:, 0, 1:-1], plain.layers[:, 0])


def test_layer_mixes_are_saved_and_loaded(tmp_path, tiny):
    tiny.network.mixes[0].weights.data = torch.tensor([0.3, 0.2, 0.1])
    tiny.network.mixes[0].gamma.data.fill_(2.0)
    tiny.save_pretrained(tmp_path / "model")
    elmo = ELMo.from_pretrained(tmp_path / "model")
    assert np.array_equal(*[m.encode("a b", layers="mix") for m in (tiny, elmo)])
    two = ELMo.from_pretrained(tmp_path / "model", num_output_representations=2)
    assert torch.equal(two.network.mixes[0].weights, tiny.network.mixes[0].weights)
    assert not two.network.mixes[1].is_trained()


def test_forward_accepts_a_valid_mask_and_rejects_invalid_ones(tiny):
    ids = tiny.character_ids(SENTENCES)
    mask = (ids != 0).any(dim=2)
    torch.testing.assert_close(tiny(ids, mask).layers, tiny(ids).layers)
    with pytest.raises(InputError, match="mask has shape"):
        tiny(ids, mask[:, :-1])
    gaps = mask.clone()
    gaps[0, 2] = False
    with pytest.raises(InputError, match="mask has gaps"):
        tiny(ids, gaps)


@pytest.mark.parametrize(
    "ids",
    [
        torch.zeros(2, 3, dtype=torch.long),
        torch.zeros(2, 3, 50, dtype=torch.long),
        torch.zeros(2, 3, 12),
        torch.zeros(2, 3, 12, dtype=torch.bool),
        torch.zeros(2, 1, 12, dtype=torch.long),
        torch.full((1, 3, 12), 262, dtype=torch.long),
        torch.full((1, 3, 12), -1, dtype=torch.long),
    ],
)
def test_forward_rejects_invalid_ids(tiny, ids):
    with pytest.raises(InputError, match="character_ids"):
        tiny(ids)


@pytest.mark.parametrize("text", ["x", ["x"], [["x"]], np.zeros((1, 3, 12), dtype=np.int64), None])
def test_forward_of_text_names_character_ids_and_encode(tiny, text):
    with pytest.raises(InputError) as caught:
        tiny(text)
    assert str(caught.value) == (
        f"character_ids has type {type(text).__name__}, expected a tensor. Call "
        "elmo(elmo.character_ids(sentences)), or elmo.encode(sentences) for the vectors of text."
    )


def test_forward_rejects_mask_and_state_of_the_wrong_type(tiny):
    ids = tiny.character_ids(["a"])
    with pytest.raises(InputError, match="mask has type list, expected a tensor"):
        tiny(ids, mask=[[True] * 3])
    with pytest.raises(InputError, match="state has type tuple, expected the state of an earlier"):
        tiny(ids, state=(torch.zeros(1), torch.zeros(1)))


def test_forward_rejects_a_state_with_the_wrong_number_of_rows(tiny):
    state = tiny(tiny.character_ids(["a", "b"])).state
    with pytest.raises(
        InputError, match=r"state has 2 rows, but the batch has 3\. Use state\.rows\(3\)"
    ):
        tiny(tiny.character_ids(SENTENCES), state=state)
    assert tiny(tiny.character_ids(SENTENCES), state=state.rows(3)).state.batch == 3


def test_forward_accepts_an_empty_batch(tiny):
    output = tiny(tiny.character_ids([]))
    assert output.representations[0].shape == (0, 0, 16)


def test_copied_and_unpickled_models_return_equal_vectors(tiny):
    expected = tiny.encode("a b c")
    assert np.array_equal(copy.deepcopy(tiny).encode("a b c"), expected)
    assert np.array_equal(pickle.loads(pickle.dumps(tiny)).encode("a b c"), expected)


def test_model_with_loaded_state_dict_returns_equal_vectors(tiny):
    other = ELMo(random_model(TINY, seed=9))
    other.load_state_dict(tiny.state_dict())
    assert np.array_equal(other.encode("a b c"), tiny.encode("a b c"))


def test_from_pretrained_rejects_invalid_mix_arguments(tmp_path, tiny):
    tiny.save_pretrained(tmp_path / "model")
    with pytest.raises(ConfigError, match="2 weights, but the model has 3 layers"):
        ELMo.from_pretrained(tmp_path / "model", scalar_mix_parameters=[1.0, 2.0])
    with pytest.raises(ConfigError, match="do_layer_norm"):
        ELMo.from_pretrained(tmp_path / "model", do_layer_norm="torch")
    with pytest.raises(ConfigError, match=r"n_mixes must be 0 or more \(got -1\)"):
        ELMo.from_pretrained(tmp_path / "model", num_output_representations=-1)
    with pytest.raises(FormatError, match="No model was given"):
        package.ELMo.from_pretrained()


def test_encode_warns_once_per_model_about_another_script_than_that_of_an_english_model(caplog):
    for _ in range(2):
        model = ELMo(random_model(attribution={"language": "en"}))
        model.encode([["나는", "bank", "에", "갔다"]])
        model.encode("나는 은행에 갔다")
    assert [record.message.count("small-ko") for record in caplog.records] == [2, 2]


def test_encode_does_not_warn_about_the_script_of_other_text_or_models(caplog):
    english = ELMo(random_model(attribution={"language": "en"}))
    english.encode(["She said 안녕 to him .", "3.14"])
    english.encode("안녕")  # only the first text is checked
    ELMo(random_model(attribution={"language": "ko"})).encode("나는 은행에 갔다")
    ELMo(random_model()).encode("나는 은행에 갔다")
    assert not caplog.records


@pytest.mark.parametrize(
    ("trained", "tokenizer", "is_warned"),
    [
        ("korean", "english", True),
        ("korean", "korean", False),
        ("korean", "whitespace", False),
        ("english", "spacy:blank-en", False),
        (None, "english", False),
    ],
)
def test_from_pretrained_warns_about_another_tokenizer_than_that_of_the_model(
    tmp_path, caplog, trained, tokenizer, is_warned
):
    text = dataclasses.replace(TINY.text, tokenizer=trained)
    ELMo(random_model(dataclasses.replace(TINY, text=text))).save_pretrained(tmp_path / "m")
    assert ELMo.from_pretrained(tmp_path / "m", tokenizer=tokenizer)
    message = "english, but the ELMo model was trained on words of the tokenizer korean. Omit"
    assert (message in caplog.text) == is_warned == bool(caplog.text)
