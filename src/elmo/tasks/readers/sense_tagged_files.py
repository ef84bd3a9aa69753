"""Words tagged with senses of WordNet: SemCor 3.0, and the sets of Raganato et al. (2017)."""

from pathlib import Path
from typing import NamedTuple

from elmo.errors import ConfigError, FormatError
from elmo.evaluate.word_senses import (
    Entry,
    TaggedWords,
    entry_of,
    read_semcor,
    read_targets,
)
from elmo.tasks.examples import Example


class SenseTarget(NamedTuple):
    """Words of a sentence whose sense is asked for.

    Attributes:
        first: number of the first one.
        stop: number after the last one: `take place` is asked for as a whole.
        entry: lemma and part of speech.
    """

    first: int
    stop: int
    entry: Entry

    def __repr__(self) -> str:
        # The class name of earlier versions: lookup models store a checksum of it.
        return f"AskedWord(first={self.first!r}, stop={self.stop!r}, entry={self.entry!r})"


def read_senses(path: Path, *, encoding: str | None = None) -> list[Example]:
    """Read sentences, what is asked in each of them, and the keys of the senses that are right.

    Args:
        path: `semcor3.0`, or a folder NAME with NAME.data.xml and NAME.gold.key.txt.
        encoding: none but UTF-8, which these sets have.
    """
    if encoding is not None and encoding.lower().replace("-", "") != "utf8":
        raise ConfigError(f"encoding is {encoding!r}; {path} can be read as UTF-8 only")
    if (path / f"{path.name}.data.xml").is_file():
        return _examples(*read_targets(path))
    if not path.is_dir():
        raise FormatError(
            f"{path} is no folder; expected semcor3.0, or NAME with NAME.data.xml in it"
        )
    text = read_semcor(path)
    # A place with several right senses has them of one entry.
    return _examples(text, [entry_of(item.senses[0]) for item in text.occurrences])


def _examples(text: TaggedWords, entries: list[Entry]) -> list[Example]:
    asked: list[list[SenseTarget]] = [[] for _ in text.sentences]
    right: list[list[tuple[str, ...]]] = [[] for _ in text.sentences]
    for item, entry in zip(text.occurrences, entries, strict=True):
        asked[item.sentence].append(SenseTarget(item.first, item.stop, entry))
        right[item.sentence].append(item.senses)
    return [
        Example((tuple(words),), tuple(senses), extra=tuple(places))
        for words, places, senses in zip(text.sentences, asked, right, strict=True)
        if places
    ]
