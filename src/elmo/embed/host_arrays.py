"""Types of vectors in host memory. This module is imported without PyTorch, to read vectors."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
"""Vectors that `encode` returns."""
HostArray = Array | NDArray[np.float16]
"""Vectors in files, which can be stored in half precision."""
