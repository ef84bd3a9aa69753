"""Tests of the TensorFlow checkpoint container: parity, round trips, and every kind of damage."""

import random
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tf_checkpoint_writer import (
    MAGIC,
    crc32c,
    data_path,
    encode_array_entry,
    encode_entry,
    encode_header,
    encode_table,
    index_path,
    masked_crc32c,
    varint,
    write_checkpoint,
)

from elmo.errors import FormatError
from elmo.formats import crc32c as crc32c_numpy
from elmo.formats import tf_index
from elmo.formats.tf_checkpoint import find_checkpoint, read_checkpoint

DTYPES = ["float32", "float64", "float16", "int32", "int64", "bool", "int8", "uint8"]
HEADER = (b"", encode_header())

Arrays = dict[str, npt.NDArray[Any]]


@pytest.fixture(scope="module")
def bilm_tf(golden_path: Callable[[str], Path]) -> Path:
    """Return the folder of files made by bilm-tf itself."""
    return golden_path("generated/bilm-tf")


@pytest.fixture
def tensors() -> Arrays:
    """Return arrays enough for several blocks, with shared key prefixes."""
    rng = np.random.default_rng(0)
    arrays: Arrays = {
        f"lm/RNN_{direction}/cell_{layer}/{part}": rng.normal(size=shape).astype(np.float32)
        for direction in range(2)
        for layer in range(4)
        for part, shape in (("kernel", (3, 5)), ("bias", (5,)), ("bias/Adagrad", (5,)))
    }
    return {**arrays, "global_step": np.array(7.0, np.float32)}


@pytest.fixture
def prefix(tmp_path: Path, tensors: Arrays) -> Path:
    """Return the prefix of a valid checkpoint."""
    return write_checkpoint(tmp_path / "model.ckpt-7", tensors)


def assert_same(actual: Arrays, expected: Arrays) -> None:
    """Compare names, types, shapes and bits."""
    assert actual.keys() == expected.keys()
    for name, array in expected.items():
        assert actual[name].dtype == array.dtype, name
        assert actual[name].shape == array.shape, name
        assert actual[name].tobytes() == array.tobytes(), name


def write_rows(prefix: Path, *rows: tuple[bytes, bytes], data: bytes = b"\0" * 4) -> Path:
    """Write an index of given rows and one data file."""
    index_path(prefix).write_bytes(encode_table(rows))
    data_path(prefix).write_bytes(data)
    return prefix


def refused(call: Callable[[], object], *parts: str) -> None:
    """Check that the call is refused with a whole message that holds the given parts."""
    with pytest.raises(FormatError) as caught:
        call()
    message = str(caught.value)
    for part in (": found ", "; expected ", *parts):
        assert part in message
    assert message.endswith(".")


class TestParity:
    """The checkpoint written by TensorFlow, against what TensorFlow read from it."""

    def test_all_variables(self, bilm_tf: Path) -> None:
        """Every array is identical, and writable."""
        arrays = read_checkpoint(find_checkpoint(bilm_tf / "checkpoint"))
        with np.load(bilm_tf / "checkpoint_all_variables.npz") as expected:
            assert_same(arrays, {name: expected[name] for name in expected.files})
        assert len(arrays) == 68
        assert list(arrays) == sorted(arrays)
        assert all(array.flags.writeable for array in arrays.values())

    def test_writer_writes_what_tensorflow_wrote(self, bilm_tf: Path, tmp_path: Path) -> None:
        """Our test writer makes the same data file and the same entries, byte for byte."""
        original = bilm_tf / "checkpoint" / "model.ckpt-120"
        arrays = read_checkpoint(original)
        copy = write_checkpoint(tmp_path / "copy", arrays, rows_per_block=99, restart_interval=16)
        assert data_path(copy).read_bytes() == data_path(original).read_bytes()
        index = index_path(original).read_bytes()
        (entries_end, _), _ = tf_index._parse_handle(index[-48:], 0)
        assert index_path(copy).read_bytes()[:entries_end] == index[:entries_end]


class TestRead:
    """Round trips through the writer of the tests."""

    @pytest.mark.parametrize("n_shards", [1, 2, 5])
    def test_shards(self, tmp_path: Path, tensors: Arrays, n_shards: int) -> None:
        """Tensors come from any number of data files."""
        assert_same(read_checkpoint(write_checkpoint(tmp_path / "m", tensors, n_shards)), tensors)

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_dtypes(self, tmp_path: Path, dtype: str) -> None:
        """Each supported type keeps its bits."""
        values = np.array([[0, 1, 2], [100, 3, 0]]).astype(dtype)
        arrays = read_checkpoint(write_checkpoint(tmp_path / "m", {"x": values}))
        assert_same(arrays, {"x": values})
        assert arrays["x"].flags.writeable

    def test_bfloat16(self, tmp_path: Path) -> None:
        """bfloat16 is widened to the float32 of the same value."""
        expected = np.array([1.0, -2.5, np.inf, 0.0], np.float32)
        data = (expected.view(np.uint32) >> 16).astype("<u2").tobytes()
        entry = encode_entry(dtype=14, shape=(4,), n_bytes=8, checksum=masked_crc32c(data))
        assert_same(
            read_checkpoint(write_rows(tmp_path / "m", HEADER, (b"x", entry), data=data)),
            {"x": expected},
        )

    def test_empty_tensor(self, tmp_path: Path) -> None:
        """A tensor without elements keeps its shape."""
        arrays: Arrays = {"a": np.zeros((0, 3), np.float32), "b": np.ones(2, np.float32)}
        assert_same(read_checkpoint(write_checkpoint(tmp_path / "m", arrays)), arrays)

    def test_memory(self, tmp_path: Path) -> None:
        """Reading needs little more memory than the arrays."""
        arrays = {f"x{i}": np.full((256, 256), i, np.float32) for i in range(8)}
        prefix = write_checkpoint(tmp_path / "m", arrays)
        tracemalloc.start()
        read_checkpoint(prefix)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 1.5 * data_path(prefix).stat().st_size

    @settings(max_examples=60, deadline=None)
    @given(
        specifications=st.dictionaries(
            # Keys that start with a zero byte are TensorFlow's own.
            st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20).filter(
                lambda name: not name.startswith("\0")
            ),
            st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(0, 4), max_size=4)),
            max_size=20,
        ),
        n_shards=st.integers(1, 3),
        rows_per_block=st.integers(1, 8),
        restart_interval=st.integers(1, 8),
        seed=st.integers(0, 2**32 - 1),
    )
    def test_round_trip(
        self,
        tmp_path_factory: pytest.TempPathFactory,
        specifications: dict[str, tuple[str, list[int]]],
        n_shards: int,
        rows_per_block: int,
        restart_interval: int,
        seed: int,
    ) -> None:
        """Any names, types and shapes come back bit for bit."""
        rng = np.random.default_rng(seed)
        arrays: Arrays = {
            name: rng.integers(0, 100, shape).astype(dtype)
            for name, (dtype, shape) in specifications.items()
        }
        prefix = write_checkpoint(
            tmp_path_factory.mktemp("round_trip") / "m",
            arrays,
            n_shards,
            rows_per_block=rows_per_block,
            restart_interval=restart_interval,
        )
        assert_same(read_checkpoint(prefix), arrays)


class TestChecksum:
    """The fast CRC-32C against the plain one and the published check value."""

    def test_check_value(self) -> None:
        """The check value of CRC-32C is met by both."""
        assert crc32c(b"123456789") == 0xE3069283
        digits = np.frombuffer(b"123456789", np.uint8)
        assert crc32c_numpy.masked_crc32c(digits) == masked_crc32c(b"123456789")

    @pytest.mark.parametrize(
        "size", [0, 1, 3, 4, 255, 5684, 5685, 5686, 5690, 10008, 16 * 5685 + 1, 200_003]
    )
    def test_sizes(self, size: int) -> None:
        """Sizes around each fold agree."""
        data = np.random.default_rng(size).integers(0, 256, size, np.uint8)
        before = data.copy()
        assert crc32c_numpy.masked_crc32c(data) == masked_crc32c(data.tobytes())
        assert np.array_equal(data, before)

    @pytest.mark.parametrize("chunk_size", [5, 6000, 7001, 100_000])
    def test_chunks(self, monkeypatch: pytest.MonkeyPatch, chunk_size: int) -> None:
        """The cut into chunks does not show."""
        monkeypatch.setattr(crc32c_numpy, "_CHUNK_SIZE", chunk_size)
        data = np.random.default_rng(1).integers(0, 256, 120_001, np.uint8)
        assert crc32c_numpy.masked_crc32c(data) == masked_crc32c(data.tobytes())

    def test_fold_polynomial(self) -> None:
        """x^5685 + x^1362 + x^426 + 1 is a multiple of the CRC polynomial."""
        remainder = 1 << 5685 | 1 << 1362 | 1 << 426 | 1
        while remainder.bit_length() > 32:
            remainder ^= 0x11EDC6F41 << (remainder.bit_length() - 33)
        assert remainder == 0
        assert crc32c_numpy._FOLD_DISTANCES == (5685 - 1362, 5685 - 426, 5685)


class TestFind:
    """From what a user gives to the prefix."""

    @pytest.mark.parametrize("suffix", ["", ".index", ".data-00000-of-00001", ".meta"])
    def test_file(self, prefix: Path, suffix: str) -> None:
        """Any file of a checkpoint leads to it, also a .meta that is not there."""
        assert find_checkpoint(prefix.with_name(prefix.name + suffix)) == prefix

    @pytest.mark.parametrize(
        "recorded",
        [
            "model.ckpt-7",
            "/somewhere/else/model.ckpt-7",
            "old/model.ckpt-7",
            r"C:\\models\\model.ckpt-7",
            r"/gone/\"quoted\"/\303\251/model.ckpt-7",
            r"model\056ckpt-7",
        ],
    )
    def test_folder_with_checkpoint_file(self, prefix: Path, recorded: str) -> None:
        """The recorded path is followed, in the end by its base name."""
        folder = prefix.parent
        write_checkpoint(folder / "model.ckpt-9", {"x": np.zeros(1, np.float32)})
        text = f'model_checkpoint_path: "{recorded}"\nall_model_checkpoint_paths: "model.ckpt-9"\n'
        (folder / "checkpoint").write_text(text)
        assert find_checkpoint(folder) == prefix
        assert find_checkpoint(folder / "checkpoint") == prefix

    def test_recorded_path_that_exists(self, prefix: Path, tmp_path: Path) -> None:
        """An absolute path of this machine is taken."""
        folder = tmp_path / "run"
        folder.mkdir()
        (folder / "checkpoint").write_text(f'model_checkpoint_path: "{prefix}"\n')
        assert find_checkpoint(folder) == prefix

    def test_recorded_path_not_in_ascii(self, tmp_path: Path) -> None:
        """TensorFlow writes other letters as octal bytes."""
        prefix = write_checkpoint(tmp_path / "modèle", {"x": np.zeros(1, np.float32)})
        (tmp_path / "checkpoint").write_text(r'model_checkpoint_path: "mod\303\250le"')
        assert find_checkpoint(tmp_path) == prefix

    def test_folder_with_one_index(self, prefix: Path) -> None:
        """Without a checkpoint file the only index is taken; dot files do not count."""
        (prefix.parent / "._model.ckpt-7.index").write_bytes(b"junk")
        (prefix.parent / ".index").write_bytes(b"junk")
        assert find_checkpoint(prefix.parent) == prefix

    def test_folder_with_several_indexes(self, prefix: Path) -> None:
        """The highest step wins, as a number and not as text."""
        for name in ("model.ckpt-10", "model.ckpt-9", "other"):
            shutil.copy(index_path(prefix), prefix.parent / f"{name}.index")
        assert find_checkpoint(prefix.parent) == prefix.parent / "model.ckpt-10"

    def test_ambiguous_folder(self, prefix: Path) -> None:
        """Two of the same step are a question for the user."""
        shutil.copy(index_path(prefix), prefix.parent / "best-7.index")
        refused(
            lambda: find_checkpoint(prefix.parent), "best-7.index, model.ckpt-7.index", "Give the"
        )

    def test_empty_folder(self, tmp_path: Path) -> None:
        """A folder without an index says so."""
        refused(lambda: find_checkpoint(tmp_path), str(tmp_path), "index files: none", "Give the")

    @pytest.mark.parametrize(
        "content",
        [b"", b"\xff\xfe\x00garbage", b"model_checkpoint_path: model", b'model_checkpoint_path: "'],
    )
    def test_garbled_checkpoint_file(self, prefix: Path, content: bytes) -> None:
        """A checkpoint file without its line is refused, with what else is there."""
        (prefix.parent / "checkpoint").write_bytes(content)
        refused(lambda: find_checkpoint(prefix.parent), "no line", "model.ckpt-7.index")

    @pytest.mark.parametrize("recorded", ["gone-8", "", "/", "x" * 5000, "\0", ".", r"\777\8\9"])
    def test_stale_checkpoint_file(self, prefix: Path, recorded: str) -> None:
        """A recorded path that leads nowhere is refused, not replaced by a guess."""
        (prefix.parent / "checkpoint").write_text(f'model_checkpoint_path: "{recorded}"')
        refused(lambda: find_checkpoint(prefix.parent), "neither there", "model.ckpt-7.index")

    @pytest.mark.parametrize("name", ["nothing", "nothing.index", ".index", "..index", "a\0b"])
    def test_missing(self, tmp_path: Path, name: str) -> None:
        """A path that leads nowhere is refused."""
        refused(lambda: find_checkpoint(tmp_path / name), "no such file", "Give the folder")

    def test_file_without_index(self, prefix: Path) -> None:
        """A data file alone is refused, with the name of the missing one."""
        index_path(prefix).unlink()
        refused(lambda: find_checkpoint(data_path(prefix)), "without model.ckpt-7.index beside it")

    def test_index_that_is_a_folder(self, tmp_path: Path) -> None:
        """A folder under the name of the index is refused."""
        index_path(tmp_path / "m").mkdir()
        refused(lambda: find_checkpoint(tmp_path / "m"), "a folder named m.index")
        refused(lambda: read_checkpoint(tmp_path / "m"), "m.index", "found a folder")


class TestDamagedFiles:
    """Files that are missing, cut short or of another kind."""

    def test_missing_index(self, prefix: Path) -> None:
        """The index that is not there is named."""
        index_path(prefix).unlink()
        refused(lambda: read_checkpoint(prefix), "model.ckpt-7.index: found no such file")

    @pytest.mark.parametrize("name", ["a\0b", "x" * 5000])
    def test_impossible_name(self, tmp_path: Path, name: str) -> None:
        """A path the system refuses is refused likewise."""
        refused(lambda: read_checkpoint(tmp_path / name), "does not open")

    def test_missing_shard(self, tmp_path: Path, tensors: Arrays) -> None:
        """The data file that is not there is named, and those that are."""
        prefix = write_checkpoint(tmp_path / "m", tensors, 2)
        data_path(prefix, 1, 2).unlink()
        refused(
            lambda: read_checkpoint(prefix),
            "m.data-00001-of-00002: found no such file",
            "beside it: m.data-00000-of-00002, m.index",
        )

    def test_shard_that_is_a_folder(self, prefix: Path) -> None:
        """A folder under the name of the data file is refused."""
        data_path(prefix).unlink()
        data_path(prefix).mkdir()
        refused(lambda: read_checkpoint(prefix), "found a folder")

    @pytest.mark.parametrize("size", [0, 1, 47])
    def test_short_index(self, prefix: Path, size: int) -> None:
        """An index without room for its footer is refused."""
        index_path(prefix).write_bytes(index_path(prefix).read_bytes()[:size])
        refused(lambda: read_checkpoint(prefix), f"found {size} bytes", "copy or download")

    def test_truncated_index(self, prefix: Path) -> None:
        """An index cut at any place is refused."""
        whole = index_path(prefix).read_bytes()
        for size in range(0, len(whole), 11):
            index_path(prefix).write_bytes(whole[:size])
            refused(lambda: read_checkpoint(prefix), "model.ckpt-7.index", "copy or download")

    def test_bad_magic(self, prefix: Path) -> None:
        """The last eight bytes must be those of a table."""
        index_path(prefix).write_bytes(index_path(prefix).read_bytes()[:-8] + b"notmagic")
        refused(lambda: read_checkpoint(prefix), b"notmagic".hex(), "57fb808b247547db")

    @pytest.mark.parametrize("fill", [b"\0", b"\xff", b"\x08"])
    def test_garbage_with_magic(self, tmp_path: Path, fill: bytes) -> None:
        """Garbage before a right magic number is refused."""
        index_path(tmp_path / "m").write_bytes(fill * 500 + MAGIC.to_bytes(8, "little"))
        refused(lambda: read_checkpoint(tmp_path / "m"))

    def test_index_block_checksum(self, prefix: Path) -> None:
        """A changed byte in a block is noticed."""
        content = bytearray(index_path(prefix).read_bytes())
        content[20] ^= 1
        index_path(prefix).write_bytes(content)
        refused(lambda: read_checkpoint(prefix), "checksum", "block at byte 0", "the stored")

    def test_truncated_data(self, prefix: Path) -> None:
        """A data file cut short is refused with both sizes."""
        content = data_path(prefix).read_bytes()
        data_path(prefix).write_bytes(content[:-1])
        refused(
            lambda: read_checkpoint(prefix),
            "data-00000-of-00001",
            f"found {len(content) - 1} bytes",
            f"at least {len(content)} bytes",
        )
        data_path(prefix).write_bytes(b"")
        refused(lambda: read_checkpoint(prefix), "found 0 bytes")

    @pytest.mark.parametrize("size", [100, 300_000])
    def test_changed_data(self, tmp_path: Path, size: int) -> None:
        """A changed bit in a tensor is noticed, also in a large one."""
        prefix = write_checkpoint(tmp_path / "m", {"x": np.ones(size, np.uint8)})
        content = bytearray(data_path(prefix).read_bytes())
        content[size // 2] ^= 4
        data_path(prefix).write_bytes(content)
        refused(lambda: read_checkpoint(prefix), "checksum", "tensor x")


class TestDamagedIndex:
    """Indexes whose checksums are right and whose content is not."""

    @pytest.mark.parametrize(("compression", "word"), [(1, "Snappy-compressed"), (9, "type 9")])
    def test_compressed(self, prefix: Path, compression: int, word: str) -> None:
        """Compressed blocks are refused by name."""
        index_path(prefix).write_bytes(encode_table([HEADER], compression=compression))
        refused(lambda: read_checkpoint(prefix), word, "save it again")

    def test_big_endian(self, tmp_path: Path) -> None:
        """Data of a big-endian machine is refused."""
        prefix = write_rows(tmp_path / "m", (b"", encode_header(endianness=1)))
        refused(lambda: read_checkpoint(prefix), "big-endian machine")

    def test_no_header(self, tmp_path: Path) -> None:
        """The header must be there and count the data files."""
        refused(lambda: read_checkpoint(write_rows(tmp_path / "m")), "no header")
        refused(
            lambda: read_checkpoint(write_rows(tmp_path / "m", (b"x", encode_entry()))), "no header"
        )
        refused(lambda: read_checkpoint(write_rows(tmp_path / "m", (b"", b""))), "no data file")

    def test_key_order(self, tmp_path: Path) -> None:
        """Keys that fall or repeat are refused."""
        row = (b"x", encode_entry())
        refused(lambda: read_checkpoint(write_rows(tmp_path / "m", HEADER, row, row)), "rising")

    def test_name_not_utf8(self, tmp_path: Path) -> None:
        """A name that is no text is refused."""
        prefix = write_rows(tmp_path / "m", HEADER, (b"\xff", encode_entry()))
        refused(lambda: read_checkpoint(prefix), "UTF-8")

    @pytest.mark.parametrize(
        ("fields", "found"),
        [
            ({"dtype": 7}, "tensor x of type string"),
            ({"dtype": 0}, "tensor x of type invalid"),
            ({"dtype": 101}, "tensor x of type number 101"),
            ({"is_sliced": True}, "tensor x stored in slices"),
            ({"shard": 1}, "data file number 1"),
            ({"shape": (2,)}, "tensor x of 4 bytes; expected 8 for float32"),
            ({"shape": (2**64 - 1,)}, "tensor x of 4 bytes"),
            ({"shape": (1,) * 33}, "tensor x of 33 dimensions"),
            ({"shape": (0, 2**62, 2**62), "n_bytes": 0}, "shape numpy can hold"),
            ({"shape": (0, 2**69), "n_bytes": 0}, "shape numpy can hold"),
            ({"offset": 1}, "lies at bytes 1 to 5"),
            ({"offset": 2**64 - 1}, "found 4 bytes"),
            ({"shape": (2**50,), "n_bytes": 2**52}, "found 4 bytes"),
            ({"checksum": 1}, "for tensor x; expected 00000001"),
        ],
    )
    def test_entry(self, tmp_path: Path, fields: dict[str, Any], found: str) -> None:
        """A wrong field is refused with the tensor's name."""
        right = {"checksum": masked_crc32c(b"" if fields.get("n_bytes") == 0 else b"\0" * 4)}
        entry = encode_entry(**{**right, **fields})
        prefix = write_rows(tmp_path / "m", HEADER, (b"x", entry))
        refused(lambda: read_checkpoint(prefix), found)

    def test_slice_keys_are_passed_over(self, tmp_path: Path) -> None:
        """The binary keys of a sliced tensor's pieces do not hinder the other tensors."""
        good = np.zeros((), np.float32)
        entry = encode_array_entry(good, good.tobytes(), 0, 0)
        prefix = write_rows(tmp_path / "m", HEADER, (b"\0x\0\x01\xff", b"\xff"), (b"good", entry))
        assert_same(read_checkpoint(prefix), {"good": good})

    def test_overlap(self, tmp_path: Path) -> None:
        """Two tensors cannot share bytes."""
        entry = encode_entry(checksum=masked_crc32c(b"\0" * 4))
        prefix = write_rows(tmp_path / "m", HEADER, (b"x", entry), (b"y", entry))
        refused(lambda: read_checkpoint(prefix), "tensor y at byte 0, inside the tensor before")

    @pytest.mark.parametrize(
        ("value", "found"),
        [
            (b"\x80", "runs off the end"),
            (b"\x08", "runs off the end"),
            (b"\x08" + b"\xff" * 11, "more than ten bytes"),
            (b"\x0b", "wire type 3"),
            (b"\x35\x00", "field 6 of 4 bytes"),
            (b"\x12\x7f\x00", "field 2 of 127 bytes"),
            (b"\x12" + varint(2**63) + b"\x00", "field 2 of"),
            (b"\x12\x02\x12\x05", "field 2 of 5 bytes"),
        ],
    )
    def test_message(self, tmp_path: Path, value: bytes, found: str) -> None:
        """Entries that are no protocol buffer are refused."""
        prefix = write_rows(tmp_path / "m", HEADER, (b"x", value))
        refused(lambda: read_checkpoint(prefix), "m.index", found)

    def test_unknown_fields_are_passed_over(self, tmp_path: Path) -> None:
        """Fields of later versions do not hinder."""
        good = np.zeros((), np.float32)
        extra = b"\x98\x06\x01" + b"\x99\x06" + b"\0" * 8 + b"\x9a\x06\x01x" + b"\x9d\x06\0\0\0\0"
        entry = encode_array_entry(good, good.tobytes(), 0, 0) + extra
        prefix = write_rows(tmp_path / "m", HEADER, (b"x", entry))
        assert_same(read_checkpoint(prefix), {"x": good})

    @pytest.mark.parametrize(
        ("block", "found"),
        [
            (b"", "a block of 0 bytes"),
            (b"\xff\xff\xff\xff", "4294967295 restart points"),
            (b"\x01\x00\x00" + b"\0" * 4, "lengths 1, 0, 0"),
            (b"\x00\x05\x00abc" + b"\0" * 4, "lengths 0, 5, 0"),
            (b"\x00\x00\x7f" + b"\0" * 4, "lengths 0, 0, 127"),
            (b"\xff" * 9 + b"\0" * 4, "lengths"),
        ],
    )
    def test_block(self, tmp_path: Path, block: bytes, found: str) -> None:
        """Blocks that do not hold together are refused."""
        index_path(tmp_path / "m").write_bytes(encode_table([HEADER], damage=lambda _: block))
        refused(lambda: read_checkpoint(tmp_path / "m"), found)

    def test_handle_out_of_range(self, tmp_path: Path) -> None:
        """A block beyond the file is refused."""
        footer = (varint(0) * 2 + varint(10**9) + varint(10)).ljust(40, b"\0")
        index_path(tmp_path / "m").write_bytes(b"\0" * 60 + footer + MAGIC.to_bytes(8, "little"))
        refused(lambda: read_checkpoint(tmp_path / "m"), "a block of 10 bytes at byte 1000000000")


class TestFuzz:
    """Seeded random damage: a refusal or the right result, never another exception."""

    def test_index(self, prefix: Path, tensors: Arrays) -> None:
        """Bytes of the index are flipped, cut out or put in."""
        whole = index_path(prefix).read_bytes()
        rng = random.Random(0)
        n_refused = 0
        for _ in range(500):
            index_path(prefix).write_bytes(_damaged(whole, rng))
            try:
                arrays = read_checkpoint(prefix)
            except FormatError:
                n_refused += 1
            else:
                assert_same(arrays, tensors)
        assert n_refused > 400

    def test_footer(self, prefix: Path, tensors: Arrays) -> None:
        """Every bit of the footer is flipped."""
        whole = index_path(prefix).read_bytes()
        for bit in range(48 * 8):
            content = bytearray(whole)
            content[-48 + bit // 8] ^= 1 << bit % 8
            index_path(prefix).write_bytes(content)
            try:
                arrays = read_checkpoint(prefix)
            except FormatError:
                continue
            assert_same(arrays, tensors)

    def test_data(self, prefix: Path, tensors: Arrays) -> None:
        """Bytes of the data are flipped, cut out or put in."""
        whole = data_path(prefix).read_bytes()
        rng = random.Random(1)
        for _ in range(150):
            data_path(prefix).write_bytes(_damaged(whole, rng))
            try:
                arrays = read_checkpoint(prefix)
            except FormatError:
                continue
            assert_same(arrays, tensors)

    def test_blocks_with_right_checksums(self, prefix: Path, tensors: Arrays) -> None:
        """Damage that no index checksum shows may pass only where the tensors' own hold."""
        rng = random.Random(2)
        rows = [HEADER]
        offset = 0
        for name in sorted(tensors):
            data = tensors[name].tobytes()
            rows.append((name.encode(), encode_array_entry(tensors[name], data, 0, offset)))
            offset += len(data)
        known_bytes = {array.tobytes() for array in tensors.values()}
        for _ in range(400):
            table = encode_table(rows, rows_per_block=20, damage=lambda block: _damaged(block, rng))
            index_path(prefix).write_bytes(table)
            try:
                arrays = read_checkpoint(prefix)
            except FormatError:
                continue
            # A changed name or shape cannot be told from a right one; changed values can.
            assert all(array.tobytes() in known_bytes for array in arrays.values())


def _damaged(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        place = rng.randrange(len(changed))
        kind = rng.random()
        if kind < 0.6:
            changed[place] ^= rng.randrange(1, 256)
        elif kind < 0.75:
            del changed[place : place + rng.randrange(1, 9)]
        elif kind < 0.9:
            changed[place:place] = rng.randbytes(rng.randrange(1, 9))
        else:
            del changed[max(1, place) :]
        if not changed:
            return b""
    return bytes(changed)
