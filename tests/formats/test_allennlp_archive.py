"""Tests of ELMos inside AllenNLP's models: found, measured, with their mixes, or refused."""

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
from sources import ARCHIVE, archive, refused

from elmo.embed.embedder import ELMo
from elmo.errors import FormatError
from elmo.formats.load import read

TABLE = f"{ELMO}_elmo_lstm._token_embedder._char_embedding_weights"
LAYER = f"{ELMO}_elmo_lstm._elmo_lstm.forward_layer_0"


def state_file(folder, state=None, name="best.th"):
    (folder / name).write_bytes(torch_bytes(tagger_state() if state is None else state))
    return folder / name


def options_file(folder, options):
    (folder / "options.json").write_text(json.dumps(options))
    return folder / "options.json"


class TestTheRightNumbers:
    @pytest.mark.parametrize(
        "geometry", ["plain", "one layer", "three layers", "no highway", "tanh", "no clips"]
    )
    def test_it_is_the_model_of_the_weight_file(self, tmp_path, geometry):
        options = make_options(**GEOMETRIES[geometry])
        arrays = bilm_arrays(options)
        plain = ELMo.from_pretrained(hdf5_folder(tmp_path / "hdf5", options, arrays))
        path = state_file(tmp_path, elmo_state(arrays, options))
        elmo = ELMo.from_pretrained(path, options=options_file(tmp_path, options))
        assert elmo.notes == ()
        assert elmo.config.encoder == plain.config.encoder
        for found, expected in zip(
            elmo.encode(SENTENCES, layers="all"),
            plain.encode(SENTENCES, layers="all"),
            strict=True,
        ):
            np.testing.assert_allclose(found, expected, atol=1e-5)

    def test_golden_archive(self, golden_path):
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
    def test_without_them_what_is_assumed_is_said(self, tmp_path):
        model = read(state_file(tmp_path))
        assert len(model.notes) == 1
        assert "clips 3 and 3, relu" in model.notes[0]
        assert model.config.text.max_characters == 50
        assert model.config.lstm.forget_bias == 0.0
        assert model.config.lstm.residual

    @pytest.mark.parametrize("inside", [True, False])
    def test_with_them_nothing_is_assumed(self, tmp_path, inside):
        options = make_options(clip=1.5, activation="tanh")
        if inside:
            path = archive(options=options).make(tmp_path)["source"]
            model = read(path)
        else:
            model = read(state_file(tmp_path), options=options_file(tmp_path, options))
        assert model.notes == ()
        assert model.config.lstm.cell_clip == model.config.lstm.projection_clip == 1.5
        assert model.config.encoder.activation == "tanh"
        assert model.config.text.max_characters == 12

    def test_those_given_come_before_those_inside(self, tmp_path):
        path = archive(options=make_options(clip=1.5)).make(tmp_path)["source"]
        model = read(path, options=options_file(tmp_path, make_options(clip=2.5)))
        assert model.config.lstm.cell_clip == 2.5

    @pytest.mark.parametrize(
        ("change", "word"),
        [
            ({"dim": 32}, "cell_dim is 16 by its tensors and 32 by the options"),
            ({"projection": 4}, "projection_dim"),
            ({"layers": 1}, "n_layers"),
            ({"highway": 2}, "n_highway"),
            ({"filters": ((1, 4), (2, 8), (4, 8))}, "filters"),
            ({"skip": False}, "residual"),
            ({"characters": False}, "n_characters is 262 by its tensors and 0"),
        ],
    )
    @pytest.mark.parametrize("inside", [True, False])
    def test_those_of_another_model(self, tmp_path, change, word, inside):
        options = make_options(**change)
        source = archive(options=options if inside else None).make(tmp_path)["source"]
        arguments = {} if inside else {"options": options_file(tmp_path, options)}
        refused(
            lambda: read(source, **arguments), word, "belong to another model", kind=FormatError
        )

    def test_those_that_are_none(self, tmp_path):
        source = archive(options={"lstm": 3}).make(tmp_path)["source"]
        refused(lambda: read(source), "lstm is int", kind=FormatError)


class TestMixes:
    @pytest.mark.parametrize("n_mixes", [0, 1, 2, 3])
    def test_they_come_with_the_model(self, tmp_path, n_mixes):
        model = read(state_file(tmp_path, tagger_state(n_mixes=n_mixes)))
        assert model.config.mix.n_mixes == max(n_mixes, 1)
        for number in range(n_mixes):
            weights = model.weights[f"mixes.{number}.weights"].tolist()
            assert weights == [-number, 0.25 - number, 0.5 - number]
            assert model.weights[f"mixes.{number}.gamma"].tolist() == [1.5 + number]
        if not n_mixes:
            assert model.weights["mixes.0.weights"].tolist() == [0, 0, 0]

    def test_numbers_with_gaps_and_past_nine_keep_their_order(self, tmp_path):
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
        ("name", "value", "words"),
        [
            ("gamma", None, ["gamma is missing", "not whole"]),
            ("scalar_parameters.1", None, ["scalar_parameters.1 is missing"]),
            ("scalar_parameters.3", torch.ones(1), ["scalar_parameters.3", "3 layers"]),
            ("gamma", torch.ones(2), ["gamma has shape (2,)", "one number"]),
            ("scalar_parameters.0", torch.ones(0), ["shape (0,)"]),
            ("gamma", torch.ones(1, dtype=torch.int64), ["gamma", "int64"]),
            ("gamma", torch.tensor([float("nan")]), ["mixes.0.gamma", "NaN"]),
        ],
    )
    def test_a_mix_that_is_not_whole(self, tmp_path, name, value, words):
        state = tagger_state()
        if value is None:
            del state[f"{ELMO}scalar_mix_0.{name}"]
        else:
            state[f"{ELMO}scalar_mix_0.{name}"] = value
        path = state_file(tmp_path, state)
        refused(lambda: read(path), *words, kind=FormatError)


class TestTheModelAround:
    @pytest.mark.parametrize(
        "prefix", ["", "_elmo.", "text_field_embedder.token_embedder_tokens._elmo.", "module.x."]
    )
    def test_the_elmo_is_found_below_any_name(self, tmp_path, prefix):
        model = read(state_file(tmp_path, tagger_state(prefix=prefix)))
        assert model.config.lstm.cell_dim == 16

    def test_tensors_of_other_parts_may_be_anything(self, tmp_path):
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

    def test_two_elmos(self, tmp_path):
        state = {**tagger_state(prefix="source.elmo."), **tagger_state(prefix="target.elmo.")}
        path = state_file(tmp_path, state)
        refused(
            lambda: read(path),
            "2 ELMos",
            "source.elmo., target.elmo.",
            "save the one you want",
            kind=FormatError,
        )

    @pytest.mark.parametrize(
        ("config", "kind"),
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
    def test_a_model_without_an_elmo(self, tmp_path, config, kind):
        members = archive_members({"encoder.weight": torch.ones(2)})
        members["config.json"] = json.dumps(config).encode()
        path = write_tar(tmp_path / "model.tar.gz", members)
        refused(lambda: read(path), kind, "not an ELMo", kind=FormatError)

    def test_an_empty_state(self, tmp_path):
        path = state_file(tmp_path, {})
        refused(lambda: read(path), "not an ELMo", kind=FormatError)

    def test_an_archive_of_something_else(self, tmp_path):
        path = write_tar(tmp_path / "backup.tar.gz", {"photo.jpg": b"x"})
        refused(lambda: read(path), "no weights.th", "photo.jpg", kind=FormatError)

    @pytest.mark.parametrize("content", [b"{", b"\xff"])
    def test_a_config_that_is_no_json(self, tmp_path, content):
        members = {**archive_members(), "config.json": content}
        path = write_tar(tmp_path / "model.tar.gz", members)
        refused(lambda: read(path), "config.json is not JSON", kind=FormatError)

    def test_a_config_may_be_missing(self, tmp_path):
        members = archive_members()
        del members["config.json"]
        assert read(write_tar(tmp_path / "model.tar.gz", members)).origin == ARCHIVE

    def test_names_with_a_dot_in_front(self, tmp_path):
        members = {f"./{name}": content for name, content in archive_members().items()}
        assert read(write_tar(tmp_path / "model.tar.gz", members)).origin == ARCHIVE

    def test_the_best_weights_of_a_run_come_before_the_last(self, tmp_path):
        folder = serialization_folder(tmp_path / "run")
        (folder / "weights.th").write_bytes((folder / "best.th").read_bytes())
        (folder / "best.th").write_bytes(b"broken")
        assert read(folder).origin == ARCHIVE


class TestNotWhole:
    @pytest.mark.parametrize(
        ("name", "value", "words"),
        [
            (f"{LAYER}.state_projection.weight", None, ["not whole", "state_projection"]),
            (f"{LAYER}.input_linearity.weight", None, ["input_linearity.weight is missing"]),
            (f"{LAYER}.state_linearity.bias", torch.ones(63), ["has shape (63,)"]),
            (f"{LAYER}.state_projection.weight", torch.ones(8), ["not whole"]),
            (f"{LAYER}.what", torch.ones(8), ["what is not expected"]),
            (TABLE, torch.ones(100, 4), ["100 rows", "expected 262"]),
            (TABLE, torch.ones(262), ["not whole"]),
            (TABLE, torch.ones(262, 5), ["has shape", "(4, 4, 1)"]),
            (TABLE, torch.full((262, 4), float("inf")), ["NaN or infinite"]),
            (TABLE, torch.ones(262, 4, dtype=torch.int32), ["int32"]),
            (TABLE, torch.ones(262, 4).to_sparse(), ["sparse"]),
            (
                f"{ELMO}_elmo_lstm._token_embedder.char_conv_2.weight",
                torch.ones(8, 4, 60),
                ["60 wide", "50 characters"],
            ),
            (
                f"{ELMO}_elmo_lstm._token_embedder.char_conv_0.weight",
                None,
                ["needs at least one filter"],
            ),
        ],
    )
    def test_a_tensor_that_is_not_as_it_should_be(self, tmp_path, name, value, words):
        state = tagger_state()
        if value is None:
            del state[name]
        else:
            state[name] = value
        path = state_file(tmp_path, state)
        refused(lambda: read(path), *words, kind=FormatError)

    def test_layers_of_one_direction_only(self, tmp_path):
        state = {
            name: tensor
            for name, tensor in tagger_state().items()
            if "backward_layer_1" not in name
        }
        path = state_file(tmp_path, state)
        refused(lambda: read(path), "backward_layer_1", "missing", kind=FormatError)

    def test_a_projection_as_wide_as_the_cell_is_refused(self, tmp_path):
        """AllenNLP has such a matrix, our network cannot hold it."""
        options = make_options(dim=8)
        arrays = bilm_arrays(options)
        for name in list(arrays):
            if name.endswith("/B"):
                arrays[name.replace("/B", "/W_P_0")] = np.eye(8, dtype=np.float32)
        path = state_file(tmp_path, elmo_state(arrays, options))
        refused(lambda: read(path), "do not fit", "weight_hr", kind=FormatError)


@pytest.mark.parametrize("trained_with", [True, False])
def test_layer_norm_is_read_from_the_experiment(tmp_path, trained_with):
    embedder = {"type": "elmo_token_embedder", "do_layer_norm": trained_with}
    config = {"model": {"parts": [{"token_embedders": {"elmo": embedder}}]}}
    members = {**archive_members(), "config.json": json.dumps(config).encode()}
    model = read(write_tar(tmp_path / "model.tar.gz", members))
    assert model.config.mix.layer_norm == ("allennlp" if trained_with else "none")
