"""Parity tests with AllenNLP: weights, layers, mixes, states, gradients and output files."""

import dataclasses
import json

import h5py
import numpy as np
import pytest
import torch

from elmo.compat.allennlp import (
    Elmo,
    ElmoEmbedder,
    ELMoTokenCharactersIndexer,
    ElmoTokenEmbedder,
    _ElmoCharacterEncoder,
    batch_to_ids,
    remove_sentence_boundaries,
)
from elmo.config import EmbedConfig
from elmo.embed import embed
from elmo.embed.embedder import ELMo
from elmo.errors import FormatError
from elmo.formats.load import read
from elmo.formats.weight_names import allennlp_modules, export_weights

TOLERANCE = 1e-5
MIXES = (([0.1, 0.3, 0.5], 1.1), ([0.2, 0.4, 0.6], 0.88))
VARIANTS = {
    "plain": {},
    "layer_norm": {"do_layer_norm": True},
    "keep_boundaries": {"keep_sentence_boundaries": True},
    "fixed_mix": {"scalar_mix_parameters": [-9e10, 1.0, -9e10]},
    "keep_boundaries_layer_norm": {"keep_sentence_boundaries": True, "do_layer_norm": True},
}


@pytest.fixture
def pair(golden_path):
    folder = golden_path("allennlp/elmo")
    return folder / "options.json", folder / "lm_weights.hdf5"


@pytest.fixture
def golden(golden_path):
    return golden_path("generated/allennlp")


def set_mixes(mixes):
    for mix, (weights, gamma) in zip(mixes, MIXES, strict=True):
        for parameter, value in zip(mix.scalar_parameters, weights, strict=True):
            parameter.data.fill_(value)
        mix.gamma.data.fill_(gamma)


@pytest.mark.parametrize(
    ("model", "sentences"),
    [
        ("allennlp/elmo", "allennlp/elmo/sentences.json"),
        ("bilm-tf/model", "bilm-tf/model/lm_embeddings_sentences.json"),
    ],
)
def test_encode_with_carried_state_matches_allennlp(golden_path, model, sentences):
    texts = json.loads(golden_path(sentences).read_text())
    in_order = [texts[row][batch].split() for batch in range(10) for row in range(3)]
    elmo = ELMo.from_pretrained(golden_path(model))
    vectors = elmo.encode(in_order, layers="top", state="carry", batch_size=3)
    for row in range(3):
        with h5py.File(golden_path(model) / f"lm_embeddings_{row}.hdf5") as file:
            for batch in range(10):
                expected = np.concatenate(list(file[str(batch)]), axis=1)
                np.testing.assert_allclose(
                    vectors[3 * batch + row], expected, rtol=0, atol=TOLERANCE
                )


@pytest.mark.parametrize("name", ["elmo", "elmo_noskip_c3c354988"])
def test_layer_0_matches_allennlp_token_embeddings(golden_path, name):
    folder = golden_path(f"allennlp/{name}")
    weights = folder if name == "elmo" else golden_path("bilm-tf/model")
    words = (folder / "vocab_test.txt").read_text().splitlines()
    elmo = ELMo.from_pretrained(weights)
    # Boundary tokens have special character ids; all other words are encoded by their characters.
    vectors = elmo.encode([[word] for word in words], layers=0)
    ids = elmo.character_ids([[]])
    boundaries = elmo.network.bilm.encoder(ids[0]).detach().numpy()
    with h5py.File(folder / "elmo_token_embeddings.hdf5") as file:
        expected = file["embedding"][()]
    assert len(words) == len(expected)
    for word, vector, row in zip(words, vectors, expected, strict=True):
        value = {"<S>": boundaries[0], "</S>": boundaries[1]}.get(word, vector[0, :16])
        np.testing.assert_allclose(value, row, rtol=0, atol=TOLERANCE)


def test_character_encoder_matches_allennlp_token_embeddings(golden_path, pair):
    folder = golden_path("allennlp/elmo")
    words = (folder / "vocab_test.txt").read_text().splitlines()
    indexer = ELMoTokenCharactersIndexer()
    indexed = indexer.tokens_to_indices(words)
    ids = indexer.as_padded_tensor_dict(indexed, indexer.get_padding_lengths(indexed))
    with torch.no_grad():
        output = _ElmoCharacterEncoder(*pair)(ids["elmo_tokens"].unsqueeze(0))
    vectors, mask = remove_sentence_boundaries(output["token_embedding"], output["mask"])
    assert mask.all()
    with h5py.File(folder / "elmo_token_embeddings.hdf5") as file:
        np.testing.assert_allclose(vectors[0], file["embedding"][()], rtol=0, atol=TOLERANCE)


def test_token_embedder_loads_weights_of_allennlp_tagger(golden_path, pair):
    folder = golden_path("allennlp/simple_tagger_with_elmo/serialization")
    state = torch.load(folder / "best.th", weights_only=True)
    prefix = "text_field_embedder.token_embedder_elmo."
    inside = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
    embedder = ElmoTokenEmbedder(*pair, dropout=0.0)
    embedder.load_state_dict(inside)
    archive = ELMo.from_pretrained(folder)
    words = ["A", "bank", "."]
    np.testing.assert_allclose(
        embedder(batch_to_ids([words]))[0].detach(),
        archive.encode([words], layers="mix")[0],
        rtol=0,
        atol=TOLERANCE,
    )


@pytest.mark.parametrize("name", ["best.th", "model.tar.gz", ""])
def test_archive_weights_equal_hdf5_weights(golden_path, pair, name):
    folder = golden_path("allennlp/simple_tagger_with_elmo/serialization")
    archive = read(folder / name)
    state = torch.load(folder / "best.th", weights_only=True)
    prefix = "text_field_embedder.token_embedder_elmo._elmo."
    inside = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
    from_hdf5 = Elmo(*pair, num_output_representations=1).state_dict()
    assert from_hdf5.keys() == inside.keys()
    assert len(inside) == 37
    for key, value in inside.items():
        if "scalar_mix" not in key:
            assert torch.equal(from_hdf5[key], value), key
    written = export_weights(allennlp_modules(archive.config), archive.weights)
    for key, value in written.items():
        assert np.array_equal(value, inside[key].numpy()), key
    assert torch.equal(archive.weights["mixes.0.gamma"], inside["scalar_mix_0.gamma"])


def test_archive_and_hdf5_give_the_same_vectors(golden_path, pair):
    folder = golden_path("allennlp/simple_tagger_with_elmo/serialization")
    sentences = [["The", "sentence", "."], ["ELMo", "helps"]]
    expected = ELMo.from_pretrained(options=pair[0], weights=pair[1]).encode(
        sentences, layers="all"
    )
    vectors = ELMo.from_pretrained(folder / "model.tar.gz").encode(sentences, layers="all")
    for actual, desired in zip(vectors, expected, strict=True):
        np.testing.assert_allclose(actual, desired, rtol=0, atol=TOLERANCE)


def test_multilingual_weights_load_with_fixed_mix(golden_path):
    elmo = ELMo.from_pretrained(
        golden_path("allennlp/elmo_multilingual_v0.9.0/es"),
        scalar_mix_parameters=[-9e10, 1.0, -9e10],
    )
    output = elmo(elmo.character_ids([["Esta", "es", "una", "frase"]]))
    assert output.representations[0].abs().sum() > 0
    assert torch.isfinite(output.representations[0]).all()
    torch.testing.assert_close(output.representations[0], output.layers[1], rtol=0, atol=1e-7)


def test_softmax_file_is_loaded_exactly(golden_path, pair):
    path = golden_path("allennlp/softmax_pr/elmo_softmax_weights.hdf5")
    vocab = golden_path("allennlp/elmo/vocab_test.txt")
    elmo = ELMo.from_pretrained(options=pair[0], weights=pair[1], softmax=path, vocab=vocab)
    weights = elmo.to_pretrained().weights
    with h5py.File(path) as file:
        assert np.array_equal(weights["softmax.weight"].numpy(), file["softmax/W"][()])
        assert np.array_equal(weights["softmax.bias"].numpy(), file["softmax/b"][()])
    assert len(elmo.vocabulary) == 458


def test_error_for_golden_transformer_archive_names_the_model_type(golden_path):
    path = golden_path("allennlp/language_model_v0.9.0/model.tar.gz")
    with pytest.raises(FormatError, match=r"bidirectional_language_model_transformer.*not an ELMo"):
        ELMo.from_pretrained(path)


@pytest.mark.parametrize("variant", VARIANTS)
def test_elmo_module_output_matches_allennlp(golden, pair, variant):
    expected = np.load(golden / "elmo_module.npz")
    module = Elmo(*pair, num_output_representations=2, dropout=0.0, **VARIANTS[variant])
    if variant != "fixed_mix":
        set_mixes(module._scalar_mixes)
    batches = json.loads((golden / "elmo_module_sentences.json").read_text())
    for number, batch in enumerate(batches):
        scope = f"{variant}/b{number}"
        ids = batch_to_ids(batch)
        assert np.array_equal(ids.numpy(), expected[f"{scope}/char_ids"])
        output = module(ids)
        assert np.array_equal(output["mask"].numpy(), expected[f"{scope}/mask"])
        for which, representation in enumerate(output["elmo_representations"]):
            np.testing.assert_allclose(
                representation.detach().numpy(),
                expected[f"{scope}/rep{which}"],
                rtol=0,
                atol=TOLERANCE,
            )
    h, c = module._elmo_lstm._elmo_lstm._states
    np.testing.assert_allclose(h, expected[f"{variant}/states_h"], rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(c, expected[f"{variant}/states_c"], rtol=0, atol=TOLERANCE)


def test_bilm_activations_match_allennlp(golden, pair):
    expected = np.load(golden / "elmo_module.npz")
    bilm = Elmo(*pair, num_output_representations=1)._elmo_lstm
    batches = json.loads((golden / "elmo_module_sentences.json").read_text())
    for number, batch in enumerate(batches):
        output = bilm(batch_to_ids(batch))
        assert np.array_equal(output["mask"].numpy(), expected[f"bilm/b{number}/mask"])
        np.testing.assert_allclose(
            torch.stack(output["activations"]).detach().numpy(),
            expected[f"bilm/b{number}/activations"],
            rtol=0,
            atol=TOLERANCE,
        )


def test_elmo_with_layer_norm_matches_allennlp_module(golden, pair):
    expected = np.load(golden / "elmo_module.npz")
    batch = json.loads((golden / "elmo_module_sentences.json").read_text())[0]
    elmo = ELMo.from_pretrained(
        options=pair[0], weights=pair[1], num_output_representations=2, do_layer_norm=True
    )
    for mix, (weights, gamma) in zip(elmo.network.mixes, MIXES, strict=True):
        mix.weights.data = torch.tensor(weights)
        mix.gamma.data.fill_(gamma)
    output = elmo(elmo.character_ids(batch))
    for which, representation in enumerate(output.representations):
        np.testing.assert_allclose(
            representation.detach().numpy(),
            expected[f"layer_norm/b0/rep{which}"],
            rtol=0,
            atol=TOLERANCE,
        )


def test_fine_tuning_gradients_match_allennlp(golden, pair):
    expected = np.load(golden / "elmo_finetune_grads.npz")
    batches = json.loads((golden / "elmo_module_sentences.json").read_text())
    module = Elmo(*pair, num_output_representations=1, requires_grad=True, dropout=0.0)
    loss = (module(batch_to_ids(batches[0]))["elmo_representations"][0] ** 2).sum()
    np.testing.assert_allclose(loss.item(), expected["loss"], rtol=1e-5)
    loss.backward()
    gradients = {name: value.grad.numpy() for name, value in module.named_parameters()}
    assert {*gradients, "loss"} == {*expected.files}
    assert len(gradients) == 37
    for name, value in gradients.items():
        scale = np.abs(expected[name]).max()
        np.testing.assert_allclose(value / scale, expected[name] / scale, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize(
    ("name", "layers", "forget", "batch_size"),
    [
        ("command_all", "all", False, 2),
        ("command_top", "top", False, 2),
        ("command_average", "average", False, 2),
        ("command_all_forget_sentences", "all", True, 64),
    ],
)
def test_embed_output_matches_allennlp_elmo_command(
    golden, pair, tmp_path, name, layers, forget, batch_size
):
    out = tmp_path / "out.hdf5"
    embed(
        EmbedConfig(
            str(golden / "command_input.txt"),
            str(out),
            model=str(pair[1]),
            layers=layers,
            state="carry",
            batch_size=batch_size,
            forget_sentences=forget,
        )
    )
    assert_same_file(out, golden / f"{name}.hdf5")


@pytest.mark.parametrize("output_format", ["all", "top", "average"])
def test_embed_file_output_matches_allennlp(golden, pair, tmp_path, output_format):
    out = tmp_path / "out.hdf5"
    with (golden / "command_input.txt").open() as lines:
        ElmoEmbedder(*pair).embed_file(lines, out, output_format, batch_size=2)
    assert_same_file(out, golden / f"command_{output_format}.hdf5")


def assert_same_file(path, golden):
    with h5py.File(path) as actual, h5py.File(golden) as expected:
        assert sorted(actual) == sorted(expected)
        for key in expected:
            assert actual[key].shape == expected[key].shape
            assert actual[key].dtype == expected[key].dtype
            if key == "sentence_to_index":
                assert actual[key][0] == expected[key][0]
            else:
                np.testing.assert_allclose(
                    actual[key][()], expected[key][()], rtol=0, atol=TOLERANCE
                )


def test_allennlp_model_has_forget_bias_1(pair):
    model = read(options=pair[0], weights=pair[1])
    assert dataclasses.asdict(model.config.lstm)["forget_bias"] == 1.0
