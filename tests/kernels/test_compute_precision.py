"""The arithmetic that is asked for around a call."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from elmo.kernels.compute_precision import computing_in, wanted


def test_it_holds_inside_and_nests():
    assert wanted() == "float32"
    with computing_in("int8"):
        assert wanted() == "int8"
        with computing_in("bfloat16"):
            assert wanted() == "bfloat16"
        assert wanted() == "int8"
    assert wanted() == "float32"


def test_an_error_ends_it():
    with pytest.raises(ValueError, match="over"), computing_in("int8"):
        raise ValueError("over")
    assert wanted() == "float32"


def test_other_threads_have_their_own():
    with ThreadPoolExecutor(1) as pool, computing_in("int8"):
        assert pool.submit(wanted).result() == "float32"
