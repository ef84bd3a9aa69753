"""Tests of the queue of texts: turns between hosts, limits, and clients that leave."""

import threading

import pytest
from server_app import ServerApp
from test_server_load import InBackground, wait_for

from elmo.embed.embedder import ELMo
from elmo.serve.split_texts import SplitTexts
from elmo.text.tokenizer import WhitespaceTokenizer

# Longer than texts that are split on the event loop, and than a turn.
LONG = "word " * 1000


class HeldTokenizer(WhitespaceTokenizer):
    """Records the first word of each text, and can be held."""

    def __init__(self):
        self.firsts, self.gate, self.running = [], threading.Event(), threading.Event()

    def tokens(self, text):
        self.firsts.append(text.split()[0])
        self.running.set()
        assert self.gate.wait(10)
        return super().tokens(text)


@pytest.fixture
def tokenizer(monkeypatch):
    tokenizer = HeldTokenizer()
    monkeypatch.setattr(ELMo, "tokenizer", property(lambda elmo: tokenizer))
    return tokenizer


def long_texts(name, number):
    return [f"{name} {LONG}"] * number


def test_hosts_take_turns_in_splitting(tokenizer):
    with ServerApp(trusted_proxy=("testclient",), max_words=10_000) as server:
        requests = []
        for host, number in ("first", 4), ("second", 1):
            request = InBackground(
                server,
                path="/tokenize",
                headers={"x-forwarded-for": host},
                sentences=long_texts(host, number),
            )
            requests.append(request)
            wait_for(lambda: server.state.text_queue.n_requests == len(requests))
            assert tokenizer.running.wait(10)
        tokenizer.gate.set()
        assert [request.result().status_code for request in requests] == [200, 200]
        assert tokenizer.firsts == ["first", "first", "second", "first", "first"]


def test_splitting_ends_when_the_request_has_too_many_words(tokenizer):
    tokenizer.gate.set()
    with ServerApp(max_words=1500) as server:
        message = server.error("/tokenize", 422, sentences=long_texts("many", 5))
        assert message == "The request has more than 1500 words. Send several requests."
        assert len(tokenizer.firsts) == 2
        message = server.error("/tokenize", 422, sentences=["a" * 30_000] * 2)
        assert message == "The texts have 60000 characters, more than 48000. Send several requests."
        assert len(tokenizer.firsts) == 2
        assert server.state.text_queue.n_words == 0


def test_splitting_ends_when_the_request_times_out(tokenizer):
    with ServerApp(timeout=0.05, max_words=10_000) as server:
        server.error("/tokenize", 504, sentences=long_texts("late", 4))
        assert (server.state.text_queue.n_words, server.state.text_queue.n_requests) == (0, 0)
        tokenizer.gate.set()
        wait_for(lambda: server.state.text_worker.words_per_second)
        assert tokenizer.firsts == ["late"]


def test_many_texts_of_one_host_leave_room_for_others(tokenizer):
    with ServerApp(trusted_proxy=("testclient",), queue_requests=16, max_words=10_000) as server:
        first = {"x-forwarded-for": "first"}
        waiting = [
            InBackground(server, path="/tokenize", headers=first, sentences=long_texts("first", 2))
            for _ in range(16)
        ]
        wait_for(lambda: server.state.text_queue.n_requests == 16)
        server.ask("/tokenize", 429, first, sentences=long_texts("first", 1))
        second = InBackground(
            server,
            path="/tokenize",
            headers={"x-forwarded-for": "second"},
            sentences=long_texts("second", 1),
        )
        wait_for(lambda: server.state.text_queue.n_requests == 17)
        tokenizer.gate.set()
        assert {request.result().status_code for request in [*waiting, second]} == {200}


@pytest.mark.parametrize(
    ("tokenizer", "n_characters", "is_short"),
    [("english", 1000, True), ("english", 1001, False), ("korean", 1, False), ("korean", 0, True)],
)
def test_only_fast_tokenizers_split_on_the_event_loop(tokenizer, n_characters, is_short):
    assert SplitTexts(tokenizer, len, str.split).is_short(n_characters) is is_short
