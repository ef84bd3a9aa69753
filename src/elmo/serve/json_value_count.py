"""Count of the values in JSON text, before it is parsed."""

# Bytes that are scanned at a time.
_SCAN_BYTES = 2**16


class JsonValueCount:
    """Counts commas and opening brackets outside of strings.

    Parsing holds the interpreter lock, and takes longest for many small values.

    Attributes:
        n_values: Number of values so far, without the outermost one.
    """

    def __init__(self) -> None:
        """Begin a text."""
        self.n_values = 0
        self._in_string, self._rest = False, b""

    def add(self, part: bytes) -> None:
        """Count the values in the next part of the text."""
        for start in range(0, len(part), _SCAN_BYTES):
            self._scan(part[start : start + _SCAN_BYTES])

    def _scan(self, part: bytes) -> None:
        text = (self._rest + part).replace(b"\\\\", b"").replace(b'\\"', b"")
        # It may escape the first character of the next part.
        self._rest = b"\\" if text.endswith(b"\\") else b""
        pieces = text.split(b'"')
        outside = b"".join(pieces[self._in_string :: 2])
        self._in_string ^= len(pieces) % 2 == 0
        self.n_values += sum(map(outside.count, (b",", b"[", b"{")))
