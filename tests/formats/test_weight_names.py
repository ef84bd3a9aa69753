"""Tests for the weight conversion tables: exact inverses, completeness, correct layout."""

import numpy as np
import pytest
import torch
from builders import (
    GEOMETRIES,
    VOCABULARY,
    bilm_arrays,
    elmo_state,
    make_architecture,
    make_options,
    many_langs_state,
    read_hdf5,
)
from sources import assert_error

from elmo.config import EncoderConfig, LSTMConfig, ModelConfig, TextConfig
from elmo.errors import FormatError
from elmo.formats import weight_names
from elmo.formats.bilm_options import config_from_options
from elmo.formats.pretrained import expected_shapes


def config_of(geometry, words=False):
    options = make_options(characters=not words, **GEOMETRIES[geometry])
    return config_from_options(options, "options", len(VOCABULARY) * words)[0]


def dictionary_config(word_dim=6, n_characters=16):
    characters = "dictionary" if n_characters else "none"
    filters = ((1, 4), (2, 8)) if n_characters else ()
    return ModelConfig(
        TextConfig(characters=characters, max_characters=12),
        EncoderConfig(
            n_characters=n_characters and n_characters + 1,
            character_dim=5,
            filters=filters,
            n_highway=1,
            n_words=8 if word_dim else 0,
            word_dim=word_dim,
        ),
        LSTMConfig(cell_dim=16, projection_dim=8, forget_bias=0.0),
    )


TABLES = {
    **{f"hdf5, {name}": (weight_names.bilm_hdf5, config_of(name)) for name in GEOMETRIES},
    "hdf5, word ids": (weight_names.bilm_hdf5, config_of("plain", words=True)),
    "archive": (weight_names.allennlp_modules, config_of("plain")),
    "archive, one layer": (weight_names.allennlp_modules, config_of("one layer")),
    "archive, no highway": (weight_names.allennlp_modules, config_of("no highway")),
    "many langs": (weight_names.many_langs, dictionary_config()),
    "many langs, no words": (weight_names.many_langs, dictionary_config(word_dim=0)),
    "many langs, no characters": (weight_names.many_langs, dictionary_config(n_characters=0)),
}


def random_bits(table, seed=0):
    """Return float arrays with random finite bit patterns, including subnormals and -0.0."""
    rng = np.random.default_rng(seed)
    arrays = {}
    for rule in table:
        for name, shape in rule.foreign.items():
            bits = rng.integers(0, 2**32, shape, dtype=np.uint32) & 0xBF7FFFFF
            arrays[name] = bits.view(np.float32)
    return arrays


@pytest.mark.parametrize("name", TABLES)
class TestTables:
    def test_export_weights_inverts_import_weights_exactly(self, name):
        make, config = TABLES[name]
        arrays = random_bits(make(config))
        exported = weight_names.export_weights(
            make(config), weight_names.import_weights(make(config), arrays, "file")
        )
        assert list(exported) == list(arrays)
        for key, array in arrays.items():
            assert exported[key].shape == array.shape
            assert exported[key].tobytes() == array.tobytes(), key

    def test_conversion_table_covers_every_tensor_once(self, name):
        make, config = TABLES[name]
        table = make(config)
        weights = weight_names.import_weights(table, random_bits(table), "file")
        expected = {
            key: shape for key, shape in expected_shapes(config).items() if key.startswith("bilm.")
        }
        assert {key: tuple(tensor.shape) for key, tensor in weights.items()} == expected
        assert sum(len(rule.names) for rule in table) == len(weights)
        assert all(tensor.is_contiguous() for tensor in weights.values())

    def test_imported_tensors_do_not_share_memory(self, name):
        make, config = TABLES[name]
        weights = weight_names.import_weights(make(config), random_bits(make(config)), "file")
        assert len({tensor.untyped_storage().data_ptr() for tensor in weights.values()}) == len(
            weights
        )

    @pytest.mark.parametrize("change", ["missing", "unknown", "shape", "rank"])
    def test_import_weights_rejects_wrong_names_and_shapes(self, name, change):
        make, config = TABLES[name]
        arrays = random_bits(make(config))
        target = list(arrays)[len(arrays) // 2]
        phrases = [target]
        if change == "missing":
            del arrays[target]
            phrases += ["is missing", f"1 of {len(arrays) + 1}"]
        elif change == "unknown":
            arrays["extra/array"] = np.zeros(3, np.float32)
            phrases = ["unexpected array extra/array"]
        elif change == "shape":
            shape = arrays[target].shape
            arrays[target] = np.zeros((*shape[:-1], shape[-1] + 1), np.float32)
            phrases += [f"{arrays[target].shape}, but the options imply {shape}"]
        else:
            arrays[target] = np.float32(1)
            phrases += ["has shape ()"]
        assert_error(
            lambda: weight_names.import_weights(make(config), arrays, "file"),
            "file",
            *phrases,
            error_type=FormatError,
        )


@pytest.mark.parametrize("geometry", ["plain", "one layer", "no highway", "two highways"])
def test_archive_and_hdf5_of_same_model_give_equal_weights(geometry):
    """`elmo_state` implements AllenNLP's conversion independently of the package."""
    options = make_options(**GEOMETRIES[geometry])
    arrays = bilm_arrays(options)
    config = config_from_options(options, "options")[0]
    from_hdf5 = weight_names.import_weights(weight_names.bilm_hdf5(config), arrays, "file")
    state = elmo_state(arrays, options, prefix="", n_mixes=0)
    from_archive = weight_names.import_weights(
        weight_names.allennlp_modules(config), {k: v.numpy() for k, v in state.items()}, "state"
    )
    assert from_hdf5.keys() == from_archive.keys()
    for name, tensor in from_hdf5.items():
        if "_lstm." in name and name.endswith(".bias"):
            i, f, g, o = tensor.chunk(4)
            tensor = torch.cat([i, f + 1, g, o])
        assert torch.equal(from_archive[name], tensor), name


def test_golden_archive_and_hdf5_give_equal_weights(golden_path):
    """`elmo_state` converts a golden weight file exactly as AllenNLP did."""
    arrays = read_hdf5(golden_path("allennlp/elmo/lm_weights.hdf5"))
    options = {
        "lstm": {"dim": 64, "projection_dim": 16, "n_layers": 2},
        "char_cnn": {"filters": [[1, 4], [2, 8], [3, 16], [4, 32], [5, 64]], "n_highway": 2},
    }
    expected = elmo_state(arrays, options, n_mixes=0)
    path = golden_path("allennlp/simple_tagger_with_elmo/serialization/best.th")
    state = torch.load(path, map_location="cpu", weights_only=True)
    assert len(expected) == 33
    for name, tensor in expected.items():
        assert torch.equal(state[name], tensor), name


def test_mask_row_of_imported_embeddings_is_zero():
    state = many_langs_state(make_architecture(), 7, 16)
    arrays = {
        f"{part}.{name}": tensor.numpy()
        for part, tensors in state.items()
        for name, tensor in tensors.items()
    }
    weights = weight_names.import_weights(
        weight_names.many_langs(dictionary_config()), arrays, "folder"
    )
    for name, foreign_name in (
        ("bilm.encoder.words.weight", "token_embedder.word_emb_layer.embedding.weight"),
        (
            "bilm.encoder.characters.embedding.weight",
            "token_embedder.char_emb_layer.embedding.weight",
        ),
    ):
        assert not weights[name][0].any()
        np.testing.assert_array_equal(weights[name][1:].numpy(), arrays[foreign_name])
