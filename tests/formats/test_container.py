"""Tests for reading files from folders, zip and tar archives, including hostile archives."""

import io
import json
import os
import tarfile
import zipfile

import pytest
from builders import write_tar, write_zip
from sources import assert_error, snapshot

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


@pytest.mark.parametrize("archive_type", CONTAINERS)
class TestEveryContainer:
    def test_container_returns_file_names_and_content(self, tmp_path, archive_type):
        files = CONTAINERS[archive_type](tmp_path)
        assert sorted(files.names) == sorted(MEMBERS)
        for _ in range(2):
            for name, content in MEMBERS.items():
                assert files.read(name) == content
                with files.open(name) as file:
                    file.seek(5)
                    assert file.read(3) == content[5:8]
        assert files.read_json("options.json") == {"a": 1}

    def test_read_rejects_missing_file_name(self, tmp_path, archive_type):
        files = CONTAINERS[archive_type](tmp_path)
        assert_error(
            lambda: files.read("weights.th"), files.label, "no file weights.th", "model.hdf5"
        )

    def test_read_json_rejects_file_that_is_not_json(self, tmp_path, archive_type):
        files = CONTAINERS[archive_type](tmp_path)
        assert_error(
            lambda: files.read_json("model.hdf5"), files.label, "model.hdf5 is not valid JSON"
        )


def test_files_in_subfolders_are_readable_but_not_files_outside(tmp_path):
    files = open_folder(make_folder(tmp_path / "model"))
    assert "sub/hidden" not in files.names
    assert files.read("sub/hidden") == b"not listed"
    (tmp_path / "outside").write_bytes(b"secret")
    for name in ("../outside", "sub/../../outside", str(tmp_path / "outside"), "sub", ".", "a\0"):
        assert not files.holds(name)
        assert_error(lambda name=name: files.read(name), "no file", error_type=FormatError)


def test_listing_of_many_files_is_shortened():
    files = Container(
        "x", tuple(f"file{number}" for number in range(20)), lambda name: io.BytesIO()
    )
    assert files.listing().endswith("file7 and 12 more")
    assert Container("x", (), lambda name: io.BytesIO()).listing() == "no files"


@pytest.mark.parametrize(
    ("names", "expected_names"),
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
def test_common_top_level_folder_in_zip_is_removed_from_names(tmp_path, names, expected_names):
    members = {name: name.encode() for name in names}
    files = open_zip(write_zip(tmp_path / "model.zip", members))
    assert list(files.names) == expected_names
    for name in expected_names:
        assert files.read(name).decode().endswith(name)


def test_zip_member_without_name_is_accepted(tmp_path):
    item = zipfile.ZipInfo("x")
    item.filename = ""
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        archive.writestr(item, b"content")
    # Versions of zipfile handle this differently; any result is accepted.
    assert len(open_zip(tmp_path / "model.zip").names) <= 1


class TestIsolation:
    """Archives cannot access files outside: nothing is unpacked and no link is followed."""

    NAMES = ("../outside", "/tmp/elmo-test-outside", "a/../../outside", "..\\outside", "C:\\x")

    @pytest.fixture
    def secret(self, tmp_path):
        (tmp_path / "secret").write_bytes(b"secret")
        (tmp_path / "inside").mkdir()
        return tmp_path / "secret"

    @pytest.mark.parametrize("write", [write_zip, write_tar])
    def test_members_with_outside_paths_write_no_files(self, tmp_path, secret, write):
        path = write(tmp_path / "inside" / "archive", {name: b"evil" for name in self.NAMES})
        before = snapshot(tmp_path)
        files = open_zip(path) if write is write_zip else open_tar(path)
        assert len(files.names) == len(self.NAMES)
        for name in files.names:
            assert files.read(name) == b"evil"
        assert snapshot(tmp_path) == before
        assert not os.path.exists("/tmp/elmo-test-outside")

    @pytest.mark.parametrize("member_type", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
    def test_links_and_pipes_in_tar_are_ignored(self, tmp_path, secret, member_type):
        link = tarfile.TarInfo("weights.th")
        link.type = member_type
        link.linkname = str(secret)
        with tarfile.open(tmp_path / "model.tar.gz", "w:gz") as archive:
            archive.addfile(link)
            archive.addfile(tarfile.TarInfo("config.json"), io.BytesIO())
        files = open_tar(tmp_path / "model.tar.gz")
        assert files.names == ("config.json",)
        assert_error(lambda: files.read("weights.th"), "no file weights.th")

    def test_symbolic_link_in_zip_is_not_followed(self, tmp_path, secret):
        link = zipfile.ZipInfo("weights.hdf5")
        link.create_system = 3
        link.external_attr = 0o120777 << 16
        with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
            archive.writestr(link, str(secret))
        assert open_zip(tmp_path / "model.zip").read("weights.hdf5") == str(secret).encode()


class TestDamagedArchives:
    @pytest.mark.parametrize(
        ("opener", "description"), [(open_zip, "zip file"), (open_tar, "tar archive")]
    )
    @pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04" + b"x" * 99])
    def test_open_rejects_files_that_are_not_archives(self, tmp_path, opener, description, content):
        path = tmp_path / "archive"
        path.write_bytes(content)
        assert_error(
            lambda: opener(path), str(path), f"not a complete {description}", error_type=FormatError
        )

    @pytest.mark.parametrize("opener", [open_zip, open_tar, open_folder, open_file, read_file])
    def test_open_rejects_missing_path(self, tmp_path, opener):
        assert_error(
            lambda: opener(tmp_path / "gone"), "gone", "No such file", error_type=FormatError
        )

    @pytest.mark.parametrize("opener", [open_zip, open_tar, open_file])
    def test_open_file_rejects_folder(self, tmp_path, opener):
        assert_error(
            lambda: opener(tmp_path), str(tmp_path), "Is a directory", error_type=FormatError
        )

    def test_open_folder_rejects_file(self, tmp_path):
        (tmp_path / "file").touch()
        assert_error(
            lambda: open_folder(tmp_path / "file"), "Not a directory", error_type=FormatError
        )

    def test_read_rejects_file_deleted_after_open(self, tmp_path):
        files = CONTAINERS["folder"](tmp_path)
        (tmp_path / "model" / "model.hdf5").unlink()
        assert_error(lambda: files.read("model.hdf5"), "No such file", error_type=FormatError)

    def test_read_rejects_zip_member_with_wrong_checksum(self, tmp_path):
        path = write_zip(tmp_path / "model.zip", {"a": b"content of a"})
        data = bytearray(path.read_bytes())
        data[14] ^= 1  # checksum in the local header; the next line changes the central directory
        data[data.rindex(b"PK\x01\x02") + 16] ^= 1
        path.write_bytes(bytes(data))
        assert_error(
            lambda: open_zip(path).read("a"), "cannot read a", "CRC", error_type=FormatError
        )

    def test_read_rejects_encrypted_zip(self, tmp_path):
        path = write_zip(tmp_path / "model.zip", {"a": b"content of a"})
        data = bytearray(path.read_bytes())
        for offset in (6, data.rindex(b"PK\x01\x02") + 8):
            data[offset] |= 1
        path.write_bytes(bytes(data))
        assert_error(lambda: open_zip(path).read("a"), "cannot read a", "encrypted")

    def test_open_zip_rejects_member_names_that_are_not_utf8(self, tmp_path):
        path = write_zip(tmp_path / "model.zip", {"naïve": b""})
        path.write_bytes(path.read_bytes().replace("ï".encode(), b"\xff\xff"))
        assert_error(
            lambda: open_zip(path), "not a complete zip file", "utf-8", error_type=FormatError
        )

    @pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="no list of open files")
    @pytest.mark.parametrize("mode", ["w", "w:gz"])
    def test_open_tar_does_not_keep_the_file_open(self, tmp_path, mode):
        path = write_tar(tmp_path / "model.tar", MEMBERS, mode)
        files = open_tar(path)
        assert files.read("options.json")
        links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
        assert not any(os.path.realpath(link) == str(path) for link in links)


class TestJSON:
    @pytest.mark.parametrize("value", [{"a": [1, 2.5, None, "naïve"]}, [], "x", 3])
    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
    def test_parse_json_accepts_unicode_encodings(self, value, encoding):
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
    def test_parse_json_rejects_invalid_data(self, data):
        assert_error(
            lambda: parse_json(data, "x.json"), "x.json is not valid JSON", error_type=FormatError
        )


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("two\n  lines"), "two lines"),
        (ValueError(), "ValueError"),
        (ValueError("x" * 999), "x" * 200 + " ..."),
    ],
)
def test_one_line_shortens_error_text(error, text):
    assert one_line(error) == text


def test_macos_metadata_in_zip_is_ignored(tmp_path):
    members = {"model/options.json": b"{}", "__MACOSX/model/._options.json": b"x"}
    assert open_zip(write_zip(tmp_path / "a.zip", members)).names == ("options.json",)
