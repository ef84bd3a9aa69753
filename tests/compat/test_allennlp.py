"""Tests of the AllenNLP classes: state, caches, shapes and state dicts, without golden files."""

import copy
import dataclasses
import shutil

import h5py
import numpy as np
import pytest
import torch
from conftest import ALLENNLP, random_model

from elmo.compat.allennlp import Elmo, ElmoEmbedder, ScalarMix, batch_to_ids
from elmo.config import ModelConfig
from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError, FormatError, InputError, OutputError
from elmo.formats import bilm_hdf5
from elmo.formats.model_cache import RECORD, model_folder_of
from elmo.formats.published_models import MODELS

BATCH = [["The", "bank", "."], ["A"], []]


def test_batch_to_ids_pads_and_reads_boundary_tokens():
    ids = batch_to_ids([["a", "<S>"], []])
    assert ids.shape == (2, 2, 50)
    assert ids[0, 0, :3].tolist() == [259, 98, 260]
    assert ids[0, 1, :3].tolist() == [259, 257, 260]
    assert not ids[1].any()
    assert batch_to_ids([[]]).shape == (1, 0, 50)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ("He sat", r"batch_to_ids expects .*'He sat'\). Split it"),
        ("He", r"batch_to_ids expects .*'He'\). Split it"),
        (["He sat", "on"], r"batch_to_ids expects .*'He sat'\). Split it"),
        ([["He"], "sat"], r"batch_to_ids expects .*'sat'\). Split it"),
        (["He", "sat"], r"starts with 'He'\). Add another pair .* batch_to_ids\(\[words\]\)"),
        ([[["He"]]], r"Words must be strings \(got \['He'\] of type list"),
        ([[1]], r"Words must be strings \(got 1 of type int"),
    ],
)
def test_batch_to_ids_rejects_sentences_that_are_not_lists_of_words(batch, message):
    with pytest.raises(InputError, match=message):
        batch_to_ids(batch)


@pytest.mark.parametrize(
    ("function", "argument", "remedy"),
    [
        ("embed_sentence", "He sat", "Split it"),
        ("embed_batch", ["He sat"], "Split it"),
        ("embed_batch", ["He", "sat"], "Add another pair of brackets"),
        ("embed_sentences", ["He sat"], "Split it"),
        ("embed_sentences", "He sat", "Split it"),
    ],
)
def test_embedder_names_the_called_function_in_errors_about_strings(
    allennlp_files, function, argument, remedy
):
    embedder = ElmoEmbedder(*allennlp_files)
    with pytest.raises(InputError, match=rf"^{function} expects .*{remedy}"):
        list(getattr(embedder, function)(argument))


def test_swapped_options_and_weights_are_reported(allennlp_files):
    options, weights = allennlp_files
    message = "is an HDF5 file of weights, expected options.json. Are the options and the weights"
    with pytest.raises(FormatError, match=message):
        Elmo(weights, options, num_output_representations=1)
    with pytest.raises(FormatError, match=message):
        ELMo.from_pretrained(options=weights, weights=options)


def test_first_call_equals_elmo(allennlp_files):
    elmo = Elmo(*allennlp_files, num_output_representations=1, dropout=0.0)
    reference = ELMo.from_pretrained(options=allennlp_files[0], weights=allennlp_files[1])
    output = elmo(batch_to_ids(BATCH))
    expected = reference(reference.character_ids(BATCH))
    torch.testing.assert_close(
        output["elmo_representations"][0], expected.representations[0], rtol=0, atol=1e-5
    )
    assert torch.equal(output["mask"], expected.mask)
    assert elmo.get_output_dim() == 16


def test_state_is_carried_until_reset(allennlp_files):
    elmo = Elmo(*allennlp_files, num_output_representations=1, dropout=0.0)
    ids = batch_to_ids(BATCH)
    first, second = (elmo(ids)["elmo_representations"][0] for _ in range(2))
    assert (first - second).abs().max() > 1e-4
    assert elmo._elmo_lstm._elmo_lstm._states[0].shape == (2, 3, 16)
    elmo._elmo_lstm._elmo_lstm.reset_states()
    assert elmo._elmo_lstm._elmo_lstm._states is None
    torch.testing.assert_close(elmo(ids)["elmo_representations"][0], first)


def test_state_table_grows_and_keeps_further_rows(allennlp_files):
    elmo = Elmo(*allennlp_files, num_output_representations=1, dropout=0.0)
    states = []
    for size in (1, 3, 2):
        elmo(batch_to_ids([["x", "y"]] * size))
        states.append(elmo._elmo_lstm._elmo_lstm._states[0])
    assert [state.shape[1] for state in states] == [1, 3, 3]
    assert torch.equal(states[2][:, 2], states[1][:, 2])
    assert not torch.equal(states[2][:, 0], states[1][:, 0])


def test_forward_accepts_more_than_three_dimensions(allennlp_files):
    elmo = Elmo(*allennlp_files, num_output_representations=2, dropout=0.0)
    ids = batch_to_ids([["a", "b"], ["c"], ["d"], []]).view(2, 2, 2, 50)
    output = elmo(ids)
    assert output["elmo_representations"][1].shape == (2, 2, 2, 16)
    assert output["mask"].shape == (2, 2, 2)
    kept = Elmo(*allennlp_files, num_output_representations=1, keep_sentence_boundaries=True)
    assert kept(ids)["elmo_representations"][0].shape == (2, 2, 4, 16)


def test_only_mixes_are_trained_unless_requires_grad(allennlp_files):
    elmo = Elmo(*allennlp_files, num_output_representations=1)
    names = {name for name, value in elmo.named_parameters() if value.requires_grad}
    assert names == {
        "scalar_mix_0.gamma",
        *(f"scalar_mix_0.scalar_parameters.{number}" for number in range(3)),
    }
    elmo.train()
    assert (elmo(batch_to_ids([["a"] * 30]))["elmo_representations"][0] == 0).any()
    tuned = Elmo(*allennlp_files, num_output_representations=1, requires_grad=True)
    tuned(batch_to_ids(BATCH))["elmo_representations"][0].sum().backward()
    assert all(value.grad is not None for value in tuned.parameters())


def test_cached_vocabulary_gives_same_vectors(allennlp_files):
    words = ["@@PADDING@@", "The", "bank", ".", "A"]
    plain = Elmo(*allennlp_files, num_output_representations=1, dropout=0.0)
    cached = Elmo(*allennlp_files, num_output_representations=1, dropout=0.0, vocab_to_cache=words)
    batch = [["The", "bank", "."], ["A"]]
    word_ids = torch.tensor([[1, 2, 3], [4, 0, 0]])
    nothing = torch.zeros(2, 3, 50, dtype=torch.long)
    expected = plain(batch_to_ids(batch))
    output = cached(nothing, word_ids)
    torch.testing.assert_close(
        output["elmo_representations"][0], expected["elmo_representations"][0], rtol=0, atol=1e-5
    )
    assert torch.equal(output["mask"], expected["mask"])
    # If an id is outside the vocabulary, the whole batch is computed from characters.
    cached._elmo_lstm._elmo_lstm.reset_states()
    outside = cached(batch_to_ids(batch), word_ids + 2)
    torch.testing.assert_close(
        outside["elmo_representations"][0], expected["elmo_representations"][0], rtol=0, atol=1e-5
    )
    with pytest.raises(InputError, match="outside the cached vocabulary"):
        cached._elmo_lstm(None, word_ids + 2)


def test_state_dict_has_names_of_allennlp(allennlp_files):
    elmo = Elmo(*allennlp_files, num_output_representations=2)
    state = elmo.state_dict()
    assert "_elmo_lstm._token_embedder._char_embedding_weights" in state
    assert "_elmo_lstm._elmo_lstm.backward_layer_1.state_projection.weight" in state
    assert "scalar_mix_1.scalar_parameters.2" in state
    assert not [name for name in state if "bilm" in name]
    changed = {name: value + 1 for name, value in state.items()}
    other = Elmo(*allennlp_files, num_output_representations=2)
    other.load_state_dict(changed)
    for name, value in other.state_dict().items():
        torch.testing.assert_close(value, changed[name])
    # Inside another module the names have a prefix.
    outer = torch.nn.ModuleDict({"embedder": other})
    outer.load_state_dict(outer.state_dict())
    part = {name: value for name, value in state.items() if "conv_0" not in name}
    with pytest.raises(RuntimeError, match="Missing key"):
        elmo.load_state_dict(part)
    elmo.load_state_dict(part, strict=False)
    with pytest.raises(RuntimeError, match="Unexpected key"):
        elmo.load_state_dict({**state, "_elmo_lstm._elmo_lstm.odd": torch.zeros(1)})


def test_parameters_are_tensors_of_state_dict_in_same_order(allennlp_files):
    outer = torch.nn.ModuleDict({"embedder": Elmo(*allennlp_files, num_output_representations=2)})
    outer.load_state_dict(outer.state_dict(), assign=True)
    parameters, state = dict(outer.named_parameters()), outer.state_dict()
    assert [*parameters] == [*state]
    for name, value in parameters.items():
        assert value.data_ptr() == state[name].data_ptr()
    # The saved state of an optimizer depends on the order of the parameters.
    layers = [name.split(".")[3] for name in state if name.endswith("input_linearity.weight")]
    assert layers == [
        f"{direction}_layer_{depth}" for depth in range(2) for direction in ("forward", "backward")
    ]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_outputs_and_state_dict_have_dtype_of_module(allennlp_files, dtype):
    words = ["@@PADDING@@", "The", "bank"]
    elmo = Elmo(
        *allennlp_files, num_output_representations=1, dropout=0.0, vocab_to_cache=words
    ).to(dtype)
    assert {value.dtype for value in elmo.state_dict().values()} == {dtype}
    nothing = torch.zeros(1, 2, 50, dtype=torch.long)
    cached = elmo(nothing, torch.tensor([[1, 2]]))["elmo_representations"][0]
    elmo._elmo_lstm._elmo_lstm.reset_states()
    computed = elmo(batch_to_ids([words[1:]]))["elmo_representations"][0]
    assert cached.dtype == computed.dtype == dtype
    torch.testing.assert_close(cached, computed, rtol=0, atol=2e-2)


def test_copied_and_saved_modules_are_independent(allennlp_files, tmp_path):
    elmo = Elmo(*allennlp_files, num_output_representations=1, dropout=0.0)
    torch.save(elmo, tmp_path / "module.pt")
    ids = batch_to_ids(BATCH)
    for other in (copy.deepcopy(elmo), torch.load(tmp_path / "module.pt", weights_only=False)):
        torch.testing.assert_close(
            other(ids)["elmo_representations"][0], elmo(ids)["elmo_representations"][0]
        )
        elmo._elmo_lstm._elmo_lstm.reset_states()
        with torch.no_grad():
            for value in other.parameters():
                value.zero_()
        assert not other(ids)["elmo_representations"][0].any()


@pytest.mark.parametrize("change", [{"projection_dim": 16}, {"cell_dim": 8}])
def test_models_without_projections_are_supported(tmp_path, change):
    """AllenNLP itself cannot load models without these parameters."""
    lstm = dataclasses.replace(ALLENNLP.lstm, **change)
    encoder = ALLENNLP.encoder
    if lstm.projection_dim == 16:
        encoder = dataclasses.replace(encoder, filters=((1, 8), (2, 8)), project=False)
    config = ModelConfig(ALLENNLP.text, encoder, lstm)
    bilm_hdf5.write(random_model(config), tmp_path / "model")
    files = tmp_path / "model" / "options.json", tmp_path / "model" / "weights.hdf5"
    elmo = Elmo(*files, num_output_representations=1, dropout=0.0)
    reference = ELMo.from_pretrained(options=files[0], weights=files[1])
    torch.testing.assert_close(
        elmo(batch_to_ids(BATCH))["elmo_representations"][0],
        reference(reference.character_ids(BATCH)).representations[0],
        rtol=0,
        atol=1e-5,
    )
    elmo.load_state_dict(elmo.state_dict())


def test_load_state_dict_ignores_cached_vocabulary(allennlp_files):
    elmo = Elmo(*allennlp_files, num_output_representations=1)
    state = elmo.state_dict()
    elmo.load_state_dict({**state, "_elmo_lstm._word_embedding.weight": torch.zeros(3, 8)})


def test_two_training_steps_and_disabled_state(allennlp_files):
    elmo = Elmo(*allennlp_files, num_output_representations=1, requires_grad=True, dropout=0.0)
    ids = batch_to_ids(BATCH)
    for _ in range(2):  # the carried state must be detached from the graph of the last step
        elmo(ids)["elmo_representations"][0].sum().backward()
    elmo._elmo_lstm._elmo_lstm.stateful = False
    first, second = (elmo(ids)["elmo_representations"][0] for _ in range(2))
    assert torch.equal(first, second)


def test_module_can_be_shared_but_not_combined_with_files(allennlp_files):
    first = Elmo(*allennlp_files, num_output_representations=1)
    second = Elmo(module=first._elmo_lstm, num_output_representations=1)
    assert second._elmo_lstm is first._elmo_lstm
    assert copy.deepcopy(first).get_output_dim() == 16
    with pytest.raises(ConfigError, match="or module, not both"):
        Elmo(*allennlp_files, module=first._elmo_lstm)
    for arguments in ((), (allennlp_files[0],), ("ai2-original",)):
        for cls in (Elmo, ElmoEmbedder):
            with pytest.raises(ConfigError, match=r"weight_file is required.* download --list"):
                cls(*arguments)
    with pytest.raises(FormatError, match="is a URL"):
        Elmo("https://example.org/options.json", allennlp_files[1])


def test_missing_weight_file_is_not_looked_up_elsewhere(allennlp_files):
    with pytest.raises(FormatError, match=r"weights: the file nope/weights\.hdf5 does not exist"):
        Elmo(allennlp_files[0], "nope/weights.hdf5", 1)


def test_error_for_url_of_a_published_model_names_the_download_command():
    model = MODELS["ai2-small"]
    options, weights = (file.url for file in model.files)
    with pytest.raises(FormatError, match="elmo download ai2-small"):
        Elmo(options, weights, 1)
    with pytest.raises(FormatError, match=r"has not been downloaded.*elmo download ai2-small"):
        Elmo(None, "ai2-small", 1)


@pytest.mark.parametrize("by_name", [True, False])
def test_weight_file_alone_is_the_name_of_a_downloaded_model_or_a_path(
    allennlp_files, tmp_path, monkeypatch, by_name
):
    monkeypatch.setenv("ELMO_HOME", str(tmp_path / "cache"))
    folder = model_folder_of("ai2-small")
    folder.mkdir(parents=True)
    for path, file in zip(allennlp_files, MODELS["ai2-small"].files, strict=True):
        shutil.copy(path, folder / file.name)
    (folder / RECORD).write_text("{}")
    source = "ai2-small" if by_name else folder / MODELS["ai2-small"].files[1].name
    ids = batch_to_ids(BATCH)
    expected = Elmo(*allennlp_files, 1, dropout=0.0)(ids)["elmo_representations"][0]
    for elmo in (Elmo(None, source, 1, dropout=0.0), Elmo(weight_file=source, dropout=0.0)):
        assert torch.equal(elmo(ids)["elmo_representations"][0], expected)
    assert ElmoEmbedder(weight_file=source).embed_sentence(["a"]).shape == (3, 1, 16)


@pytest.mark.parametrize("native", [True, False])
def test_documented_small_checkpoint_restores_a_module_with_a_frozen_model(allennlp_files, native):
    def make_module():
        if native:
            elmo = ELMo.from_pretrained(options=allennlp_files[0], weights=allennlp_files[1])
        else:
            elmo = Elmo(*allennlp_files, 1)
        return torch.nn.ModuleDict({"elmo": elmo, "head": torch.nn.Linear(16, 2)})

    module = make_module()
    with torch.no_grad():
        for value in module.parameters():
            if value.requires_grad:
                value.add_(1)
    frozen = {name for name, value in module.named_parameters() if not value.requires_grad}
    state = {name: value for name, value in module.state_dict().items() if name not in frozen}
    assert sum(value.numel() for value in state.values()) == 16 * 2 + 2 + 3 + 1
    restored = make_module()
    keys = restored.load_state_dict(state, strict=False)
    assert set(keys.missing_keys) <= frozen
    assert not keys.unexpected_keys
    for name, value in module.state_dict().items():
        assert torch.equal(restored.state_dict()[name], value)


def test_scalar_mix_weighs_layers_and_validates_arguments():
    tensors = [torch.randn(2, 3, 4) for _ in range(3)]
    mix = ScalarMix(3)
    torch.testing.assert_close(mix(tensors), torch.stack(tensors).mean(0))
    fixed = ScalarMix(3, initial_scalar_parameters=[-9e10, 1, -9e10], trainable=False)
    torch.testing.assert_close(fixed(tensors), tensors[1])
    assert not any(value.requires_grad for value in fixed.parameters())
    normed = ScalarMix(3, do_layer_norm=True)
    mask = torch.ones(2, 3, dtype=torch.long)
    assert abs(normed(tensors, mask).mean()) < 1e-6
    with pytest.raises(InputError, match="needs a mask"):
        normed(tensors)
    with pytest.raises(InputError, match=r"Expected 3 tensors to mix \(got 2\)"):
        mix(tensors[:2])
    with pytest.raises(ConfigError, match=r"one weight per layer \(3, got 2\)"):
        ScalarMix(3, initial_scalar_parameters=[0, 1])


def test_embedder_equals_elmo_with_carried_state(allennlp_files):
    embedder = ElmoEmbedder(*allennlp_files)
    reference = ELMo.from_pretrained(options=allennlp_files[0], weights=allennlp_files[1])
    sentences = [["a", "b"], ["c"], [], ["d", "e", "f"]]
    arrays = list(embedder.embed_sentences(sentences, batch_size=2))
    expected = reference.encode(sentences, layers="all", state="carry", batch_size=2)
    for array, expected_array in zip(arrays, expected, strict=True):
        if array.size:
            np.testing.assert_allclose(array, expected_array, rtol=0, atol=1e-5)
    assert arrays[2].shape == (3, 0, 16)
    assert arrays[2].dtype == np.float64
    assert embedder.embed_sentence([]).shape == (3, 0, 16)
    assert embedder.embed_sentence(["a", "b"]).shape == (3, 2, 16)
    layers, mask = embedder.batch_to_embeddings(sentences)
    assert layers.shape == (4, 3, 3, 16)
    assert mask.sum() == 6


def test_embed_file_writes_keys_and_rejects_invalid_input(allennlp_files, tmp_path):
    embedder = ElmoEmbedder(*allennlp_files)
    embedder.embed_file(["a b", "c / d"], tmp_path / "keys.h5", use_sentence_keys=True)
    with h5py.File(tmp_path / "keys.h5") as file:
        assert file["a b"].shape == (3, 2, 16)
        assert file["c / d"].shape == (3, 3, 16)
        assert "sentence_to_index" not in file
    with pytest.raises(OutputError, match="occurs twice"):
        embedder.embed_file(["a", "a"], tmp_path / "twice.h5", use_sentence_keys=True)
    with pytest.raises(InputError, match="blank lines of input_file: 1 "):
        embedder.embed_file(["a", "", "b"], tmp_path / "blank.h5")
    with pytest.raises(
        ConfigError, match=r"Unknown output_format 'none'\. Expected one of: all, top, average"
    ):
        embedder.embed_file(["a"], tmp_path / "none.h5", output_format="none")
    assert [path.name for path in tmp_path.glob("*.h5")] == ["keys.h5"]


@pytest.mark.parametrize(
    "lines",
    [
        ["a", "a/b"],
        ["a/b", "a"],
        ["a/b/c", "d", "a/b"],
        ["a", "/a//b/./c"],
        ["."],
        ["/"],
        ["a\0b"],
    ],
)
def test_embed_file_rejects_sentences_that_cannot_be_keys(allennlp_files, tmp_path, lines):
    embedder = ElmoEmbedder(*allennlp_files)
    with pytest.raises(OutputError, match=r"cannot be a key\. HDF5 reads a key as a path"):
        embedder.embed_file(lines, tmp_path / "out" / "keys.h5", use_sentence_keys=True)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    with pytest.raises(OutputError, match="occurs twice"):
        embedder.embed_file(["a/b", "a//b"], tmp_path / "keys.h5", use_sentence_keys=True)
    embedder.embed_file(["a b", "a", "b/a", "b/c"], tmp_path / "keys.h5", use_sentence_keys=True)


def test_elmo_names_missing_files(tmp_path):
    with pytest.raises(FormatError, match=r"the file .*options\.json does not exist"):
        Elmo(tmp_path / "options.json", tmp_path / "weights.hdf5")
