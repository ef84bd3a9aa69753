"""Tests of the table of models: loading in the background, lazily, and again after a failure."""

import threading

import pytest

from elmo.serve import model_table
from elmo.serve.model_table import LoadFailed, ModelTable


def table(lazy=False, **models):
    return ModelTable(models, {}, lazy=lazy)


def test_models_are_loaded_by_threads_one_at_a_time():
    gate, active = threading.Event(), []

    def load(name):
        active.append(name)
        assert gate.wait(10)
        assert len(active) == 1
        active.remove(name)
        return name

    names = table(a=lambda: load("a"), b=lambda: load("b"))
    assert names.default_model == "a"
    assert names.models["a"].state == "not loaded"
    futures = names.start()
    assert not names.is_ready
    assert names.models["b"].state == "loading"
    assert names.models["b"].value() is None
    gate.set()
    assert [future.result(10) for future in futures] == ["a", "b"]
    assert names.is_ready
    assert names.models["b"].value() == "b"


def test_lazy_model_is_loaded_by_the_first_request_only():
    calls = []
    names = table(lazy=True, a=lambda: calls.append(1) or "a")
    assert names.start() == []
    assert names.is_ready
    assert names.models["a"].state == "not loaded"
    future = names.models["a"].request()
    assert not future.cancel()
    assert future.result(10) == "a"
    assert names.models["a"].request() is future
    assert calls == [1]


def test_failed_load_is_tried_again_after_a_minute(monkeypatch):
    results = iter([OSError("offline"), "loaded"])

    def load():
        result = next(results)
        if isinstance(result, Exception):
            raise result
        return result

    names = table(a=load)
    (future,) = names.start()
    assert isinstance(future.exception(10), LoadFailed)
    assert names.models["a"].state == "failed"
    assert not names.is_ready
    with pytest.raises(LoadFailed):
        names.models["a"].request().result(0)
    monkeypatch.setattr(model_table, "RETRY_SECONDS", 0.0)
    assert names.models["a"].request().result(10) == "loaded"
    assert names.is_ready


def test_stopped_table_loads_nothing_further():
    gate, loaded = threading.Event(), []

    def load(name):
        loaded.append(name)
        assert gate.wait(10)
        return name

    names = table(a=lambda: load("a"), b=lambda: load("b"))
    assert names.join(0)
    names.start()
    names.stop()
    assert not names.join(0.01)
    gate.set()
    assert names.join(10)
    assert len(loaded) == 1
    assert sorted(entry.state for entry in names.models.values()) == ["loading", "ready"]
