"""Tests of the OpenAPI document: examples, answers and fields match the server."""

import jsonschema
import pytest
from server_app import ServerApp

from elmo.serve.application import ENDPOINTS


@pytest.fixture(scope="module")
def server():
    with ServerApp() as server:
        yield server


@pytest.fixture(scope="module")
def document(server):
    return server.client.get("/openapi.json").json()


def test_document_describes_every_path(document):
    assert set(document["paths"]) == {endpoint.path for endpoint in ENDPOINTS}
    assert document["openapi"] == "3.1.0"


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.path)
def test_examples_and_answers_match_their_schemas(server, document, endpoint):
    operation = document["paths"][endpoint.path][endpoint.method.lower()]
    answer = None
    if endpoint.method == "POST":
        content = operation["requestBody"]["content"]["application/json"]
        jsonschema.Draft202012Validator.check_schema(content["schema"])
        jsonschema.validate(content["example"], content["schema"])
        if "{" not in endpoint.path:
            answer = server.ask(endpoint.path, **content["example"])
    elif not isinstance(endpoint.answer, str):
        answer = server.client.get(endpoint.path).json()
    if answer is not None:
        schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.validate(answer, schema)
        assert set(answer) <= set(schema["properties"])


def test_document_has_the_statuses_of_each_path(document):
    statuses = {
        path: set(operation["responses"])
        for path, operations in document["paths"].items()
        for operation in operations.values()
    }
    assert statuses["/health"] == {"200", "500"}
    assert statuses["/ready"] == {"200", "500", "503"}
    assert statuses["/"] == {"200", "403", "500"}
    for path in ("/info", "/metrics", "/v1/models"):
        assert statuses[path] == {"200", "401", "403", "500"}
    assert {"401", "403", "413", "429", "503"} <= statuses["/embed"]


def test_document_has_both_media_types_of_embed(document):
    content = document["paths"]["/embed"]["post"]["responses"]["200"]["content"]
    assert set(content) == {"application/json", "application/octet-stream"}


def test_errors_match_their_schema(server, document):
    error = server.ask("/embed", 422)
    jsonschema.validate(error, document["components"]["schemas"]["Error"])
