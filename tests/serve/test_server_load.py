"""Tests of a server under load: full, stopping, slow, failing, and clients that leave."""

import asyncio
import gc
import json
import re
import threading
import time
import weakref

import pytest
from conftest import random_model
from fake_operation import FakeOperation
from server_app import ServerApp

from elmo.embed.embedder import ELMo
from elmo.errors import InputError
from elmo.semantics.substitutes import SubstituteQuery
from elmo.serve import endpoint
from elmo.serve.api_call import ApiCall
from elmo.serve.fair_queue import QueueFull
from elmo.serve.held_memory import HeldMemory
from elmo.serve.loaded_model import LoadedModel
from elmo.serve.model_table import LoadFailed
from elmo.serve.operations import EmbedWords, FindSubstitutes, ScoreWords
from elmo.serve.queued_request import QueuedRequest


def wait_for(condition):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


class Busy:
    """Keeps the worker of a server busy until `release`."""

    def __init__(self, server):
        self.operation = FakeOperation(gate=threading.Event())
        server.state.queue.put(QueuedRequest(self.operation, [1]))
        assert self.operation.running.wait(10)
        self.release = self.operation.gate.set


class InBackground:
    """A request in a thread."""

    def __init__(self, server, path="/embed", headers=None, **fields):
        self._fields = {"sentences": "the cat", **fields}
        self._server, self._path, self._headers = server, path, headers
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        self.answer = self._server.post(self._path, json=self._fields, headers=self._headers)

    def result(self):
        self._thread.join(20)
        return self.answer


def test_full_queue_is_answered_with_429_before_the_body_is_read():
    with ServerApp(queue_requests=2) as server:
        busy = Busy(server)
        waiting = [InBackground(server) for _ in range(2)]
        wait_for(lambda: server.state.queue.n_requests == 2)
        answer = server.client.post("/embed", content=b"{", headers={"content-type": "none"})
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) >= 1
        for path in ("/health", "/v1/models"):
            assert server.client.get(path).status_code == 200
        # It does not need the queue.
        assert server.ask("/tokenize", sentences="the cat")["sentences"][0]["words"]
        busy.release()
        assert [item.result().status_code for item in waiting] == [200, 200]


@pytest.mark.parametrize(
    ("same", "other"), [("10.0.0.1", "10.0.0.2"), ("2001:db8::2", "2001:db8:0:1::1")]
)
def test_requests_in_progress_of_one_host_leave_room_for_others(same, other):
    with ServerApp(queue_requests=16, trusted_proxy=("testclient",)) as server:
        for _ in range(16):
            server.state.computed.add("10.0.0.1" if same == "10.0.0.1" else "2001:db8::/64")
        for host, status in (same, 429), (other, 200):
            headers = {"x-forwarded-for": host}
            server.ask("/embed", status, headers, sentences="the cat")


def test_request_that_does_not_fit_into_the_queue_is_answered_with_429():
    limits = {"queue_words": 30, "max_words": 20, "max_sentences": 5, "max_sentence_words": 20}
    with ServerApp(**limits) as server:
        busy = Busy(server)
        waiting = InBackground(server, sentences=["a " * 12])
        wait_for(lambda: server.state.queue.n_words == 14)
        assert server.ask("/embed", 429, sentences=["a " * 20])["error"]["type"] == (
            "rate_limit_error"
        )
        small = InBackground(server)
        wait_for(lambda: server.state.queue.n_requests == 2)
        busy.release()
        assert waiting.result().status_code == small.result().status_code == 200


def test_request_that_never_fits_into_the_queue_is_answered_with_422():
    with ServerApp(queue_words=100, max_words=60, max_sentences=5, max_sentence_words=60) as server:
        server.state.table.models["tiny"].value().__dict__["softmax_cost"] = 4
        server.ask("/score", sentences=["a " * 23])
        for path, fields in {
            "/score": {"sentences": ["a " * 20, "a " * 2]},
            "/substitutes": {"sentence": "a " * 24},
        }.items():
            message = server.error(path, 422, **fields)
            assert message.startswith("The request has 26 positions, more than 25, the limit of")
        server.ask("/embed", sentences=["a " * 50])


def test_memory_of_answers_is_limited_and_released():
    with ServerApp() as server:
        server.state.memory = HeldMemory(3000)
        busy = Busy(server)
        waiting = InBackground(server, sentences=[["a"] * 30])  # 1,920 bytes of vectors
        wait_for(lambda: server.state.memory.n_bytes > 1900)
        assert "too much memory" in server.error("/embed", 429, sentences=[["a"] * 30])
        busy.release()
        assert waiting.result().status_code == 200
        wait_for(lambda: server.state.memory.n_bytes == 0)
        assert server.state.n_active == 0


def test_memory_of_long_answers_is_limited():
    with ServerApp() as server:
        sentences = [["the", "cat"] * 500] * 4
        assert len(server.ask("/score", sentences=sentences)["sentences"]) == 4
        # Room for the body, but not for the answer.
        server.state.memory = HeldMemory(100_000)
        assert "more memory than" in server.error("/score", 422, sentences=sentences)
        assert server.ask("/score", sentences=sentences[:1])["sentences"]
        assert server.state.memory.n_bytes == 0


def test_memory_of_substitutes_is_reserved_before_they_are_computed():
    with ServerApp() as server:
        server.state.memory = HeldMemory(100_000)
        fields = {"sentence": ["the"] * 10, "n": 100}
        assert "more memory than" in server.error("/substitutes", 422, **fields)
        assert server.ask("/substitutes", **fields | {"n": 5})["positions"]


def test_stopping_server_answers_accepted_requests_and_rejects_others():
    with ServerApp() as server:
        busy = Busy(server)
        waiting = InBackground(server)
        wait_for(lambda: server.state.queue.n_requests == 1)
        assert server.client.get("/ready").status_code == 200
        server.state.is_stopping = True
        answer = server.post("/embed", json={"sentences": "a"})
        assert answer.status_code == 503
        assert "retry-after" in answer.headers
        assert server.client.get("/ready").status_code == 503
        assert server.client.get("/health").status_code == 200
        busy.release()
        assert waiting.result().status_code == 200


def test_request_that_takes_too_long_is_answered_with_504_and_not_computed():
    with ServerApp(timeout=0.1) as server:
        busy = Busy(server)
        assert "0.1 seconds" in server.error("/embed", 504, sentences="a")
        assert (server.state.queue.n_requests, server.state.queue.n_words) == (0, 0)
        busy.release()


def test_request_of_a_client_that_leaves_is_not_computed():
    with ServerApp() as server:
        busy = Busy(server)
        body = json.dumps({"sentences": "the cat"}).encode()
        sent = []

        async def leave():
            gone = asyncio.Event()
            parts = [{"type": "http.request", "body": body, "more_body": False}]

            async def receive():
                if parts:
                    return parts.pop()
                await gone.wait()
                return {"type": "http.disconnect"}

            async def send(message):
                sent.append(message)

            headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
            scope = {
                "type": "http",
                "method": "POST",
                "path": "/embed",
                "raw_path": b"/embed",
                "query_string": b"",
                "headers": headers,
                "client": ("127.0.0.1", 1),
            }
            task = asyncio.ensure_future(server.app(scope, receive, send))
            while not server.state.queue.n_requests:
                await asyncio.sleep(0.005)
            gone.set()
            await task

        server.client.portal.call(leave)
        assert sent == []
        assert (server.state.queue.n_requests, server.state.queue.n_words) == (0, 0)
        assert json.loads(server.log[-1])["status"] == 499
        busy.release()
        server.ask("/embed", sentences="a")
        words = 'elmo_words_total{model="tiny",operation="embed"} 3.0'
        wait_for(lambda: words in server.client.get("/metrics").text)
        assert "elmo_cancelled_requests_total 1.0" in server.client.get("/metrics").text


def test_failure_of_one_request_leaves_others_of_its_batch(monkeypatch, caplog):
    run = EmbedWords.run

    def fail(self, items):
        for words in items:
            if "bad" in words:
                raise InputError("This sentence cannot be encoded.")
            if "broken" in words:
                raise ZeroDivisionError("secret text")
        return run(self, items)

    monkeypatch.setattr(EmbedWords, "run", fail)
    with ServerApp() as server:
        busy = Busy(server)
        texts = ["the cat", "a bad word", "broken", "a dog"]
        requests = [InBackground(server, sentences=text) for text in texts]
        wait_for(lambda: server.state.queue.n_requests == 4)
        busy.release()
        answers = [request.result() for request in requests]
        assert [answer.status_code for answer in answers] == [200, 422, 500, 200]
        assert "cannot be encoded" in answers[1].json()["error"]["message"]
        number = answers[2].headers["x-request-id"]
        message = answers[2].json()["error"]["message"]
        assert number in message
        assert not re.search("Traceback|ZeroDivision|secret", answers[2].text)
        assert number in caplog.text
        assert "ZeroDivisionError" in caplog.text


def test_requests_wait_while_their_model_loads_and_others_are_served():
    gate = threading.Event()
    other = LoadedModel("other", ELMo(random_model(scale=1.5)))

    def load():
        assert gate.wait(10)
        return other

    with ServerApp(others={}, lazy=True) as server:
        table = server.state.table
        tiny = table.models["tiny"]
        table.models["other"] = type(tiny)("other", load, tiny._loading, tiny._stopped)
        table.models["tiny"].request().result(10)
        waiting = InBackground(server, model="other")
        wait_for(lambda: table.models["other"].state == "loading")
        assert server.ask("/embed", sentences="a")["model"] == "tiny"
        assert server.client.get("/info").json()["models"]["other"] == {"state": "loading"}
        gate.set()
        assert waiting.result().json()["model"] == "other"


def test_model_that_cannot_be_loaded_is_answered_with_503():
    def load():
        raise OSError("/secret/path is missing")

    with ServerApp({"broken": load}) as server:
        with pytest.raises(LoadFailed):
            server.state.table.models["broken"].request().result(10)
        answer = server.post("/embed", json={"sentences": "a"})
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "60"
        assert "secret" not in answer.text
        assert server.client.get("/ready").status_code == 503


def test_log_has_one_json_object_per_request_and_never_text():
    with ServerApp() as server:
        answer = server.post("/embed", json={"sentences": ["confidential words", "more"]})
        server.client.get("/no/confidential/path?confidential=1")
        server.post("/embed", json={"sentences": ["confidential"], "confidential": 1})
    first, second, third = map(json.loads, server.log)
    assert first["id"] == answer.headers["x-request-id"]
    assert (first["route"], first["status"], first["model"]) == ("/embed", 200, "tiny")
    assert (first["sentences"], first["words"]) == (2, 3)
    assert first["seconds"] >= first["queue_seconds"] >= 0
    assert (second["route"], second["status"], third["status"]) == ("other", 404, 422)
    assert "confidential" not in "".join(server.log)


def test_positions_with_probabilities_count_by_the_size_of_the_softmax():
    with ServerApp() as server:
        model = server.state.table.models["tiny"].value()
        n_lstm = sum(
            weight.numel()
            for name, weight in server.elmo.network.bilm.named_parameters()
            if "_lstm." in name
        )
        # Ten words of 8 dimensions and their biases, in two directions.
        assert model.softmax_cost == 1 + round(3 * 2 * 90 / n_lstm)
        model.__dict__["softmax_cost"] = 4
        assert ScoreWords(model).cost(["a", "b"]) == 16
        assert FindSubstitutes(model).cost(SubstituteQuery(["a"], [0])) == 12
        assert EmbedWords(model).cost(["a", "b"]) == 4


def test_metrics_have_bounded_labels():
    with ServerApp() as server:
        for number in range(5):
            server.client.get(f"/path{number}")
            server.ask("/embed", 404, sentences="a", model=f"model{number}")
        server.ask("/embed", sentences="the the cat")
        server.ask("/embed", sentences="the cat")
        # A batch is counted after its requests are answered.
        batches = 'elmo_batch_words_count{model="tiny",operation="embed"} 2.0'
        wait_for(lambda: batches in server.client.get("/metrics").text)
        text = server.client.get("/metrics").text
        assert 'elmo_requests_total{route="other",status="404"} 5.0' in text
        assert 'elmo_requests_total{route="/embed",status="200"} 2.0' in text
        assert 'elmo_word_cache_hits_total{model="tiny"} 2.0' in text
        assert 'elmo_word_cache_misses_total{model="tiny"} 2.0' in text
        assert "elmo_queued_words 0.0" in text
        assert "elmo_held_bytes 0.0" in text
        assert "path1" not in text
        assert "model1" not in text


@pytest.mark.parametrize("status", [200, 422, 429])
def test_calls_are_freed_without_the_garbage_collector(monkeypatch, status):
    calls = []

    class RecordedCall(ApiCall):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            calls.append(weakref.ref(self))

    def reject(request):
        raise QueueFull

    monkeypatch.setattr(endpoint, "ApiCall", RecordedCall)
    with ServerApp() as server:
        if status == 429:
            monkeypatch.setattr(server.state.queue, "put", reject)
        gc.disable()
        try:
            server.ask("/embed", status, sentences=0 if status == 422 else "a")
            (call,) = calls
            assert call() is None
        finally:
            gc.enable()
