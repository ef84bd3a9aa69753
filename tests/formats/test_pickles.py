"""Tests of PyTorch pickles: state dicts are read, and no code in them ever runs."""

import io
import os
import pickle
import zipfile

import pytest
import torch
from builders import torch_bytes
from sources import refused

from elmo.errors import FormatError
from elmo.formats.pickles import read_state_dict, to_arrays

either_format = pytest.mark.parametrize("legacy", [True, False])


class Evil:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def read(data):
    return read_state_dict(io.BytesIO(data), "best.th")


@either_format
def test_there_and_back(legacy):
    state = {
        "a": torch.randn(3, 4, generator=torch.Generator().manual_seed(0)),
        "half": torch.ones(2, dtype=torch.float16),
        "transposed": torch.arange(6.0).view(2, 3).T,
        "counter": torch.tensor(3),
    }
    found = read(torch_bytes(state, legacy=legacy))
    assert found.keys() == state.keys()
    for name, tensor in state.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)


class TestCode:
    @pytest.mark.parametrize("where", ["name", "value", "beside", "whole"])
    @either_format
    def test_no_code_is_run(self, tmp_path, where, legacy):
        evil = Evil(tmp_path / "made")
        content = {
            "name": {evil: torch.ones(1)},
            "value": {"a": evil},
            "beside": [{"a": torch.ones(1)}, evil],
            "whole": evil,
        }[where]
        data = torch_bytes(content, legacy=legacy)
        message = refused(lambda: read(data), "best.th", "can run code", kind=FormatError)
        assert "mkdir" in message
        assert "weights_only" not in message  # no advice to open it all the same
        assert not (tmp_path / "made").exists()

    def test_the_file_would_be_made_by_a_careless_reader(self, tmp_path):
        """Otherwise the test above proves nothing."""
        pickle.loads(pickle.dumps(Evil(tmp_path / "made")))
        assert (tmp_path / "made").exists()

    def test_a_plain_pickle(self, tmp_path):
        data = pickle.dumps({"a": Evil(tmp_path / "made")})
        refused(lambda: read(data), "best.th", kind=FormatError)
        assert not (tmp_path / "made").exists()

    def test_a_model_pickled_whole(self):
        module = torch.nn.Linear(2, 2)
        refused(lambda: read(torch_bytes(module)), "Linear", "can run code", kind=FormatError)


@pytest.mark.parametrize(
    "content",
    [[torch.ones(1)], {"a": 1}, {1: torch.ones(1)}, torch.ones(1), None, {"a": {"b": 1}}],
    ids=repr,
)
@either_format
def test_what_is_no_state_dict(content, legacy):
    data = torch_bytes(content, legacy=legacy)
    refused(lambda: read(data), "best.th", "no state dict", kind=FormatError)


@pytest.mark.parametrize(
    "data",
    [b"", b"\x80", b"\x80\x02.", b"PK\x03\x04", b"\x80\x02garbage", b"\x80\x04\x95", b"\0" * 64],
    ids=repr,
)
def test_garbage(data):
    refused(lambda: read(data), "best.th", kind=FormatError)


def test_a_zip_of_something_else():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", b"text")
    refused(lambda: read(file.getvalue()), "best.th", kind=FormatError)


class TestArrays:
    def test_values_are_kept(self):
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
        ("tensor", "kind"),
        [
            (torch.ones(2, dtype=torch.int64), "int64"),
            (torch.ones(2, dtype=torch.bool), "bool"),
            (torch.ones(2, dtype=torch.complex64), "complex64"),
            (torch.ones(2).to_sparse(), "sparse"),
            (torch.ones(2, device="meta"), "no values"),
        ],
        ids=["int64", "bool", "complex64", "sparse", "meta"],
    )
    def test_what_is_no_plain_tensor(self, tensor, kind):
        state = read(torch_bytes({"odd": tensor}))
        refused(lambda: to_arrays(state, "best.th"), "best.th: odd holds", kind, kind=FormatError)
