"""Tests of HDF5 files as dictionaries of arrays: types, links into other files, exact bytes."""

import errno
import io
import resource

import h5py
import numpy as np
import pytest
from builders import read_hdf5, write_hdf5
from sources import refused

from elmo.errors import FormatError
from elmo.formats.hdf5 import SIGNATURE, HDF5File, read_arrays, write_arrays


def read(path):
    with path.open("rb") as file:
        return read_arrays(file, path.name)


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    # Every bit pattern but those of NaN and infinity, negative zero and subnormals among them.
    bits = rng.integers(0, 2**32, 5000, dtype=np.uint32) & 0xBF7FFFFF
    return {
        "char_embed": bits.view(np.float32).reshape(50, 100),
        "CNN/W_cnn_0": np.zeros((1, 2, 3, 4), np.float32),
        "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/B": np.float32([-0.0, 1e-40, 3e38]),
        "nothing": np.zeros((0, 3), np.float32),
    }


def test_there_and_back(tmp_path, arrays):
    path = tmp_path / "w.hdf5"
    write_arrays(path, arrays)
    for found in (read(path), read_hdf5(path)):
        assert found.keys() == arrays.keys()
        for name, array in arrays.items():
            assert found[name].dtype == np.float32
            assert found[name].shape == array.shape
            assert found[name].tobytes() == array.tobytes()


def test_datasets_are_written_plain(tmp_path, arrays):
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
def test_other_floating_points_become_float32(tmp_path, dtype):
    values = np.array([[1.5, -2.25], [0.0, 1024.0]])
    write_hdf5(tmp_path / "w.hdf5", {"a": values.astype(dtype)})
    found = read(tmp_path / "w.hdf5")["a"]
    assert found.dtype == np.dtype("float32")
    np.testing.assert_array_equal(found, values)


def test_compressed_and_chunked(tmp_path):
    values = np.arange(1000, dtype=np.float32).reshape(10, 100)
    with h5py.File(tmp_path / "w.hdf5", "w") as file:
        file.create_dataset("a", data=values, chunks=(5, 10), compression="gzip", shuffle=True)
    np.testing.assert_array_equal(read(tmp_path / "w.hdf5")["a"], values)


def test_too_large_for_float32_becomes_infinite_without_a_warning(tmp_path):
    write_hdf5(tmp_path / "w.hdf5", {"a": np.array([1e300])})
    assert np.isinf(read(tmp_path / "w.hdf5")["a"]).all()


@pytest.mark.parametrize(
    ("value", "kind"),
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
def test_what_is_no_floating_point(tmp_path, value, kind):
    write_hdf5(tmp_path / "w.hdf5", {"group/a": value})
    refused(lambda: read(tmp_path / "w.hdf5"), "w.hdf5", "group/a holds", kind, kind=FormatError)


def test_a_dataset_without_a_space(tmp_path):
    write_hdf5(tmp_path / "w.hdf5", {"a": h5py.Empty("f4")})
    refused(lambda: read(tmp_path / "w.hdf5"), "not a whole HDF5 file", kind=FormatError)


class TestOtherFiles:
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

    def test_external_storage_is_refused(self, tmp_path):
        (tmp_path / "raw").write_bytes(b"secret" * 2)
        with h5py.File(tmp_path / "w.hdf5", "w") as file:
            storage = [(str(tmp_path / "raw"), 0, 12)]
            file.create_dataset("a", (3,), "f4", external=storage)
        refused(lambda: read(tmp_path / "w.hdf5"), "a points into another file", kind=FormatError)

    def test_virtual_datasets_are_refused(self, tmp_path, other):
        layout = h5py.VirtualLayout((3,), "f4")
        layout[:] = h5py.VirtualSource(str(other), "secret", (3,))
        with h5py.File(tmp_path / "w.hdf5", "w") as file:
            file.create_virtual_dataset("a", layout)
        refused(lambda: read(tmp_path / "w.hdf5"), "a points into another file", kind=FormatError)


@pytest.mark.parametrize("content", [b"", b"text", SIGNATURE, SIGNATURE + b"\xff" * 500])
def test_no_hdf5(content):
    message = refused(
        lambda: read_arrays(io.BytesIO(content), "w.hdf5"),
        "w.hdf5 is not a whole HDF5 file",
        kind=FormatError,
    )
    assert len(message) < 300


def test_an_empty_file_has_no_arrays(tmp_path):
    assert read(write_hdf5(tmp_path / "w.hdf5", {})) == {}


class TestFullDisk:
    """HDF5 itself would fail again at every later call, and take the process down at its end."""

    @pytest.fixture
    def limit(self):
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    @pytest.mark.parametrize("size", [0, 90, 1000, 21_000])
    def test_the_disks_own_error_is_raised(self, tmp_path, arrays, limit, size):
        path = tmp_path / "w.hdf5"
        limit(size)
        with pytest.raises(OSError, match="File too large") as caught:
            write_arrays(path, arrays)
        assert caught.value.errno == errno.EFBIG
        assert path.stat().st_size <= size
        limit(1_000_000)
        write_arrays(path, arrays)
        assert read(path).keys() == arrays.keys()

    def test_what_was_refused_can_still_be_read_until_the_end(self, tmp_path, limit):
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

    def test_an_interrupt_waits_until_hdf5_is_done(self, tmp_path):
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
