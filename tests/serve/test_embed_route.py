"""Tests of the routes that return vectors: /embed and /v1/embeddings."""

import base64
import json

import numpy as np
import pytest
import safetensors.numpy
from safetensors import safe_open
from server_app import SENTENCES, ServerApp


@pytest.fixture(scope="module")
def server():
    with ServerApp() as server:
        yield server


def vectors_of(data, name="vectors"):
    return [np.array(item[name], dtype=np.float32) for item in data["sentences"]]


def from_base64(record):
    values = np.frombuffer(base64.b64decode(record["base64"]), record["dtype"])
    return values.reshape(record["shape"])


@pytest.mark.parametrize("layers", ["average", "top", "all", 0, "1"])
def test_embed_returns_the_vectors_of_encode(server, layers):
    sentences = [*SENTENCES, ["the", "mat"], SENTENCES[0]]
    data = server.ask("/embed", sentences=sentences, layers=layers)
    assert (data["model"], data["layers"], data["dimension"]) == ("tiny", str(layers), 16)
    expected = server.elmo.encode(sentences, layers=layers)
    for found, array in zip(vectors_of(data), expected, strict=True):
        np.testing.assert_allclose(found, array, rtol=1e-5, atol=1e-6)


def test_embed_returns_words_and_offsets_of_strings_only(server):
    text, listed = server.ask("/embed", sentences=["the  cat", ["a", "b"]])["sentences"]
    assert text["words"] == ["the", "cat"]
    assert text["offsets"] == [[0, 3], [5, 8]]
    assert listed["words"] == ["a", "b"]
    assert "offsets" not in listed


@pytest.mark.parametrize("pooling", ["mean", "max", "first-last"])
def test_embed_pools_as_encode(server, pooling):
    data = server.ask("/embed", sentences=[*SENTENCES, ""], pooling=pooling)
    expected = server.elmo.encode([*SENTENCES, ""], pooling=pooling)
    np.testing.assert_allclose(vectors_of(data, "vector"), expected, rtol=1e-5, atol=1e-6)


def test_formats_have_equal_vectors(server):
    fields = {"sentences": [*SENTENCES, ""], "layers": "all"}
    numbers = vectors_of(server.ask("/embed", **fields))
    encoded = server.ask("/embed", **fields, format="base64")["sentences"]
    answer = server.post("/embed", json=fields, headers={"accept": "application/octet-stream"})
    assert answer.headers["content-type"] == "application/octet-stream"
    assert int(answer.headers["content-length"]) == len(answer.content)
    arrays = safetensors.numpy.load(answer.content)
    assert len(arrays) == len(numbers) == len(encoded) == 3
    for number, (values, record) in enumerate(zip(numbers, encoded, strict=True)):
        np.testing.assert_array_equal(
            values.reshape(record["vectors"]["shape"]), arrays[f"{number}"]
        )
        np.testing.assert_array_equal(from_base64(record["vectors"]), arrays[f"{number}"])


def test_safetensors_metadata_has_the_words(server, tmp_path):
    headers = {"accept": "application/octet-stream"}
    answer = server.post("/embed", json={"sentences": ["the cat"]}, headers=headers)
    (tmp_path / "answer.safetensors").write_bytes(answer.content)
    with safe_open(tmp_path / "answer.safetensors", "numpy") as file:
        metadata = file.metadata()
    assert json.loads(metadata["sentences"]) == [
        {"words": ["the", "cat"], "offsets": [[0, 3], [4, 7]]}
    ]
    assert metadata["model"] == "tiny"


@pytest.mark.parametrize("accept", ["application/json", "application/octet-stream"])
def test_long_answer_is_sent_in_parts(server, accept):
    sentences = [["word"] * 500] * 10
    answer = server.post("/embed", json={"sentences": sentences}, headers={"accept": accept})
    assert answer.status_code == 200
    (expected,) = server.elmo.encode(sentences[:1])
    if accept == "application/json":
        found = vectors_of(answer.json())[9]
    else:
        found = safetensors.numpy.load(answer.content)["9"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_no_sentences_and_empty_ones_are_valid(server):
    assert server.ask("/embed", sentences=[])["sentences"] == []
    (empty,) = server.ask("/embed", sentences=[[]])["sentences"]
    assert empty == {"words": [], "vectors": []}
    assert server.ask("/v1/embeddings", input=[])["data"] == []


def test_single_string_is_one_sentence(server):
    assert len(server.ask("/embed", sentences="the cat")["sentences"]) == 1


def test_openai_embeddings_are_means_in_both_encodings(server):
    expected = server.elmo.encode(SENTENCES, pooling="mean")
    data = server.ask("/v1/embeddings", input=SENTENCES, model="tiny", user="me", dimensions=16)
    assert (data["object"], data["usage"]["total_tokens"]) == ("list", 6)
    assert [item["index"] for item in data["data"]] == [0, 1]
    np.testing.assert_allclose(
        [item["embedding"] for item in data["data"]], expected, rtol=1e-5, atol=1e-6
    )
    (item,) = server.ask("/v1/embeddings", input=SENTENCES[0], encoding_format="base64")["data"]
    found = np.frombuffer(base64.b64decode(item["embedding"]), "<f4")
    np.testing.assert_allclose(found, expected[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"input": [[1, 2]]}, r"input\[0\] must be a string, not a list. Token ids"),
        ({"input": 5}, "input must be a list, not a number"),
        ({"input": "a", "dimensions": 8}, "dimensions must be 16 "),
        ({"input": "a", "encoding_format": "hex"}, "encoding_format must be one of float, base64"),
    ],
)
def test_openai_embeddings_reject_what_is_not_supported(server, fields, message):
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(server.error("/v1/embeddings", 422, **fields))


def test_openai_models_lists_names(server):
    assert [item["id"] for item in server.client.get("/v1/models").json()["data"]] == ["tiny"]
