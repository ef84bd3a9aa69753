"""Tests for reading TensorFlow checkpoints: parity with TensorFlow, round trips, damage."""

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
    """Return the folder with golden files written by bilm-tf."""
    return golden_path("generated/bilm-tf")


@pytest.fixture
def tensors() -> Arrays:
    """Return enough arrays with common name prefixes to fill several index blocks."""
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
    """Write a valid checkpoint and return its prefix."""
    return write_checkpoint(tmp_path / "model.ckpt-7", tensors)


def assert_same(actual: Arrays, expected: Arrays) -> None:
    """Check that two sets of arrays have identical names, dtypes, shapes and bits."""
    assert actual.keys() == expected.keys()
    for name, array in expected.items():
        assert actual[name].dtype == array.dtype, name
        assert actual[name].shape == array.shape, name
        assert actual[name].tobytes() == array.tobytes(), name


def write_rows(prefix: Path, *rows: tuple[bytes, bytes], data: bytes = b"\0" * 4) -> Path:
    """Write an index with the given rows and one data file."""
    index_path(prefix).write_bytes(encode_table(rows))
    data_path(prefix).write_bytes(data)
    return prefix


def assert_format_error(call: Callable[[], object], *phrases: str) -> None:
    """Check that the call raises a `FormatError` with a complete message and these phrases."""
    with pytest.raises(FormatError) as caught:
        call()
    message = str(caught.value)
    for phrase in (": found ", "; expected ", *phrases):
        assert phrase in message
    assert message.endswith(".")


class TestParity:
    """Comparison with the arrays that TensorFlow reads from its own checkpoint."""

    def test_read_matches_all_tensorflow_variables(self, bilm_tf: Path) -> None:
        """Every array is identical and writable."""
        arrays = read_checkpoint(find_checkpoint(bilm_tf / "checkpoint"))
        with np.load(bilm_tf / "checkpoint_all_variables.npz") as expected:
            assert_same(arrays, {name: expected[name] for name in expected.files})
        assert len(arrays) == 68
        assert list(arrays) == sorted(arrays)
        assert all(array.flags.writeable for array in arrays.values())

    def test_checkpoint_writer_of_tests_matches_tensorflow(
        self, bilm_tf: Path, tmp_path: Path
    ) -> None:
        """The checkpoint writer of the tests produces the same bytes as TensorFlow."""
        original = bilm_tf / "checkpoint" / "model.ckpt-120"
        arrays = read_checkpoint(original)
        copy = write_checkpoint(tmp_path / "copy", arrays, rows_per_block=99, restart_interval=16)
        assert data_path(copy).read_bytes() == data_path(original).read_bytes()
        index = index_path(original).read_bytes()
        (entries_end, _), _ = tf_index._parse_handle(index[-48:], 0)
        assert index_path(copy).read_bytes()[:entries_end] == index[:entries_end]


class TestRead:
    """Round trips through the checkpoint writer of the tests."""

    @pytest.mark.parametrize("n_shards", [1, 2, 5])
    def test_read_accepts_any_number_of_shards(
        self, tmp_path: Path, tensors: Arrays, n_shards: int
    ) -> None:
        """Tensors are read from any number of data files."""
        assert_same(read_checkpoint(write_checkpoint(tmp_path / "m", tensors, n_shards)), tensors)

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_read_is_bit_identical_for_every_dtype(self, tmp_path: Path, dtype: str) -> None:
        """Arrays of every supported dtype are read bit for bit."""
        values = np.array([[0, 1, 2], [100, 3, 0]]).astype(dtype)
        arrays = read_checkpoint(write_checkpoint(tmp_path / "m", {"x": values}))
        assert_same(arrays, {"x": values})
        assert arrays["x"].flags.writeable

    def test_read_converts_bfloat16_to_float32(self, tmp_path: Path) -> None:
        """bfloat16 is converted to float32 without loss."""
        expected = np.array([1.0, -2.5, np.inf, 0.0], np.float32)
        data = (expected.view(np.uint32) >> 16).astype("<u2").tobytes()
        entry = encode_entry(dtype=14, shape=(4,), n_bytes=8, checksum=masked_crc32c(data))
        assert_same(
            read_checkpoint(write_rows(tmp_path / "m", HEADER, (b"x", entry), data=data)),
            {"x": expected},
        )

    def test_read_preserves_shape_of_empty_tensor(self, tmp_path: Path) -> None:
        """A tensor without elements is read with its original shape."""
        arrays: Arrays = {"a": np.zeros((0, 3), np.float32), "b": np.ones(2, np.float32)}
        assert_same(read_checkpoint(write_checkpoint(tmp_path / "m", arrays)), arrays)

    def test_read_uses_little_extra_memory(self, tmp_path: Path) -> None:
        """Reading needs little more memory than the arrays themselves."""
        arrays = {f"x{i}": np.full((256, 256), i, np.float32) for i in range(8)}
        prefix = write_checkpoint(tmp_path / "m", arrays)
        tracemalloc.start()
        read_checkpoint(prefix)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 1.5 * data_path(prefix).stat().st_size

    @settings(max_examples=60)
    @given(
        specifications=st.dictionaries(
            # Keys that start with a zero byte are reserved by TensorFlow.
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
    def test_write_and_read_is_bit_identical(
        self,
        tmp_path_factory: pytest.TempPathFactory,
        specifications: dict[str, tuple[str, list[int]]],
        n_shards: int,
        rows_per_block: int,
        restart_interval: int,
        seed: int,
    ) -> None:
        """Arrays with arbitrary names, dtypes and shapes are read back bit for bit."""
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
    """Comparison of the fast CRC-32C with a reference and the published check value."""

    def test_crc32c_has_published_check_value(self) -> None:
        """Both implementations return the published check value of CRC-32C."""
        assert crc32c(b"123456789") == 0xE3069283
        digits = np.frombuffer(b"123456789", np.uint8)
        assert crc32c_numpy.masked_crc32c(digits) == masked_crc32c(b"123456789")

    @pytest.mark.parametrize(
        "size", [0, 1, 3, 4, 255, 5684, 5685, 5686, 5690, 10008, 16 * 5685 + 1, 200_003]
    )
    def test_crc32c_matches_reference_for_all_sizes(self, size: int) -> None:
        """Both implementations return the same checksum for data sizes around each fold."""
        data = np.random.default_rng(size).integers(0, 256, size, np.uint8)
        before = data.copy()
        assert crc32c_numpy.masked_crc32c(data) == masked_crc32c(data.tobytes())
        assert np.array_equal(data, before)

    @pytest.mark.parametrize("chunk_size", [5, 6000, 7001, 100_000])
    def test_crc32c_does_not_depend_on_chunk_size(
        self, monkeypatch: pytest.MonkeyPatch, chunk_size: int
    ) -> None:
        """The chunk size does not affect the checksum."""
        monkeypatch.setattr(crc32c_numpy, "_CHUNK_SIZE", chunk_size)
        data = np.random.default_rng(1).integers(0, 256, 120_001, np.uint8)
        assert crc32c_numpy.masked_crc32c(data) == masked_crc32c(data.tobytes())

    def test_fold_polynomial_is_multiple_of_crc_polynomial(self) -> None:
        """x^5685 + x^1362 + x^426 + 1 is a multiple of the CRC polynomial."""
        remainder = 1 << 5685 | 1 << 1362 | 1 << 426 | 1
        while remainder.bit_length() > 32:
            remainder ^= 0x11EDC6F41 << (remainder.bit_length() - 33)
        assert remainder == 0
        assert crc32c_numpy._FOLD_DISTANCES == (5685 - 1362, 5685 - 426, 5685)


class TestFind:
    """Finding the checkpoint prefix from the path that a user passes."""

    @pytest.mark.parametrize("suffix", ["", ".index", ".data-00000-of-00001", ".meta"])
    def test_find_checkpoint_accepts_any_file_of_checkpoint(
        self, prefix: Path, suffix: str
    ) -> None:
        """The path of any checkpoint file is accepted, even of a .meta file that does not exist."""
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
    def test_find_checkpoint_follows_checkpoint_file(self, prefix: Path, recorded: str) -> None:
        """If the recorded path does not exist, its base name is looked up in the same folder."""
        folder = prefix.parent
        write_checkpoint(folder / "model.ckpt-9", {"x": np.zeros(1, np.float32)})
        text = f'model_checkpoint_path: "{recorded}"\nall_model_checkpoint_paths: "model.ckpt-9"\n'
        (folder / "checkpoint").write_text(text)
        assert find_checkpoint(folder) == prefix
        assert find_checkpoint(folder / "checkpoint") == prefix

    def test_find_checkpoint_uses_existing_recorded_path(
        self, prefix: Path, tmp_path: Path
    ) -> None:
        """A recorded absolute path is used if it exists."""
        folder = tmp_path / "run"
        folder.mkdir()
        (folder / "checkpoint").write_text(f'model_checkpoint_path: "{prefix}"\n')
        assert find_checkpoint(folder) == prefix

    def test_find_checkpoint_decodes_octal_bytes_in_recorded_path(self, tmp_path: Path) -> None:
        """TensorFlow writes non-ASCII characters as octal bytes."""
        prefix = write_checkpoint(tmp_path / "modèle", {"x": np.zeros(1, np.float32)})
        (tmp_path / "checkpoint").write_text(r'model_checkpoint_path: "mod\303\250le"')
        assert find_checkpoint(tmp_path) == prefix

    def test_find_checkpoint_uses_the_only_index_in_folder(self, prefix: Path) -> None:
        """Without a `checkpoint` file, the only index is used. Hidden files are ignored."""
        (prefix.parent / "._model.ckpt-7.index").write_bytes(b"junk")
        (prefix.parent / ".index").write_bytes(b"junk")
        assert find_checkpoint(prefix.parent) == prefix

    def test_find_checkpoint_uses_highest_step(self, prefix: Path) -> None:
        """The checkpoint with the highest step is used; steps are compared as numbers."""
        for name in ("model.ckpt-10", "model.ckpt-9", "other"):
            shutil.copy(index_path(prefix), prefix.parent / f"{name}.index")
        assert find_checkpoint(prefix.parent) == prefix.parent / "model.ckpt-10"

    def test_find_checkpoint_rejects_ambiguous_folder(self, prefix: Path) -> None:
        """Two checkpoints with the same step are rejected."""
        shutil.copy(index_path(prefix), prefix.parent / "best-7.index")
        assert_format_error(
            lambda: find_checkpoint(prefix.parent), "best-7.index, model.ckpt-7.index", "Pass the"
        )

    def test_find_checkpoint_rejects_empty_folder(self, tmp_path: Path) -> None:
        """A folder without an index is rejected."""
        assert_format_error(
            lambda: find_checkpoint(tmp_path), str(tmp_path), "index files: none", "Pass the"
        )

    @pytest.mark.parametrize(
        "content",
        [b"", b"\xff\xfe\x00garbage", b"model_checkpoint_path: model", b'model_checkpoint_path: "'],
    )
    def test_find_checkpoint_rejects_invalid_checkpoint_file(
        self, prefix: Path, content: bytes
    ) -> None:
        """The error for an invalid `checkpoint` file lists the index files in the folder."""
        (prefix.parent / "checkpoint").write_bytes(content)
        assert_format_error(
            lambda: find_checkpoint(prefix.parent),
            "no model_checkpoint_path line",
            "model.ckpt-7.index",
        )

    @pytest.mark.parametrize("recorded", ["gone-8", "", "/", "x" * 5000, "\0", ".", r"\777\8\9"])
    def test_find_checkpoint_rejects_stale_checkpoint_file(
        self, prefix: Path, recorded: str
    ) -> None:
        """If the recorded checkpoint does not exist, no other checkpoint is used instead."""
        (prefix.parent / "checkpoint").write_text(f'model_checkpoint_path: "{recorded}"')
        assert_format_error(
            lambda: find_checkpoint(prefix.parent), "is missing there", "model.ckpt-7.index"
        )

    @pytest.mark.parametrize("name", ["nothing", "nothing.index", ".index", "..index", "a\0b"])
    def test_find_checkpoint_rejects_missing_path(self, tmp_path: Path, name: str) -> None:
        """A path that does not exist is rejected."""
        assert_format_error(
            lambda: find_checkpoint(tmp_path / name), "no such file", "Pass the folder"
        )

    def test_find_checkpoint_rejects_data_file_without_index(self, prefix: Path) -> None:
        """A data file without an index is rejected; the error names the missing file."""
        index_path(prefix).unlink()
        assert_format_error(
            lambda: find_checkpoint(data_path(prefix)), "without model.ckpt-7.index next to it"
        )

    def test_find_checkpoint_rejects_index_that_is_a_folder(self, tmp_path: Path) -> None:
        """A folder with the name of the index is rejected."""
        index_path(tmp_path / "m").mkdir()
        assert_format_error(lambda: find_checkpoint(tmp_path / "m"), "a folder named m.index")
        assert_format_error(lambda: read_checkpoint(tmp_path / "m"), "m.index", "found a folder")


class TestDamagedFiles:
    """Checkpoint files that are missing, truncated or not checkpoint files."""

    def test_read_rejects_missing_index(self, prefix: Path) -> None:
        """The error names the missing index."""
        index_path(prefix).unlink()
        assert_format_error(
            lambda: read_checkpoint(prefix), "model.ckpt-7.index: found no such file"
        )

    @pytest.mark.parametrize("name", ["a\0b", "x" * 5000])
    def test_read_rejects_path_the_system_does_not_accept(self, tmp_path: Path, name: str) -> None:
        """A path that the operating system does not accept raises a `FormatError`."""
        assert_format_error(lambda: read_checkpoint(tmp_path / name), "cannot be opened")

    def test_read_rejects_missing_shard(self, tmp_path: Path, tensors: Arrays) -> None:
        """The error names the missing data file and lists the existing ones."""
        prefix = write_checkpoint(tmp_path / "m", tensors, 2)
        data_path(prefix, 1, 2).unlink()
        assert_format_error(
            lambda: read_checkpoint(prefix),
            "m.data-00001-of-00002: found no such file",
            "similar files: m.data-00000-of-00002, m.index",
        )

    def test_read_rejects_shard_that_is_a_folder(self, prefix: Path) -> None:
        """A folder with the name of the data file is rejected."""
        data_path(prefix).unlink()
        data_path(prefix).mkdir()
        assert_format_error(lambda: read_checkpoint(prefix), "found a folder")

    @pytest.mark.parametrize("size", [0, 1, 47])
    def test_read_rejects_index_shorter_than_footer(self, prefix: Path, size: int) -> None:
        """An index shorter than its footer is rejected."""
        index_path(prefix).write_bytes(index_path(prefix).read_bytes()[:size])
        assert_format_error(
            lambda: read_checkpoint(prefix), f"found {size} bytes", "copy or download"
        )

    def test_read_rejects_truncated_index(self, prefix: Path) -> None:
        """An index truncated anywhere is rejected."""
        original = index_path(prefix).read_bytes()
        for size in range(0, len(original), 11):
            index_path(prefix).write_bytes(original[:size])
            assert_format_error(
                lambda: read_checkpoint(prefix), "model.ckpt-7.index", "copy or download"
            )

    def test_read_rejects_wrong_magic_number(self, prefix: Path) -> None:
        """The last eight bytes of an index must be the magic number."""
        index_path(prefix).write_bytes(index_path(prefix).read_bytes()[:-8] + b"notmagic")
        assert_format_error(lambda: read_checkpoint(prefix), b"notmagic".hex(), "57fb808b247547db")

    @pytest.mark.parametrize("fill", [b"\0", b"\xff", b"\x08"])
    def test_read_rejects_garbage_with_magic_number(self, tmp_path: Path, fill: bytes) -> None:
        """Garbage before a correct magic number is rejected."""
        index_path(tmp_path / "m").write_bytes(fill * 500 + MAGIC.to_bytes(8, "little"))
        assert_format_error(lambda: read_checkpoint(tmp_path / "m"))

    def test_read_rejects_changed_index_block(self, prefix: Path) -> None:
        """A changed byte in an index block is detected."""
        content = bytearray(index_path(prefix).read_bytes())
        content[20] ^= 1
        index_path(prefix).write_bytes(content)
        assert_format_error(
            lambda: read_checkpoint(prefix), "checksum", "block at byte 0", "the stored"
        )

    def test_read_rejects_truncated_data(self, prefix: Path) -> None:
        """The error for a truncated data file contains the actual and the expected size."""
        content = data_path(prefix).read_bytes()
        data_path(prefix).write_bytes(content[:-1])
        assert_format_error(
            lambda: read_checkpoint(prefix),
            "data-00000-of-00001",
            f"found {len(content) - 1} bytes",
            f"at least {len(content)} bytes",
        )
        data_path(prefix).write_bytes(b"")
        assert_format_error(lambda: read_checkpoint(prefix), "found 0 bytes")

    @pytest.mark.parametrize("size", [100, 300_000])
    def test_read_rejects_changed_data(self, tmp_path: Path, size: int) -> None:
        """A changed bit is detected even in a large tensor."""
        prefix = write_checkpoint(tmp_path / "m", {"x": np.ones(size, np.uint8)})
        content = bytearray(data_path(prefix).read_bytes())
        content[size // 2] ^= 4
        data_path(prefix).write_bytes(content)
        assert_format_error(lambda: read_checkpoint(prefix), "checksum", "tensor x")


class TestDamagedIndex:
    """Index files with correct checksums but invalid content."""

    @pytest.mark.parametrize(("compression", "phrase"), [(1, "Snappy-compressed"), (9, "type 9")])
    def test_read_rejects_compressed_blocks(
        self, prefix: Path, compression: int, phrase: str
    ) -> None:
        """The error for a compressed block names the compression."""
        index_path(prefix).write_bytes(encode_table([HEADER], compression=compression))
        assert_format_error(lambda: read_checkpoint(prefix), phrase, "save it again")

    def test_read_rejects_big_endian_data(self, tmp_path: Path) -> None:
        """Data written on a big-endian machine is rejected."""
        prefix = write_rows(tmp_path / "m", (b"", encode_header(endianness=1)))
        assert_format_error(lambda: read_checkpoint(prefix), "big-endian machine")

    def test_read_rejects_index_without_valid_header(self, tmp_path: Path) -> None:
        """The header must be present and contain the number of data files."""
        assert_format_error(lambda: read_checkpoint(write_rows(tmp_path / "m")), "no header")
        assert_format_error(
            lambda: read_checkpoint(write_rows(tmp_path / "m", (b"x", encode_entry()))), "no header"
        )
        assert_format_error(
            lambda: read_checkpoint(write_rows(tmp_path / "m", (b"", b""))), "0 data files"
        )

    def test_read_rejects_unsorted_keys(self, tmp_path: Path) -> None:
        """Descending or repeated keys are rejected."""
        row = (b"x", encode_entry())
        assert_format_error(
            lambda: read_checkpoint(write_rows(tmp_path / "m", HEADER, row, row)), "ascending"
        )

    def test_read_rejects_tensor_name_that_is_not_utf8(self, tmp_path: Path) -> None:
        """A tensor name that is not UTF-8 is rejected."""
        prefix = write_rows(tmp_path / "m", HEADER, (b"\xff", encode_entry()))
        assert_format_error(lambda: read_checkpoint(prefix), "UTF-8")

    @pytest.mark.parametrize(
        ("fields", "phrase"),
        [
            ({"dtype": 7}, "tensor x with dtype string"),
            ({"dtype": 0}, "tensor x with dtype invalid"),
            ({"dtype": 101}, "tensor x with dtype number 101"),
            ({"is_sliced": True}, "tensor x stored in slices"),
            ({"shard": 1}, "data file number 1"),
            ({"shape": (2,)}, "tensor x with 4 bytes; expected 8 for float32"),
            ({"shape": (2**64 - 1,)}, "tensor x with 4 bytes"),
            ({"shape": (1,) * 33}, "tensor x with 33 dimensions"),
            ({"shape": (0, 2**62, 2**62), "n_bytes": 0}, "shape that NumPy supports"),
            ({"shape": (0, 2**69), "n_bytes": 0}, "shape that NumPy supports"),
            ({"offset": 1}, "is at bytes 1 to 5"),
            ({"offset": 2**64 - 1}, "found 4 bytes"),
            ({"shape": (2**50,), "n_bytes": 2**52}, "found 4 bytes"),
            ({"checksum": 1}, "for tensor x; expected 00000001"),
        ],
    )
    def test_read_rejects_invalid_tensor_entry(
        self, tmp_path: Path, fields: dict[str, Any], phrase: str
    ) -> None:
        """The error for an invalid field names the tensor."""
        valid = {"checksum": masked_crc32c(b"" if fields.get("n_bytes") == 0 else b"\0" * 4)}
        entry = encode_entry(**{**valid, **fields})
        prefix = write_rows(tmp_path / "m", HEADER, (b"x", entry))
        assert_format_error(lambda: read_checkpoint(prefix), phrase)

    def test_read_ignores_keys_of_tensor_slices(self, tmp_path: Path) -> None:
        """Binary keys of tensor slices are ignored."""
        good = np.zeros((), np.float32)
        entry = encode_array_entry(good, good.tobytes(), 0, 0)
        prefix = write_rows(tmp_path / "m", HEADER, (b"\0x\0\x01\xff", b"\xff"), (b"good", entry))
        assert_same(read_checkpoint(prefix), {"good": good})

    def test_read_rejects_overlapping_tensors(self, tmp_path: Path) -> None:
        """Tensors that share bytes are rejected."""
        entry = encode_entry(checksum=masked_crc32c(b"\0" * 4))
        prefix = write_rows(tmp_path / "m", HEADER, (b"x", entry), (b"y", entry))
        assert_format_error(
            lambda: read_checkpoint(prefix),
            "tensor y at byte 0, which overlaps the previous tensor",
        )

    @pytest.mark.parametrize(
        ("value", "phrase"),
        [
            (b"\x80", "cut off by the end"),
            (b"\x08", "cut off by the end"),
            (b"\x08" + b"\xff" * 11, "more than ten bytes"),
            (b"\x0b", "wire type 3"),
            (b"\x35\x00", "field 6 with 4 bytes"),
            (b"\x12\x7f\x00", "field 2 with 127 bytes"),
            (b"\x12" + varint(2**63) + b"\x00", "field 2 with"),
            (b"\x12\x02\x12\x05", "field 2 with 5 bytes"),
        ],
    )
    def test_read_rejects_invalid_protocol_buffer_message(
        self, tmp_path: Path, value: bytes, phrase: str
    ) -> None:
        """Entries that are not protocol buffers are rejected."""
        prefix = write_rows(tmp_path / "m", HEADER, (b"x", value))
        assert_format_error(lambda: read_checkpoint(prefix), "m.index", phrase)

    def test_read_ignores_unknown_protocol_buffer_fields(self, tmp_path: Path) -> None:
        """Protocol buffer fields from later versions are ignored."""
        good = np.zeros((), np.float32)
        extra = b"\x98\x06\x01" + b"\x99\x06" + b"\0" * 8 + b"\x9a\x06\x01x" + b"\x9d\x06\0\0\0\0"
        entry = encode_array_entry(good, good.tobytes(), 0, 0) + extra
        prefix = write_rows(tmp_path / "m", HEADER, (b"x", entry))
        assert_same(read_checkpoint(prefix), {"x": good})

    @pytest.mark.parametrize(
        ("block", "phrase"),
        [
            (b"", "a block of 0 bytes"),
            (b"\xff\xff\xff\xff", "4294967295 restart points"),
            (b"\x01\x00\x00" + b"\0" * 4, "lengths 1, 0, 0"),
            (b"\x00\x05\x00abc" + b"\0" * 4, "lengths 0, 5, 0"),
            (b"\x00\x00\x7f" + b"\0" * 4, "lengths 0, 0, 127"),
            (b"\xff" * 9 + b"\0" * 4, "lengths"),
        ],
    )
    def test_read_rejects_invalid_index_block(
        self, tmp_path: Path, block: bytes, phrase: str
    ) -> None:
        """Index blocks with inconsistent lengths are rejected."""
        index_path(tmp_path / "m").write_bytes(encode_table([HEADER], damage=lambda _: block))
        assert_format_error(lambda: read_checkpoint(tmp_path / "m"), phrase)

    def test_read_rejects_block_beyond_end_of_file(self, tmp_path: Path) -> None:
        """An index block beyond the end of the file is rejected."""
        footer = (varint(0) * 2 + varint(10**9) + varint(10)).ljust(40, b"\0")
        index_path(tmp_path / "m").write_bytes(b"\0" * 60 + footer + MAGIC.to_bytes(8, "little"))
        assert_format_error(
            lambda: read_checkpoint(tmp_path / "m"), "a block of 10 bytes at byte 1000000000"
        )


class TestFuzz:
    """Random damage must cause a `FormatError` or not affect the result."""

    def test_damaged_index_is_rejected_or_read_correctly(
        self, prefix: Path, tensors: Arrays
    ) -> None:
        """Random bytes of the index are changed, removed or inserted."""
        original = index_path(prefix).read_bytes()
        rng = random.Random(0)
        n_rejected = 0
        for _ in range(500):
            index_path(prefix).write_bytes(_damaged(original, rng))
            try:
                arrays = read_checkpoint(prefix)
            except FormatError:
                n_rejected += 1
            else:
                assert_same(arrays, tensors)
        assert n_rejected > 400

    def test_damaged_footer_is_rejected_or_read_correctly(
        self, prefix: Path, tensors: Arrays
    ) -> None:
        """Each bit of the footer is flipped, one at a time."""
        original = index_path(prefix).read_bytes()
        for bit in range(48 * 8):
            content = bytearray(original)
            content[-48 + bit // 8] ^= 1 << bit % 8
            index_path(prefix).write_bytes(content)
            try:
                arrays = read_checkpoint(prefix)
            except FormatError:
                continue
            assert_same(arrays, tensors)

    def test_damaged_data_is_rejected_or_read_correctly(
        self, prefix: Path, tensors: Arrays
    ) -> None:
        """Random bytes of the data file are changed, removed or inserted."""
        original = data_path(prefix).read_bytes()
        rng = random.Random(1)
        for _ in range(150):
            data_path(prefix).write_bytes(_damaged(original, rng))
            try:
                arrays = read_checkpoint(prefix)
            except FormatError:
                continue
            assert_same(arrays, tensors)

    def test_damaged_index_blocks_never_change_tensor_values(
        self, prefix: Path, tensors: Arrays
    ) -> None:
        """Damaged blocks with correct block checksums must not change tensor values."""
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
            # A changed name or shape cannot be detected; changed values can.
            assert all(array.tobytes() in known_bytes for array in arrays.values())


def _damaged(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        position = rng.randrange(len(changed))
        choice = rng.random()
        if choice < 0.6:
            changed[position] ^= rng.randrange(1, 256)
        elif choice < 0.75:
            del changed[position : position + rng.randrange(1, 9)]
        elif choice < 0.9:
            changed[position:position] = rng.randbytes(rng.randrange(1, 9))
        else:
            del changed[max(1, position) :]
        if not changed:
            return b""
    return bytes(changed)
