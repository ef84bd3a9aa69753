"""Parity tests with bilm-tf: ids, layers, mixes, states, dumps and checkpoints."""

import json

import h5py
import numpy as np
import pytest
import torch

from elmo.config import ConvertConfig, EmbedConfig
from elmo.embed import embed
from elmo.embed.embedder import ELMo
from elmo.formats import convert
from elmo.formats.bilm_tf import hdf5_name
from elmo.formats.load import read
from elmo.model.bilm import without_boundaries
from elmo.model.lstm import LSTMState
from elmo.text.vocabulary import Vocabulary

TOLERANCE = 1e-5
MIX = {"weights": torch.tensor([0.1, 0.3, 0.5]), "gamma": torch.tensor([1.1])}


@pytest.fixture
def golden(golden_path):
    return golden_path("generated/bilm-tf")


def assert_close(actual, expected):
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=0, atol=TOLERANCE)


def test_batches_with_carried_state_match_bilm_tf(golden_path, golden):
    expected = np.load(golden / "inference_skip.npz")
    batches = json.loads((golden / "inference_sentences.json").read_text())
    folder = golden_path("allennlp/elmo")
    models = {
        "mix": ELMo.from_pretrained(folder),
        "mix_ln": ELMo.from_pretrained(folder, do_layer_norm="bilm-tf"),
        "mix_top": ELMo.from_pretrained(folder, use_top_only=True),
    }
    for elmo in models.values():
        elmo.network.mixes[0].load_state_dict(MIX)
    elmo = models["mix"]
    bilm = elmo.network.bilm
    table = LSTMState.zeros(elmo.config.lstm, 4)
    padding = bilm.encoder(torch.zeros(1, 50, dtype=torch.long))[0].detach()
    for number, batch in enumerate(batches):
        scope = f"b{number}"
        ids = elmo.character_ids(batch)
        assert np.array_equal(ids.numpy(), expected[f"{scope}_char_ids"])
        assert np.array_equal([len(sentence) for sentence in batch], expected[f"{scope}_lengths"])
        state = table.rows(len(batch))
        with torch.no_grad():
            output = elmo(ids, state=state)
        mask = output.mask.numpy()
        assert np.array_equal(mask, expected[f"{scope}_mask"])
        layers = output.layers.transpose(0, 1).clone()
        # At padding positions, bilm-tf's layer 0 is the embedding of a token of mask ids.
        layers[:, 0][~output.mask] = torch.cat([padding, padding])
        assert_close(layers, expected[f"{scope}_lm_embeddings"])
        for name, model in models.items():
            with torch.no_grad():
                mixed = model(ids, state=state).representations[0].numpy()
            assert_close(mixed[mask], expected[f"{scope}_{name}"][mask])
        assert_close(0.5 * elmo.mix_penalty().detach(), expected[f"{scope}_l2"])
        with torch.no_grad():
            tokens = bilm.encoder(ids.flatten(0, 1)).view(*ids.shape[:2], -1)
        assert_close(tokens, expected[f"{scope}_token_embeddings"])
        table = table.updated(output.state)
    for side, direction in enumerate(("forward", "backward")):
        for depth in range(2):
            assert_close(table.h[depth, side], expected[f"final_state_{direction}_{depth}_h"])
            assert_close(table.c[depth, side], expected[f"final_state_{direction}_{depth}_c"])


def test_vocabulary_ids_equal_bilm_tf(golden_path):
    vocabulary = Vocabulary.load(golden_path("bilm-tf/data/vocab_test.txt"))
    sentences = [["<S>", "The", "first", ".", "</S>"], ["<S>", "It", "said", "</S>"]]
    ids = [[vocabulary.ids[word] + 1 for word in sentence] for sentence in sentences]
    assert ids == [[2, 18, 75, 6, 1], [2, 67, 21, 1]]


def test_cached_token_embeddings_match_bilm_tf_dump(golden_path, golden):
    folder = golden_path("allennlp/elmo")
    with h5py.File(golden / "dump_token_embeddings.hdf5") as file:
        expected = file["embedding"][()]
    spelled = ELMo.from_pretrained(folder)
    words = (golden / "dump_vocab.txt").read_text().splitlines()
    inner = [word for word in words if word not in ("<S>", "</S>")]
    vectors = spelled.encode([[word] for word in inner], layers=0)
    for word, vector in zip(inner, vectors, strict=True):
        assert_close(vector[0, :16], expected[words.index(word)])
    cached = ELMo.from_pretrained(
        folder,
        vocab=golden / "dump_vocab.txt",
        token_embeddings=golden / "dump_token_embeddings.hdf5",
    )
    sentences = [line.split() for line in (golden / "dump_dataset.txt").read_text().splitlines()]
    ids = cached.character_ids(sentences)[:, :, -1].numpy()
    golden_ids = np.load(golden / "dump_token_ids.npz")["ids"]
    unknown = words.index("<UNK>") + 1 if "<UNK>" in words else 0
    # Our cached model computes <UNK> words from their characters: id 0 at real positions.
    real = (cached.character_ids(sentences) > 0).any(2).numpy()
    assert np.array_equal(ids[golden_ids != unknown], golden_ids[golden_ids != unknown])
    assert ((ids == 0) & real == (golden_ids == unknown) & real).all()
    sentences.append(["never", "seen", "before", sentences[0][0]])
    for cached_vectors, spelled_vectors in zip(
        cached.encode(sentences, layers="all"),
        spelled.encode(sentences, layers="all"),
        strict=True,
    ):
        assert_close(cached_vectors, spelled_vectors)


def test_embed_output_matches_bilm_tf_dump_bilm_embeddings(golden_path, golden, tmp_path):
    out = tmp_path / "out.hdf5"
    embed(
        EmbedConfig(
            str(golden / "dump_dataset.txt"),
            str(out),
            model=str(golden_path("allennlp/elmo")),
            layers="all",
            state="carry",
            batch_size=1,
            forget_sentences=True,
        )
    )
    with h5py.File(out) as actual, h5py.File(golden / "dump_bilm_embeddings.hdf5") as expected:
        assert sorted(actual) == sorted(expected)
        for key in expected:
            assert actual[key].dtype == expected[key].dtype
            assert_close(actual[key][()], expected[key][()])


def test_converted_checkpoint_equals_bilm_tf_hdf5_dump(golden, tmp_path):
    model = read(golden / "checkpoint")
    variables = np.load(golden / "checkpoint_all_variables.npz")
    assert np.array_equal(model.weights["softmax.weight"], variables["lm/softmax/W"])
    assert np.array_equal(model.weights["softmax.bias"], variables["lm/softmax/b"])
    assert any("261" in note for note in model.notes)
    convert(ConvertConfig(str(golden / "checkpoint"), str(tmp_path / "out"), to="allennlp"))
    with (
        h5py.File(tmp_path / "out" / "weights.hdf5") as actual,
        h5py.File(golden / "checkpoint_dumped_weights.hdf5") as expected,
    ):
        names = []
        expected.visititems(
            lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None
        )
        assert len(names) == 31
        for name in names:
            assert np.array_equal(actual[name][()], expected[name][()]), name
    for variable in variables.files:
        if "Adagrad" not in variable and variable.startswith("lm/") and "softmax" not in variable:
            assert hdf5_name(variable) in names
    written = json.loads((tmp_path / "out" / "options.json").read_text())
    dumped = json.loads((golden / "checkpoint_dumped_options.json").read_text())
    assert written["lstm"] == dumped["lstm"]
    assert written["char_cnn"] == dumped["char_cnn"]


def test_checkpoint_and_its_hdf5_dump_give_the_same_vectors(golden):
    sentences = [["It", "said"], ["naïve", "x" * 60, "."], []]
    first = ELMo.from_pretrained(golden / "checkpoint").encode(sentences, layers="all")
    second = ELMo.from_pretrained(
        options=golden / "checkpoint_dumped_options.json",
        weights=golden / "checkpoint_dumped_weights.hdf5",
    ).encode(sentences, layers="all")
    for checkpoint_vectors, dump_vectors in zip(first, second, strict=True):
        assert np.array_equal(checkpoint_vectors, dump_vectors)


def test_without_boundaries_accepts_empty_sentences():
    layers, mask = without_boundaries(torch.ones(3, 2, 2, 4), torch.ones(2, 2, dtype=torch.bool))
    assert layers.shape == (3, 2, 0, 4)
    assert mask.shape == (2, 0)
