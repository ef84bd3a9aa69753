"""Comments, string literals and conditions in C and Python source.

Source is scanned by regular expressions, without a parser: any text is accepted, also one that does
not compile or that begins in the middle of a file.
"""

import re
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]

# A literal that is not closed ends at the end of its line, a comment at the end of the text.
_C = re.compile(
    r"""(?P<block>/\*.*?(?:\*/|\Z))
    | (?P<line>//[^\n]*)
    | (?P<string>"(?:\\.|[^"\\\n])*"? | '(?:\\.|[^'\\\n])*'?)""",
    re.DOTALL | re.VERBOSE,
)
_PYTHON = re.compile(
    r"""(?P<line>\#[^\n]*)
    | (?P<triple>\"{3}(?:\\.|.)*?(?:\"{3}|\Z) | '{3}(?:\\.|.)*?(?:'{3}|\Z))
    | (?P<string>"(?:\\.|[^"\\\n])*"? | '(?:\\.|[^'\\\n])*'?)""",
    re.DOTALL | re.VERBOSE,
)
_CONDITION = re.compile(r"\bif\s*\(|[()]")


def c_comment(text: str) -> Flags:
    """Return whether each position is inside a C comment."""
    return _inside(text, _C, ("block", "line"))


def c_string(text: str) -> Flags:
    """Return whether each position is inside a string or character literal of C."""
    return _inside(text, _C, ("string",))


def python_comment(text: str) -> Flags:
    """Return whether each position is inside a Python comment."""
    return _inside(text, _PYTHON, ("line",))


def python_string(text: str) -> Flags:
    """Return whether each position is inside a Python string literal."""
    return _inside(text, _PYTHON, ("string", "triple"))


def c_condition(text: str) -> Flags:
    """Return whether each position is inside the parentheses of a C `if (...)`."""
    inside = np.zeros(len(text), dtype=bool)
    # Begin of the outermost condition, and whether each open parenthesis is one of an `if`.
    begin, stack = 0, [False]
    for match in _CONDITION.finditer(without_literals(text)):
        if match[0] != ")":
            is_condition = match[0] != "("
            if is_condition and not any(stack):
                begin = match.end() - 1
            stack.append(is_condition)
        elif len(stack) > 1 and stack.pop() and not any(stack):
            inside[begin : match.start()] = True
    if any(stack):
        inside[begin:] = True
    return inside


def without_literals(text: str) -> str:
    """Replace comments, strings and character literals of C by spaces."""
    return _C.sub(lambda match: " " * len(match[0]), text)


def _inside(text: str, pattern: re.Pattern[str], groups: tuple[str, ...]) -> Flags:
    inside = np.zeros(len(text), dtype=bool)
    for begin, end in _spans(text, pattern, groups):
        inside[begin:end] = True
    return inside


def _spans(
    text: str, pattern: re.Pattern[str], groups: tuple[str, ...]
) -> Iterator[tuple[int, int]]:
    """Yield the positions after which a reader is inside one of the groups."""
    for match in pattern.finditer(text):
        begin, end = match.span()
        if match.lastgroup not in groups:
            continue
        found = match[0]
        if match.lastgroup == "block":
            # After the slash alone, it can still be a division.
            yield begin + 1, end - (len(found) > 3 and found.endswith("*/"))
        elif match.lastgroup == "line":
            yield begin + (not found.startswith("#")), end
        else:
            mark = found[:3] if match.lastgroup == "triple" else found[0]
            is_closed = len(found) >= 2 * len(mark) and found.endswith(mark)
            # `"\"` ends with its mark but is not closed.
            if is_closed and len(mark) == 1:
                slashes = len(found[1:-1]) - len(found[1:-1].rstrip("\\"))
                is_closed = slashes % 2 == 0
            yield begin, end - is_closed
