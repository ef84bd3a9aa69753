"""Tests of the context manager that sets the precision of CPU kernels."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from elmo.kernels.compute_precision import computing_in, current_precision


def test_computing_in_sets_precision_inside_nested_contexts():
    assert current_precision() == "float32"
    with computing_in("int8"):
        assert current_precision() == "int8"
        with computing_in("bfloat16"):
            assert current_precision() == "bfloat16"
        assert current_precision() == "int8"
    assert current_precision() == "float32"


def test_computing_in_restores_the_precision_after_an_error():
    with pytest.raises(ValueError, match="over"), computing_in("int8"):
        raise ValueError("over")
    assert current_precision() == "float32"


def test_computing_in_does_not_apply_to_other_threads():
    with ThreadPoolExecutor(1) as pool, computing_in("int8"):
        assert pool.submit(current_precision).result() == "float32"
