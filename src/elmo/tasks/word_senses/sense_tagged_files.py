"""Reader for text with WordNet senses: SemCor 3.0 and the data of Raganato et al. (2017)."""

from pathlib import Path
from typing import NamedTuple

from elmo.errors import ConfigError, FormatError
from elmo.tasks.core.example import Example
from elmo.tasks.word_senses.semcor_files import (
    Entry,
    TaggedWords,
    entry_of,
    read_semcor,
    read_targets,
)


class SenseTarget(NamedTuple):
    """Words from `first` to before `stop`, such as `take place`, whose sense is predicted."""

    first: int
    stop: int
    entry: Entry


def read_senses(
    path: Path, *, encoding: str | None = None
) -> list[Example[tuple[tuple[str, ...], ...]]]:
    """Read sentences, the words to disambiguate in them, and the sense keys of these words.

    The path is the directory `semcor3.0`, or a directory NAME with NAME.data.xml and
    NAME.gold.key.txt. These data sets are always UTF-8, so no other encoding is accepted.
    """
    if encoding is not None and encoding.lower().replace("-", "") != "utf8":
        raise ConfigError(f"Cannot read {path} as {encoding!r}. These data sets are always UTF-8.")
    if (path / f"{path.name}.data.xml").is_file():
        return _examples(*read_targets(path))
    if not path.is_dir():
        raise FormatError(
            f"{path} is not a directory. Expected semcor3.0, or a directory NAME that contains "
            "NAME.data.xml."
        )
    text = read_semcor(path)
    # If an occurrence has several gold senses, all belong to the same entry.
    return _examples(text, [entry_of(item.senses[0]) for item in text.occurrences])


def _examples(
    text: TaggedWords, entries: list[Entry]
) -> list[Example[tuple[tuple[str, ...], ...]]]:
    targets: list[list[SenseTarget]] = [[] for _ in text.sentences]
    gold: list[list[tuple[str, ...]]] = [[] for _ in text.sentences]
    for item, entry in zip(text.occurrences, entries, strict=True):
        targets[item.sentence].append(SenseTarget(item.first, item.stop, entry))
        gold[item.sentence].append(item.senses)
    return [
        Example((tuple(words),), tuple(senses), extra=tuple(words_to_tag))
        for words, words_to_tag, senses in zip(text.sentences, targets, gold, strict=True)
        if words_to_tag
    ]
