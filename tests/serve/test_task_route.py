"""Tests of /tasks/NAME with task models of one text, of two texts, and of documents."""

import pytest
from server_app import ServerApp
from small_tasks import LABELED, PAIRS, make_fitted_task

from elmo.serve.loaded_task import LoadedTask


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tasks")
    for name, task, examples in (
        ("labels", "classification", LABELED),
        ("pairs", "sentence_pairs", PAIRS),
    ):
        make_fitted_task(folder / name, examples, task=task).save(folder / name)
    tasks = {
        name: lambda name=name: LoadedTask.load(name, str(folder / name))
        for name in ("labels", "pairs")
    }
    with ServerApp(tasks=tasks) as server:
        yield server


def test_predictions_are_those_of_the_task_model(server):
    texts = ["a fine film", ["dull", "story"], ""]
    data = server.ask("/tasks/labels", inputs=texts)
    assert data["task"] == "classification"
    task = server.state.table.tasks["labels"].value()
    expected = task.predict([task.make_example([text]) for text in texts])
    assert [item["label"] for item in data["predictions"]] == [item["label"] for item in expected]
    assert data["predictions"][2]["label"] is None


def test_tasks_with_two_texts_take_pairs(server):
    data = server.ask("/tasks/pairs", inputs=[["fine film", ["fine", "end"]]])
    assert data["predictions"][0]["label"] in ("same", "other")
    assert server.client.get("/info").json()["tasks"]["pairs"]["texts"] == 2


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("labels", {}, "The field inputs is missing."),
        ("labels", {"inputs": "a"}, "inputs must be a list, not a string."),
        ("labels", {"inputs": [5]}, "inputs[0] must be a string or a list of words"),
        ("labels", {"inputs": [["a", 5]]}, "inputs[0][1] must be a string, not a number."),
        ("labels", {"inputs": [[["a"]]]}, "inputs[0][0] must be a string, not a list."),
        ("labels", {"inputs": ["a " * 2000]}, "inputs[0] has 2000 words, more than 1024."),
        ("labels", {"inputs": ["a " * 1000] * 17}, "The request has more than 16384 words"),
        ("pairs", {"inputs": ["a"]}, "inputs[0] must be a list, not a string."),
        ("pairs", {"inputs": [["a"]]}, "inputs[0] must be a list of 2 texts (got 1)."),
        ("pairs", {"inputs": [["a", 5]]}, "inputs[0][1] must be a string or a list of words"),
    ],
)
def test_wrong_inputs_are_rejected_with_their_place(server, name, fields, message):
    assert message in server.error(f"/tasks/{name}", 422, **fields)


def test_unknown_task_is_answered_with_404(server):
    message = server.ask("/tasks/unknown", 404, inputs=[])["error"]["message"]
    assert message == "There is no such task. Available: labels, pairs."
