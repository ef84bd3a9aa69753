"""Tests for compact weight storage: rounding errors, and rows of extreme values."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from sources import assert_error

from elmo.errors import ConfigError, FormatError
from elmo.formats.quantization import describe_storage, pack, unpack

SMALLEST = 2.0**-24  # the smallest positive float16
LARGEST = 65504.0

# Matrices from far below the smallest float16 up to the largest that a float16 scale can hold.
matrices = st.tuples(
    arrays(
        np.float32,
        array_shapes(min_dims=2, max_dims=3, max_side=6),
        elements=st.floats(-1, 1, width=32),
    ),
    st.floats(-12, 6.9),
).map(lambda drawn: torch.from_numpy(drawn[0] * np.float32(10 ** drawn[1])))


def stored_as(values, storage="int8"):
    """Return a tensor in its stored form and after reading it back."""
    stored = pack({"w": values}, storage)
    return stored, unpack(stored, "file")["w"]


class TestInt8:
    @settings(max_examples=100)
    @given(matrices)
    def test_int8_error_is_at_most_half_a_quantization_step(self, values):
        stored, actual = stored_as(values)
        assert (stored["w"].dtype, stored["w.scale"].dtype) == (torch.int8, torch.float16)
        assert stored["w.scale"].shape == values.shape[:1]
        assert (actual.dtype, actual.shape) == (torch.float32, values.shape)
        step = stored["w.scale"].double().view(-1, *[1] * (values.dim() - 1))
        # Division in float32 can round a value half-way between two steps the other way.
        assert ((actual.double() - values.double()).abs() <= step * (0.5 + 1e-5)).all()

    @settings(max_examples=100)
    @given(matrices)
    def test_int8_scale_is_smallest_that_covers_the_row(self, values):
        stored, _ = stored_as(values)
        scale = stored["w.scale"]
        largest = values.flatten(1).abs().amax(1).double()
        assert (scale.double() * 127 >= largest).all()
        below = torch.from_numpy(np.nextafter(scale.numpy(), np.float16(-1))).double()
        assert ((below * 127 < largest) | (largest == 0)).all()
        assert stored["w"].min() >= -127

    @settings(max_examples=100)
    @given(matrices, st.sampled_from([2e-3, 1.0, 1e3]))
    def test_quantizing_dequantized_weights_again_changes_nothing(self, values, size):
        """This holds for rows with a maximum of at least 0.002; below, scales are too coarse."""
        values.flatten(1)[:, 0] = size
        stored, actual = stored_as(values)
        again, actual_again = stored_as(actual)
        assert torch.equal(again["w"], stored["w"])
        assert torch.equal(again["w.scale"], stored["w.scale"])
        assert torch.equal(actual_again, actual)

    def test_matrix_rows_are_quantized_independently(self):
        rows = torch.tensor([[1e-4, -5e-5, 2e-5], [1e4, -5e3, 2e3]])
        _, actual = stored_as(rows)
        assert torch.allclose(actual, rows, rtol=0.02)
        alone = [stored_as(row[None])[1][0] for row in rows]
        assert torch.equal(actual, torch.stack(alone))

    def test_each_convolution_filter_has_its_own_scale(self):
        weight = torch.randn(5, 4, 3, generator=torch.Generator().manual_seed(0))
        weight *= torch.tensor([1e-3, 1e-1, 1.0, 1e1, 1e3]).view(5, 1, 1)
        stored, actual = stored_as(weight)
        assert stored["w.scale"].shape == (5,)
        assert stored["w"].flatten(1).abs().amax(1).tolist() == [127] * 5
        steps = (actual - weight).abs().flatten(1).amax(1) / stored["w.scale"].float()
        assert (steps <= 0.501).all()
        assert (steps > 0.1).all()

    def test_rows_of_zeros_are_restored_as_zeros(self):
        rows = torch.tensor([[0.0, 0.0, -0.0], [1.0, 0.0, -1.0]])
        stored, actual = stored_as(rows)
        assert stored["w.scale"][0] == 0
        assert torch.equal(actual[0], torch.zeros(3))
        assert actual[1, 1] == 0
        assert torch.equal(actual[1, :1], -actual[1, 2:])

    @pytest.mark.parametrize(
        "value", [1e-45, 1e-30, SMALLEST / 4, SMALLEST, 3 * SMALLEST, 200 * SMALLEST]
    )
    def test_rows_of_tiny_values_use_smallest_float16_scale(self, value):
        stored, actual = stored_as(torch.tensor([[value, -value / 2, 0.0]]))
        assert stored["w.scale"] >= SMALLEST
        assert actual.isfinite().all()
        assert (actual[0] - torch.tensor([value, -value / 2, 0.0])).abs().max() <= SMALLEST

    def test_matrix_too_large_for_float16_scales_is_stored_as_float32(self):
        fits = torch.tensor([[LARGEST * 127, 1.0], [1.0, 2.0]])
        assert pack({"w": fits}, "int8")["w"].dtype == torch.int8
        large = torch.nextafter(fits, torch.tensor(torch.inf))
        for values in (large, large * 1e20):
            stored, actual = stored_as(values)
            assert stored.keys() == {"w"}
            assert stored["w"].dtype == torch.float32
            assert torch.equal(actual, values)

    def test_one_dimensional_tensors_are_stored_as_float16(self):
        for values in (torch.tensor([0.1, -3.0]), torch.tensor(0.1)):
            stored, actual = stored_as(values)
            assert stored.keys() == {"w"}
            assert stored["w"].dtype == torch.float16
            assert torch.equal(actual, values.half().float())


class TestFloat16:
    @settings(max_examples=100)
    @given(
        arrays(
            np.float32,
            array_shapes(min_dims=0, max_dims=3, max_side=5),
            elements=st.floats(-LARGEST, LARGEST, width=32),
        )
    )
    def test_float16_storage_rounds_values_to_float16(self, values):
        stored, actual = stored_as(torch.from_numpy(np.asarray(values)), "float16")
        assert stored["w"].dtype == torch.float16
        np.testing.assert_array_equal(actual.numpy(), values.astype(np.float16).astype(np.float32))

    @pytest.mark.parametrize("storage", ["float16", "int8"])
    @pytest.mark.parametrize("value", [65520.0, -9e10, 3e38])
    def test_vectors_too_large_for_float16_are_stored_as_float32(self, storage, value):
        """Fixed layer mixes use weights such as -9e10."""
        values = torch.tensor([value, 0.1, 1.0])
        stored, actual = stored_as(values, storage)
        assert stored["w"].dtype == torch.float32
        assert torch.equal(actual, values)

    def test_matrices_too_large_for_float16_are_stored_as_float32(self):
        assert stored_as(torch.full((2, 2), 1e5), "float16")[0]["w"].dtype == torch.float32


def test_float32_storage_does_not_change_values():
    values = torch.randn(3, 4, generator=torch.Generator().manual_seed(0)).t()
    stored, actual = stored_as(values, "float32")
    assert stored["w"].is_contiguous()
    assert torch.equal(actual, values)


@pytest.mark.parametrize("storage", ["int4", "", None, torch.int8])
def test_pack_rejects_unknown_storage(storage):
    assert_error(
        lambda: pack({}, storage), repr(storage), "float32, float16, int8", error_type=ConfigError
    )


SCALES = torch.ones(2).half()
MATRIX = torch.ones(2, 3).char()


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ({"w": MATRIX}, "file: w is int8, but its row scales w.scale are missing"),
        ({"w.scale": SCALES}, "file: w.scale is a scale, but the int8 matrix w is missing"),
        (
            {"w": torch.ones(2, 3), "w.scale": SCALES},
            "file: w.scale is a scale, but the int8 matrix w is missing",
        ),
        ({"w": MATRIX, "w.scale": torch.ones(3).half()}, "w.scale has shape (3,)"),
        ({"w": MATRIX, "w.scale": torch.ones(2, 1).half()}, "w.scale has shape (2, 1)"),
        ({"w": MATRIX, "w.scale": torch.tensor(1).half()}, "w.scale has shape ()"),
        ({"w": MATRIX, "w.scale": torch.ones(2)}, "dtype torch.float32, expected (2,)"),
        ({"w": MATRIX, "w.scale": torch.ones(2).char()}, "dtype torch.int8, expected (2,)"),
        (
            {"w": MATRIX, "w.scale": SCALES, "w.scale.scale": SCALES},
            "w.scale.scale is a scale, but the int8 matrix w.scale is missing",
        ),
    ],
)
def test_unpack_rejects_inconsistent_tensors(stored, message):
    assert_error(lambda: unpack(stored, "file"), message, error_type=FormatError)


@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [
        ([], "float32, 0.0 MB"),
        ([torch.float32], "float32, 4.0 MB"),
        ([torch.float16, torch.float32], "float16, 6.0 MB"),
        ([torch.float32, torch.int8, torch.float16], "int8, 7.0 MB"),
        ([torch.bfloat16], "bfloat16, 2.0 MB"),
    ],
)
def test_describe_storage_returns_narrowest_dtype_and_size(dtypes, expected):
    stored = {str(dtype): torch.zeros(1_000_000, dtype=dtype) for dtype in dtypes}
    assert describe_storage(stored) == expected
