"""Tests for reading and writing HDF5 files: dtypes, links, exact bytes, full disks."""

import errno
import io
import resource

import h5py
import numpy as np
import pytest
from builders import read_hdf5, write_hdf5
from sources import assert_error

from elmo.errors import FormatError
from elmo.formats.hdf5 import SIGNATURE, HDF5File, read_arrays, write_arrays


def read(path):
    with path.open("rb") as file:
        return read_arrays(file, path.name)


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    # All finite bit patterns, including negative zero and subnormal numbers.
    bits = rng.integers(0, 2**32, 5000, dtype=np.uint32) & 0xBF7FFFFF
    return {
        "char_embed": bits.view(np.float32).reshape(50, 100),
        "CNN/W_cnn_0": np.zeros((1, 2, 3, 4), np.float32),
        "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/B": np.float32([-0.0, 1e-40, 3e38]),
        "nothing": np.zeros((0, 3), np.float32),
    }


def test_read_arrays_returns_what_write_arrays_wrote(tmp_path, arrays):
    path = tmp_path / "w.hdf5"
    write_arrays(path, arrays)
    for actual in (read(path), read_hdf5(path)):
        assert actual.keys() == arrays.keys()
        for name, array in arrays.items():
            assert actual[name].dtype == np.float32
            assert actual[name].shape == array.shape
            assert actual[name].tobytes() == array.tobytes()


def test_write_arrays_writes_contiguous_float32_without_attributes(tmp_path, arrays):
    write_arrays(tmp_path / "w.hdf5", arrays)
    assert (tmp_path / "w.hdf5").read_bytes()[:8] == SIGNATURE
    with h5py.File(tmp_path / "w.hdf5") as file:
        assert not file.attrs
        for name in arrays:
            assert file[name].dtype == np.float32
            assert file[name].chunks is None
            assert file[name].compression is None
            assert not file[name].attrs


@pytest.mark.parametrize("dtype", [">f4", "<f8", "<f2", ">f8"])
def test_read_arrays_converts_other_float_dtypes_to_float32(tmp_path, dtype):
    values = np.array([[1.5, -2.25], [0.0, 1024.0]])
    write_hdf5(tmp_path / "w.hdf5", {"a": values.astype(dtype)})
    actual = read(tmp_path / "w.hdf5")["a"]
    assert actual.dtype == np.dtype("float32")
    np.testing.assert_array_equal(actual, values)


def test_compressed_and_chunked_dataset_is_read(tmp_path):
    values = np.arange(1000, dtype=np.float32).reshape(10, 100)
    with h5py.File(tmp_path / "w.hdf5", "w") as file:
        file.create_dataset("a", data=values, chunks=(5, 10), compression="gzip", shuffle=True)
    np.testing.assert_array_equal(read(tmp_path / "w.hdf5")["a"], values)


def test_float64_values_too_large_for_float32_become_infinite(tmp_path):
    write_hdf5(tmp_path / "w.hdf5", {"a": np.array([1e300])})
    assert np.isinf(read(tmp_path / "w.hdf5")["a"]).all()


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (np.arange(3), "int64"),
        (np.arange(3, dtype=np.uint8), "uint8"),
        (np.array([True]), "bool"),
        (np.array([1 + 2j]), "complex128"),
        (np.zeros(2, dtype=[("x", "f4")]), "[('x', '<f4')]"),
        (np.array([b"text"]), "S4"),
        ("text", "object"),
        (h5py.Empty("i4"), "int32"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_read_rejects_dtypes_that_are_not_floating_point(tmp_path, value, dtype):
    write_hdf5(tmp_path / "w.hdf5", {"group/a": value})
    assert_error(
        lambda: read(tmp_path / "w.hdf5"),
        "w.hdf5",
        "group/a has dtype",
        dtype,
        error_type=FormatError,
    )


def test_read_rejects_dataset_without_dataspace(tmp_path):
    write_hdf5(tmp_path / "w.hdf5", {"a": h5py.Empty("f4")})
    assert_error(
        lambda: read(tmp_path / "w.hdf5"), "not a complete HDF5 file", error_type=FormatError
    )


class TestReferencesToOtherFiles:
    @pytest.fixture
    def other(self, tmp_path):
        return write_hdf5(tmp_path / "other.hdf5", {"secret": np.ones(3, np.float32)})

    def test_external_links_and_soft_links_are_not_followed(self, tmp_path, other):
        with h5py.File(tmp_path / "w.hdf5", "w") as file:
            file["real"] = np.zeros(2, np.float32)
            file["outside"] = h5py.ExternalLink(str(other), "secret")
            file["group/outside"] = h5py.ExternalLink(str(other), "/")
            file["soft"] = h5py.SoftLink("/real")
            file["hanging"] = h5py.SoftLink("/gone")
        assert list(read(tmp_path / "w.hdf5")) == ["real"]

    def test_dataset_with_external_storage_is_rejected(self, tmp_path):
        (tmp_path / "raw").write_bytes(b"secret" * 2)
        with h5py.File(tmp_path / "w.hdf5", "w") as file:
            storage = [(str(tmp_path / "raw"), 0, 12)]
            file.create_dataset("a", (3,), "f4", external=storage)
        assert_error(
            lambda: read(tmp_path / "w.hdf5"), "a refers to another file", error_type=FormatError
        )

    def test_virtual_datasets_are_rejected(self, tmp_path, other):
        layout = h5py.VirtualLayout((3,), "f4")
        layout[:] = h5py.VirtualSource(str(other), "secret", (3,))
        with h5py.File(tmp_path / "w.hdf5", "w") as file:
            file.create_virtual_dataset("a", layout)
        assert_error(
            lambda: read(tmp_path / "w.hdf5"), "a refers to another file", error_type=FormatError
        )


@pytest.mark.parametrize("content", [b"", b"text", SIGNATURE, SIGNATURE + b"\xff" * 500])
def test_read_rejects_files_that_are_not_hdf5(content):
    message = assert_error(
        lambda: read_arrays(io.BytesIO(content), "w.hdf5"),
        "w.hdf5 is not a complete HDF5 file",
        error_type=FormatError,
    )
    assert len(message) < 300


def test_read_arrays_returns_no_arrays_for_empty_hdf5_file(tmp_path):
    assert read(write_hdf5(tmp_path / "w.hdf5", {})) == {}


class TestFullDisk:
    """Without `HDF5File`, later HDF5 calls would fail and the process would crash at exit."""

    @pytest.fixture
    def limit(self):
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    @pytest.mark.parametrize("size", [0, 90, 1000, 21_000])
    def test_write_raises_disk_error(self, tmp_path, arrays, limit, size):
        path = tmp_path / "w.hdf5"
        limit(size)
        with pytest.raises(OSError, match="File too large") as caught:
            write_arrays(path, arrays)
        assert caught.value.errno == errno.EFBIG
        assert path.stat().st_size <= size
        limit(1_000_000)
        write_arrays(path, arrays)
        assert read(path).keys() == arrays.keys()

    def test_data_not_written_to_full_disk_is_readable_until_close(self, tmp_path, limit):
        limit(5000)
        values = np.arange(5000, dtype=np.float32)
        file = HDF5File(tmp_path / "w.hdf5")
        for name in ("a", "b"):
            file.content.create_dataset(name, data=values)
        file.content.flush()
        np.testing.assert_array_equal(file.content["b"][:], values)
        for step in (file.check, file.close):
            with pytest.raises(OSError, match="File too large"):
                step()

    def test_keyboard_interrupt_is_raised_after_hdf5_call_returns(self, tmp_path):
        file = HDF5File(tmp_path / "w.hdf5")
        file.content.create_dataset("a", data=np.zeros(10, np.float32))
        file.check()

        class Interrupted(io.BytesIO):
            def write(self, data):
                raise KeyboardInterrupt

        real, file._sink._file = file._sink._file, Interrupted()
        file.content.create_dataset("b", data=np.zeros(100_000, np.float32))
        file.content.flush()
        with pytest.raises(KeyboardInterrupt):
            file.check()
        with pytest.raises(KeyboardInterrupt):
            file.close()
        real.close()
