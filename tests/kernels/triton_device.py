"""Device for Triton kernel tests: a GPU, or the CPU with Triton's interpreter."""

import os

import pytest
import torch

IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
if not IS_INTERPRETED and not torch.cuda.is_available():
    pytest.skip("no CUDA device; `make test-kernels` uses the interpreter", allow_module_level=True)
pytest.importorskip("triton", reason="Triton is not installed")

DEVICE = "cpu" if IS_INTERPRETED else "cuda"
# The interpreter multiplies half precision as integers.
DTYPES = [torch.float32] if IS_INTERPRETED else [torch.float32, torch.float16, torch.bfloat16]
