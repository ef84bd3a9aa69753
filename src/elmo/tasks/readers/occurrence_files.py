"""Words in their sentences: a sentence a line, or a word of it, what it means there, and it."""

from pathlib import Path

from elmo.errors import FormatError
from elmo.tasks.examples import Example
from elmo.tasks.readers.raw_text import SplitFunction
from elmo.tasks.readers.text_lines import is_blank, read_lines

SHAPES = "a sentence; word, sentence; or word, sense, sentence, between tabs"


def read_occurrences(
    path: Path, *, split: SplitFunction = str.split, encoding: str | None = None
) -> list[Example]:
    """Read occurrences; blank lines are passed over.

    Args:
        path: a line for each sentence, of one of three shapes: the sentence, all of whose words
            are meant; a word and the sentence; a word, the name of its sense and the sentence.
        split: makes words of a sentence.
        encoding: of the file; UTF-8, or UTF-16 with its mark, where None.
    """
    examples: list[Example] = []
    for number, line in enumerate(read_lines(path, encoding), start=1):
        if is_blank(line):
            continue
        where = f"{path}, line {number}"
        *before, sentence = line.split("\t")
        if len(before) > 2 or not all(part.strip() for part in before):
            raise FormatError(f"{where} is {line!r}; expected {SHAPES}")
        example = occurrence_example(before[0].strip() if before else None, sentence, split, where)
        target = before[1].strip() if len(before) == 2 else None
        examples.append(Example(example.texts, target, str(number), example.extra))
    if not examples:
        raise FormatError(f"{path} holds no sentence")
    return examples


def occurrence_example(
    word: str | None, sentence: str | tuple[str, ...], split: SplitFunction, where: str
) -> Example:
    """Make an example of a word in its sentence, the first of several; of all words where None."""
    words = tuple(split(sentence) if isinstance(sentence, str) else sentence)
    if not words:
        raise FormatError(f"{where} holds no word")
    if word is None:
        return Example((words,))
    small = [one.lower() for one in words]
    if word.lower() not in small:
        raise FormatError(
            f"{where}: {word!r} is no word of its sentence, which has {' '.join(words)[:200]}"
        )
    return Example((words,), extra=small.index(word.lower()))
