"""Texts that are divided into words: CoNLL-U files, and lines of words."""

import os
from dataclasses import dataclass
from pathlib import Path

from elmo.config.language_models import SymbolConfig
from elmo.lab.symbol_text import read_text_files
from elmo.lab.units.read_traces import Text
from elmo.lab.units.word_properties import AnnotatedWord, read_annotated_words
from elmo.text.tokenizer import replace_surrogates

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


def text_of_file(name: str, *, pretokenized: bool) -> Text:
    """Return a text file as a path, or as sentences if its words are separated by spaces.

    Args:
        name: Path of the file, or - for standard input.
        pretokenized: Whether the words are separated by spaces.
    """
    path = Path(name)
    if not pretokenized or path.suffix == CONLLU:
        return path
    text = replace_surrogates(read_text_files([name], SymbolConfig()))
    return [line.split() for line in text.split("\n")]


def read_annotated_text(text: Text) -> AnnotatedText:
    """Read the sentences of a CoNLL-U file; other texts have no annotations."""
    if not isinstance(text, os.PathLike) or Path(text).suffix != CONLLU:
        return AnnotatedText(text)
    words = read_annotated_words(Path(text))
    return AnnotatedText([[word.form for word in sentence] for sentence in words], words)
