"""Tests of folders, zips and tars as sets of files: what is seen, and that nothing leaks out."""

import io
import json
import os
import tarfile
import zipfile

import pytest
from builders import write_tar, write_zip
from sources import refused, snapshot

from elmo.errors import FormatError
from elmo.formats.container import (
    Container,
    one_line,
    open_file,
    open_folder,
    open_tar,
    open_zip,
    parse_json,
    read_file,
)

MEMBERS = {"options.json": b'{"a": 1}', "model.hdf5": bytes(range(256)) * 40}


def make_folder(folder):
    folder.mkdir()
    for name, content in MEMBERS.items():
        (folder / name).write_bytes(content)
    (folder / "sub").mkdir()
    (folder / "sub" / "hidden").write_bytes(b"not listed")
    return folder


CONTAINERS = {
    "folder": lambda tmp: open_folder(make_folder(tmp / "model")),
    "zip": lambda tmp: open_zip(write_zip(tmp / "model.zip", MEMBERS)),
    "tar": lambda tmp: open_tar(write_tar(tmp / "model.tar", MEMBERS, "w")),
    "tar.gz": lambda tmp: open_tar(write_tar(tmp / "model.tar.gz", MEMBERS)),
}


@pytest.mark.parametrize("kind", CONTAINERS)
class TestEveryContainer:
    def test_names_and_content(self, tmp_path, kind):
        files = CONTAINERS[kind](tmp_path)
        assert sorted(files.names) == sorted(MEMBERS)
        for _ in range(2):
            for name, content in MEMBERS.items():
                assert files.read(name) == content
                with files.open(name) as file:
                    file.seek(5)
                    assert file.read(3) == content[5:8]
        assert files.read_json("options.json") == {"a": 1}

    def test_a_missing_name(self, tmp_path, kind):
        files = CONTAINERS[kind](tmp_path)
        refused(lambda: files.read("weights.th"), files.label, "no weights.th", "model.hdf5")

    def test_a_file_that_is_no_json(self, tmp_path, kind):
        files = CONTAINERS[kind](tmp_path)
        refused(lambda: files.read_json("model.hdf5"), files.label, "model.hdf5 is not JSON")


def test_a_file_in_a_folder_below_is_found_by_its_path(tmp_path):
    files = open_folder(make_folder(tmp_path / "model"))
    assert "sub/hidden" not in files.names
    assert files.read("sub/hidden") == b"not listed"
    (tmp_path / "outside").write_bytes(b"secret")
    for name in ("../outside", "sub/../../outside", str(tmp_path / "outside"), "sub", ".", "a\0"):
        assert not files.holds(name)
        refused(lambda name=name: files.read(name), "there is no", kind=FormatError)


def test_a_long_listing_is_cut():
    files = Container(
        "x", tuple(f"file{number}" for number in range(20)), lambda name: io.BytesIO()
    )
    assert files.listing().endswith("file7 and 12 more")
    assert Container("x", (), lambda name: io.BytesIO()).listing() == "no files"


@pytest.mark.parametrize(
    ("names", "seen"),
    [
        (["144/a", "144/b"], ["a", "b"]),
        (["144/a", "144/sub/b"], ["a", "sub/b"]),
        (["144/a", "145/b"], ["144/a", "145/b"]),
        (["144/a", "b"], ["144/a", "b"]),
        (["144/", "144/a"], ["a"]),
        (["144/", "b"], ["b"]),
        (["a"], ["a"]),
        ([], []),
        (["."], ["."]),
        (["../a", "../b"], ["a", "b"]),
        (["/abs/a"], ["abs/a"]),
    ],
)
def test_the_top_folder_of_a_zip_is_looked_through(tmp_path, names, seen):
    members = {name: name.encode() for name in names}
    files = open_zip(write_zip(tmp_path / "model.zip", members))
    assert list(files.names) == seen
    for name in seen:
        assert files.read(name).decode().endswith(name)


def test_a_zip_member_without_a_name(tmp_path):
    item = zipfile.ZipInfo("x")
    item.filename = ""
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        archive.writestr(item, b"content")
    # What zipfile makes of it differs between versions; it must not matter.
    assert len(open_zip(tmp_path / "model.zip").names) <= 1


class TestNothingLeavesTheArchive:
    """Names that point outside are just names: nothing is unpacked, no link is followed."""

    NAMES = ("../outside", "/tmp/elmo-test-outside", "a/../../outside", "..\\outside", "C:\\x")

    @pytest.fixture
    def secret(self, tmp_path):
        (tmp_path / "secret").write_bytes(b"secret")
        (tmp_path / "inside").mkdir()
        return tmp_path / "secret"

    @pytest.mark.parametrize("write", [write_zip, write_tar])
    def test_names_that_point_outside(self, tmp_path, secret, write):
        path = write(tmp_path / "inside" / "archive", {name: b"evil" for name in self.NAMES})
        before = snapshot(tmp_path)
        files = open_zip(path) if write is write_zip else open_tar(path)
        assert len(files.names) == len(self.NAMES)
        for name in files.names:
            assert files.read(name) == b"evil"
        assert snapshot(tmp_path) == before
        assert not os.path.exists("/tmp/elmo-test-outside")

    @pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
    def test_links_and_pipes_in_a_tar_are_passed_over(self, tmp_path, secret, kind):
        link = tarfile.TarInfo("weights.th")
        link.type = kind
        link.linkname = str(secret)
        with tarfile.open(tmp_path / "model.tar.gz", "w:gz") as archive:
            archive.addfile(link)
            archive.addfile(tarfile.TarInfo("config.json"), io.BytesIO())
        files = open_tar(tmp_path / "model.tar.gz")
        assert files.names == ("config.json",)
        refused(lambda: files.read("weights.th"), "no weights.th")

    def test_a_link_in_a_zip_is_its_own_text(self, tmp_path, secret):
        link = zipfile.ZipInfo("weights.hdf5")
        link.create_system = 3
        link.external_attr = 0o120777 << 16
        with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
            archive.writestr(link, str(secret))
        assert open_zip(tmp_path / "model.zip").read("weights.hdf5") == str(secret).encode()


class TestBrokenArchives:
    @pytest.mark.parametrize(
        ("opener", "kind"), [(open_zip, "zip file"), (open_tar, "tar archive")]
    )
    @pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04" + b"x" * 99])
    def test_no_archive(self, tmp_path, opener, kind, content):
        path = tmp_path / "archive"
        path.write_bytes(content)
        refused(lambda: opener(path), str(path), f"not a whole {kind}", kind=FormatError)

    @pytest.mark.parametrize("opener", [open_zip, open_tar, open_folder, open_file, read_file])
    def test_missing(self, tmp_path, opener):
        refused(lambda: opener(tmp_path / "gone"), "gone", "No such file", kind=FormatError)

    @pytest.mark.parametrize("opener", [open_zip, open_tar, open_file])
    def test_a_folder_where_a_file_is_meant(self, tmp_path, opener):
        refused(lambda: opener(tmp_path), str(tmp_path), "Is a directory", kind=FormatError)

    def test_a_file_where_a_folder_is_meant(self, tmp_path):
        (tmp_path / "file").touch()
        refused(lambda: open_folder(tmp_path / "file"), "Not a directory", kind=FormatError)

    def test_a_file_that_vanishes(self, tmp_path):
        files = CONTAINERS["folder"](tmp_path)
        (tmp_path / "model" / "model.hdf5").unlink()
        refused(lambda: files.read("model.hdf5"), "No such file", kind=FormatError)

    def test_a_checksum_that_does_not_fit(self, tmp_path):
        path = write_zip(tmp_path / "model.zip", {"a": b"content of a"})
        data = bytearray(path.read_bytes())
        data[14] ^= 1  # of the local header; the central one, which counts, comes last
        data[data.rindex(b"PK\x01\x02") + 16] ^= 1
        path.write_bytes(bytes(data))
        refused(lambda: open_zip(path).read("a"), "a cannot be read", "CRC", kind=FormatError)

    def test_an_encrypted_zip(self, tmp_path):
        path = write_zip(tmp_path / "model.zip", {"a": b"content of a"})
        data = bytearray(path.read_bytes())
        for place in (6, data.rindex(b"PK\x01\x02") + 8):
            data[place] |= 1
        path.write_bytes(bytes(data))
        refused(lambda: open_zip(path).read("a"), "a cannot be read", "encrypted")

    def test_names_that_are_no_text(self, tmp_path):
        path = write_zip(tmp_path / "model.zip", {"naïve": b""})
        path.write_bytes(path.read_bytes().replace("ï".encode(), b"\xff\xff"))
        refused(lambda: open_zip(path), "not a whole zip file", "utf-8", kind=FormatError)

    @pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="no list of open files")
    @pytest.mark.parametrize("mode", ["w", "w:gz"])
    def test_no_tar_stays_open(self, tmp_path, mode):
        path = write_tar(tmp_path / "model.tar", MEMBERS, mode)
        files = open_tar(path)
        assert files.read("options.json")
        links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
        assert not any(os.path.realpath(link) == str(path) for link in links)


class TestJSON:
    @pytest.mark.parametrize("value", [{"a": [1, 2.5, None, "naïve"]}, [], "x", 3])
    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
    def test_what_it_reads(self, value, encoding):
        data = json.dumps(value, ensure_ascii=False).encode(encoding)
        assert parse_json(data, "x.json") == value

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"{",
            b'{"a": 1,}',
            b"{'a': 1}",
            b"\xff\xfe\x00",
            b'{"a": "\xe9"}',
            b"[" * 100_000,
            b'{"a":' * 100_000,
            b"9" * 10_000,
            b"\0" * 10,
        ],
        ids=lambda data: repr(data[:8]),
    )
    def test_what_it_refuses(self, data):
        refused(lambda: parse_json(data, "x.json"), "x.json is not JSON", kind=FormatError)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("two\n  lines"), "two lines"),
        (ValueError(), "ValueError"),
        (ValueError("x" * 999), "x" * 200),
    ],
)
def test_one_line(error, text):
    assert one_line(error) == text


def test_what_macos_adds_to_a_zip_is_passed_over(tmp_path):
    members = {"model/options.json": b"{}", "__MACOSX/model/._options.json": b"x"}
    assert open_zip(write_zip(tmp_path / "a.zip", members)).names == ("options.json",)
