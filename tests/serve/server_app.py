"""A server with a tiny model for tests of routes, without a network."""

import contextlib

from conftest import TINY, random_model
from starlette.testclient import TestClient

from elmo.config import ModelConfig
from elmo.config.serve import ServeConfig
from elmo.embed.embedder import ELMo
from elmo.serve.application import create_app
from elmo.serve.loaded_model import LoadedModel
from elmo.serve.model_table import ModelTable
from elmo.serve.server_state import ServerState
from elmo.text.vocabulary import Vocabulary

WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", "sat", "on", "mat", "dog", "."]
SENTENCES = ["the cat sat .", "a dog"]


def make_model(**extra):
    """Return a tiny model with a softmax over ten words."""
    config = ModelConfig(TINY.text, TINY.encoder, TINY.lstm, n_softmax_words=len(WORDS))
    return random_model(config, scale=1.5, vocabulary=Vocabulary(WORDS), **extra)


class ServerApp:
    """The application of a server, with its state, a client, and the lines of its log.

    `client` is connected while the object is used as a context manager.
    """

    def __init__(
        self, models=None, tasks=None, *, others=None, token=None, is_started=True, **settings
    ):
        self.elmo = ELMo(make_model())
        if models is None:
            loaded = {"tiny": LoadedModel("tiny", self.elmo), **(others or {})}
            models = {name: lambda model=model: model for name, model in loaded.items()}
        table = ModelTable(models, tasks or {}, lazy=settings.get("lazy", False))
        self.state = ServerState(ServeConfig(model=tuple(models), **settings), table)
        self.log = []
        app = create_app(self.state, token=token, write_log=self.log.append)
        self.client = TestClient(app, base_url="http://localhost")
        self.app, self._is_started = app, is_started
        self.post = self.client.post

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.client)
            if self._is_started:
                self.start()
            self._stack = stack.pop_all()
        return self

    def start(self):
        self.state.worker.start()
        self.state.text_worker.start()
        for future in self.state.table.start():
            future.exception(30)

    def __exit__(self, *error):
        self.state.queue.close()
        self.state.text_queue.close()
        for worker in (self.state.worker, self.state.text_worker):
            if worker.is_started:
                assert worker.join(10)
        self._stack.close()

    def ask(self, path, status=200, headers=None, **fields):
        """Post fields as JSON, check the status, and return the JSON data of the answer."""
        answer = self.client.post(path, json=fields, headers=headers)
        assert answer.status_code == status, answer.text
        return answer.json()

    def error(self, path, status, **fields):
        """Post fields as JSON and return the message of the error."""
        data = self.ask(path, status, **fields)
        assert set(data) == {"error"}
        assert set(data["error"]) == {"message", "type"}
        return data["error"]["message"]
