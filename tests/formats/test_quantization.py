"""Tests of weights in fewer bytes: what rounding costs, and the rows that are hard to round."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from sources import refused

from elmo.errors import ConfigError, FormatError
from elmo.formats.quantization import pack, storage_of, unpack

LEAST = 2.0**-24  # the least positive float16
LARGEST = 65504.0

# Rows that need their own scales, from far below the least float16 to as much as a scale holds.
matrices = st.tuples(
    arrays(
        np.float32,
        array_shapes(min_dims=2, max_dims=3, max_side=6),
        elements=st.floats(-1, 1, width=32),
    ),
    st.floats(-12, 6.9),
).map(lambda drawn: torch.from_numpy(drawn[0] * np.float32(10 ** drawn[1])))


def stored_as(values, dtype="int8"):
    """Give what is stored of one tensor, and what is read of that."""
    stored = pack({"w": values}, dtype)
    return stored, unpack(stored, "file")["w"]


class TestInt8:
    @settings(max_examples=300, deadline=None)
    @given(matrices)
    def test_no_value_is_off_by_more_than_half_a_step(self, values):
        stored, found = stored_as(values)
        assert (stored["w"].dtype, stored["w.scale"].dtype) == (torch.int8, torch.float16)
        assert stored["w.scale"].shape == values.shape[:1]
        assert (found.dtype, found.shape) == (torch.float32, values.shape)
        step = stored["w.scale"].double().view(-1, *[1] * (values.dim() - 1))
        # Dividing in float32 may turn a value that lies half-way by its last bit.
        assert ((found.double() - values.double()).abs() <= step * (0.5 + 1e-5)).all()

    @settings(max_examples=300, deadline=None)
    @given(matrices)
    def test_the_scale_is_the_least_that_reaches_every_value(self, values):
        stored, _ = stored_as(values)
        scale = stored["w.scale"]
        largest = values.flatten(1).abs().amax(1).double()
        assert (scale.double() * 127 >= largest).all()
        below = torch.from_numpy(np.nextafter(scale.numpy(), np.float16(-1))).double()
        assert ((below * 127 < largest) | (largest == 0)).all()
        assert stored["w"].min() >= -127

    @settings(max_examples=100, deadline=None)
    @given(matrices, st.sampled_from([2e-3, 1.0, 1e3]))
    def test_stored_again_nothing_changes(self, values, size):
        """From 0.002 on a row reaches 127 steps; below, the scales of float16 are too coarse."""
        values.flatten(1)[:, 0] = size
        stored, found = stored_as(values)
        again, found_again = stored_as(found)
        assert torch.equal(again["w"], stored["w"])
        assert torch.equal(again["w.scale"], stored["w.scale"])
        assert torch.equal(found_again, found)

    def test_rows_do_not_know_each_other(self):
        rows = torch.tensor([[1e-4, -5e-5, 2e-5], [1e4, -5e3, 2e3]])
        _, found = stored_as(rows)
        assert torch.allclose(found, rows, rtol=0.02)
        alone = [stored_as(row[None])[1][0] for row in rows]
        assert torch.equal(found, torch.stack(alone))

    def test_filters_of_a_convolution_are_rows(self):
        weight = torch.randn(5, 4, 3, generator=torch.Generator().manual_seed(0))
        weight *= torch.tensor([1e-3, 1e-1, 1.0, 1e1, 1e3]).view(5, 1, 1)
        stored, found = stored_as(weight)
        assert stored["w.scale"].shape == (5,)
        assert stored["w"].flatten(1).abs().amax(1).tolist() == [127] * 5
        steps = (found - weight).abs().flatten(1).amax(1) / stored["w.scale"].float()
        assert (steps <= 0.501).all()
        assert (steps > 0.1).all()

    def test_rows_of_zeros_stay_zeros(self):
        rows = torch.tensor([[0.0, 0.0, -0.0], [1.0, 0.0, -1.0]])
        stored, found = stored_as(rows)
        assert stored["w.scale"][0] == 0
        assert torch.equal(found[0], torch.zeros(3))
        assert found[1, 1] == 0
        assert torch.equal(found[1, :1], -found[1, 2:])

    @pytest.mark.parametrize("value", [1e-45, 1e-30, LEAST / 4, LEAST, 3 * LEAST, 200 * LEAST])
    def test_rows_too_small_for_a_scale(self, value):
        stored, found = stored_as(torch.tensor([[value, -value / 2, 0.0]]))
        assert stored["w.scale"] >= LEAST
        assert found.isfinite().all()
        assert (found[0] - torch.tensor([value, -value / 2, 0.0])).abs().max() <= LEAST

    def test_a_matrix_too_large_for_its_scales_stays_as_it_is(self):
        fits = torch.tensor([[LARGEST * 127, 1.0], [1.0, 2.0]])
        assert pack({"w": fits}, "int8")["w"].dtype == torch.int8
        large = torch.nextafter(fits, torch.tensor(torch.inf))
        for values in (large, large * 1e20):
            stored, found = stored_as(values)
            assert stored.keys() == {"w"}
            assert stored["w"].dtype == torch.float32
            assert torch.equal(found, values)

    def test_what_has_one_dimension_is_float16(self):
        for values in (torch.tensor([0.1, -3.0]), torch.tensor(0.1)):
            stored, found = stored_as(values)
            assert stored.keys() == {"w"}
            assert stored["w"].dtype == torch.float16
            assert torch.equal(found, values.half().float())


class TestFloat16:
    @settings(max_examples=100, deadline=None)
    @given(
        arrays(
            np.float32,
            array_shapes(min_dims=0, max_dims=3, max_side=5),
            elements=st.floats(-LARGEST, LARGEST, width=32),
        )
    )
    def test_everything_is_rounded_once(self, values):
        stored, found = stored_as(torch.from_numpy(np.asarray(values)), "float16")
        assert stored["w"].dtype == torch.float16
        np.testing.assert_array_equal(found.numpy(), values.astype(np.float16).astype(np.float32))

    @pytest.mark.parametrize("dtype", ["float16", "int8"])
    @pytest.mark.parametrize("value", [65520.0, -9e10, 3e38])
    def test_values_too_large_stay_as_they_are(self, dtype, value):
        """Fixed mixes have weights such as -9e10."""
        values = torch.tensor([value, 0.1, 1.0])
        stored, found = stored_as(values, dtype)
        assert stored["w"].dtype == torch.float32
        assert torch.equal(found, values)

    def test_matrices(self):
        assert stored_as(torch.full((2, 2), 1e5), "float16")[0]["w"].dtype == torch.float32


def test_float32_changes_nothing():
    values = torch.randn(3, 4, generator=torch.Generator().manual_seed(0)).t()
    stored, found = stored_as(values, "float32")
    assert stored["w"].is_contiguous()
    assert torch.equal(found, values)


@pytest.mark.parametrize("dtype", ["int4", "", None, torch.int8])
def test_unknown_types(dtype):
    refused(lambda: pack({}, dtype), repr(dtype), "float32, float16, int8", kind=ConfigError)


HALVES = torch.ones(2).half()
BYTES = torch.ones(2, 3).char()


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ({"w": BYTES}, "file: w is int8, but there is no w.scale"),
        ({"w.scale": HALVES}, "file: w.scale has no int8 matrix w to"),
        ({"w": torch.ones(2, 3), "w.scale": HALVES}, "file: w.scale has no int8 matrix w to"),
        ({"w": BYTES, "w.scale": torch.ones(3).half()}, "w.scale has shape (3,)"),
        ({"w": BYTES, "w.scale": torch.ones(2, 1).half()}, "w.scale has shape (2, 1)"),
        ({"w": BYTES, "w.scale": torch.tensor(1).half()}, "w.scale has shape ()"),
        ({"w": BYTES, "w.scale": torch.ones(2)}, "type torch.float32; expected (2,)"),
        ({"w": BYTES, "w.scale": torch.ones(2).char()}, "type torch.int8; expected (2,)"),
        (
            {"w": BYTES, "w.scale": HALVES, "w.scale.scale": HALVES},
            "w.scale.scale has no int8 matrix w.scale",
        ),
    ],
)
def test_what_does_not_fit_together(stored, message):
    refused(lambda: unpack(stored, "file"), message, kind=FormatError)


@pytest.mark.parametrize(
    ("dtypes", "told"),
    [
        ([], "float32, 0.0 MB"),
        ([torch.float32], "float32, 4.0 MB"),
        ([torch.float16, torch.float32], "float16, 6.0 MB"),
        ([torch.float32, torch.int8, torch.float16], "int8, 7.0 MB"),
        ([torch.bfloat16], "bfloat16, 2.0 MB"),
    ],
)
def test_storage(dtypes, told):
    stored = {str(dtype): torch.zeros(1_000_000, dtype=dtype) for dtype in dtypes}
    assert storage_of(stored) == told
