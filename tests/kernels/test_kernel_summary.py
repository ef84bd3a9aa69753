"""Tests of the summary of kernels and precisions."""

import pytest
import torch

from elmo.kernels import kernel_summary
from elmo.kernels.kernel_summary import summarize_kernels
from elmo.kernels.native_ffi import can_compute


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def test_summary_names_instructions_default_and_supported_precisions():
    if not can_compute("float32"):
        pytest.skip("no C compiler")
    summary = summarize_kernels(4096, 512)
    assert summary.startswith("CPU native (")
    _, listed = summary.split("), in ")
    names = listed.replace(" or ", ", ").split(", ")
    others = [name for name in ("int8x3", "bfloat16", "int8") if can_compute(name)]
    assert names == ["float32 (default)", *others]


def test_summary_explains_why_native_kernels_are_not_used(monkeypatch):
    monkeypatch.setattr(kernel_summary, "library", lambda: None)
    assert summarize_kernels(64, 64) == (
        "CPU reference, in float32 (the native kernels need a C compiler)"
    )


def test_summary_of_unsupported_dimensions_names_the_reference():
    if not can_compute("float32"):
        pytest.skip("no C compiler")
    assert summarize_kernels(64, 40) == (
        "CPU reference, in float32 (dimensions are not multiples of 64)"
    )
