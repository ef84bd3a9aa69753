"""Texts with annotated words, which CoNLL-U files have."""

import os
from dataclasses import dataclass
from pathlib import Path

from elmo.lab.units.read_traces import Text
from elmo.lab.units.word_properties import AnnotatedWord, read_annotated_words

CONLLU = ".conllu"


@dataclass(frozen=True)
class AnnotatedText:
    """A text, and the annotations of its words.

    Attributes:
        text: The text as `read_traces` reads it; for a CoNLL-U file, the words of its sentences.
        words: Annotated words of each sentence; None for other texts.
    """

    text: Text
    words: list[list[AnnotatedWord]] | None = None


def read_annotated_text(text: Text) -> AnnotatedText:
    """Read the sentences of a CoNLL-U file; other texts have no annotations."""
    if not isinstance(text, os.PathLike) or Path(text).suffix != CONLLU:
        return AnnotatedText(text)
    words = read_annotated_words(Path(text))
    return AnnotatedText([[word.form for word in sentence] for sentence in words], words)
