"""Words in one file and tags in another, a sentence a line in both (KMOU's `train.words.txt`)."""

from pathlib import Path

from elmo.errors import ConfigError, FormatError
from elmo.tasks.examples import Example
from elmo.tasks.readers.text_lines import is_blank, read_lines

WORDS, TAGS = "words", "tags"


def read_parallel(
    path: Path, *, tags: Path | str | None = None, encoding: str | None = None
) -> list[Example]:
    """Read two files side by side.

    Args:
        path: the words, between spaces.
        tags: the tags; where None, the file of the same name with `tags` in place of `words`.
        encoding: of both files; UTF-8, or UTF-16 with its mark, where None.
    """
    tags_path = Path(tags) if tags is not None else tags_beside(path)
    if tags_path is None:
        raise ConfigError(
            f"the name of {path} has no {WORDS!r} in it, so that its tags are not found: give both "
            f"names such as train.{WORDS}.txt and train.{TAGS}.txt"
        )
    texts, targets = (_lines(each, encoding) for each in (path, tags_path))
    if len(texts) != len(targets):
        raise FormatError(
            f"{path} has {len(texts)} lines, {tags_path} has {len(targets)}; expected as many"
        )
    if not texts:
        raise FormatError(f"{path} holds no sentence")
    examples: list[Example] = []
    for number, (text, target) in enumerate(zip(texts, targets, strict=True), start=1):
        words, found = _pieces(text), _pieces(target)
        if len(words) != len(found) or not words:
            raise FormatError(
                f"line {number} of {path} has {len(words)} words, of {tags_path} {len(found)} "
                "tags; expected as many, and at least one"
            )
        where = f"{tags_path}, line {number}"
        examples.append(Example((tuple(words),), tuple(found), location=where))
    return examples


def tags_beside(path: Path) -> Path | None:
    """Give the name of the tags of a file of words; None where its own does not tell."""
    before, found, after = path.name.rpartition(WORDS)
    return path.with_name(f"{before}{TAGS}{after}") if found else None


def _lines(path: Path, encoding: str | None) -> list[str]:
    """Read lines, without blank ones at the end."""
    lines = read_lines(path, encoding)
    while lines and is_blank(lines[-1]):
        lines.pop()
    return lines


def _pieces(line: str) -> list[str]:
    return [piece for piece in line.replace("\t", " ").split(" ") if piece]
