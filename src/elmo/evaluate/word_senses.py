"""Word senses by the nearest neighbour (Peters et al., 2018, 5.3).

The vector of a sense is the mean over its occurrences in SemCor 3.0. A word to be told apart takes
the sense of its lemma and part of speech whose vector is nearest by cosine, or WordNet's first
sense where SemCor has none. Every word is answered, so accuracy is the F1 of the literature.

The files are those of SemCor 3.0 (`semcor3.0/*/tagfiles/*`), WordNet 3.0 (`index.sense`) and the
evaluation framework of Raganato et al. (2017) (`Evaluation_Datasets/ALL`).
"""

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from elmo.errors import FormatError
from elmo.evaluate.probe_vectors import Encode, Vectors, encode_in_parts, numbered_lines, unit

# Lemma and part of speech.
Entry = tuple[str, str]

# The digit after % in a sense key; 5 are adjectives that stand around another one.
PART_OF_SPEECH = {"1": "NOUN", "2": "VERB", "3": "ADJ", "4": "ADV", "5": "ADJ"}
TOKEN = re.compile(r"<(wf|punc)((?: [^>]*)?)>(.*)</\1>")
OTHER = re.compile(r"</?(?:s|p|context|contextfile)(?: [^>]*)?>")
LAST = "</contextfile>"
SENSE_KEY = re.compile(r"[^%\s]+%[1-5]:\d\d:\d\d:[^:\s]*:(?:\d\d)?")
# Where an adjective may stand is marked in SemCor's keys, not in WordNet's.
MARK = re.compile(r"\((?:a|p|ip)\)")
# Cosines in float32 that differ by less are equal.
ROUNDING = 1e-6


@dataclass(frozen=True)
class SenseOccurrence:
    """A place in a text which is tagged with senses.

    Attributes:
        sentence: its number.
        first: number of the first word.
        stop: number after the last word: `take place` is one occurrence.
        senses: sense keys of WordNet, any of which is right.
    """

    sentence: int
    first: int
    stop: int
    senses: tuple[str, ...]


@dataclass(frozen=True)
class TaggedWords:
    """Sentences, and the words in them that are tagged."""

    sentences: Sequence[Sequence[str]]
    occurrences: Sequence[SenseOccurrence]


@dataclass(frozen=True)
class SenseData:
    """What the probe reads.

    Attributes:
        wordnet: sense keys of each lemma and part of speech in WordNet's order.
        semcor: to take the vectors of senses from.
        targets: to be answered.
        entries: lemma and part of speech of each target.
    """

    wordnet: Mapping[Entry, Sequence[str]]
    semcor: TaggedWords
    targets: TaggedWords
    entries: Sequence[Entry]

    @classmethod
    def read(cls, folder: Path, limit: int | None = None) -> "SenseData":
        """Read the three sets under a folder.

        Args:
            folder: holds wordnet-3.0, semcor3.0 and Evaluation_Datasets.
            limit: sentences of SemCor, at most; None for all.
        """
        wordnet = read_wordnet(folder / "wordnet-3.0" / "index.sense")
        targets, entries = read_targets(folder / "Evaluation_Datasets" / "ALL")
        return cls(wordnet, read_semcor(folder / "semcor3.0", limit), targets, entries)


@dataclass(frozen=True)
class SenseAccuracy:
    """How many targets get a right sense, of 1.

    Attributes:
        layers: by the vectors of each layer.
        first_sense: by WordNet's first sense alone.
        n_targets: words to be answered.
        n_unseen: those whose lemma SemCor does not have, answered by the first sense everywhere.
        n_senses: with a vector, of the lemmas of the targets.
        n_occurrences: these are means of.
    """

    layers: tuple[float, ...]
    first_sense: float
    n_targets: int
    n_unseen: int
    n_senses: int
    n_occurrences: int


def entry_of(sense: str) -> Entry:
    """Give lemma and part of speech of a sense key such as `art%1:09:00::`."""
    lemma, _, rest = sense.partition("%")
    return lemma, PART_OF_SPEECH[rest[0]]


# ----------------------------------------------------------------------------- reading


def read_wordnet(path: Path) -> dict[Entry, list[str]]:
    """Read index.sense: the sense keys of each lemma and part of speech, the first sense first."""
    found: dict[Entry, list[tuple[int, str]]] = {}
    for number, line in numbered_lines(path):
        parts = line.split()
        if len(parts) != 4 or not re.match(r"[^%]+%[1-5]:", parts[0]) or not parts[2].isdigit():
            raise FormatError(
                f"{path}, line {number} is {line!r}; expected a sense key, an offset, the number "
                "of the sense and a count"
            )
        found.setdefault(entry_of(parts[0]), []).append((int(parts[2]), parts[0]))
    return {entry: [key for _, key in sorted(senses)] for entry, senses in found.items()}


def read_semcor(folder: Path, limit: int | None = None) -> TaggedWords:
    """Read SemCor's files in the order of their names, words that are joined by `_` apart.

    Tags of senses that WordNet 3.0 has no more (number 0), and names that are tagged as a person, a
    group or a place, which are no occurrences of these words, are left out.

    Args:
        folder: with tagfiles in folders below it.
        limit: sentences, at most; None for all.
    """
    paths = sorted(folder.glob("*/tagfiles/*"))
    if not paths:
        raise FormatError(f"{folder} holds no file */tagfiles/*; expected SemCor 3.0")
    sentences: list[list[str]] = []
    occurrences: list[SenseOccurrence] = []
    for path in paths:
        in_sentence, number, last = False, 0, ""
        for number, line in numbered_lines(path):
            last = line or last
            token = TOKEN.fullmatch(line)
            if token is not None and in_sentence:
                words, first = sentences[-1], len(sentences[-1])
                words += [word for word in token[3].split("_") if word] or [token[3]]
                if " lexsn=" in token[2]:
                    senses = _senses(path, number, token[2])
                    if senses:
                        occurrences.append(
                            SenseOccurrence(len(sentences) - 1, first, len(words), senses)
                        )
            elif line.startswith("<s ") and not in_sentence:
                if len(sentences) == limit:
                    return TaggedWords(sentences, occurrences)
                sentences.append([])
                in_sentence = True
            elif line == "</s>" and in_sentence:
                in_sentence = False
            elif line and (in_sentence or line == "</s>" or not OTHER.fullmatch(line)):
                raise FormatError(
                    f"{path}, line {number} is {line!r}; expected SemCor's SGML, words in "
                    "sentences between <s> and </s>"
                )
        if last != LAST:
            raise FormatError(
                f"{path} ends in line {number} with {last[:100]!r}; expected {LAST}: it is cut "
                "short, fetch it again"
            )
    return TaggedWords(sentences, occurrences)


def _senses(path: Path, number: int, attributes: str) -> tuple[str, ...]:
    """Give the sense keys of the attributes of a word that has them."""
    if " pn=" in attributes:
        return ()
    values = dict(part.partition("=")[::2] for part in attributes.split())
    numbers, rests = values.get("wnsn", "").split(";"), values["lexsn"].split(";")
    lemma = values.get("lemma", "")
    if (
        not lemma
        or len(numbers) != len(rests)
        or any(rest[:1] not in PART_OF_SPEECH for rest in rests)
    ):
        raise FormatError(
            f"{path}, line {number}: {attributes.strip()!r} does not name a lemma and as many "
            "wnsn as lexsn"
        )
    return tuple(
        f"{lemma.lower()}%{MARK.sub('', rest)}"
        for sense_number, rest in zip(numbers, rests, strict=True)
        if sense_number != "0"
    )


def read_targets(folder: Path) -> tuple[TaggedWords, list[Entry]]:
    """Read NAME.data.xml and NAME.gold.key.txt of a folder NAME: targets and their entries."""
    keys_path = folder / f"{folder.name}.gold.key.txt"
    data_path = folder / f"{folder.name}.data.xml"
    gold: dict[str, tuple[str, ...]] = {}
    for number, line in numbered_lines(keys_path):
        identifier, *senses = line.split() or [""]
        if not senses:
            raise FormatError(f"{keys_path}, line {number} names no sense key")
        if wrong := [sense for sense in senses if not SENSE_KEY.fullmatch(sense)]:
            raise FormatError(
                f"{keys_path}, line {number} has {wrong[0]!r}; expected a sense key such as "
                "art%1:09:00::"
            )
        gold[identifier] = tuple(senses)
    try:
        root = ElementTree.parse(data_path).getroot()
    except OSError as error:
        raise FormatError(f"cannot read {data_path}: {error.strerror}") from None
    except ElementTree.ParseError as error:
        raise FormatError(f"{data_path} is not whole XML: {error}") from None
    sentences: list[list[str]] = []
    occurrences: list[SenseOccurrence] = []
    entries: list[Entry] = []
    for sentence in root.iter("sentence"):
        words: list[str] = []
        for element in sentence:
            first = len(words)
            words += (element.text or "").split()
            if element.tag == "instance":
                identifier = element.get("id", "")
                if identifier not in gold or len(words) == first:
                    raise FormatError(
                        f"{data_path}: instance {identifier!r} has no words, or no key in "
                        f"{keys_path}"
                    )
                occurrences.append(
                    SenseOccurrence(len(sentences), first, len(words), gold[identifier])
                )
                entries.append(_entry(data_path, identifier, element))
        sentences.append(words)
    if len(occurrences) != len(gold):
        raise FormatError(
            f"{data_path} has {len(occurrences)} instances, {keys_path} keys of {len(gold)}"
        )
    return TaggedWords(sentences, occurrences), entries


def _entry(path: Path, identifier: str, element: ElementTree.Element) -> Entry:
    """Give lemma and part of speech of an instance."""
    lemma, part = element.get("lemma", "").lower(), element.get("pos", "")
    if not lemma or part not in PART_OF_SPEECH.values():
        raise FormatError(
            f"{path}: instance {identifier!r} has the lemma {lemma!r} and the part of speech "
            f"{part!r}; expected a word, and {', '.join(dict.fromkeys(PART_OF_SPEECH.values()))}"
        )
    return lemma, part


# ----------------------------------------------------------------------------- measuring


@dataclass(frozen=True)
class SenseIndex:
    """What is kept of a text that is tagged with senses.

    Attributes:
        wordnet: sense keys of each lemma and part of speech in WordNet's order.
        rows: number of each sense that the text has; those of an entry follow each other, in
            WordNet's order, which decides between equals.
        centres: directions of the means over their occurrences, (layers, senses, dim).
    """

    wordnet: Mapping[Entry, Sequence[str]]
    rows: Mapping[str, int]
    centres: Vectors

    @classmethod
    def of(
        cls,
        encode: Encode,
        text: TaggedWords,
        wordnet: Mapping[Entry, Sequence[str]],
        asked: Collection[Entry] | None = None,
    ) -> "SenseIndex":
        """Read a text, which passes by in parts: held are the sums of its senses.

        Args:
            encode: gives (layers, words, dim) for each sentence.
            text: tagged with senses.
            wordnet: of `read_wordnet`.
            asked: entries that will be asked for; all where None.
        """
        seen = {sense for occurrence in text.occurrences for sense in occurrence.senses}
        entries = sorted({entry_of(sense) for sense in seen} if asked is None else set(asked))
        known = [key for entry in entries for key in wordnet.get(entry, ()) if key in seen]
        rows = {sense: row for row, sense in enumerate(known)}
        used = [item for item in text.occurrences if any(key in rows for key in item.senses)]
        sums = torch.zeros(0)
        for numbers, part in occurrence_vectors(encode, TaggedWords(text.sentences, used)):
            if not len(sums):
                sums = torch.zeros(part.shape[0], len(rows), part.shape[2])
            _add(sums, rows, used[numbers.start : numbers.stop], part)
        # The length of a mean does not matter to a cosine, so a sum will do.
        return cls(wordnet, rows, unit(sums.numpy()) if len(sums) else np.zeros((0, 0, 0), "f4"))

    def candidates(self, entry: Entry) -> list[str]:
        """Give the senses of an entry that have a vector."""
        return [sense for sense in self.wordnet.get(entry, ()) if sense in self.rows]

    def first_sense(self, entry: Entry) -> str | None:
        """Give WordNet's first sense of an entry; None where it has none."""
        return next(iter(self.wordnet.get(entry, ())), None)

    def nearest(self, senses: Sequence[str], vectors: Vectors) -> list[str]:
        """Give the nearest of some senses by each layer, for vectors of length 1, (layers, dim)."""
        centres = self.centres[:, [self.rows[sense] for sense in senses]]
        cosines = (centres @ vectors[:, :, None])[:, :, 0]
        # Where a word is the same in all senses, rounding alone would choose.
        is_nearest = cosines >= cosines.max(axis=1, keepdims=True) - ROUNDING
        return [senses[place] for place in is_nearest.argmax(axis=1)]


def first_sense_accuracy(data: SenseData) -> float:
    """Give the share of targets that WordNet's first sense answers."""
    right = [
        next(iter(data.wordnet.get(entry, ())), None) in target.senses
        for target, entry in zip(data.targets.occurrences, data.entries, strict=True)
    ]
    return sum(right) / len(right)


def sense_accuracy(encode: Encode, data: SenseData) -> SenseAccuracy:
    """Answer every target from the vectors of each layer.

    Args:
        encode: gives (layers, words, dim) for each sentence.
        data: of `SenseData.read`.
    """
    memory = SenseIndex.of(encode, data.semcor, data.wordnet, set(data.entries))
    parts = [part for _, part in occurrence_vectors(encode, data.targets)]
    vectors = unit(np.concatenate(parts, axis=1))
    right = np.zeros(len(vectors), dtype=np.int64)
    n_unseen = 0
    for number, (target, entry) in enumerate(
        zip(data.targets.occurrences, data.entries, strict=True)
    ):
        senses = memory.candidates(entry)
        if not senses:
            n_unseen += 1
            right += memory.first_sense(entry) in target.senses
            continue
        found = memory.nearest(senses, vectors[:, number])
        right += np.array([sense in target.senses for sense in found])
    n_targets = len(data.entries)
    n_occurrences = sum(
        any(key in memory.rows for key in item.senses) for item in data.semcor.occurrences
    )
    return SenseAccuracy(
        layers=tuple((right / n_targets).tolist()),
        first_sense=first_sense_accuracy(data),
        n_targets=n_targets,
        n_unseen=n_unseen,
        n_senses=len(memory.rows),
        n_occurrences=n_occurrences,
    )


def _add(
    sums: Tensor, rows: Mapping[str, int], occurrences: Sequence[SenseOccurrence], vectors: Vectors
) -> None:
    """Add the vectors of occurrences, (layers, occurrences, dim), to the sums of their senses."""
    pairs = [
        (number, rows[sense])
        for number, occurrence in enumerate(occurrences)
        for sense in occurrence.senses
        if sense in rows
    ]
    numbers, own_rows = torch.tensor(pairs).T
    # On the host, where the order of a sum is always the same.
    sums.index_add_(1, own_rows, torch.from_numpy(vectors)[:, numbers])


def occurrence_vectors(encode: Encode, text: TaggedWords) -> Iterator[tuple[range, Vectors]]:
    """Give the numbers of occurrences and their vectors, (layers, occurrences, dim), in parts.

    Of several words it is the mean. Sentences without an occurrence are not encoded.
    """
    by_sentence: dict[int, list[SenseOccurrence]] = {}
    for occurrence in text.occurrences:
        by_sentence.setdefault(occurrence.sentence, []).append(occurrence)
    sentences = [text.sentences[number] for number in by_sentence]
    groups = list(by_sentence.values())
    done = 0
    for numbers, vectors in encode_in_parts(encode, sentences):
        spans = []
        start = 0
        for number in numbers:
            spans += [(start + item.first, start + item.stop) for item in groups[number]]
            start += len(sentences[number])
        found = vectors[:, [first for first, _ in spans]]
        for place, (first, stop) in enumerate(spans):
            if stop - first > 1:
                found[:, place] = vectors[:, first:stop].mean(axis=1)
        yield range(done, done + len(spans)), found
        done += len(spans)
