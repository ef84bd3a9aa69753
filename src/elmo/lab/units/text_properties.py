"""Built-in properties of the characters of English text and of C and Python source.

A property is a function from a text to one value per character: a boolean or a number. Like the
value of a unit, it describes the text after the character was read: an opening quote is inside the
quotes, a closing one is not.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from elmo.errors import ConfigError, InputError, did_you_mean
from elmo.lab.units import source_code

PropertyValues = NDArray[np.bool_] | NDArray[np.float32]

_PARAGRAPH = re.compile(r"\n[ \t]*\n")
_SINGLE_QUOTE = re.compile(r"(?P<open>(?<!\w)'(?=\w)|\u2018)|(?P<close>(?<=\S)['\u2019](?!\w))")
# Opening bracket of each closing one.
_BRACKETS = {")": "(", "]": "[", "}": "{"}


@dataclass(frozen=True)
class TextProperty:
    """A built-in property.

    Attributes:
        description: Description of the property.
        function: Function that returns the values of a text.
        of_word: Value of a word: that after its last character, or whether any character has it.
    """

    description: str
    function: Callable[[str], PropertyValues]
    of_word: Literal["last", "any"] = "last"


def quotes(text: str) -> PropertyValues:
    """Return whether each position is inside double quotes, which end with the paragraph."""
    inside = np.zeros(len(text), dtype=bool)
    for begin, end in _paragraphs(text):
        is_open = False
        for position in range(begin, end):
            character = text[position]
            if character == '"':
                is_open = not is_open
            elif character in "\u201c\u201d":
                is_open = character == "\u201c"
            inside[position] = is_open
    return inside


def single_quotes(text: str) -> PropertyValues:
    """Return whether each position is inside single quotes; apostrophes in words do not count.

    A quote that is not closed in its paragraph does not count, because it is an apostrophe.
    """
    inside = np.zeros(len(text), dtype=bool)
    for begin, end in _paragraphs(text):
        opened = None
        for match in _SINGLE_QUOTE.finditer(text, begin, end):
            if match["open"] and opened is None:
                opened = match.start()
            elif match["close"] and opened is not None:
                inside[opened : match.start()] = True
                opened = None
    return inside


def bracket_depth(text: str) -> PropertyValues:
    """Return the number of open brackets.

    A closing bracket also closes the unclosed ones after its opening bracket, such as one in a
    smiley. Without an opening bracket of its type it is ignored.
    """
    depths = np.zeros(len(text), dtype=np.float32)
    is_open: list[str] = []
    for position, character in enumerate(text):
        if character in _BRACKETS.values():
            is_open.append(character)
        elif (opening := _BRACKETS.get(character)) in is_open:
            while is_open.pop() != opening:
                pass
        depths[position] = len(is_open)
    return depths


def brackets(text: str) -> PropertyValues:
    """Return whether each position is inside brackets of any type."""
    return bracket_depth(text) > 0


def block_depth(text: str) -> PropertyValues:
    """Return the number of open curly brackets of C source."""
    kept = re.sub(r"[()\[\]]", " ", source_code.without_literals(text))
    return bracket_depth(kept)


def line_position(text: str) -> PropertyValues:
    """Return the number of characters since the beginning of the line; 0 after a line break."""
    positions = np.arange(1, len(text) + 1)
    is_break = end_of_line(text)
    last_break = np.maximum.accumulate(np.where(is_break, positions, 0))
    return (positions - last_break).astype(np.float32)


def indentation(text: str) -> PropertyValues:
    """Return the number of spaces and tabs at the beginning of the line, so far."""
    values = np.zeros(len(text), dtype=np.float32)
    count, is_begin = 0, True
    for position, character in enumerate(text):
        if character == "\n":
            count, is_begin = 0, True
        elif is_begin and character in " \t":
            count += 1
        else:
            is_begin = False
        values[position] = count
    return values


def word_start(text: str) -> PropertyValues:
    """Return whether each character is the first of a word."""
    is_word = _characters(text, lambda character: character.isalnum() or character == "_")
    is_first = is_word.copy()
    is_first[1:] &= ~is_word[:-1]
    return is_first


def word_position(text: str) -> PropertyValues:
    """Return the number of characters since the beginning of the word; 0 outside of words."""
    is_word = _characters(text, lambda character: character.isalnum() or character == "_")
    positions = np.arange(1, len(text) + 1)
    last_other = np.maximum.accumulate(np.where(is_word, 0, positions))
    return (positions - last_other).astype(np.float32)


def end_of_line(text: str) -> NDArray[np.bool_]:
    """Return whether each character is a line break."""
    return _characters(text, lambda character: character == "\n")


def _of_characters(is_true: Callable[[str], bool]) -> Callable[[str], PropertyValues]:
    return lambda text: _characters(text, is_true)


def _characters(text: str, is_true: Callable[[str], bool]) -> NDArray[np.bool_]:
    return np.fromiter(map(is_true, text), dtype=bool, count=len(text))


def _paragraphs(text: str) -> list[tuple[int, int]]:
    """Return begin and end of the parts between empty lines."""
    # The last of the line breaks ends the paragraph.
    borders = [0, *(match.end() - 1 for match in _PARAGRAPH.finditer(text)), len(text)]
    return list(pairwise(borders))


def _is_punctuation(character: str) -> bool:
    return not character.isalnum() and not character.isspace()


PROPERTIES = {
    "quotes": TextProperty("inside double quotes", quotes),
    "single-quotes": TextProperty("inside single quotes", single_quotes),
    "brackets": TextProperty("inside brackets", brackets),
    "bracket-depth": TextProperty("number of open brackets", bracket_depth),
    "block-depth": TextProperty("C: number of open curly brackets", block_depth),
    "if": TextProperty("C: inside the parentheses of if (...)", source_code.c_condition),
    "comment": TextProperty("C: inside a comment", source_code.c_comment),
    "string": TextProperty("C: inside a string or character literal", source_code.c_string),
    "python-comment": TextProperty("Python: inside a comment", source_code.python_comment),
    "python-string": TextProperty("Python: inside a string literal", source_code.python_string),
    "line-position": TextProperty("number of characters since the line began", line_position),
    "indentation": TextProperty("number of spaces and tabs before the line", indentation),
    "word-position": TextProperty("number of characters since the word began", word_position),
    "word-start": TextProperty("first character of a word", word_start, "any"),
    "capital": TextProperty("capital letter", _of_characters(str.isupper), "any"),
    "digit": TextProperty("digit", _of_characters(str.isdigit), "any"),
    "punctuation": TextProperty("punctuation", _of_characters(_is_punctuation), "any"),
    "whitespace": TextProperty("white space", _of_characters(str.isspace), "any"),
    "end-of-line": TextProperty("line break", end_of_line, "any"),
}
"""Built-in properties by name."""


def text_property(name: str) -> TextProperty:
    """Return a built-in property by name."""
    if name not in PROPERTIES:
        raise ConfigError(
            f"Unknown property {name!r}.{did_you_mean(name, PROPERTIES)} Expected one of: "
            f"{', '.join(PROPERTIES)}."
        )
    return PROPERTIES[name]


def pattern_property(pattern: str) -> TextProperty:
    """Return the property of being in a match of a regular expression, or in its first group."""
    try:
        compiled = re.compile(pattern, re.MULTILINE)
    except re.error as error:
        raise ConfigError(f"--pattern {pattern!r} is not a regular expression: {error}.") from None

    def in_match(text: str) -> NDArray[np.bool_]:
        inside = np.zeros(len(text), dtype=bool)
        for match in compiled.finditer(text):
            begin, end = match.span(min(1, compiled.groups))
            if begin >= 0:
                inside[begin:end] = True
        if not inside.any():
            raise InputError(f"The pattern {pattern!r} does not match any part of the text.")
        return inside

    return TextProperty(f"in a match of {pattern}", in_match, "any")
