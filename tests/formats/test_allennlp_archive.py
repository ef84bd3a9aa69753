"""Tests for reading ELMo models from AllenNLP archives and state dicts."""

import json

import numpy as np
import pytest
import torch
from builders import (
    ELMO,
    GEOMETRIES,
    SENTENCES,
    archive_members,
    bilm_arrays,
    elmo_state,
    hdf5_folder,
    make_options,
    serialization_folder,
    tagger_state,
    torch_bytes,
    write_tar,
)
from sources import ARCHIVE, archive, assert_error

from elmo.embed.embedder import ELMo
from elmo.errors import FormatError
from elmo.formats.load import read

CHARACTER_EMBEDDING = f"{ELMO}_elmo_lstm._token_embedder._char_embedding_weights"
LAYER = f"{ELMO}_elmo_lstm._elmo_lstm.forward_layer_0"


def state_file(folder, state=None, name="best.th"):
    (folder / name).write_bytes(torch_bytes(tagger_state() if state is None else state))
    return folder / name


def options_file(folder, options):
    (folder / "options.json").write_text(json.dumps(options))
    return folder / "options.json"


class TestVectors:
    @pytest.mark.parametrize(
        "geometry", ["plain", "one layer", "three layers", "no highway", "tanh", "no clips"]
    )
    def test_encode_matches_same_model_loaded_from_hdf5(self, tmp_path, geometry):
        options = make_options(**GEOMETRIES[geometry])
        arrays = bilm_arrays(options)
        plain = ELMo.from_pretrained(hdf5_folder(tmp_path / "hdf5", options, arrays))
        path = state_file(tmp_path, elmo_state(arrays, options))
        elmo = ELMo.from_pretrained(path, options=options_file(tmp_path, options))
        assert elmo.notes == ()
        assert elmo.config.encoder == plain.config.encoder
        for actual, expected in zip(
            elmo.encode(SENTENCES, layers="all"),
            plain.encode(SENTENCES, layers="all"),
            strict=True,
        ):
            np.testing.assert_allclose(actual, expected, atol=1e-5)

    def test_golden_archive_loads_equally_from_file_archive_and_folder(self, golden_path):
        folder = golden_path("allennlp/simple_tagger_with_elmo/serialization")
        models = [ELMo.from_pretrained(folder / name) for name in ("best.th", "model.tar.gz", "")]
        assert {model.origin for model in models} == {ARCHIVE}
        first, *others = (model.to_pretrained() for model in models)
        for other in others:
            assert other.config == first.config
            for name, tensor in first.weights.items():
                assert torch.equal(other.weights[name], tensor), name
        assert first.weights["mixes.0.gamma"] != 1


class TestOptions:
    def test_read_without_options_notes_assumed_values(self, tmp_path):
        model = read(state_file(tmp_path))
        assert len(model.notes) == 1
        assert "cell clip 3, projection clip 3, activation relu" in model.notes[0]
        assert model.config.text.max_characters == 50
        assert model.config.lstm.forget_bias == 0.0
        assert model.config.lstm.residual

    @pytest.mark.parametrize("in_archive", [True, False])
    def test_read_with_options_adds_no_notes(self, tmp_path, in_archive):
        options = make_options(clip=1.5, activation="tanh")
        if in_archive:
            path = archive(options=options).make(tmp_path)["source"]
            model = read(path)
        else:
            model = read(state_file(tmp_path), options=options_file(tmp_path, options))
        assert model.notes == ()
        assert model.config.lstm.cell_clip == model.config.lstm.projection_clip == 1.5
        assert model.config.encoder.activation == "tanh"
        assert model.config.text.max_characters == 12

    def test_given_options_override_options_in_archive(self, tmp_path):
        path = archive(options=make_options(clip=1.5)).make(tmp_path)["source"]
        model = read(path, options=options_file(tmp_path, make_options(clip=2.5)))
        assert model.config.lstm.cell_clip == 2.5

    @pytest.mark.parametrize(
        ("change", "phrase"),
        [
            (
                {"dim": 32},
                "cell_dim is 16 according to the tensors but 32 according to the options",
            ),
            ({"projection": 4}, "projection_dim"),
            ({"layers": 1}, "n_layers"),
            ({"highway": 2}, "n_highway"),
            ({"filters": ((1, 4), (2, 8), (4, 8))}, "filters"),
            ({"skip": False}, "residual"),
            ({"characters": False}, "n_characters is 262 according to the tensors but 0"),
        ],
    )
    @pytest.mark.parametrize("in_archive", [True, False])
    def test_read_rejects_archive_with_options_of_another_model(
        self, tmp_path, change, phrase, in_archive
    ):
        options = make_options(**change)
        source = archive(options=options if in_archive else None).make(tmp_path)["source"]
        arguments = {} if in_archive else {"options": options_file(tmp_path, options)}
        assert_error(
            lambda: read(source, **arguments),
            phrase,
            "belong to another model",
            error_type=FormatError,
        )

    def test_read_rejects_invalid_options_in_archive(self, tmp_path):
        source = archive(options={"lstm": 3}).make(tmp_path)["source"]
        assert_error(lambda: read(source), "lstm is of type int", error_type=FormatError)


class TestMixes:
    @pytest.mark.parametrize("n_mixes", [0, 1, 2, 3])
    def test_read_returns_layer_mixes_from_archive(self, tmp_path, n_mixes):
        model = read(state_file(tmp_path, tagger_state(n_mixes=n_mixes)))
        assert model.config.mix.n_mixes == max(n_mixes, 1)
        for number in range(n_mixes):
            weights = model.weights[f"mixes.{number}.weights"].tolist()
            assert weights == [-number, 0.25 - number, 0.5 - number]
            assert model.weights[f"mixes.{number}.gamma"].tolist() == [1.5 + number]
        if not n_mixes:
            assert model.weights["mixes.0.weights"].tolist() == [0, 0, 0]

    def test_layer_mixes_are_sorted_by_number(self, tmp_path):
        state = {
            name.replace("scalar_mix_0", "scalar_mix_10").replace(
                "scalar_mix_1.", "scalar_mix_2."
            ): tensor
            for name, tensor in tagger_state(n_mixes=2).items()
        }
        model = read(state_file(tmp_path, state))
        gammas = [model.weights[f"mixes.{number}.gamma"].item() for number in range(2)]
        assert gammas == [2.5, 1.5]

    @pytest.mark.parametrize(
        ("name", "value", "phrases"),
        [
            ("gamma", None, ["gamma is missing", "incomplete layer mix"]),
            ("scalar_parameters.1", None, ["scalar_parameters.1 is missing"]),
            ("scalar_parameters.3", torch.ones(1), ["scalar_parameters.3", "3 layers"]),
            ("gamma", torch.ones(2), ["gamma has shape (2,)", "one value"]),
            ("scalar_parameters.0", torch.ones(0), ["shape (0,)"]),
            ("gamma", torch.ones(1, dtype=torch.int64), ["gamma", "int64"]),
            ("gamma", torch.tensor([float("nan")]), ["mixes.0.gamma", "NaN"]),
        ],
    )
    def test_read_rejects_invalid_layer_mix(self, tmp_path, name, value, phrases):
        state = tagger_state()
        if value is None:
            del state[f"{ELMO}scalar_mix_0.{name}"]
        else:
            state[f"{ELMO}scalar_mix_0.{name}"] = value
        path = state_file(tmp_path, state)
        assert_error(lambda: read(path), *phrases, error_type=FormatError)


class TestSurroundingModel:
    @pytest.mark.parametrize(
        "prefix", ["", "_elmo.", "text_field_embedder.token_embedder_tokens._elmo.", "module.x."]
    )
    def test_read_finds_elmo_under_any_parameter_prefix(self, tmp_path, prefix):
        model = read(state_file(tmp_path, tagger_state(prefix=prefix)))
        assert model.config.lstm.cell_dim == 16

    def test_read_ignores_tensors_outside_elmo_module(self, tmp_path):
        state = {
            **tagger_state(),
            "batch_norm.num_batches_tracked": torch.tensor(7),
            "mask": torch.ones(2, dtype=torch.bool),
            "broken": torch.tensor([float("nan")]),
            f"{ELMO}_dropout_of_a_later_version": torch.ones(1),
            f"{ELMO}_elmo_lstm._word_embedding.weight": torch.ones(5, 8),
            f"{ELMO}_elmo_lstm._bos_embedding": torch.ones(8),
        }
        assert read(state_file(tmp_path, state)).config == read(state_file(tmp_path)).config

    def test_read_rejects_state_dict_with_two_elmo_models(self, tmp_path):
        state = {**tagger_state(prefix="source.elmo."), **tagger_state(prefix="target.elmo.")}
        path = state_file(tmp_path, state)
        assert_error(
            lambda: read(path),
            "2 ELMo models",
            "source.elmo., target.elmo.",
            "Save the one you want",
            error_type=FormatError,
        )

    @pytest.mark.parametrize(
        ("config", "description"),
        [
            ({"model": {"type": "simple_tagger"}}, "'simple_tagger'"),
            (
                {"model": {"type": "lm", "contextualizer": {"type": "transformer"}}},
                "'lm' with a 'transformer' contextualizer",
            ),
            ({"model": {}}, "model of unknown type"),
            ({"model": "from_archive"}, "model of unknown type"),
            ({}, "model of unknown type"),
            ([], "model of unknown type"),
        ],
    )
    def test_read_rejects_allennlp_model_without_elmo(self, tmp_path, config, description):
        members = archive_members({"encoder.weight": torch.ones(2)})
        members["config.json"] = json.dumps(config).encode()
        path = write_tar(tmp_path / "model.tar.gz", members)
        assert_error(lambda: read(path), description, "not an ELMo", error_type=FormatError)

    def test_read_rejects_empty_state_dict(self, tmp_path):
        path = state_file(tmp_path, {})
        assert_error(lambda: read(path), "not an ELMo", error_type=FormatError)

    def test_read_rejects_archive_without_weights(self, tmp_path):
        path = write_tar(tmp_path / "backup.tar.gz", {"photo.jpg": b"x"})
        assert_error(
            lambda: read(path),
            "neither weights.th nor best.th",
            "photo.jpg",
            error_type=FormatError,
        )

    @pytest.mark.parametrize("content", [b"{", b"\xff"])
    def test_read_rejects_archive_config_that_is_not_json(self, tmp_path, content):
        members = {**archive_members(), "config.json": content}
        path = write_tar(tmp_path / "model.tar.gz", members)
        assert_error(lambda: read(path), "config.json is not valid JSON", error_type=FormatError)

    def test_read_accepts_archive_without_config(self, tmp_path):
        members = archive_members()
        del members["config.json"]
        assert read(write_tar(tmp_path / "model.tar.gz", members)).origin == ARCHIVE

    def test_read_accepts_archive_member_names_starting_with_dot(self, tmp_path):
        members = {f"./{name}": content for name, content in archive_members().items()}
        assert read(write_tar(tmp_path / "model.tar.gz", members)).origin == ARCHIVE

    def test_read_prefers_weights_th_over_best_th(self, tmp_path):
        folder = serialization_folder(tmp_path / "run")
        (folder / "weights.th").write_bytes((folder / "best.th").read_bytes())
        (folder / "best.th").write_bytes(b"broken")
        assert read(folder).origin == ARCHIVE


class TestIncompleteWeights:
    @pytest.mark.parametrize(
        ("name", "value", "phrases"),
        [
            (f"{LAYER}.state_projection.weight", None, ["incomplete", "state_projection"]),
            (f"{LAYER}.input_linearity.weight", None, ["input_linearity.weight is missing"]),
            (f"{LAYER}.state_linearity.bias", torch.ones(63), ["has shape (63,)"]),
            (f"{LAYER}.state_projection.weight", torch.ones(8), ["incomplete"]),
            (f"{LAYER}.extra", torch.ones(8), ["unexpected array", "forward_layer_0.extra"]),
            (CHARACTER_EMBEDDING, torch.ones(100, 4), ["100 rows", "expected 262"]),
            (CHARACTER_EMBEDDING, torch.ones(262), ["incomplete"]),
            (CHARACTER_EMBEDDING, torch.ones(262, 5), ["has shape", "(4, 4, 1)"]),
            (CHARACTER_EMBEDDING, torch.full((262, 4), float("inf")), ["NaN or infinite"]),
            (CHARACTER_EMBEDDING, torch.ones(262, 4, dtype=torch.int32), ["int32"]),
            (CHARACTER_EMBEDDING, torch.ones(262, 4).to_sparse(), ["sparse"]),
            (
                f"{ELMO}_elmo_lstm._token_embedder.char_conv_2.weight",
                torch.ones(8, 4, 60),
                ["width 60", "50 characters"],
            ),
            (
                f"{ELMO}_elmo_lstm._token_embedder.char_conv_0.weight",
                None,
                ["needs at least one filter"],
            ),
        ],
    )
    def test_read_rejects_archive_with_invalid_tensor(self, tmp_path, name, value, phrases):
        state = tagger_state()
        if value is None:
            del state[name]
        else:
            state[name] = value
        path = state_file(tmp_path, state)
        assert_error(lambda: read(path), *phrases, error_type=FormatError)

    def test_read_rejects_archive_without_backward_layer(self, tmp_path):
        state = {
            name: tensor
            for name, tensor in tagger_state().items()
            if "backward_layer_1" not in name
        }
        path = state_file(tmp_path, state)
        assert_error(lambda: read(path), "backward_layer_1", "missing", error_type=FormatError)

    def test_read_rejects_projection_equal_to_cell_dim(self, tmp_path):
        """AllenNLP stores such a projection matrix, but `ELMoNetwork` has no weight for it."""
        options = make_options(dim=8)
        arrays = bilm_arrays(options)
        for name in list(arrays):
            if name.endswith("/B"):
                arrays[name.replace("/B", "/W_P_0")] = np.eye(8, dtype=np.float32)
        path = state_file(tmp_path, elmo_state(arrays, options))
        assert_error(lambda: read(path), "do not match", "weight_hr", error_type=FormatError)


@pytest.mark.parametrize("layer_norm", [True, False])
def test_layer_norm_is_read_from_experiment_config(tmp_path, layer_norm):
    embedder = {"type": "elmo_token_embedder", "do_layer_norm": layer_norm}
    config = {"model": {"parts": [{"token_embedders": {"elmo": embedder}}]}}
    members = {**archive_members(), "config.json": json.dumps(config).encode()}
    model = read(write_tar(tmp_path / "model.tar.gz", members))
    assert model.config.mix.layer_norm == ("allennlp" if layer_norm else "none")
