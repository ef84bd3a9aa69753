"""CRC-32C as TensorFlow stores it, in numpy: fast enough to check every tensor of a checkpoint."""

import numpy as np
import numpy.typing as npt

_POLYNOMIAL = 0x82F63B78  # bit-reversed
_CHUNK_SIZE = 1 << 23
_FOLD_UNITS = (16, 1)

# The polynomial x^5685 + x^1362 + x^426 + 1 is a multiple of the CRC's own, so a message keeps its
# remainder when its leading term is taken away and added 5685 - 1362, 5685 - 426 and 5685 places
# later. Over GF(2) the same holds with every exponent times a power of two: places may be bytes or
# groups of 16 bytes, and thousands of them are moved by three array operations.
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
    """Compute the CRC-32C in the form TensorFlow stores: rotated, plus a constant."""
    register = 0xFFFFFFFF
    for start in range(0, data.size, _CHUNK_SIZE):
        register = _advance(register, data[start : start + _CHUNK_SIZE])
    crc = register ^ 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _advance(register: int, data: npt.NDArray[np.uint8]) -> int:
    if data.size > _FOLD_DISTANCES[-1]:
        data = data.copy()
        # The register enters with the first four bytes, so the rest can start from zero.
        data[:4] ^= np.frombuffer(register.to_bytes(4, "little"), np.uint8)
        register = 0
        for unit in _FOLD_UNITS:
            data = _fold(data, unit)
    for byte in data.tobytes():
        register = _TABLE[(register ^ byte) & 0xFF] ^ (register >> 8)
    return register


def _fold(data: npt.NDArray[np.uint8], unit: int) -> npt.NDArray[np.uint8]:
    """Shorten a message in place to `unit` times the largest distance, keeping its remainder."""
    near, middle, far = (distance * unit for distance in _FOLD_DISTANCES)
    while data.size > far:
        length = min(near, data.size - far)
        head = data[:length]
        for distance in (near, middle, far):
            data[distance : distance + length] ^= head
        data = data[length:]
    return data
