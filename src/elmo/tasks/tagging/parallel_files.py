"""Reader for tagged text in two parallel files, one with words and one with tags."""

from pathlib import Path

from elmo.errors import ConfigError, FormatError
from elmo.tasks.core.example import Example
from elmo.tasks.files.text_lines import is_blank, read_lines

WORDS, TAGS = "words", "tags"


def read_parallel(
    path: Path, *, tags: Path | str | None = None, encoding: str | None = None
) -> list[Example[tuple[str, ...]]]:
    """Read a file of words, such as KMOU's `train.words.txt`, and the parallel file of tags.

    Both have one sentence per line, separated by spaces. The default name of the tags is that of
    the words with `tags` in place of `words`.
    """
    tags_path = Path(tags) if tags is not None else find_tags_file(path)
    if tags_path is None:
        raise ConfigError(
            f"Cannot find the tags for {path}, because its name does not contain {WORDS!r}. Name "
            f"the files like train.{WORDS}.txt and train.{TAGS}.txt."
        )
    texts, targets = (_read_lines(file, encoding) for file in (path, tags_path))
    if len(texts) != len(targets):
        raise FormatError(
            f"The number of lines differs: {len(texts)} in {path}, {len(targets)} in {tags_path}."
        )
    if not texts:
        raise FormatError(f"{path}: contains no sentences.")
    examples: list[Example[tuple[str, ...]]] = []
    for number, (text, target) in enumerate(zip(texts, targets, strict=True), start=1):
        words, word_tags = _split(text), _split(target)
        if len(words) != len(word_tags) or not words:
            raise FormatError(
                f"Line {number} has {len(words)} words in {path} and {len(word_tags)} tags in "
                f"{tags_path}; expected the same number, at least one."
            )
        location = f"{tags_path}, line {number}"
        examples.append(Example((tuple(words),), tuple(word_tags), location=location))
    return examples


def find_tags_file(path: Path) -> Path | None:
    """Return the tag file for a word file, or None if the name does not contain `words`."""
    before, name, after = path.name.rpartition(WORDS)
    return path.with_name(f"{before}{TAGS}{after}") if name else None


def _read_lines(path: Path, encoding: str | None) -> list[str]:
    """Read the lines of a file, without trailing blank lines."""
    lines = read_lines(path, encoding)
    while lines and is_blank(lines[-1]):
        lines.pop()
    return lines


def _split(line: str) -> list[str]:
    return [item for item in line.replace("\t", " ").split(" ") if item]
