"""Tests for reading PyTorch pickles: state dicts are read, and malicious code never runs."""

import io
import os
import pickle
import zipfile

import pytest
import torch
from builders import torch_bytes
from sources import assert_error

from elmo.errors import FormatError
from elmo.formats.pickles import read_state_dict, to_arrays

either_format = pytest.mark.parametrize("legacy", [True, False])


class MakesFolder:
    """An object that creates a folder when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def read(data):
    return read_state_dict(io.BytesIO(data), "best.th")


@either_format
def test_read_state_dict_returns_saved_tensors(legacy):
    state = {
        "a": torch.randn(3, 4, generator=torch.Generator().manual_seed(0)),
        "half": torch.ones(2, dtype=torch.float16),
        "transposed": torch.arange(6.0).view(2, 3).T,
        "counter": torch.tensor(3),
    }
    actual = read(torch_bytes(state, legacy=legacy))
    assert actual.keys() == state.keys()
    for name, tensor in state.items():
        assert actual[name].dtype == tensor.dtype
        assert torch.equal(actual[name], tensor)


class TestMaliciousPickles:
    @pytest.mark.parametrize("position", ["key", "value", "list item", "root"])
    @either_format
    def test_read_does_not_run_code_in_pickle(self, tmp_path, position, legacy):
        malicious = MakesFolder(tmp_path / "made")
        content = {
            "key": {malicious: torch.ones(1)},
            "value": {"a": malicious},
            "list item": [{"a": torch.ones(1)}, malicious],
            "root": malicious,
        }[position]
        data = torch_bytes(content, legacy=legacy)
        message = assert_error(
            lambda: read(data), "best.th", "can execute code", error_type=FormatError
        )
        assert "mkdir" in message
        assert "weights_only" not in message  # must not suggest loading it unsafely
        assert not (tmp_path / "made").exists()

    def test_plain_unpickling_would_run_the_code(self, tmp_path):
        """Check that the pickle in the previous test is really malicious."""
        pickle.loads(pickle.dumps(MakesFolder(tmp_path / "made")))
        assert (tmp_path / "made").exists()

    def test_read_rejects_plain_pickle(self, tmp_path):
        data = pickle.dumps({"a": MakesFolder(tmp_path / "made")})
        assert_error(lambda: read(data), "best.th", error_type=FormatError)
        assert not (tmp_path / "made").exists()

    def test_read_rejects_pickled_module(self):
        module = torch.nn.Linear(2, 2)
        assert_error(
            lambda: read(torch_bytes(module)), "Linear", "can execute code", error_type=FormatError
        )


@pytest.mark.parametrize(
    "content",
    [[torch.ones(1)], {"a": 1}, {1: torch.ones(1)}, torch.ones(1), None, {"a": {"b": 1}}],
    ids=repr,
)
@either_format
def test_read_rejects_pickle_that_is_not_a_state_dict(content, legacy):
    data = torch_bytes(content, legacy=legacy)
    assert_error(
        lambda: read(data), "best.th", "does not contain a state dict", error_type=FormatError
    )


@pytest.mark.parametrize(
    "data",
    [b"", b"\x80", b"\x80\x02.", b"PK\x03\x04", b"\x80\x02garbage", b"\x80\x04\x95", b"\0" * 64],
    ids=repr,
)
def test_read_rejects_file_that_is_not_a_pickle(data):
    assert_error(lambda: read(data), "best.th", error_type=FormatError)


def test_read_rejects_zip_with_invalid_pickle():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", b"text")
    assert_error(lambda: read(file.getvalue()), "best.th", error_type=FormatError)


class TestToArrays:
    def test_to_arrays_preserves_values_as_float32(self):
        state = {
            "parameter": torch.nn.Parameter(torch.tensor([1.5, -0.0])),
            "half": torch.tensor([0.1], dtype=torch.bfloat16),
            "double": torch.tensor([0.1], dtype=torch.float64),
        }
        arrays = to_arrays(read(torch_bytes(state)), "best.th")
        assert {array.dtype.name for array in arrays.values()} == {"float32"}
        assert arrays["parameter"].tolist() == [1.5, -0.0]
        assert arrays["half"].tolist() == state["half"].tolist()

    @pytest.mark.parametrize(
        ("tensor", "problem"),
        [
            (torch.ones(2, dtype=torch.int64), "int64"),
            (torch.ones(2, dtype=torch.bool), "bool"),
            (torch.ones(2, dtype=torch.complex64), "complex64"),
            (torch.ones(2).to_sparse(), "sparse"),
            (torch.ones(2, device="meta"), "no values"),
        ],
        ids=["int64", "bool", "complex64", "sparse", "meta"],
    )
    def test_to_arrays_rejects_tensors_that_are_not_dense_floats(self, tensor, problem):
        state = read(torch_bytes({"x": tensor}))
        assert_error(
            lambda: to_arrays(state, "best.th"), "best.th: x has", problem, error_type=FormatError
        )
