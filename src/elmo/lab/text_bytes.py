"""Bytes of a text that can have surrogates."""

import re

# U+DC80 to U+DCFF are bytes that are not UTF-8, as in the error handler surrogateescape.
_OTHER_SURROGATES = re.compile("[\ud800-\udc7f\udd00-\udfff]")


def utf8_bytes(text: str) -> bytes:
    """Return a text as UTF-8; surrogate escapes become bytes, other surrogates U+FFFD."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return _OTHER_SURROGATES.sub("\ufffd", text).encode("utf-8", "surrogateescape")
