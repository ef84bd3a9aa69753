"""Tests that `encode` checks all arguments on every path; `encode_types.py` tests its types."""

import numpy as np
import pytest
import torch
from conftest import random_model

from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError, InputError

MODEL = ELMo(random_model())
SENTENCES = ["a b c", [], ["a b", "c"], [["a", "b"], ["c"]]]
INVALID = [
    ({"batch_size": -3}, "batch_size must be an integer of at least 1"),
    ({"batch_size": 0}, "batch_size must be an integer of at least 1"),
    ({"batch_size": True}, "batch_size must be an integer of at least 1"),
    ({"batch_size": "8"}, "batch_size must be an integer of at least 1"),
    ({"layers": "last"}, "Unknown layers 'last'"),
    ({"layers": 7}, "Unknown layers 7"),
    ({"pooling": "sum"}, "Unknown pooling 'sum'"),
    ({"pooling": True}, "Unknown pooling True"),
    ({"state": "keep"}, "Unknown state 'keep'"),
    ({"state": None}, "Unknown state None"),
    ({"precision": "float8"}, "Unknown precision 'float8'"),
    ({"precision": torch.int32}, "Unknown precision torch.int32"),
    ({"device": "nowhere"}, "Device 'nowhere' is not available"),
    ({"device": "meta"}, "Device 'meta' is not available: its tensors have no values"),
    ({"device": torch.device("meta")}, "Device 'meta' is not available"),
    ({"device": "hpu"}, "Device 'hpu' is not available"),
    ({"device": [1]}, r"device must be a name such as .* \(got \[1\]\)"),
    ({"device": np.arange(2)}, "device must be a name such as"),
    ({"pooling": ["mean"]}, r"Unknown pooling \['mean'\]"),
    ({"pooling": np.array(["mean", "max"])}, "Unknown pooling array"),
    ({"state": ["reset"]}, r"Unknown state \['reset'\]"),
    ({"state": np.array(["reset", "carry"])}, "Unknown state array"),
    ({"precision": np.array(["int8", "auto"])}, "precision must be a torch dtype, its name"),
    ({"layers": torch.tensor([1])}, r"Unknown layers tensor\(\[1\]\)"),
    ({"layers": torch.tensor(True)}, r"Unknown layers tensor\(True\)"),
    ({"layers": torch.tensor(7)}, r"Unknown layers tensor\(7\)"),
    ({"batch_size": torch.tensor([4, 4])}, "batch_size must be an integer of at least 1"),
    ({"show_progress_bar": "x"}, r"show_progress_bar must be True or False \(got 'x'\)"),
    ({"convert_to_tensor": 2}, r"convert_to_tensor must be True or False \(got 2\)"),
    ({"cache": {}}, "cache must be a WordCache"),
]


@pytest.mark.parametrize("sentences", SENTENCES, ids=str)
@pytest.mark.parametrize(("arguments", "message"), INVALID, ids=str)
def test_encode_rejects_invalid_arguments_for_every_kind_of_input(sentences, arguments, message):
    with pytest.raises(ConfigError, match=message):
        MODEL.encode(sentences, **arguments)


def test_model_is_not_moved_if_an_argument_or_a_sentence_is_invalid(monkeypatch):
    moves = []
    monkeypatch.setattr(ELMo, "to", lambda self, device: moves.append(device))
    for arguments, message in INVALID:
        with pytest.raises(ConfigError, match=message):
            MODEL.encode("a b", **{"device": "cpu", **arguments})
    with pytest.raises(InputError):
        MODEL.encode([3], device="cpu")
    assert not moves
    MODEL.encode("a b", device="cpu")
    assert moves == [torch.device("cpu")]


@pytest.mark.parametrize("number", [np.int64(1), np.array(1), torch.tensor(1)])
def test_layers_and_batch_size_can_be_scalars_of_numpy_and_pytorch(number):
    encoded = MODEL.encode(["a b c", "a"], layers=number, batch_size=number)
    for vectors, expected in zip(encoded, MODEL.encode(["a b c", "a"], layers=1), strict=True):
        np.testing.assert_allclose(vectors, expected, atol=1e-6)


@pytest.mark.parametrize("layers", ["average", "all", 1])
@pytest.mark.parametrize("pooling", [None, "mean"])
@pytest.mark.parametrize("convert", [False, True, np.True_])
def test_type_and_shape_of_the_result_follow_from_the_arguments(layers, pooling, convert):
    kind = torch.Tensor if convert else np.ndarray
    arguments = {"layers": layers, "pooling": pooling, "convert_to_tensor": convert}
    prefix = (MODEL.config.n_layers,) if layers == "all" else ()
    one = MODEL.encode("a b c", **arguments)
    assert isinstance(one, kind)
    assert tuple(one.shape) == (*prefix, *(() if pooling else (3,)), MODEL.config.dim)
    many = MODEL.encode(["a b c", ["a"]], **arguments)
    if pooling is None:
        assert isinstance(many, list)
        assert all(isinstance(item, kind) for item in many)
    else:
        assert isinstance(many, kind)
        assert tuple(many.shape) == (2, *prefix, MODEL.config.dim)


def test_single_sentence_with_batch_size_and_progress_bar_equals_list(capsys):
    one = MODEL.encode("a b c", batch_size=1, show_progress_bar=True, state="carry")
    np.testing.assert_array_equal(one, MODEL.encode(["a b c"])[0])
