"""Reader for word occurrences: one sentence per line, optionally with a word and its sense."""

from pathlib import Path

from elmo.errors import FormatError, shortened
from elmo.tasks.core.example import Example, Words
from elmo.tasks.files.text_lines import is_blank, read_lines
from elmo.text.line_splitter import SplitFunction

LINE_FORMATS = "a sentence; word, sentence; or word, sense, sentence, separated by tabs"


def read_occurrences(
    path: Path, *, split: SplitFunction = str.split, encoding: str | None = None
) -> list[Example[str]]:
    """Read word occurrences, skipping blank lines.

    A line is a sentence, which selects all its words; a word and the sentence; or a word, the name
    of its sense and the sentence.
    """
    examples: list[Example[str]] = []
    for number, line in enumerate(read_lines(path, encoding), start=1):
        if is_blank(line):
            continue
        location = f"{path}, line {number}"
        *fields, sentence = line.split("\t")
        if len(fields) > 2 or not all(field.strip() for field in fields):
            raise FormatError(f"{location}: expected {LINE_FORMATS} (got {line!r}).")
        word = fields[0].strip() if fields else None
        example = occurrence_example(word, tuple(split(sentence)), location)
        target = fields[1].strip() if len(fields) == 2 else None
        examples.append(Example(example.texts, target, str(number), example.extra))
    if not examples:
        raise FormatError(f"{path}: contains no sentences.")
    return examples


def occurrence_example(word: str | None, words: Words, location: str) -> Example[str]:
    """Create an example for the first occurrence of a word, ignoring case, or for all words."""
    if not words:
        raise FormatError(f"{location}: the sentence has no words.")
    if word is None:
        return Example((words,))
    lowercase = [each.lower() for each in words]
    if word.lower() not in lowercase:
        raise FormatError(
            f"{location}: the sentence does not contain the word {word!r}. Its words are: "
            f"{shortened(' '.join(words))}"
        )
    return Example((words,), extra=lowercase.index(word.lower()))
