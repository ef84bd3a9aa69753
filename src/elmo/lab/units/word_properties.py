"""Properties of words from CoNLL-U files: part of speech, features, relation, negation."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmo.errors import ConfigError, FormatError, InputError

N_COLUMNS = 10
# Ranges of multiword tokens and empty nodes are not words.
_NOT_WORD = re.compile(r"\d+[-.]\d+")
NEGATIONS = frozenset(
    "not n't no never neither nor none nobody nothing nowhere without hardly cannot".split()
)
NEGATION = "negation"
DEFAULT_PROPERTIES = (
    "upos=NOUN",
    "upos=VERB",
    "upos=ADJ",
    "upos=PROPN",
    "Number=Plur",
    "Tense=Past",
    NEGATION,
)
EXAMPLES = "upos=NOUN, xpos=NNS, deprel=nsubj, Number=Plur, Tense=Past or negation"


@dataclass(frozen=True)
class AnnotatedWord:
    """A word of a CoNLL-U file.

    Attributes:
        form: The word.
        tags: Values by name: `upos`, `xpos`, `deprel`, and the morphological features.
        head: Number of its head in the sentence, from 1; 0 for the root.
    """

    form: str
    tags: dict[str, str]
    head: int


def read_annotated_words(path: Path) -> list[list[AnnotatedWord]]:
    """Read the sentences of a CoNLL-U file.

    Args:
        path: The file.

    Raises:
        InputError: The file cannot be read.
        FormatError: A line does not have the format, or there are no sentences.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text.") from None
    sentences: list[list[AnnotatedWord]] = [[]]
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            sentences.append([])
        elif not line.startswith("#"):
            columns = line.rstrip("\r").split("\t")
            if len(columns) != N_COLUMNS:
                raise FormatError(
                    f"{path}, line {number}: expected {N_COLUMNS} columns of CoNLL-U separated by "
                    f"tabs (got {len(columns)})."
                )
            if not _NOT_WORD.fullmatch(columns[0]):
                sentences[-1].append(_word(columns))
    sentences = [sentence for sentence in sentences if sentence]
    if not sentences:
        raise FormatError(f"{path} contains no sentences. Expected CoNLL-U.")
    return sentences


def _word(columns: Sequence[str]) -> AnnotatedWord:
    _, form, _, upos, xpos, features, head, relation, _, _ = columns
    tags = {"upos": upos, "xpos": xpos, "deprel": relation.partition(":")[0]}
    for feature in features.split("|"):
        name, sign, value = feature.partition("=")
        if sign:
            tags[name] = value
    return AnnotatedWord(form, tags, int(head) if head.isdecimal() else 0)


def word_property(name: str, sentences: Sequence[Sequence[AnnotatedWord]]) -> NDArray[np.bool_]:
    """Return whether each word of all sentences has a property.

    Args:
        name: `upos=NOUN`, another tag or feature with its value, or `negation`.
        sentences: The sentences.

    Raises:
        ConfigError: The property is unknown.
    """
    if name == NEGATION:
        values = [value for sentence in sentences for value in in_negation(sentence)]
        return np.array(values, dtype=bool)
    tag, sign, value = name.partition("=")
    words = [word for sentence in sentences for word in sentence]
    known = {word.tags[tag] for word in words if tag in word.tags}
    if not sign or not known:
        raise ConfigError(f"Unknown property of words {name!r}. Expected for example {EXAMPLES}.")
    if value not in known:
        raise ConfigError(
            f"No word has {name}. The file has {tag}={', '.join(sorted(known)[:20])}."
        )
    return np.array([word.tags.get(tag) == value for word in words], dtype=bool)


def in_negation(sentence: Sequence[AnnotatedWord]) -> list[bool]:
    """Return whether each word of a sentence is in the scope of a negation.

    The scope is a simple one: the words after a negation that its head dominates, and the head
    itself if it comes later. In "I did not see the red car, but ..." it is "see the red car".
    """
    inside = [False] * len(sentence)
    for cue, word in enumerate(sentence):
        is_cue = word.form.lower() in NEGATIONS or word.tags.get("Polarity") == "Neg"
        if is_cue and 1 <= word.head <= len(sentence):
            for number in range(cue + 1, len(sentence)):
                inside[number] |= _is_below(sentence, number, word.head - 1)
    return inside


def _is_below(sentence: Sequence[AnnotatedWord], number: int, top: int) -> bool:
    """Whether a word is another one or below it; coordinated parts of it are not."""
    # A tree is not deeper than its number of words; the limit ends the loop for damaged trees.
    for _ in range(len(sentence)):
        if number == top:
            return True
        word = sentence[number]
        is_outside = word.head - 1 == top and word.tags["deprel"] in ("conj", "punct", "parataxis")
        if is_outside or not 1 <= word.head <= len(sentence):
            return False
        number = word.head - 1
    return False
