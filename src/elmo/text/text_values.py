"""Checks of texts that are passed as Python values.

Tables and dictionaries are iterable, but over their column names or keys. spaCy objects and missing
values are common in lists of texts. The errors say how to pass such values.
"""

from collections.abc import Iterable, Iterator, Mapping
from numbers import Real
from typing import TypeVar

from elmo.errors import InputError

Item = TypeVar("Item")

_SPACY_WORDS = "[token.text for token in doc if not token.is_space]"


def iterate_sentences(value: Iterable[Item], name: str = "sentences") -> Iterator[Item]:
    """Iterate over sentences or texts; tables, dictionaries and spaCy objects are errors."""
    label = f"{name} has type {type(value).__name__}"
    _check_not_bytes(value, label)
    if hasattr(value, "columns"):
        column = "label" if name == "targets" else "text"
        raise InputError(f'{label}, a table. Pass one column, such as table["{column}"].')
    if isinstance(value, Mapping):
        raise InputError(f"{label}. Pass a list of {name}, such as list(values.values()).")
    if _is_spacy(value):
        raise InputError(
            f"{label}. Pass the words of a spaCy object as one sentence in a list: "
            f"[{_SPACY_WORDS}]."
        )
    shape: tuple[int, ...] = getattr(value, "shape", ())
    if len(shape) > 1 and shape[1] == 1:
        raise InputError(
            f"{name} has the shape {tuple(shape)}, one column of a table. Pass an array with one "
            "dimension, such as values[:, 0]."
        )
    return _iterate(value, label, name)


def sentence_words(sentence: Iterable[str], number: int) -> list[str]:
    """Return the words of a sentence that is not a string; it must be a list of strings."""
    if type(sentence) is not list:
        check_not_missing(sentence, f"sentence {number}")
        _check_not_bytes(sentence, _label(sentence, number))
        if isinstance(sentence, Mapping):
            raise InputError(
                f"sentence {number} has type {type(sentence).__name__}, expected a string or a "
                "list of words. Pass the value that contains the text."
            )
    words = list(_iterate(sentence, _label(sentence, number), "words"))
    # One check per sentence: a check per word would be slower than a GPU.
    if set(map(type, words)) - {str}:
        _check_strings(words, number)
    return words


def is_missing(value: object) -> bool:
    """Whether a value stands for a missing one: None, NaN or the NA of pandas."""
    is_nan = isinstance(value, Real) and value != value
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType")


def check_not_missing(
    value: object,
    label: str,
    remedy: str = "Drop missing texts or replace them by empty ones: with pandas, column.dropna() "
    'or column.fillna("").',
) -> None:
    """Raise `InputError` if a value stands for a missing text; the remedy ends the message."""
    if is_missing(value):
        raise InputError(f"{label} is a missing value ({value}). {remedy}")


def check_no_spacy(value: object, label: str) -> None:
    """Raise `InputError` if a value, described by `label`, is or contains a spaCy object."""
    if _is_spacy(value):
        problem = f"has type {type(value).__name__}"
    elif isinstance(value, list | tuple) and any(map(_is_spacy, value)):
        problem = "contains spaCy objects, not strings"
    else:
        return
    raise InputError(f"{label} {problem}. Pass the words of a spaCy object: {_SPACY_WORDS}.")


def check_string(text: object, function: str) -> None:
    """Raise `InputError` if the argument of a function for a single text is not a string."""
    if isinstance(text, str):
        return
    if _is_spacy(text):
        remedy = "Pass the text of the spaCy object: doc.text."
    elif isinstance(text, Iterable) and not isinstance(text, bytes | bytearray):
        remedy = f"Call {function} once for each text."
    else:
        remedy = "Pass a string."
    raise InputError(
        f"{function} expects one text as a string, but got type {type(text).__name__}. {remedy}"
    )


def _check_not_bytes(value: object, label: str) -> None:
    if isinstance(value, bytes | bytearray):
        raise InputError(f'{label}. Decode it first, such as value.decode("utf-8").')


def _check_strings(words: Iterable[object], number: int) -> None:
    for word in words:
        if _is_spacy(word):
            raise InputError(
                f"sentence {number} contains spaCy tokens, not strings. Pass the words of a spaCy "
                f"object: {_SPACY_WORDS}."
            )
        if not isinstance(word, str):
            raise InputError(
                f"sentence {number} contains {word!r} of type {type(word).__name__}. Words must be "
                "strings."
            )


def _label(sentence: object, number: int) -> str:
    return f"sentence {number} has type {type(sentence).__name__}"


def _iterate(value: Iterable[Item], label: str, items: str) -> Iterator[Item]:
    # An array without dimensions has __iter__, but raises TypeError when it is called.
    try:
        return iter(value)
    except TypeError:
        remedy = ""
        if _is_spacy(value):
            remedy = f" Pass the words of a spaCy object as one sentence: [{_SPACY_WORDS}]."
        raise InputError(f"{label}, expected a string or a list of {items}.{remedy}") from None


def _is_spacy(value: object) -> bool:
    return type(value).__module__.startswith("spacy.")
