"""TensorFlow's masked CRC-32C checksum, vectorized with NumPy for speed on large tensors."""

import numpy as np
import numpy.typing as npt

_POLYNOMIAL = 0x82F63B78  # bit-reversed
_CHUNK_SIZE = 1 << 23
_FOLD_UNITS = (16, 1)

# The polynomial x^5685 + x^1362 + x^426 + 1 is a multiple of the CRC polynomial. A message
# therefore keeps its remainder if its leading term is removed and added at the distances 5685 -
# 1362, 5685 - 426 and 5685. Over GF(2) this also holds with all exponents multiplied by a power of
# two, so the unit can be a byte or 16 bytes, and three array operations move thousands of units.
_FOLD_DISTANCES = (4323, 5259, 5685)


def _make_table() -> list[int]:
    table = []
    for remainder in range(256):
        for _ in range(8):
            remainder = (remainder >> 1) ^ (_POLYNOMIAL if remainder & 1 else 0)
        table.append(remainder)
    return table


_TABLE = _make_table()


def masked_crc32c(data: npt.NDArray[np.uint8]) -> int:
    """Return the CRC-32C of the data, masked as in TensorFlow files: rotated, plus a constant."""
    register = 0xFFFFFFFF
    for start in range(0, data.size, _CHUNK_SIZE):
        register = _advance(register, data[start : start + _CHUNK_SIZE])
    crc = register ^ 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _advance(register: int, data: npt.NDArray[np.uint8]) -> int:
    if data.size > _FOLD_DISTANCES[-1]:
        data = data.copy()
        # XOR the register into the first four bytes, so that it can restart from zero.
        data[:4] ^= np.frombuffer(register.to_bytes(4, "little"), np.uint8)
        register = 0
        for unit in _FOLD_UNITS:
            data = _fold(data, unit)
    for byte in data.tobytes():
        register = _TABLE[(register ^ byte) & 0xFF] ^ (register >> 8)
    return register


def _fold(data: npt.NDArray[np.uint8], unit: int) -> npt.NDArray[np.uint8]:
    """Shorten a message without changing its CRC remainder, in units of some bytes.

    The data is overwritten. The result is a view of its end, at most 5685 * `unit` bytes long.
    """
    near, middle, far = (distance * unit for distance in _FOLD_DISTANCES)
    while data.size > far:
        length = min(near, data.size - far)
        head = data[:length]
        for distance in (near, middle, far):
            data[distance : distance + length] ^= head
        data = data[length:]
    return data
