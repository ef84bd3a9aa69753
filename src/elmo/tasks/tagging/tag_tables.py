"""Reader for tables with one sentence per row, whose words and tags are separated by spaces."""

from pathlib import Path

from elmo.errors import FormatError
from elmo.tasks.core.example import Example
from elmo.tasks.files.delimited_tables import read_table


def read_tag_table(
    path: Path, *, text: str = "words", label: str = "tags", encoding: str | None = None
) -> list[Example[tuple[str, ...]]]:
    """Read sentences and their tags from named columns."""
    examples = []
    for example in read_table(path, text=text, label=label, split=str.split, encoding=encoding):
        tags = tuple(str(example.target).split())
        if len(tags) != len(example.words):
            raise FormatError(
                f"{example.location}: there are {len(example.words)} words but {len(tags)} tags. "
                "Words and tags must be separated by spaces."
            )
        examples.append(Example(example.texts, tags, example.id, example.extra, example.location))
    return examples
