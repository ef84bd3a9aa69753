"""Tests for hub uploads and downloads: files, cache and errors."""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import random_model, set_hub_endpoint
from hub_server import READ_TOKEN as READ
from hub_server import WRITE_TOKEN as WRITE
from hub_server import HubServer

from elmo.embed.embedder import ELMo
from elmo.errors import FormatError, MissingExtra, OutputError
from elmo.formats import hub

huggingface_hub = pytest.importorskip("huggingface_hub")
from huggingface_hub import constants, errors  # noqa: E402

NAME = "ada/tiny-elmo"
FILES = {
    "config.json": b'{"format": "elmo-torch"}\n',
    "model.safetensors": bytes(range(256)) * 40,
    "vocab.txt": "<S>\n</S>\n<UNK>\nnaïve\n".encode(),
    "README.md": b"---\nlicense: mit\n---\n# Tiny\n",
}
SOURCE = Path(hub.__file__).parents[2]

pytestmark = [
    # huggingface_hub passes open files to its HTTP library in a deprecated way.
    pytest.mark.filterwarnings("ignore:Use 'content=<...>':DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def home(hub_home: Path) -> Path:
    return hub_home


@pytest.fixture
def server(hub_server: HubServer) -> HubServer:
    return hub_server


@pytest.fixture
def unreachable(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # A bound port without a listener rejects connections, and no other process can use it.
    with socket.socket() as occupied:
        occupied.bind(("127.0.0.1", 0))
        set_hub_endpoint(monkeypatch, f"http://127.0.0.1:{occupied.getsockname()[1]}")
        yield


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    return folder


def content_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def message_of(caught: pytest.ExceptionInfo[Exception]) -> str:
    message = str(caught.value)
    assert "\n" not in message
    assert "Traceback" not in message
    return message


class TestRoundTrip:
    def test_download_returns_uploaded_bytes(self, server, folder, monkeypatch):
        monkeypatch.setenv("HF_TOKEN", WRITE)
        url = hub.upload(folder, NAME)
        repository = server.repositories[NAME]
        assert url == f"{server.endpoint}/{NAME}/commit/{repository.commits[-1].oid}"
        assert repository.commits[-1].message == "Upload ELMo model"
        assert not repository.is_private
        assert set(server.large_files.values()) == {FILES["model.safetensors"]}
        monkeypatch.delenv("HF_TOKEN")
        assert content_of(hub.download(NAME)) == FILES

    def test_repeated_upload_of_same_files_adds_no_commit(self, server, folder, monkeypatch):
        monkeypatch.setenv("HF_TOKEN", WRITE)
        first = hub.upload(folder, NAME)
        assert hub.upload(folder, NAME) == first
        assert len(server.repositories[NAME].commits) == 2

    def test_upload_deletes_files_of_previous_model(self, server, folder, monkeypatch):
        monkeypatch.setenv("HF_TOKEN", WRITE)
        old = {"words.json": b"{}", "notes.txt": b"keep", "parts/config.json": b"keep"}
        server.add(NAME, old)
        hub.upload(folder, NAME)
        del old["words.json"]
        assert server.repositories[NAME].files == {**old, **FILES}

    def test_upload_creates_private_repository(self, server, folder, monkeypatch):
        monkeypatch.setenv("HF_TOKEN", WRITE)
        hub.upload(folder, NAME, private=True)
        assert server.repositories[NAME].is_private
        assert content_of(hub.download(NAME)) == FILES
        hub.upload(folder, NAME)
        assert server.repositories[NAME].is_private

    def test_upload_to_hub_without_authentication_needs_no_login(self, server, folder):
        server.write_token = None
        hub.upload(folder, NAME)
        assert content_of(hub.download(NAME)) == FILES

    def test_hub_environment_variables_are_used(self, server, folder, tmp_path):
        """A new process is configured by environment variables only and uses no Git LFS uploads."""
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
        n_requests = len(server.requests)
        assert run(upload=False, HF_HUB_OFFLINE="1") == FILES
        assert len(server.requests) == n_requests


class TestDownload:
    def test_download_skips_files_that_are_not_model_files(self, server):
        others = {"training.log": b"", "pytorch_model.bin": b"0", "old/weights.hdf5": b"0"}
        server.add(NAME, {**FILES, **others})
        assert content_of(hub.download(NAME)) == FILES

    @pytest.mark.parametrize(
        "names",
        [
            ("elmo_small_options.json", "elmo_small_weights.hdf5", "vocab.txt.gz"),
            ("checkpoint", "model.ckpt-9.index", "model.ckpt-9.data-00000-of-00001"),
            ("model.tar.gz",),
            (
                "config.json",
                "encoder.pkl",
                "token_embedder.pkl",
                "char.dic",
                "word.dic",
                "cnn_1.json",
            ),
        ],
    )
    def test_download_includes_files_of_other_model_formats(self, server, names):
        server.add(NAME, dict.fromkeys(names, b"content"))
        assert content_of(hub.download(NAME)) == dict.fromkeys(names, b"content")

    def test_hub_file_names_match_model_folder_file_names(self):
        model_folder = pytest.importorskip("elmo.formats.model_folder")
        names = (
            model_folder.CONFIG,
            model_folder.WEIGHTS,
            model_folder.VOCABULARY,
            model_folder.CHARACTERS,
            model_folder.WORDS,
        )
        assert names == hub.MODEL_FOLDER_FILES
        assert model_folder.CARD in hub.MODEL_FILES

    @pytest.mark.parametrize("pattern", hub.MODEL_FILES)
    def test_each_pattern_of_model_files_matches_a_file(self, server, pattern):
        name = pattern.replace("[hH][dD][fF]", "hdf").replace("[hH]", "h").replace("*", "a")
        server.add(NAME, {name: b"content", "config.json": b"{}"})
        assert name in content_of(hub.download(NAME))

    def test_download_rejects_repository_without_main_branch(self, server):
        server.add(NAME, FILES).branch = "trunk"
        with pytest.raises(FormatError, match=r"has no branch main\.$") as caught:
            hub.download(NAME)
        assert NAME in message_of(caught)

    def test_download_returns_newest_commit(self, server):
        repository = server.add(NAME, FILES)
        hub.download(NAME)
        repository.commit("newer", {**FILES, "config.json": b"{}"})
        assert (hub.download(NAME) / "config.json").read_bytes() == b"{}"

    def test_download_rejects_repository_without_model(self, server):
        server.add(NAME, {"song.mp3": b"la"})
        with pytest.raises(FormatError, match="contains no model files"):
            hub.download(NAME)

    def test_download_rejects_unknown_repository(self, server, monkeypatch):
        with pytest.raises(
            FormatError, match=r"^No file or folder ada/nobody exists, and"
        ) as caught:
            hub.download("ada/nobody")
        assert "the hub has no public repository of that name" in message_of(caught)
        monkeypatch.setenv("HF_TOKEN", READ)
        with pytest.raises(
            FormatError, match=r"^No file or folder ada/nobody exists, and"
        ) as caught:
            hub.download("ada/nobody")
        assert "no repository of that name that you can read" in message_of(caught)

    def test_download_of_private_repository_needs_token(self, server, monkeypatch):
        server.add(NAME, FILES, is_private=True)
        with pytest.raises(FormatError, match="is private: Run hf auth login or set HF_TOKEN"):
            hub.download(NAME)
        monkeypatch.setenv("HF_TOKEN", "hf_wrong")
        with pytest.raises(FormatError, match="the hub rejected your token"):
            hub.download(NAME)
        monkeypatch.setenv("HF_TOKEN", READ)
        assert content_of(hub.download(NAME)) == FILES

    def test_download_rejects_gated_repository(self, server):
        server.add(NAME, FILES).is_gated = True
        with pytest.raises(FormatError, match=r"is gated\. Request access") as caught:
            hub.download(NAME)
        message_of(caught)

    @pytest.mark.parametrize("name", ["elmo", "a/b/c", "ada/..", "-ada/elmo", "ada/elmo.git", ""])
    def test_download_rejects_invalid_hub_id(self, server, name):
        with pytest.raises(FormatError, match="a hub id has the form owner/name"):
            hub.download(name)
        assert not server.requests

    @pytest.mark.parametrize(
        ("fault", "expected"),
        [
            (0, "the hub cannot be reached"),
            (b"<html>Welcome to our hotel</html>", "the hub cannot be reached"),
            (403, r"the hub denied access \(403: "),
            (418, r"the hub rejected the request \(418: "),
            (429, "Try again later"),
            (503, "Try again later"),
        ],
    )
    def test_server_fault_is_reported_unless_model_is_cached(self, server, fault, expected):
        server.add(NAME, FILES)
        server.fault = fault
        with pytest.raises(FormatError, match=expected) as caught:
            hub.download(NAME)
        assert NAME in message_of(caught)
        server.fault = None
        cached = hub.download(NAME)
        server.fault = fault
        assert hub.download(NAME) == cached

    def test_unexpected_download_error_is_raised_as_format_error(self, monkeypatch):
        def fail(*arguments, **options):
            raise RuntimeError("a thread\ncould not start")

        monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
        with pytest.raises(FormatError, match="a thread could not start") as caught:
            hub.download(NAME)
        assert message_of(caught).startswith(f"Cannot download {NAME}: ")

    def test_download_reports_unwritable_cache(self, server, home):
        server.add(NAME, FILES)
        home.mkdir()
        (home / "hub").write_bytes(b"a file instead of the cache folder")
        with pytest.raises(FormatError, match=f"^Cannot download {NAME}: ") as caught:
            hub.download(NAME)
        message_of(caught)


class TestCache:
    def test_download_in_offline_mode_uses_cache(self, server, monkeypatch):
        server.add(NAME, FILES)
        folder = hub.download(NAME)
        n_requests = len(server.requests)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        assert hub.download(NAME) == folder
        assert content_of(folder) == FILES
        assert len(server.requests) == n_requests

    def test_download_in_offline_mode_without_cache_is_rejected(self, server, monkeypatch):
        server.add(NAME, FILES)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        with pytest.raises(
            FormatError, match="is not in the hub's cache, and offline mode"
        ) as caught:
            hub.download(NAME)
        assert "Unset HF_HUB_OFFLINE" in message_of(caught)

    def test_download_without_cache_reports_unreachable_hub(self, server, unreachable):
        with pytest.raises(
            FormatError, match="is not in the hub's cache, and the hub cannot be"
        ) as caught:
            hub.download(NAME)
        assert message_of(caught).startswith(f"No file or folder {NAME} exists, it is not")

    def test_download_falls_back_to_cache_if_hub_is_unreachable(self, server, monkeypatch, request):
        server.add(NAME, FILES)
        folder = hub.download(NAME)
        request.getfixturevalue("unreachable")
        assert hub.download(NAME) == folder

    @pytest.mark.skipif(
        not hasattr(errors, "IncompleteSnapshotError"), reason="not supported by this version"
    )
    @pytest.mark.parametrize("fault", ["offline", "hang up"])
    def test_download_reports_incomplete_cache(self, server, monkeypatch, fault):
        server.add(NAME, FILES)
        (hub.download(NAME) / "model.safetensors").unlink()
        if fault == "offline":
            monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        else:
            server.fault = 0
        with pytest.raises(
            FormatError, match=f"^The hub's cache contains only part of {NAME}"
        ) as caught:
            hub.download(NAME)
        message_of(caught)


class TestUploadErrors:
    @pytest.mark.parametrize("exists", [False, True])
    def test_upload_without_token_is_rejected(self, server, folder, exists):
        if exists:
            server.add(NAME, {})
        with pytest.raises(OutputError, match="Run hf auth login or set HF_TOKEN") as caught:
            hub.upload(folder, NAME)
        assert "you are not logged in" in message_of(caught)
        assert exists == (NAME in server.repositories)

    def test_upload_with_wrong_token_is_rejected(self, server, folder, monkeypatch):
        monkeypatch.setenv("HF_TOKEN", "hf_wrong")
        with pytest.raises(OutputError, match="the hub rejected your token"):
            hub.upload(folder, NAME)

    @pytest.mark.parametrize("exists", [False, True])
    def test_upload_with_read_token_is_rejected(self, server, folder, monkeypatch, exists):
        if exists:
            server.add(NAME, {})
        monkeypatch.setenv("HF_TOKEN", READ)
        with pytest.raises(OutputError, match=r"denied access \(403: You don't have") as caught:
            hub.upload(folder, NAME)
        message_of(caught)

    def test_upload_reports_rejected_large_file(self, server, folder, monkeypatch):
        monkeypatch.setenv("HF_TOKEN", WRITE)
        monkeypatch.setattr("hub_server._sha256", lambda content: "0")
        with pytest.raises(OutputError, match="does not match its hash") as caught:
            hub.upload(folder, NAME)
        assert message_of(caught).startswith(f"Cannot upload to {NAME}: ")

    def test_private_upload_rejects_public_repository(self, server, folder, monkeypatch):
        monkeypatch.setenv("HF_TOKEN", WRITE)
        server.add(NAME, {})
        with pytest.raises(OutputError, match="already exists and is public"):
            hub.upload(folder, NAME, private=True)
        assert server.repositories[NAME].files == {}

    def test_upload_reports_invalid_model_card(self, server, folder, monkeypatch):
        monkeypatch.setenv("HF_TOKEN", WRITE)
        (folder / "README.md").write_text("---\nbroken: [\n---\n")
        with pytest.raises(
            OutputError, match=r"README\.md\. - the metadata is not valid YAML"
        ) as caught:
            hub.upload(folder, NAME)
        message_of(caught)

    def test_upload_reports_unreachable_hub(self, unreachable, folder):
        with pytest.raises(OutputError, match="the hub cannot be reached") as caught:
            hub.upload(folder, NAME)
        assert message_of(caught).startswith(f"Cannot upload to {NAME}: ")

    def test_upload_in_offline_mode_is_rejected(self, server, folder, monkeypatch):
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        with pytest.raises(OutputError, match=r"offline mode is on\. Unset HF_HUB_OFFLINE"):
            hub.upload(folder, NAME)

    def test_upload_rejects_invalid_arguments(self, server, folder, tmp_path):
        with pytest.raises(OutputError, match="Cannot upload to elmo: a hub id has the form"):
            hub.upload(folder, "elmo")
        with pytest.raises(OutputError, match="Cannot upload to ada/-elmo: a hub id has the form"):
            hub.upload(folder, "ada/-elmo")
        with pytest.raises(OutputError, match="the folder does not exist"):
            hub.upload(tmp_path / "nowhere", NAME)
        shutil.rmtree(folder)
        folder.mkdir()
        with pytest.raises(OutputError, match="the folder contains no files"):
            hub.upload(folder, NAME)
        assert not server.requests


class TestWithoutExtra:
    @pytest.fixture(autouse=True)
    def _without(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "huggingface_hub", None)

    def test_download_error_names_missing_extra(self):
        with pytest.raises(FormatError, match=r"pip install .*\[hub\]'$") as caught:
            hub.download(NAME)
        assert message_of(caught).startswith(f"No file or folder {NAME} exists, and")

    def test_upload_error_names_missing_extra(self, folder):
        with pytest.raises(MissingExtra, match=r"pip install .*\[hub\]'$"):
            hub.upload(folder, NAME)


def test_pushed_model_encodes_the_same_after_download(
    server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    elmo = ELMo(random_model(seed=5))
    monkeypatch.setenv("HF_TOKEN", WRITE)
    assert elmo.push_to_hub(NAME).startswith(server.endpoint)
    loaded = ELMo.from_pretrained(NAME)
    sentences = [["a", "b"], ["c"]]
    for first, second in zip(elmo.encode(sentences), loaded.encode(sentences), strict=True):
        assert first.tobytes() == second.tobytes()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert ELMo.from_pretrained(NAME).config == elmo.config
