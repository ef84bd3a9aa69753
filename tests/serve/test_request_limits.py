"""Tests of limits and types of requests: each violation has one clear error."""

import jsonschema
import orjson
import pytest
from server_app import ServerApp

from elmo.serve import request_body
from elmo.serve.json_value_count import JsonValueCount

LIMITS = {
    "max_sentences": 5,
    "max_words": 40,
    "max_sentence_words": 20,
    "max_word_characters": 30,
    "max_body_mb": 1,
}


@pytest.fixture(scope="module")
def server():
    with ServerApp(**LIMITS) as server:
        yield server


def send(server, body, **headers):
    headers = {"content-type": "application/json"} | headers
    return server.client.post("/embed", content=body, headers=headers)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "The field sentences is missing."),
        ({"sentence": []}, "Unknown field 'sentence'. Did you mean sentences? Expected:"),
        ({"sentences": None}, "sentences must be a string or a list of sentences, not null."),
        ({"sentences": {"a": 1}}, "sentences must be a string or a list of sentences, not an obj"),
        ({"sentences": ["a", 5]}, "sentences[1] must be a string or a list of words, not a num"),
        ({"sentences": ["a", ["b", 1]]}, "sentences[1][1] must be a string, not a number."),
        ({"sentences": [["b", True]]}, "sentences[0][1] must be a string, not true or false."),
        ({"sentences": [[["b"]]]}, "sentences[0][0] must be a string, not a list."),
        ({"sentences": ["a"] * 6}, "sentences has 6 items, more than 5."),
        ({"sentences": ["a " * 21]}, "sentences[0] has 21 words, more than 20."),
        ({"sentences": [["a"] * 21]}, "sentences[0] has 21 words, more than 20."),
        ({"sentences": [["a"] * 20] * 3}, "The request has more than 40 words."),
        ({"sentences": ["a" * 31]}, "A word of sentences[0] has 31 characters, more than 30."),
        ({"sentences": "a" * 700}, "sentences[0] has 700 characters, more than 640."),
        ({"sentences": "a", "layers": 7}, "Unknown layers '7'. Expected average, mix, top, all"),
        ({"sentences": "a", "layers": "mix"}, "'mix' needs a trained mix"),
        ({"sentences": "a", "layers": "a" * 1001}, "layers has 1001 characters, more than 1000."),
        ({"sentences": "a", "model": "a" * 1001}, "model has 1001 characters, more than 1000."),
        ({"sentences": "a", "layers": 1.5}, "layers must be a string or an integer, not a number"),
        ({"sentences": "a", "pooling": "sum"}, "pooling must be one of mean, max, first-last"),
        ({"sentences": "a", "format": 3}, "format must be a string, not a number."),
        ({"sentences": "a", "model": []}, "model must be a string, not a list."),
    ],
)
def test_wrong_fields_are_rejected_with_their_place(server, fields, message):
    assert message in server.error("/embed", 422, **fields)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "The body is not valid JSON"),
        (b"", "The body is not valid JSON"),
        (b'{"sentences": ["\xff"]}', "The body is not valid JSON"),
        (b'{"sentences": "\\ud800"}', "The body is not valid JSON"),
        (b'{"sentences": NaN}', "The body is not valid JSON"),
        (b"[" * 80, "The body is not valid JSON"),
    ],
)
def test_body_that_is_not_json_is_answered_with_400(server, body, message):
    answer = send(server, body)
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]


@pytest.mark.parametrize("body", [b"[]", b"5", b"null", b'"a"', b"true"])
def test_body_that_is_no_object_is_answered_with_422(server, body):
    answer = send(server, body)
    assert answer.status_code == 422
    assert "The body must be an object" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": ""},
        {"content-type": "application/json; charset=latin-1"},
        {"content-type": "application/json", "content-encoding": "gzip"},
    ],
)
def test_other_types_are_answered_with_415(server, headers):
    assert send(server, b"{}", **headers).status_code == 415


@pytest.mark.parametrize("encoding", ["", "Identity"])
def test_body_without_compression_is_accepted(server, encoding):
    headers = {"content-type": "application/json", "content-encoding": encoding}
    assert send(server, b'{"sentences": []}', **headers).status_code == 200


def test_charset_utf8_is_accepted(server):
    answer = send(
        server, b'{"sentences": []}', **{"content-type": 'application/json;charset="UTF-8"'}
    )
    assert answer.status_code == 200


def test_end_of_a_long_content_type_is_ignored(server):
    # Thousands of parameters would take long.
    value = "application/json" + ";" * 1000 + "charset=latin-1"
    assert send(server, b'{"sentences": []}', **{"content-type": value}).status_code == 200


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"sentences": [' + b"[]," * 50, b'"",' * 91])
@pytest.mark.parametrize("is_chunked", [False, True])
def test_body_with_many_values_is_answered_with_413(server, body, is_chunked):
    answer = send(server, iter([body]) if is_chunked else body)
    assert answer.status_code == 413
    assert answer.json()["error"]["message"] == (
        "The body has more than 90 JSON values. Send several requests."
    )


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_values_are_counted_outside_of_strings(size):
    data = {'a,[{"': ["\\", '\\"[,', {"b": ",{"}, [], 'c\\\\"'], "é": [[1], "[", None]}
    text = orjson.dumps(data)
    count = JsonValueCount()
    for start in range(0, len(text), size):
        count.add(text[start : start + size])
    assert count.n_values == n_values_of(data)


def n_values_of(data):
    """Return the number of commas and opening brackets."""
    if isinstance(data, dict):
        data = list(data.values())
    if not isinstance(data, list):
        return 0
    return 1 + max(0, len(data) - 1) + sum(map(n_values_of, data))


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/embed", {"layers": None, "pooling": None, "format": None, "model": None}),
        ("/similarity", {"layers": None, "pooling": None, "word": None, "model": None}),
        ("/substitutes", {"positions": None, "n": None, "model": None}),
        ("/v1/embeddings", {"dimensions": None, "encoding_format": None, "user": None}),
    ],
)
def test_null_is_the_default_of_optional_fields(server, path, fields):
    schema = server.client.get("/openapi.json").json()["paths"][path]["post"]
    content = schema["requestBody"]["content"]["application/json"]
    required = {name: content["example"][name] for name in content["schema"]["required"]}
    jsonschema.validate({**required, **fields}, content["schema"])
    expected = server.ask(path, **required)
    assert server.ask(path, **required, **fields) == expected


@pytest.mark.parametrize("is_chunked", [False, True])
def test_long_body_is_answered_with_413(server, is_chunked):
    body = b" " * (2**20 + 1)
    answer = send(server, iter([body]) if is_chunked else body)
    assert answer.status_code == 413
    assert answer.headers["connection"] == "close"


def test_slow_body_is_answered_with_408(server, monkeypatch):
    monkeypatch.setattr(request_body, "BODY_SECONDS", 0.05)
    messages = []

    async def receive():
        import asyncio

        await asyncio.sleep(10)

    async def send_message(message):
        messages.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/embed",
        "raw_path": b"/embed",
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
        "client": ("127.0.0.1", 1),
    }
    server.client.portal.call(server.app, scope, receive, send_message)
    assert messages[0]["status"] == 408
    assert (b"connection", b"close") in messages[0]["headers"]


def test_names_and_paths_never_reach_the_file_system(server, tmp_path):
    message = server.ask("/embed", 404, sentences="a", model=str(tmp_path))["error"]["message"]
    assert message.endswith("Available: tiny.")
    assert server.ask("/tasks/..%2f..%2fetc", 404, inputs=[])
    assert server.client.get("/../../etc/passwd").status_code == 404
    assert server.client.get("/health/").status_code == 404  # no redirect


def test_unknown_path_and_method_are_json_errors(server):
    assert server.client.get("/nothing").json()["error"]["type"] == "not_found_error"
    answer = server.client.get("/embed")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"
    assert "another method" in answer.json()["error"]["message"]


def test_fields_of_all_examples_are_accepted(server):
    document = server.client.get("/openapi.json").json()
    for path, operations in document["paths"].items():
        if "post" in operations and path != "/tasks/{name}":
            example = operations["post"]["requestBody"]["content"]["application/json"]["example"]
            assert server.ask(path, **example)


def test_body_with_repeated_key_uses_the_last_value(server):
    answer = send(server, b'{"sentences": 5, "sentences": []}')
    assert orjson.loads(answer.content)["sentences"] == []
