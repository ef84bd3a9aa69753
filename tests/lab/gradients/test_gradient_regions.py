"""Tests of `elmo.lab.gradients.gradient_regions`."""

import math

from hypothesis import given
from hypothesis import strategies as st

from elmo.lab.gradients.gradient_regions import FACTOR, GradientRegions, gradient_regions


@given(first=st.floats(1e-3, 1e3), factor=st.floats(0.5, 1.5), n_steps=st.integers(1, 60))
def test_regions_of_a_geometric_curve(first, factor, n_steps):
    norms = [first * factor**k for k in range(n_steps + 1)]
    regions = gradient_regions(norms)
    crossing = math.log(FACTOR) / abs(math.log(factor)) if factor != 1 else math.inf
    step = regions.vanishes_at if factor < 1 else regions.explodes_at
    other = regions.explodes_at if factor < 1 else regions.vanishes_at
    assert other is None
    if step is None:
        assert crossing >= n_steps - 1e-6
    else:
        assert step - 1 - 1e-6 <= crossing <= step + 1e-6


def test_single_norm_has_no_region():
    assert gradient_regions([2.0]) == GradientRegions(None, None)
