"""Tests for task models on a hub, with a server on this machine."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hub_server import WRITE_TOKEN
from packaged_models import add_package
from small_tasks import LABELED, TAGGED, make_fitted_task, write_elmo

from elmo.config import TaskPredictConfig
from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError, FormatError
from elmo.tasks import Classifier, NearestOccurrenceFinder, Tagger
from elmo.tasks.fitted.load_fitted import load_fitted_task
from elmo.tasks.fitted.task_hub import FILES, upload_task
from elmo.tasks.prediction.predict import predict

NAME = "ada/sentiment"
ELMO = {f"elmo/{name}" for name in ("config.json", "model.safetensors", "README.md")}

pytestmark = [
    # huggingface_hub passes open files to its HTTP library in a deprecated way.
    pytest.mark.filterwarnings("ignore:Use 'content=<...>':DeprecationWarning"),
]


@pytest.fixture
def server(hub_server, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", WRITE_TOKEN)
    return hub_server


def files(server):
    return server.repositories[NAME].files


def recorded_elmo(server):
    return json.loads(files(server)["config.json"])["config"]["elmo"]["model"]


def header(card):
    return yaml.safe_load(card.decode().split("---\n")[1])


@pytest.mark.parametrize("use", ["frozen", "tuned"])
def test_task_with_a_local_elmo_is_loaded_from_the_hub(server, tmp_path, use):
    elmo = write_elmo(tmp_path / "my-elmo")
    fitted = make_fitted_task(tmp_path / "out", model=elmo, use=use)
    examples = replace(fitted.config.examples, train=str(tmp_path / "train.csv"))
    fitted.config = replace(fitted.config, examples=examples)
    expected = fitted.predict(LABELED)
    url = upload_task(fitted, NAME)
    assert url.startswith(server.endpoint)
    assert set(files(server)) == {"config.json", "model.safetensors", "README.md", *ELMO}
    assert str(tmp_path).encode() not in b"".join(files(server).values())
    shutil.rmtree(elmo)
    loaded = load_fitted_task(NAME)
    assert loaded.predict(LABELED) == expected
    # A copy has its ELMo model in the cache, and can be uploaded again.
    loaded.save(tmp_path / "copy")
    assert load_fitted_task(tmp_path / "copy").predict(LABELED) == expected
    uploaded = dict(files(server))
    upload_task(loaded, NAME)
    assert files(server).keys() == uploaded.keys()
    assert files(server)["model.safetensors"] == uploaded["model.safetensors"]


def test_elmo_with_a_public_name_is_not_uploaded(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elmo").mkdir()  # another folder of that name has no influence
    upload_task(make_fitted_task(tmp_path / "out", model="small-en"), NAME)
    assert set(files(server)) == {"config.json", "model.safetensors", "README.md"}
    assert recorded_elmo(server) == "small-en"
    assert load_fitted_task(NAME).config.elmo.model == "small-en"


@pytest.mark.parametrize("name", ["base-en", "tiny-en"])
def test_elmo_in_a_package_is_uploaded(server, site, tmp_path, name):
    add_package(site, name)
    upload_task(make_fitted_task(tmp_path / "out", model=name), NAME)
    assert ELMO & set(files(server))
    assert recorded_elmo(server) != name


def test_elmo_on_the_hub_is_named_as_base_model(server, tmp_path):
    ELMo.from_pretrained(write_elmo(tmp_path / "elmo")).push_to_hub("ada/tiny")
    fitted = make_fitted_task(tmp_path / "out", model="ada/tiny")
    upload_task(fitted, NAME)
    assert not ELMO & set(files(server))
    assert header(files(server)["README.md"])["base_model"] == "ada/tiny"
    assert load_fitted_task(NAME).predict(LABELED) == fitted.predict(LABELED)


def test_task_replaces_all_files_of_a_previous_model(server, tmp_path):
    server.add(NAME, {name: b"old" for name in (*FILES, "vocab.txt")} | {"notes.txt": b"mine"})
    upload_task(make_fitted_task(tmp_path / "out"), NAME)
    assert set(files(server)) == {"config.json", "model.safetensors", "README.md", "notes.txt"}
    assert b"old" not in files(server).values()


def test_estimators_are_pushed_and_loaded_by_hub_id(server, tmp_path):
    write_elmo(tmp_path / "elmo")
    tagger = Tagger()
    tagger._fitted = make_fitted_task(tmp_path / "out", task="tagging", train=TAGGED)
    tagger.push_to_hub(NAME, private=True)
    assert server.repositories[NAME].is_private
    texts = [list(example.words) for example in TAGGED]
    assert Tagger.load(NAME).predict(texts) == tagger.predict(texts)
    with pytest.raises(ConfigError, match="for tagging, not for classification"):
        Classifier.load(NAME)


def test_lookup_index_is_pushed_with_its_elmo(server, tmp_path):
    finder = NearestOccurrenceFinder(model=write_elmo(tmp_path / "elmo"))
    finder.fit([["a", "bank"], ["the", "bank"]])
    finder.push_to_hub(NAME)
    names = {"config.json", "memory.json", "memory.safetensors", "README.md"}
    assert set(files(server)) == {*names, *ELMO}
    shutil.rmtree(tmp_path / "elmo")
    queries = [("bank", ["a", "bank"])]
    assert NearestOccurrenceFinder.load(NAME).predict(queries) == finder.predict(queries)


def test_predict_command_loads_a_task_by_hub_id(server, tmp_path):
    upload_task(make_fitted_task(tmp_path / "out"), NAME)
    (tmp_path / "texts.txt").write_text("a fine film\n", encoding="utf-8")
    out = tmp_path / "labels.csv"
    predict(TaskPredictConfig(NAME, str(tmp_path / "texts.txt"), str(out)))
    assert len(out.read_text(encoding="utf-8").splitlines()) == 2


def test_unknown_and_other_repositories_are_rejected(server, tmp_path, monkeypatch):
    with pytest.raises(FormatError, match="the hub has no repository of that name"):
        load_fitted_task("ada/nobody")
    server.add("ada/song", {"song.mp3": b"la"})
    with pytest.raises(FormatError, match="contains no model files"):
        load_fitted_task("ada/song")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ada" / "local").mkdir(parents=True)
    n_requests = len(server.requests)
    with pytest.raises(FormatError, match="is not a fitted task model"):
        load_fitted_task(Path("ada/local"))
    with pytest.raises(FormatError, match="There is no folder"):
        load_fitted_task("./ada/nobody")
    assert len(server.requests) == n_requests
