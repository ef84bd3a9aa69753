"""Tests for reading and writing options.json with weights.hdf5."""

import dataclasses
import json

import builders
import h5py
import numpy as np
import pytest
import torch
from builders import (
    GEOMETRIES,
    SENTENCES,
    VOCABULARY,
    bilm_arrays,
    hdf5_folder,
    make_options,
    random_array,
    read_hdf5,
    write_hdf5,
)
from conftest import TINY, random_model
from reference import Clips, ReferenceBiLM, character_batch, drop_boundaries, word_batch
from sources import SOURCES, archive, assert_error

from elmo.config import ConvertConfig
from elmo.embed.embedder import ELMo
from elmo.errors import FormatError
from elmo.formats import bilm_hdf5
from elmo.formats.info_and_convert import convert
from elmo.formats.load import read
from elmo.text.vocabulary import Vocabulary

CELL = "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell"


def reference_layers(options, arrays, ids):
    lstm = options["lstm"]
    model = ReferenceBiLM(
        arrays,
        options.get("char_cnn", {}).get("activation"),
        Clips(lstm["cell_clip"], lstm["proj_clip"]),
        lstm["use_skip_connections"],
    )
    return drop_boundaries(*model.batch(ids))


def assert_vectors(elmo, layers, mask):
    for row, vectors in enumerate(elmo.encode(SENTENCES, layers="all")):
        expected = layers[:, row, : mask[row].sum()]
        np.testing.assert_allclose(vectors, expected, atol=1e-5)


class TestVectors:
    @pytest.mark.parametrize("geometry", GEOMETRIES)
    def test_encode_matches_reference_for_every_architecture(self, tmp_path, geometry):
        options = make_options(**GEOMETRIES[geometry])
        arrays = bilm_arrays(options)
        elmo = ELMo.from_pretrained(hdf5_folder(tmp_path / "model", options, arrays))
        assert elmo.notes == ()
        layers, mask = reference_layers(options, arrays, character_batch(SENTENCES, 12))
        assert_vectors(elmo, layers, mask)

    def test_encode_matches_reference_for_word_id_model(self, tmp_path):
        options = make_options(characters=False)
        arrays = bilm_arrays(options, n_words=len(VOCABULARY))
        folder = hdf5_folder(tmp_path / "model", options, arrays, vocab="vocab.txt")
        layers, mask = reference_layers(options, arrays, word_batch(SENTENCES, VOCABULARY))
        assert_vectors(ELMo.from_pretrained(folder), layers, mask)

    def test_token_embeddings_replace_characters_of_known_words(self, tmp_path):
        source = SOURCES["hdf5, token embeddings"].make(tmp_path)
        elmo = ELMo.from_pretrained(**source)
        plain = ELMo.from_pretrained(source["source"])
        table = read_hdf5(source["token_embeddings"])["embedding"]
        words = ["the", "unheard-of"]
        known, unknown = elmo.encode([words], layers=0)[0]
        np.testing.assert_array_equal(known, np.concatenate([table[3], table[3]]))
        np.testing.assert_allclose(unknown, plain.encode([words], layers=0)[0][1], atol=1e-5)
        assert elmo.to_pretrained().words == {word: n for n, word in enumerate(VOCABULARY)}


class TestWriting:
    @pytest.mark.parametrize("geometry", GEOMETRIES)
    @pytest.mark.parametrize("softmax", [False, True])
    def test_conversion_round_trip_is_bit_identical(self, tmp_path, geometry, softmax):
        options = make_options(**GEOMETRIES[geometry])
        arrays = bilm_arrays(options, n_softmax=len(VOCABULARY) * softmax)
        folder = hdf5_folder(tmp_path / "model", options, arrays, vocab="vocab.txt")
        convert(ConvertConfig(str(folder), str(tmp_path / "native")))
        convert(ConvertConfig(str(tmp_path / "native"), str(tmp_path / "back"), to="allennlp"))
        self.assert_same_datasets(tmp_path / "back" / "weights.hdf5", arrays)
        assert json.loads((tmp_path / "back" / "options.json").read_text()) == options
        assert (tmp_path / "back" / "vocab.txt").read_bytes() == builders.vocabulary_bytes()

    @pytest.mark.parametrize(
        ("options", "weights"),
        [
            ("bilm-tf/model/options.json", "bilm-tf/model/lm_weights.hdf5"),
            ("allennlp/elmo/options.json", "allennlp/elmo/lm_weights.hdf5"),
            (
                "allennlp/elmo_multilingual_v0.9.0/es/options.json",
                "allennlp/elmo_multilingual_v0.9.0/es/weights.hdf5",
            ),
        ],
    )
    def test_conversion_round_trip_of_golden_files_is_bit_identical(
        self, golden_path, tmp_path, options, weights
    ):
        arguments = {"options": str(golden_path(options))}
        convert(ConvertConfig(str(golden_path(weights)), str(tmp_path / "native"), **arguments))
        convert(ConvertConfig(str(tmp_path / "native"), str(tmp_path / "back"), to="allennlp"))
        arrays = read_hdf5(golden_path(weights))
        assert len(arrays) == 33
        self.assert_same_datasets(tmp_path / "back" / "weights.hdf5", arrays)
        written = json.loads((tmp_path / "back" / "options.json").read_text())
        golden = json.loads(golden_path(options).read_text())
        assert written == golden

    def assert_same_datasets(self, path, arrays):
        actual = read_hdf5(path)
        assert actual.keys() == arrays.keys()
        for name, array in arrays.items():
            assert actual[name].dtype == np.float32
            assert actual[name].shape == array.shape
            assert actual[name].tobytes() == array.tobytes(), name

    def test_write_subtracts_forget_bias_from_biases(self, tmp_path):
        """LSTM biases include the forget bias in archives, but not in HDF5 files."""
        source = archive().make(tmp_path)["source"]
        convert(ConvertConfig(str(source), str(tmp_path / "old"), to="allennlp"))
        written = read_hdf5(tmp_path / "old" / "weights.hdf5")
        for name, array in bilm_arrays(make_options()).items():
            np.testing.assert_allclose(written[name], array, atol=1.2e-7)
        first, second = (ELMo.from_pretrained(path) for path in (source, tmp_path / "old"))
        assert (first.config.lstm.forget_bias, second.config.lstm.forget_bias) == (0.0, 1.0)
        for a, b in zip(
            first.encode(SENTENCES, layers="all"),
            second.encode(SENTENCES, layers="all"),
            strict=True,
        ):
            np.testing.assert_allclose(a, b, atol=1e-6)

    def test_write_includes_projection_between_equal_dimensions(self, tmp_path):
        """AllenNLP always projects; bilm-tf has no projection if the dimensions are equal."""
        options = make_options(filters=((1, 3), (2, 5)))
        rng = np.random.default_rng(0)
        arrays = bilm_arrays(options)
        arrays["CNN_proj/W_proj"] = random_array(rng, 8, 8)
        arrays["CNN_proj/b_proj"] = random_array(rng, 8)
        state = builders.elmo_state(arrays, options)
        (tmp_path / "best.th").write_bytes(builders.torch_bytes(state))
        bilm_hdf5.write(read(tmp_path / "best.th"), tmp_path / "old")
        model = read(tmp_path / "old")
        weight = model.weights["bilm.encoder.projection.weight"]
        np.testing.assert_array_equal(weight.numpy(), arrays["CNN_proj/W_proj"].T)

    @pytest.mark.parametrize(
        ("name", "phrases"),
        [
            ("hdf5, word ids", ["word ids", "bytes", "--to native"]),
            ("many langs", ["a character dictionary", "ELMoForManyLangs"]),
            ("many langs, no words", ["a character dictionary"]),
            ("many langs, no characters", ["word ids", "ELMoForManyLangs"]),
            (
                "hdf5, token embeddings",
                ["precomputed token embeddings", "without token_embeddings="],
            ),
        ],
    )
    def test_write_rejects_models_the_format_cannot_store(self, tmp_path, name, phrases):
        model = read(**SOURCES[name].make(tmp_path))
        target = tmp_path / "old"
        assert_error(
            lambda: bilm_hdf5.write(model, target), "AllenNLP", *phrases, error_type=FormatError
        )
        assert not target.exists()

    def test_half_precision_weights_are_written_as_float32(self, tmp_path):
        elmo = ELMo(random_model()).half()
        bilm_hdf5.write(elmo.to_pretrained(), tmp_path / "old")
        assert {a.dtype.name for a in read_hdf5(tmp_path / "old" / "weights.hdf5").values()} == {
            "float32"
        }


class TestCorrections:
    def test_read_drops_zero_mask_row(self, tmp_path):
        arrays = bilm_arrays(make_options())
        table = arrays["char_embed"]
        arrays["char_embed"] = np.concatenate([np.zeros((1, 4), np.float32), table])
        model = read(hdf5_folder(tmp_path / "model", arrays=arrays))
        assert len(model.notes) == 1
        assert "262 rows" in model.notes[0]
        actual = model.weights["bilm.encoder.characters.embedding.weight"].numpy()
        np.testing.assert_array_equal(actual[1:], table)
        assert not actual[0].any()

    def test_read_rejects_262_character_rows_without_mask_row(self, tmp_path):
        arrays = bilm_arrays(make_options())
        arrays["char_embed"] = np.ones((262, 4), np.float32)
        folder = hdf5_folder(tmp_path / "model", arrays=arrays)
        assert_error(lambda: read(folder), "char_embed has shape (262, 4)", "(261, 4)")

    def test_read_returns_notes_on_options_and_vocabulary(self, tmp_path):
        options = make_options(clip=0)
        options["char_cnn"]["n_characters"] = 261
        folder = hdf5_folder(tmp_path / "model", options, bilm_arrays(options))
        (folder / "vocab.txt").write_text("cat\ncat\n")
        notes = read(folder).notes
        assert len(notes) == 5
        for part in ("cell_clip is 0", "proj_clip is 0", "261", "<S>, </S>, <UNK>", "repeats 1"):
            assert any(part in note for note in notes)


class TestMismatches:
    """Tests with weights that are invalid or do not match the options."""

    @pytest.mark.parametrize(
        ("change", "phrase"),
        [
            ({"dim": 32}, "W_0 has shape (16, 64), but the options imply (16, 128)"),
            ({"projection": 4}, "has shape"),
            ({"layers": 1}, "is missing"),
            ({"layers": 3}, "Cell2"),
            ({"filters": ((1, 4), (2, 8))}, "unexpected array CNN/W_cnn_2"),
            ({"filters": ((1, 4), (2, 8), (4, 8))}, "W_cnn_2 has shape (1, 3, 4, 8)"),
            ({"filters": ((1, 4), (2, 8), (3, 8), (4, 1))}, "W_cnn_3 is missing"),
            ({"highway": 0}, "CNN_high_0"),
            ({"highway": 2}, "CNN_high_1"),
            ({"dim": 8}, "unexpected array RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_P_0"),
            ({"characters": False}, "embedding is missing"),
        ],
    )
    def test_read_rejects_weights_with_options_of_another_model(self, tmp_path, change, phrase):
        arrays = bilm_arrays(make_options())
        folder = hdf5_folder(tmp_path / "model", make_options(**change), arrays)
        assert_error(
            lambda: read(folder), "weights.hdf5", phrase, "options", error_type=FormatError
        )

    @pytest.mark.parametrize("name", ["char_embed", "CNN/W_cnn_0", f"{CELL}/B", f"{CELL}/W_P_0"])
    @pytest.mark.parametrize("change", ["missing", "transposed", "scalar", "integer", "nan", "inf"])
    def test_read_rejects_weight_file_with_invalid_dataset(self, tmp_path, name, change):
        arrays = bilm_arrays(make_options())
        phrases = [name]
        if change == "missing":
            del arrays[name]
            phrases.append("is missing")
        elif change == "transposed":
            arrays[name] = arrays[name].T[..., None]
            phrases.append("has shape")
        elif change == "scalar":
            arrays[name] = np.float32(1)
            phrases.append("has shape ()")
        elif change == "integer":
            arrays[name] = arrays[name].astype(np.int32)
            phrases.append("has dtype int32")
        else:
            arrays[name] = arrays[name].copy()
            arrays[name].reshape(-1)[7 % arrays[name].size] = float(change)
            phrases = ["weights.hdf5: bilm.", "NaN or infinite"]
        folder = hdf5_folder(tmp_path / "model", arrays=arrays)
        assert_error(lambda: read(folder), *phrases, error_type=FormatError)

    def test_read_rejects_weight_file_with_unknown_dataset(self, tmp_path):
        arrays = {**bilm_arrays(make_options()), "extra/thing": np.zeros(1, np.float32)}
        folder = hdf5_folder(tmp_path / "model", arrays=arrays)
        assert_error(lambda: read(folder), "unexpected array extra/thing", error_type=FormatError)

    @pytest.mark.parametrize("link", ["external", "soft"])
    def test_read_does_not_follow_hdf5_links(self, tmp_path, link):
        arrays = bilm_arrays(make_options())
        table = arrays.pop("char_embed")
        folder = hdf5_folder(tmp_path / "model", arrays=arrays)
        other = write_hdf5(tmp_path / "other.hdf5", {"char_embed": table})
        with h5py.File(folder / "weights.hdf5", "a") as file:
            if link == "external":
                file["char_embed"] = h5py.ExternalLink(str(other), "char_embed")
            else:
                file["char_embed"] = h5py.SoftLink("/CNN/b_cnn_0")
        assert_error(lambda: read(folder), "char_embed is missing", error_type=FormatError)

    @pytest.mark.parametrize("array", [np.float32(1), np.zeros(8, np.float32)])
    def test_read_rejects_word_embedding_of_wrong_rank(self, tmp_path, array):
        options = make_options(characters=False)
        arrays = {**bilm_arrays(options, n_words=8), "embedding": array}
        folder = hdf5_folder(tmp_path / "model", options, arrays, vocab="vocab.txt")
        assert_error(lambda: read(folder), "embedding has shape", error_type=FormatError)

    def test_read_rejects_word_id_model_without_vocabulary(self, tmp_path):
        options = make_options(characters=False)
        folder = hdf5_folder(tmp_path / "model", options, bilm_arrays(options, n_words=8))
        assert_error(
            lambda: read(folder), "word ids", "Pass vocab=", "vocab.txt", error_type=FormatError
        )
        (tmp_path / "words.txt").write_bytes(builders.vocabulary_bytes())
        assert read(folder, vocab=tmp_path / "words.txt").words["好"] == 7

    @pytest.mark.parametrize("n_words", [7, 9])
    def test_read_rejects_vocabulary_with_wrong_number_of_words(self, tmp_path, n_words):
        options = make_options(characters=False)
        arrays = bilm_arrays(options, n_words=n_words)
        folder = hdf5_folder(tmp_path / "model", options, arrays, vocab="vocab.txt")
        assert_error(
            lambda: read(folder),
            f"{n_words} rows",
            "8 lines",
            "different models",
            error_type=FormatError,
        )

    @pytest.mark.parametrize(
        ("content", "phrase"),
        [
            (b"the\ncaf\xe9\n", "not UTF-8 at line 2"),
            (b"", "no words"),
        ],
    )
    @pytest.mark.parametrize("next_to_weights", [True, False])
    def test_read_rejects_invalid_vocabulary_file(self, tmp_path, content, phrase, next_to_weights):
        folder = hdf5_folder(tmp_path / "model")
        path = (folder if next_to_weights else tmp_path) / "vocab.txt"
        path.write_bytes(content)
        arguments = {} if next_to_weights else {"vocab": path}
        assert_error(lambda: read(folder, **arguments), "vocab.txt", phrase, error_type=FormatError)


class TestSoftmax:
    @pytest.fixture
    def folder(self, tmp_path):
        return hdf5_folder(tmp_path / "model", vocab="vocab.txt")

    def test_softmax_from_separate_file_equals_softmax_in_weight_file(self, tmp_path, folder):
        arrays = bilm_arrays(make_options(), n_softmax=8)
        path = write_hdf5(tmp_path / "softmax.hdf5", arrays)
        separate = read(folder, softmax=path)
        included = read(hdf5_folder(tmp_path / "other", arrays=arrays))
        assert separate.config == included.config
        assert separate.config.n_softmax_words == 8
        assert torch.equal(separate.weights["softmax.weight"], included.weights["softmax.weight"])
        np.testing.assert_array_equal(separate.weights["softmax.bias"].numpy(), arrays["softmax/b"])

    @pytest.mark.parametrize(
        ("arrays", "phrases"),
        [
            ({"softmax/W": (8, 8)}, ["softmax/b is missing"]),
            ({"softmax/b": (8,)}, ["softmax/W is missing"]),
            ({"softmax/W": (8, 9), "softmax/b": (8,)}, ["(8, 9)", "expected (words, 8)"]),
            ({"softmax/W": (8, 8), "softmax/b": (7,)}, ["(8, 8)", "(7,)"]),
            ({"softmax/W": (), "softmax/b": ()}, ["softmax/W has shape ()"]),
            (
                {"softmax/W": (9, 8), "softmax/b": (9,)},
                ["softmax has 9 words but the vocabulary has 8"],
            ),
        ],
    )
    @pytest.mark.parametrize("in_weight_file", [True, False])
    def test_read_rejects_mismatched_softmax(
        self, tmp_path, folder, arrays, phrases, in_weight_file
    ):
        zeros = {name: np.zeros(shape, np.float32) for name, shape in arrays.items()}
        arguments = {}
        if in_weight_file:
            write_hdf5(folder / "weights.hdf5", {**bilm_arrays(make_options()), **zeros})
        else:
            arguments["softmax"] = write_hdf5(tmp_path / "softmax.hdf5", zeros)
        assert_error(lambda: read(folder, **arguments), *phrases, error_type=FormatError)

    def test_read_rejects_softmax_file_without_softmax(self, folder):
        path = folder / "weights.hdf5"
        assert_error(lambda: read(folder, softmax=path), "weights.hdf5: softmax/W is missing")

    def test_read_rejects_infinite_softmax_values(self, tmp_path):
        source = SOURCES["hdf5, softmax file"].make(tmp_path)
        arrays = read_hdf5(source["softmax"])
        arrays["softmax/b"][2] = np.inf
        write_hdf5(source["softmax"], arrays)
        phrase = "softmax.hdf5: softmax.bias contains NaN or infinite"
        assert_error(lambda: read(**source), phrase, error_type=FormatError)


class TestTokenEmbeddings:
    def assert_rejected(self, tmp_path, arrays, *phrases, options=None, vocab="vocab.txt"):
        options = make_options() if options is None else options
        folder = hdf5_folder(tmp_path / "model", options, bilm_arrays(options, n_words=8))
        arguments = {"token_embeddings": write_hdf5(tmp_path / "table.hdf5", arrays)}
        if vocab is not None:
            (tmp_path / vocab).write_bytes(builders.vocabulary_bytes())
            arguments["vocab"] = tmp_path / vocab
        assert_error(lambda: read(folder, **arguments), *phrases, error_type=FormatError)

    @pytest.mark.parametrize(
        ("shape", "phrases"),
        [
            ((7, 8), ["7 rows", "8 lines"]),
            ((8, 9), ["(8, 9)", "expected (words, 8)"]),
            ((8,), ["(8,)", "expected (words, 8)"]),
            ((), ["()", "expected (words, 8)"]),
        ],
    )
    def test_read_rejects_token_embeddings_of_wrong_shape(self, tmp_path, shape, phrases):
        self.assert_rejected(
            tmp_path, {"embedding": np.zeros(shape, np.float32)}, "table.hdf5", *phrases
        )

    @pytest.mark.parametrize(
        ("names", "listing"),
        [([], "found no datasets"), (["embedding", "extra"], "embedding, extra")],
    )
    def test_read_rejects_token_embedding_file_with_other_datasets(self, tmp_path, names, listing):
        arrays = {name: np.zeros((8, 8), np.float32) for name in names}
        self.assert_rejected(
            tmp_path, arrays, listing, "only the dataset embedding", "not a token-embedding file"
        )

    def test_read_rejects_token_embeddings_with_nan(self, tmp_path):
        arrays = {"embedding": np.full((8, 8), np.nan, np.float32)}
        self.assert_rejected(tmp_path, arrays, "table.hdf5: bilm.encoder.words.weight contains NaN")

    def test_read_rejects_token_embeddings_without_vocabulary(self, tmp_path):
        arrays = {"embedding": np.zeros((8, 8), np.float32)}
        self.assert_rejected(tmp_path, arrays, "needs the vocabulary", "Pass vocab=", vocab=None)

    def test_read_rejects_token_embeddings_for_word_id_model(self, tmp_path):
        arrays = {"embedding": np.zeros((8, 8), np.float32)}
        options = make_options(characters=False)
        self.assert_rejected(tmp_path, arrays, "reads word ids", options=options)

    def test_token_embeddings_use_vocabulary_next_to_weights(self, tmp_path):
        folder = hdf5_folder(tmp_path / "model", vocab="vocab.txt")
        table = write_hdf5(tmp_path / "table.hdf5", {"embedding": np.ones((8, 8), np.float32)})
        assert read(folder, token_embeddings=table).words["cat"] == 4


def test_write_removes_vocabulary_of_previous_model(tmp_path):
    with_words = random_model(vocabulary=Vocabulary(VOCABULARY))
    bilm_hdf5.write(with_words, tmp_path / "old")
    (tmp_path / "old" / "mine.txt").write_text("mine")
    assert read(tmp_path / "old").vocabulary is not None
    bilm_hdf5.write(random_model(seed=1), tmp_path / "old")
    assert read(tmp_path / "old").vocabulary is None
    names = sorted(path.name for path in (tmp_path / "old").iterdir())
    assert names == ["mine.txt", "options.json", "weights.hdf5"]


def test_write_does_not_change_biases_if_forget_bias_is_one(tmp_path):
    """The file format implies a forget bias of 1, so the biases need no adjustment."""
    config = dataclasses.replace(TINY, lstm=dataclasses.replace(TINY.lstm, forget_bias=1.0))
    model = random_model(config)
    name = "bilm.forward_lstm.layers.0.bias"
    bias = torch.full((64,), 1e-9)
    model = dataclasses.replace(model, weights={**model.weights, name: bias})
    bilm_hdf5.write(model, tmp_path / "old")
    assert torch.equal(read(tmp_path / "old").weights[name], bias)
