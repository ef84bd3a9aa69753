"""Tests of downloads over HTTP with a stand-in server: resumption, faults and checks."""

import errno
import hashlib
import os
import socket

import pytest
from file_server import FileServer

from elmo.errors import FormatError, OutputError
from elmo.formats import http_download
from elmo.formats.http_download import download_file

CONTENT = bytes(range(256)) * 40


@pytest.fixture(autouse=True)
def _no_proxy_and_no_pauses(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(http_download, "PAUSES", (0.0, 0.0, 0.0))


@pytest.fixture
def server():
    with FileServer({"model.bin": CONTENT}) as running:
        yield running


@pytest.fixture
def fetch(server, tmp_path):
    def call(checksum="", name="model.bin"):
        return download_file(server.url(name), tmp_path / name, checksum, show_progress=False)

    return call


def test_download_writes_the_file_and_returns_its_sha256(fetch, tmp_path):
    assert fetch() == hashlib.sha256(CONTENT).hexdigest()
    assert os.listdir(tmp_path) == ["model.bin"]
    assert (tmp_path / "model.bin").read_bytes() == CONTENT


def test_cut_connections_are_resumed_where_they_ended(fetch, server, tmp_path):
    server.cuts = [1000, 2000, 500]
    fetch()
    assert (tmp_path / "model.bin").read_bytes() == CONTENT
    assert [request.range for request in server.requests] == [
        None,
        "bytes=1000-",
        "bytes=3000-",
        "bytes=3500-",
    ]
    assert {request.if_range for request in server.requests[1:]} == {'"1"'}


def test_next_call_resumes_after_too_many_failures(fetch, server, tmp_path):
    server.cuts = [1000, 0, 0, 0, 0]
    with pytest.raises(FormatError, match=r"closed after 1,000 of 10,240 .*again to resume"):
        fetch()
    assert not (tmp_path / "model.bin").exists()
    fetch()
    assert (tmp_path / "model.bin").read_bytes() == CONTENT
    assert server.requests[-1].range == "bytes=1000-"


def test_changed_file_starts_again(fetch, server, tmp_path, caplog):
    server.cuts = [1000, 0, 0, 0, 0]
    with pytest.raises(FormatError):
        fetch()
    server.files["model.bin"], server.etag = CONTENT[::-1], '"2"'
    fetch()
    assert (tmp_path / "model.bin").read_bytes() == CONTENT[::-1]
    assert "model.bin: It changed on the server" in caplog.text


def test_part_of_another_address_starts_again(server, tmp_path):
    server.files["other.bin"] = CONTENT[::-1]
    server.cuts = [1000, 0, 0, 0, 0]
    with pytest.raises(FormatError):
        download_file(server.url("model.bin"), tmp_path / "x", show_progress=False)
    download_file(server.url("other.bin"), tmp_path / "x", show_progress=False)
    assert (tmp_path / "x").read_bytes() == CONTENT[::-1]


def test_server_without_ranges_starts_again_once(fetch, server, tmp_path, caplog):
    server.has_ranges = False
    server.cuts = [1000]
    fetch()
    assert (tmp_path / "model.bin").read_bytes() == CONTENT
    assert "The server cannot resume downloads" in caplog.text


@pytest.mark.parametrize("etag", ['"1"', None])
def test_server_without_ranges_that_cuts_every_connection_is_an_error(fetch, server, etag):
    server.has_ranges = False
    server.etag = etag
    server.cuts = [1000] * 20
    with pytest.raises(FormatError, match=r"lost several times, .* cannot resume"):
        fetch()
    assert len(server.requests) <= 4


def test_complete_part_needs_no_more_bytes(fetch, server, tmp_path):
    server.cuts = [1000, 0, 0, 0, 0]
    with pytest.raises(FormatError):
        fetch()
    (tmp_path / "model.bin.part").write_bytes(CONTENT)
    fetch()
    assert (tmp_path / "model.bin").read_bytes() == CONTENT


def test_part_longer_than_the_file_starts_again(fetch, server, tmp_path):
    server.cuts = [1000, 0, 0, 0, 0]
    with pytest.raises(FormatError):
        fetch()
    (tmp_path / "model.bin.part").write_bytes(CONTENT * 2)
    fetch()
    assert (tmp_path / "model.bin").read_bytes() == CONTENT


@pytest.mark.parametrize("algorithm", ["md5", "sha1", "sha256"])
def test_right_checksum_is_accepted_and_wrong_one_deletes_the_file(fetch, tmp_path, algorithm):
    fetch(f"{algorithm}:{hashlib.new(algorithm, CONTENT).hexdigest()}")
    (tmp_path / "model.bin").unlink()
    with pytest.raises(FormatError, match=rf"its {algorithm} checksum is .*, expected 00"):
        fetch(f"{algorithm}:{'00' * 16}")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("options.json", "a JSON file"),
        ("weights.hdf5", "an HDF5 file"),
        ("144.zip", "a complete zip file"),
        ("model.tar.gz", "a gzip file"),
    ],
)
def test_file_of_another_kind_is_rejected(fetch, server, tmp_path, name, kind):
    server.files[name] = CONTENT
    with pytest.raises(FormatError, match=f"it is not {kind}"):
        fetch(name=name)
    assert os.listdir(tmp_path) == []


def test_web_page_is_rejected(fetch, server):
    server.content_type = "text/html; charset=utf-8"
    with pytest.raises(FormatError, match="returned a web page instead of the file"):
        fetch()


@pytest.mark.parametrize(
    ("status", "message"), [(404, "has no file"), (410, "has no file"), (403, "denied access")]
)
def test_missing_file_is_one_request_and_one_error(fetch, server, status, message):
    server.statuses = [status]
    with pytest.raises(FormatError, match=rf"{message} .*{status}"):
        fetch()
    assert len(server.requests) == 1


def test_busy_server_is_asked_again(fetch, server, tmp_path):
    server.statuses = [503, 500]
    fetch()
    assert (tmp_path / "model.bin").read_bytes() == CONTENT
    (tmp_path / "model.bin").unlink()
    server.statuses = [503] * 4
    with pytest.raises(FormatError, match="the server answered 503"):
        fetch()


def test_unreachable_server_is_an_error_that_names_it(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(FormatError, match=rf"{address} cannot be reached \(Connection refused\)"):
        download_file(f"http://{address}/x", tmp_path / "x", show_progress=False)


def test_silent_server_is_an_error_after_the_timeout(tmp_path, monkeypatch):
    monkeypatch.setattr(http_download, "TIMEOUT", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(FormatError, match=r"no answer for 0\.05 s"):
            download_file(f"http://{address}/x", tmp_path / "x", show_progress=False)


def test_download_larger_than_the_free_space_is_rejected_first(fetch, monkeypatch, tmp_path):
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(http_download.shutil, "disk_usage", lambda folder: usage)
    with pytest.raises(OutputError, match=r"0 MB are needed, but only 0 MB are free"):
        fetch()
    assert not (tmp_path / "model.bin").exists()


def test_full_disk_keeps_what_was_received(fetch, server, monkeypatch, tmp_path):
    class FullDisk:
        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self.file.close()

        def write(self, data):
            self.file.write(data[:1000])
            raise OSError(errno.ENOSPC, "No space left on device")

    path_type = type(tmp_path)
    open_file = path_type.open
    with monkeypatch.context() as patch:
        patch.setattr(
            path_type,
            "open",
            lambda self, mode="r", *rest, **options: (
                FullDisk(open_file(self, mode))
                if mode == "ab"
                else open_file(self, mode, *rest, **options)
            ),
        )
        with pytest.raises(OutputError, match=r"No space left on device.*again to resume"):
            fetch()
    fetch()
    assert server.requests[-1].range == "bytes=1000-"
    assert (tmp_path / "model.bin").read_bytes() == CONTENT
