"""Tests of the hub: there and back over the stand-in, from the cache, and every kind of refusal."""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import random_model
from hub_server import HubServer

from elmo.embed.embedder import ELMo
from elmo.errors import FormatError, MissingExtra, OutputError
from elmo.formats import hub

huggingface_hub = pytest.importorskip("huggingface_hub")
from huggingface_hub import constants, errors  # noqa: E402
from huggingface_hub.utils import (  # noqa: E402
    close_session,
    disable_progress_bars,
    enable_progress_bars,
)

NAME = "ada/tiny-elmo"
WRITE, READ = "hf_write", "hf_read"
FILES = {
    "config.json": b'{"format": "elmo-torch"}\n',
    "model.safetensors": bytes(range(256)) * 40,
    "vocab.txt": "<S>\n</S>\n<UNK>\nnaïve\n".encode(),
    "README.md": b"---\nlicense: mit\n---\n# Tiny\n",
}
SOURCE = Path(hub.__file__).parents[2]

pytestmark = [
    # huggingface_hub hands open files to its HTTP library in a way that one is about to drop.
    pytest.mark.filterwarnings("ignore:Use 'content=<...>':DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A machine that never met a hub: no cache, no login, and nowhere to go."""
    for name in list(os.environ):
        if name.startswith(("HF_", "HUGGING_FACE_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(home / "token"))
    monkeypatch.setattr(constants, "HF_STORED_TOKENS_PATH", str(home / "stored_tokens"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(home / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_IMPLICIT_TOKEN", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr("tqdm.std.tqdm.monitor_interval", 0)
    set_endpoint(monkeypatch, "http://127.0.0.1:1")
    threads = set(threading.enumerate())
    disable_progress_bars()
    yield home
    enable_progress_bars()
    close_session()
    assert set(threading.enumerate()) <= threads


@pytest.fixture
def server(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    with HubServer(write_token=WRITE, read_token=READ) as server:
        set_endpoint(monkeypatch, server.endpoint)
        yield server


@pytest.fixture
def unreachable(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # A port that is taken but not listened to refuses everyone, and nobody else can get it.
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        set_endpoint(monkeypatch, f"http://127.0.0.1:{taken.getsockname()[1]}")
        yield


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    return folder


def set_endpoint(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    template = endpoint + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)


def content_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def sentence_of(caught: pytest.ExceptionInfo[Exception]) -> str:
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert "Traceback" not in sentence
    return sentence


class TestThereAndBack:
    def test_bytes_are_the_same(self, server, folder, monkeypatch):
        monkeypatch.setenv("HF_TOKEN", WRITE)
        address = hub.upload(folder, NAME)
        repository = server.repositories[NAME]
        assert address == f"{server.endpoint}/{NAME}/commit/{repository.commits[-1].oid}"
        assert repository.commits[-1].message == "Upload ELMo model"
        assert not repository.is_private
        assert set(server.large_files.values()) == {FILES["model.safetensors"]}
        monkeypatch.delenv("HF_TOKEN")
        assert content_of(hub.download(NAME)) == FILES

    def test_again_changes_nothing(self, server, folder, monkeypatch):
        monkeypatch.setenv("HF_TOKEN", WRITE)
        first = hub.upload(folder, NAME)
        assert hub.upload(folder, NAME) == first
        assert len(server.repositories[NAME].commits) == 2

    def test_another_model_leaves_nothing_of_the_first(self, server, folder, monkeypatch):
        monkeypatch.setenv("HF_TOKEN", WRITE)
        old = {"words.json": b"{}", "notes.txt": b"keep", "parts/config.json": b"keep"}
        server.add(NAME, old)
        hub.upload(folder, NAME)
        del old["words.json"]
        assert server.repositories[NAME].files == {**old, **FILES}

    def test_private(self, server, folder, monkeypatch):
        monkeypatch.setenv("HF_TOKEN", WRITE)
        hub.upload(folder, NAME, private=True)
        assert server.repositories[NAME].is_private
        assert content_of(hub.download(NAME)) == FILES
        hub.upload(folder, NAME)
        assert server.repositories[NAME].is_private

    def test_open_hub_needs_no_token(self, server, folder):
        server.write_token = None
        hub.upload(folder, NAME)
        assert content_of(hub.download(NAME)) == FILES

    def test_environment_alone(self, server, folder, tmp_path):
        """Through the variables a user sets, in a fresh process, by the road hf_xet takes."""
        server.large_endings = ()
        script = (
            "import json, sys, pathlib\n"
            "from elmo.formats import hub\n"
            "folder, name, upload = json.loads(sys.argv[1])\n"
            "if upload: hub.upload(pathlib.Path(folder), name)\n"
            "print(hub.download(name))\n"
        )
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(SOURCE),
            "HOME": str(tmp_path),
            "HF_HOME": str(tmp_path / "fresh"),
            "HF_ENDPOINT": server.endpoint,
            "HF_TOKEN": WRITE,
            "DO_NOT_TRACK": "1",
        }

        def run(*, upload: bool, **changes: str) -> dict[str, bytes]:
            arguments = json.dumps([str(folder), NAME, upload])
            command = [sys.executable, "-W", "error", "-c", script, arguments]
            done = subprocess.run(
                command, env={**environment, **changes}, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
            return content_of(Path(done.stdout.strip()))

        assert run(upload=True) == FILES
        asked = len(server.requests)
        assert run(upload=False, HF_HUB_OFFLINE="1") == FILES
        assert len(server.requests) == asked


class TestDownload:
    def test_only_files_of_a_model(self, server):
        others = {"training.log": b"", "pytorch_model.bin": b"0", "old/weights.hdf5": b"0"}
        server.add(NAME, {**FILES, **others})
        assert content_of(hub.download(NAME)) == FILES

    @pytest.mark.parametrize(
        "names",
        [
            ("elmo_small_options.json", "elmo_small_weights.hdf5", "vocab.txt.gz"),
            ("checkpoint", "model.ckpt-9.index", "model.ckpt-9.data-00000-of-00001"),
            ("model.tar.gz",),
            ("config.json", "encoder.pkl", "token_embedder.pkl", "char.dic", "word.dic"),
        ],
    )
    def test_older_formats(self, server, names):
        server.add(NAME, dict.fromkeys(names, b"content"))
        assert content_of(hub.download(NAME)) == dict.fromkeys(names, b"content")

    def test_our_own_names(self):
        native = pytest.importorskip("elmo.formats.model_folder")
        own = (native.CONFIG, native.WEIGHTS, native.VOCABULARY, native.CHARACTERS, native.WORDS)
        assert own == hub.OWN_FILES
        assert native.CARD in hub.MODEL_FILES

    def test_no_main_branch(self, server):
        server.add(NAME, FILES).branch = "trunk"
        with pytest.raises(FormatError, match=r"has no branch main$") as caught:
            hub.download(NAME)
        assert NAME in sentence_of(caught)

    def test_newer_commit_is_seen(self, server):
        repository = server.add(NAME, FILES)
        hub.download(NAME)
        repository.commit("newer", {**FILES, "config.json": b"{}"})
        assert (hub.download(NAME) / "config.json").read_bytes() == b"{}"

    def test_not_a_model(self, server):
        server.add(NAME, {"song.mp3": b"la"})
        with pytest.raises(FormatError, match="holds no file of a model"):
            hub.download(NAME)

    def test_unknown(self, server, monkeypatch):
        with pytest.raises(
            FormatError, match=r"^there is no file or folder ada/nobody, and"
        ) as caught:
            hub.download("ada/nobody")
        assert "the hub shows no repository of that name" in sentence_of(caught)
        monkeypatch.setenv("HF_TOKEN", READ)
        with pytest.raises(
            FormatError, match=r"^there is no file or folder ada/nobody, and"
        ) as caught:
            hub.download("ada/nobody")
        assert "no repository of that name which you may read is on the hub" in sentence_of(caught)

    def test_private(self, server, monkeypatch):
        server.add(NAME, FILES, is_private=True)
        with pytest.raises(
            FormatError, match="if it is private, run hf auth login or set HF_TOKEN"
        ):
            hub.download(NAME)
        monkeypatch.setenv("HF_TOKEN", "hf_wrong")
        with pytest.raises(FormatError, match="the hub does not accept your token"):
            hub.download(NAME)
        monkeypatch.setenv("HF_TOKEN", READ)
        assert content_of(hub.download(NAME)) == FILES

    def test_gated(self, server):
        server.add(NAME, FILES).is_gated = True
        with pytest.raises(FormatError, match="is gated: ask for access") as caught:
            hub.download(NAME)
        sentence_of(caught)

    @pytest.mark.parametrize("name", ["elmo", "a/b/c", "ada/..", "-ada/elmo", "ada/elmo.git", ""])
    def test_no_id(self, server, name):
        with pytest.raises(FormatError, match="it is no hub id, which looks like owner/name"):
            hub.download(name)
        assert not server.requests

    @pytest.mark.parametrize(
        ("fault", "expected"),
        [
            (0, "the hub cannot be reached"),
            (b"<html>Welcome to our hotel</html>", "the hub cannot be reached"),
            (403, r"the hub refuses it \(403: "),
            (418, r"the hub refuses it \(418: "),
            (429, "try again later"),
            (503, "try again later"),
        ],
    )
    def test_fault(self, server, fault, expected):
        server.add(NAME, FILES)
        server.fault = fault
        with pytest.raises(FormatError, match=expected) as caught:
            hub.download(NAME)
        assert NAME in sentence_of(caught)
        server.fault = None
        cached = hub.download(NAME)
        server.fault = fault
        assert hub.download(NAME) == cached

    def test_anything_else(self, monkeypatch):
        def fail(*arguments, **options):
            raise RuntimeError("a thread\ncould not start")

        monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
        with pytest.raises(FormatError, match="a thread could not start") as caught:
            hub.download(NAME)
        assert sentence_of(caught).startswith(f"cannot download {NAME}: ")

    def test_unwritable_cache(self, server, home):
        server.add(NAME, FILES)
        home.mkdir()
        (home / "hub").write_bytes(b"a file where the cache should be")
        with pytest.raises(FormatError, match=f"^cannot download {NAME}: ") as caught:
            hub.download(NAME)
        sentence_of(caught)


class TestCache:
    def test_offline(self, server, monkeypatch):
        server.add(NAME, FILES)
        folder = hub.download(NAME)
        asked = len(server.requests)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        assert hub.download(NAME) == folder
        assert content_of(folder) == FILES
        assert len(server.requests) == asked

    def test_offline_without_cache(self, server, monkeypatch):
        server.add(NAME, FILES)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        with pytest.raises(
            FormatError, match="is not in the hub's cache, and offline mode"
        ) as caught:
            hub.download(NAME)
        assert "unset HF_HUB_OFFLINE" in sentence_of(caught)

    def test_unreachable(self, server, unreachable):
        with pytest.raises(
            FormatError, match="is not in the hub's cache, and the hub cannot be"
        ) as caught:
            hub.download(NAME)
        assert sentence_of(caught).startswith(f"there is no file or folder {NAME}, {NAME} is not")

    def test_unreachable_with_cache(self, server, monkeypatch, request):
        server.add(NAME, FILES)
        folder = hub.download(NAME)
        request.getfixturevalue("unreachable")
        assert hub.download(NAME) == folder

    @pytest.mark.skipif(
        not hasattr(errors, "IncompleteSnapshotError"), reason="this version cannot tell"
    )
    @pytest.mark.parametrize("fault", ["offline", "hang up"])
    def test_part_of_a_model(self, server, monkeypatch, fault):
        server.add(NAME, FILES)
        (hub.download(NAME) / "model.safetensors").unlink()
        if fault == "offline":
            monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        else:
            server.fault = 0
        with pytest.raises(
            FormatError, match=f"^only a part of {NAME} is in the hub's cache"
        ) as caught:
            hub.download(NAME)
        sentence_of(caught)


class TestUploadRefused:
    @pytest.mark.parametrize("exists", [False, True])
    def test_not_logged_in(self, server, folder, exists):
        if exists:
            server.add(NAME, {})
        with pytest.raises(OutputError, match="run hf auth login or set HF_TOKEN") as caught:
            hub.upload(folder, NAME)
        assert "you are not logged in" in sentence_of(caught)
        assert exists == (NAME in server.repositories)

    def test_wrong_token(self, server, folder, monkeypatch):
        monkeypatch.setenv("HF_TOKEN", "hf_wrong")
        with pytest.raises(OutputError, match="the hub does not accept your token"):
            hub.upload(folder, NAME)

    @pytest.mark.parametrize("exists", [False, True])
    def test_token_may_only_read(self, server, folder, monkeypatch, exists):
        if exists:
            server.add(NAME, {})
        monkeypatch.setenv("HF_TOKEN", READ)
        with pytest.raises(OutputError, match=r"refuses it \(403: You don't have") as caught:
            hub.upload(folder, NAME)
        sentence_of(caught)

    def test_large_file_refused(self, server, folder, monkeypatch):
        monkeypatch.setenv("HF_TOKEN", WRITE)
        monkeypatch.setattr("hub_server._sha256", lambda content: "0")
        with pytest.raises(OutputError, match="does not fit its address") as caught:
            hub.upload(folder, NAME)
        assert sentence_of(caught).startswith(f"cannot upload to {NAME}: ")

    def test_existing_public_for_private(self, server, folder, monkeypatch):
        monkeypatch.setenv("HF_TOKEN", WRITE)
        server.add(NAME, {})
        with pytest.raises(OutputError, match="exists already and is public"):
            hub.upload(folder, NAME, private=True)
        assert server.repositories[NAME].files == {}

    def test_broken_card(self, server, folder, monkeypatch):
        monkeypatch.setenv("HF_TOKEN", WRITE)
        (folder / "README.md").write_text("---\nbroken: [\n---\n")
        with pytest.raises(OutputError, match=r"README\.md\. - the metadata is no YAML") as caught:
            hub.upload(folder, NAME)
        sentence_of(caught)

    def test_unreachable(self, unreachable, folder):
        with pytest.raises(OutputError, match="the hub cannot be reached") as caught:
            hub.upload(folder, NAME)
        assert sentence_of(caught).startswith(f"cannot upload to {NAME}: ")

    def test_offline(self, server, folder, monkeypatch):
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        with pytest.raises(OutputError, match="offline mode is on: unset HF_HUB_OFFLINE"):
            hub.upload(folder, NAME)

    def test_bad_arguments(self, server, folder, tmp_path):
        with pytest.raises(OutputError, match="cannot upload to elmo: it is no hub id"):
            hub.upload(folder, "elmo")
        with pytest.raises(OutputError, match="cannot upload to ada/-elmo: it is no hub id"):
            hub.upload(folder, "ada/-elmo")
        with pytest.raises(OutputError, match="there is no such folder"):
            hub.upload(tmp_path / "nowhere", NAME)
        shutil.rmtree(folder)
        folder.mkdir()
        with pytest.raises(OutputError, match="it holds no files"):
            hub.upload(folder, NAME)
        assert not server.requests


class TestWithoutExtra:
    @pytest.fixture(autouse=True)
    def _without(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "huggingface_hub", None)

    def test_download(self):
        with pytest.raises(FormatError, match=r"pip install 'elmo-torch\[hub\]'$") as caught:
            hub.download(NAME)
        assert sentence_of(caught).startswith(f"there is no file or folder {NAME}, and")

    def test_upload(self, folder):
        with pytest.raises(MissingExtra, match=r"pip install 'elmo-torch\[hub\]'$"):
            hub.upload(folder, NAME)


def test_a_model_goes_there_and_back(server: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    elmo = ELMo(random_model(seed=5))
    monkeypatch.setenv("HF_TOKEN", WRITE)
    assert elmo.push_to_hub(NAME).startswith(server.endpoint)
    loaded = ELMo.from_pretrained(NAME)
    sentences = [["a", "b"], ["c"]]
    for one, other in zip(elmo.encode(sentences), loaded.encode(sentences), strict=True):
        assert one.tobytes() == other.tobytes()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert ELMo.from_pretrained(NAME).config == elmo.config
