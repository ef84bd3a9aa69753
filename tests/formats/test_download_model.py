"""Tests of `elmo download` and of loading downloaded models by name, with a stand-in server."""

import json
import logging
import os
import signal
import subprocess
import sys
import time

import pytest
from builders import hdf5_folder, many_langs_folder, write_tar, zip_folder
from file_server import FileServer
from sources import assert_same_model
from typer.testing import CliRunner

from elmo import cli
from elmo.config import DownloadConfig, InfoConfig
from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError, FormatError, OutputError
from elmo.files import locked
from elmo.formats import download_model, http_download, load, model_cache
from elmo.formats.download_model import download
from elmo.formats.info_and_convert import info
from elmo.formats.model_cache import downloaded
from elmo.formats.published_models import PublishedModel, RemoteFile


@pytest.fixture
def server():
    with FileServer() as running:
        yield running


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ELMO_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(http_download, "PAUSES", (0.0,))
    return tmp_path / "cache" / "models"


@pytest.fixture
def publish(server, cache, monkeypatch):
    """Return a function that replaces the table by one model with the given files."""

    def replace(*paths):
        server.files = {path.name: path.read_bytes() for path in paths}
        files = tuple(RemoteFile(server.url(path.name)) for path in paths)
        table = {
            "lab-x": PublishedModel("lab-x", "Klingon", "plays", files, "http://lab.example", "MIT")
        }
        for module in (download_model, model_cache, load):
            monkeypatch.setattr(module, "MODELS", table)

    return replace


@pytest.fixture
def pair(tmp_path, publish):
    """Publish a model as options.json and weights, and return its local folder."""
    folder = tmp_path / "original"
    hdf5_folder(folder)
    publish(*sorted(path for path in folder.iterdir() if path.suffix in (".json", ".hdf5")))
    return folder


def test_downloaded_model_is_found_by_name(pair, cache):
    with pytest.raises(FormatError, match=r"has not been downloaded .*Run: elmo download lab-x$"):
        ELMo.from_pretrained("lab-x")
    result = download(DownloadConfig("lab-x"))
    assert result.is_new
    assert result.path == str(cache / "lab-x")
    assert "--model lab-x" in str(result)
    assert "Not verified" in str(result)
    assert all(digest in str(result) for digest in result.sha256.values())
    assert os.listdir(cache) == ["lab-x"]
    assert_same_model(ELMo.from_pretrained("lab-x"), ELMo.from_pretrained(pair))
    rows = info(InfoConfig("lab-x")).rows
    assert (rows["language"], rows["license"]) == ("Klingon", "MIT")
    assert rows["page"] == "http://lab.example"
    assert "derived_from" not in rows
    assert load.read("lab-x").attribution["derived_from"] == "lab-x"


def test_zip_and_tar_archives_are_loaded_without_unpacking(tmp_path, publish, cache):
    languages = tmp_path / "languages"
    many_langs_folder(languages)
    publish(zip_folder(languages, tmp_path / "144.zip", "en.model/"))
    assert download(DownloadConfig("lab-x")).path == str(cache / "lab-x" / "144.zip")
    assert_same_model(ELMo.from_pretrained("lab-x"), ELMo.from_pretrained(languages))
    folder = tmp_path / "slovenian"
    hdf5_folder(folder)
    members = {f"slovenian/{path.name}": path.read_bytes() for path in folder.iterdir()}
    publish(write_tar(tmp_path / "model-elmo.tar.gz", members))
    result = download(DownloadConfig("lab-x", out=str(tmp_path / "out")))
    assert f"--model {tmp_path}/out/model-elmo.tar.gz" in str(result)
    assert_same_model(ELMo.from_pretrained(result.path), ELMo.from_pretrained(folder))


def test_second_download_makes_no_requests(pair, server):
    download(DownloadConfig("lab-x"))
    n_requests = len(server.requests)
    result = download(DownloadConfig("lab-x"))
    assert not result.is_new
    assert "already downloaded" in str(result)
    assert len(server.requests) == n_requests


def test_failed_download_is_resumed_file_by_file(pair, server, cache):
    second = list(server.files)[1]
    whole = len(server.files[second])
    server.cuts = [10**9, whole // 2, 0]
    with pytest.raises(FormatError, match="again to resume"):
        download(DownloadConfig("lab-x"))
    assert downloaded("lab-x") is None
    server.requests.clear()
    download(DownloadConfig("lab-x"))
    assert [(request.path, request.range) for request in server.requests] == [
        (f"/{second}", f"bytes={whole // 2}-")
    ]
    assert_same_model(ELMo.from_pretrained("lab-x"), ELMo.from_pretrained(pair))


def test_missing_file_leaves_nothing(pair, server, cache):
    server.files = {}
    with pytest.raises(FormatError, match="has no file"):
        download(DownloadConfig("lab-x"))
    assert os.listdir(cache) == []


def test_wrong_checksum_leaves_no_model(pair, server, cache, monkeypatch):
    name = next(iter(server.files))
    table = dict(download_model.MODELS)
    file = RemoteFile(server.url(name), f"sha1:{'0' * 40}")
    table["lab-x"] = PublishedModel("lab-x", "Klingon", "", (file,), "http://lab.example")
    monkeypatch.setattr(download_model, "MODELS", table)
    with pytest.raises(FormatError, match="its sha1 checksum is"):
        download(DownloadConfig("lab-x"))
    assert downloaded("lab-x") is None


def test_existing_folder_of_that_name_is_not_overwritten(pair, tmp_path):
    with pytest.raises(OutputError, match="it exists already"):
        download(DownloadConfig("lab-x", out=str(pair)))
    (tmp_path / "empty").mkdir()
    download(DownloadConfig("lab-x", out=str(tmp_path / "empty")))
    assert_same_model(ELMo.from_pretrained(tmp_path / "empty"), ELMo.from_pretrained(pair))


def test_second_process_is_rejected(pair, cache):
    with (
        locked(cache / ".lab-x.lab-x.partial", "busy"),
        pytest.raises(OutputError, match="Another process is downloading lab-x"),
    ):
        download(DownloadConfig("lab-x"))


def test_path_with_the_name_of_a_model_takes_precedence_with_a_warning(
    pair, tmp_path, monkeypatch, caplog
):
    monkeypatch.chdir(tmp_path)
    pair.rename(tmp_path / "lab-x")
    with caplog.at_level(logging.WARNING):
        ELMo.from_pretrained("lab-x")
    assert "lab-x is read from the current folder" in caplog.text


def test_unknown_name_suggests_a_similar_one():
    with pytest.raises(ConfigError, match=r"no published model ai2-smal\. Did you mean ai2-small"):
        download(DownloadConfig("ai2-smal"))
    with pytest.raises(ConfigError, match="--list"):
        download(DownloadConfig())


def test_command_lists_models_as_table_and_as_json():
    runner = CliRunner()
    table = runner.invoke(cli.application(), ["download", "--list"])
    assert table.exit_code == 0
    assert "manylangs-ko" in table.output
    shown = runner.invoke(cli.application(), ["download", "--list", "--json"])
    models = json.loads(shown.output)["models"]
    assert {"ai2-original", "t-systems-de"} <= {model["name"] for model in models}
    assert all(model["urls"] for model in models)


def test_bundled_model_needs_no_download():
    done = CliRunner().invoke(cli.application(), ["download", "small-en"])
    assert done.exit_code == 0
    assert "nothing to download" in done.output


# Runs `elmo download lab-x` with an own table; with WAIT set, it stops after a megabyte.
SCRIPT = """
import os, sys, time
from elmo import cli
from elmo.formats import download_model, http_download, model_cache
from elmo.formats.published_models import PublishedModel, RemoteFile

files = (RemoteFile(sys.argv[1]),)
table = {"lab-x": PublishedModel("lab-x", "Klingon", "", files, "http://lab.example")}
download_model.MODELS = model_cache.MODELS = table
chunks = http_download._chunks

def stopping(response):
    for number, chunk in enumerate(chunks(response)):
        if number == 4 and "WAIT" in os.environ:
            print("ready", flush=True)
            time.sleep(60)
        yield chunk

http_download._chunks = stopping
cli.application()(["download", "lab-x"])
"""


def test_ctrl_c_keeps_the_part_for_the_next_download(server, cache):
    content = b'{"options": "' + b"x" * 3_000_000 + b'"}'
    server.files = {"options.json": content}
    command = [sys.executable, "-c", SCRIPT, server.url("options.json")]
    with subprocess.Popen(
        command,
        env={**os.environ, "WAIT": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell that runs the tests in the background makes all its child processes ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, message = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Interrupted. The files received so far are kept." in message
    assert not (cache / "lab-x").exists()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert server.requests[-1].range == f"bytes={4 * http_download.CHUNK}-"
    assert (cache / "lab-x" / "options.json").read_bytes() == content
