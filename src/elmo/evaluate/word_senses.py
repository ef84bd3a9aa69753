"""Nearest-neighbor word sense disambiguation (Peters et al., 2018, 5.3).

The vector of a sense is the mean vector of its occurrences in SemCor 3.0. Among the senses of its
lemma and part of speech, each word is assigned the one whose vector has the highest cosine
similarity, or WordNet's first sense if none of its senses occurs in SemCor. Since every word is
assigned a sense, the accuracy equals the F1 score reported in the literature.

The data consist of SemCor 3.0 (`semcor3.0/*/tagfiles/*`), WordNet 3.0 (`index.sense`) and the
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

from elmo.errors import FormatError, shortened
from elmo.evaluate.probe_vectors import Encode, Vectors, encode_in_parts, numbered_lines, unit

# Lemma and part of speech.
Entry = tuple[str, str]

# Part of speech for each digit after % in a sense key. 5 is a satellite adjective.
PART_OF_SPEECH = {"1": "NOUN", "2": "VERB", "3": "ADJ", "4": "ADV", "5": "ADJ"}
TOKEN = re.compile(r"<(wf|punc)((?: [^>]*)?)>(.*)</\1>")
STRUCTURE_TAG = re.compile(r"</?(?:s|p|context|contextfile)(?: [^>]*)?>")
LAST_LINE = "</contextfile>"
SENSE_KEY = re.compile(r"[^%\s]+%[1-5]:\d\d:\d\d:[^:\s]*:(?:\d\d)?")
# Syntactic marker of adjectives, which occurs in SemCor's sense keys but not in WordNet's.
ADJECTIVE_MARKER = re.compile(r"\((?:a|p|ip)\)")
# Float32 cosines that differ by less than this are treated as equal.
COSINE_TOLERANCE = 1e-6


@dataclass(frozen=True)
class SenseOccurrence:
    """Word or phrase that is tagged with one or more senses.

    Attributes:
        sentence: Index of the sentence.
        first: Index of the first word in the sentence.
        stop: Index after the last word. A phrase such as `take place` is one occurrence.
        senses: WordNet sense keys, all of which count as correct.
    """

    sentence: int
    first: int
    stop: int
    senses: tuple[str, ...]


@dataclass(frozen=True)
class TaggedWords:
    """Sentences and their sense-tagged occurrences."""

    sentences: Sequence[Sequence[str]]
    occurrences: Sequence[SenseOccurrence]


@dataclass(frozen=True)
class SenseData:
    """Data for the word sense probe.

    Attributes:
        wordnet: Sense keys for each lemma and part of speech, in WordNet order.
        semcor: Sense-tagged training text, from which the sense vectors are computed.
        targets: Test text with the occurrences to disambiguate.
        entries: Lemma and part of speech of each target.
    """

    wordnet: Mapping[Entry, Sequence[str]]
    semcor: TaggedWords
    targets: TaggedWords
    entries: Sequence[Entry]

    @classmethod
    def read(cls, folder: Path, limit: int | None = None) -> "SenseData":
        """Read WordNet, SemCor and the test set.

        Args:
            folder: Folder with wordnet-3.0, semcor3.0 and Evaluation_Datasets.
            limit: Maximum number of SemCor sentences to read. Default: all.
        """
        wordnet = read_wordnet(folder / "wordnet-3.0" / "index.sense")
        targets, entries = read_targets(folder / "Evaluation_Datasets" / "ALL")
        return cls(wordnet, read_semcor(folder / "semcor3.0", limit), targets, entries)


@dataclass(frozen=True)
class SenseAccuracy:
    """Accuracy of word sense disambiguation, from 0 to 1.

    Attributes:
        layers: Accuracy for each layer.
        first_sense: Accuracy of the baseline that always predicts WordNet's first sense.
        n_targets: Number of targets.
        n_unseen: Number of targets whose lemma does not occur in SemCor, for which WordNet's first
            sense is predicted.
        n_senses: Number of sense vectors for the lemmas of the targets.
        n_occurrences: Number of SemCor occurrences from which these vectors are computed.
    """

    layers: tuple[float, ...]
    first_sense: float
    n_targets: int
    n_unseen: int
    n_senses: int
    n_occurrences: int


def entry_of(sense: str) -> Entry:
    """Return the lemma and part of speech of a sense key such as `art%1:09:00::`."""
    lemma, _, lexical_sense = sense.partition("%")
    return lemma, PART_OF_SPEECH[lexical_sense[0]]


# ----------------------------------------------------------------------------- reading


def read_wordnet(path: Path) -> dict[Entry, list[str]]:
    """Read the sense keys for each lemma and part of speech from index.sense, in WordNet order."""
    numbered_senses: dict[Entry, list[tuple[int, str]]] = {}
    for number, line in numbered_lines(path):
        fields = line.split()
        if len(fields) != 4 or not re.match(r"[^%]+%[1-5]:", fields[0]) or not fields[2].isdigit():
            raise FormatError(
                f"{path}, line {number}: expected a sense key, an offset, a sense number and a "
                f"count (got {line!r})."
            )
        numbered_senses.setdefault(entry_of(fields[0]), []).append((int(fields[2]), fields[0]))
    return {entry: [key for _, key in sorted(senses)] for entry, senses in numbered_senses.items()}


def read_semcor(folder: Path, limit: int | None = None) -> TaggedWords:
    """Read the SemCor files in alphabetical order, splitting words that are joined by `_`.

    Two types of sense tags are ignored: those that WordNet 3.0 no longer contains (sense number 0),
    and those of proper names, whose sense is only "person", "group" or "location".

    Args:
        folder: SemCor 3.0 folder, with files */tagfiles/*.
        limit: Maximum number of sentences to read. Default: all.

    Raises:
        FormatError: A file is missing, damaged or truncated.
    """
    paths = sorted(folder.glob("*/tagfiles/*"))
    if not paths:
        raise FormatError(f"{folder} has no files */tagfiles/*. Expected the SemCor 3.0 folder.")
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
            elif line and (in_sentence or line == "</s>" or not STRUCTURE_TAG.fullmatch(line)):
                raise FormatError(
                    f"{path}, line {number}: expected SemCor's SGML with words between <s> and "
                    f"</s> (got {line!r})."
                )
        if last != LAST_LINE:
            raise FormatError(
                f"{path} is truncated: it ends in line {number} with {shortened(last, 100)!r} "
                f"instead of {LAST_LINE}. Download it again."
            )
    return TaggedWords(sentences, occurrences)


def _senses(path: Path, number: int, attributes: str) -> tuple[str, ...]:
    """Return the sense keys from the SGML attributes of a sense-tagged word."""
    if " pn=" in attributes:
        return ()
    values = dict(item.partition("=")[::2] for item in attributes.split())
    sense_numbers, lexical_senses = values.get("wnsn", "").split(";"), values["lexsn"].split(";")
    lemma = values.get("lemma", "")
    if (
        not lemma
        or len(sense_numbers) != len(lexical_senses)
        or any(sense[:1] not in PART_OF_SPEECH for sense in lexical_senses)
    ):
        raise FormatError(
            f"{path}, line {number}: expected a lemma and the same number of wnsn and lexsn values "
            f"(got {attributes.strip()!r})."
        )
    return tuple(
        f"{lemma.lower()}%{ADJECTIVE_MARKER.sub('', sense)}"
        for sense_number, sense in zip(sense_numbers, lexical_senses, strict=True)
        if sense_number != "0"
    )


def read_targets(folder: Path) -> tuple[TaggedWords, list[Entry]]:
    """Read a test set: its sentences and targets, and the lemma and part of speech of each target.

    Args:
        folder: Folder that contains NAME.data.xml and NAME.gold.key.txt, where NAME is its name.

    Raises:
        FormatError: A file is missing or damaged, or the files do not match.
    """
    keys_path = folder / f"{folder.name}.gold.key.txt"
    data_path = folder / f"{folder.name}.data.xml"
    gold: dict[str, tuple[str, ...]] = {}
    for number, line in numbered_lines(keys_path):
        identifier, *senses = line.split() or [""]
        if not senses:
            raise FormatError(f"{keys_path}, line {number} has no sense key.")
        if invalid := [sense for sense in senses if not SENSE_KEY.fullmatch(sense)]:
            raise FormatError(
                f"{keys_path}, line {number}: expected a sense key such as art%1:09:00:: (got "
                f"{invalid[0]!r})."
            )
        gold[identifier] = tuple(senses)
    try:
        root = ElementTree.parse(data_path).getroot()
    except OSError as error:
        raise FormatError(f"Cannot read {data_path}: {error.strerror}.") from None
    except ElementTree.ParseError as error:
        raise FormatError(f"{data_path} is not valid XML: {error}.") from None
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
                        f"{data_path}: instance {identifier!r} has no words, or no sense key in "
                        f"{keys_path}."
                    )
                occurrences.append(
                    SenseOccurrence(len(sentences), first, len(words), gold[identifier])
                )
                entries.append(_entry(data_path, identifier, element))
        sentences.append(words)
    if len(occurrences) != len(gold):
        raise FormatError(
            f"{data_path} has {len(occurrences)} instances, but {keys_path} has sense keys for "
            f"{len(gold)}."
        )
    return TaggedWords(sentences, occurrences), entries


def _entry(path: Path, identifier: str, element: ElementTree.Element) -> Entry:
    """Return the lemma and part of speech of an XML instance element."""
    lemma, part_of_speech = element.get("lemma", "").lower(), element.get("pos", "")
    if not lemma or part_of_speech not in PART_OF_SPEECH.values():
        raise FormatError(
            f"{path}: instance {identifier!r} has lemma {lemma!r} and part of speech "
            f"{part_of_speech!r}. Expected a nonempty lemma and one of these parts of speech: "
            f"{', '.join(dict.fromkeys(PART_OF_SPEECH.values()))}."
        )
    return lemma, part_of_speech


# ----------------------------------------------------------------------------- measuring


@dataclass(frozen=True)
class SenseIndex:
    """Index of sense vectors, each the mean vector of the occurrences of a sense.

    Attributes:
        wordnet: Sense keys for each lemma and part of speech, in WordNet order.
        rows: Row of each sense in `centroids`. The senses of each lemma and part of speech are
            consecutive and in WordNet order, which breaks ties.
        centroids: Mean vector of each sense, scaled to length 1, (layers, senses, dim).
    """

    wordnet: Mapping[Entry, Sequence[str]]
    rows: Mapping[str, int]
    centroids: Vectors

    @classmethod
    def of(
        cls,
        encode: Encode,
        text: TaggedWords,
        wordnet: Mapping[Entry, Sequence[str]],
        entries: Collection[Entry] | None = None,
    ) -> "SenseIndex":
        """Compute sense vectors from a sense-tagged text.

        Only one running sum per sense is held in memory.

        Args:
            encode: Function that returns an array (layers, words, dim) for each sentence.
            text: Sense-tagged text.
            wordnet: Sense keys returned by `read_wordnet`.
            entries: Lemmas and parts of speech to index. Default: all that occur in the text.
        """
        senses = {sense for occurrence in text.occurrences for sense in occurrence.senses}
        if entries is None:
            entries = {entry_of(sense) for sense in senses}
        indexed = [
            key for entry in sorted(set(entries)) for key in wordnet.get(entry, ()) if key in senses
        ]
        rows = {sense: row for row, sense in enumerate(indexed)}
        used = [item for item in text.occurrences if any(key in rows for key in item.senses)]
        sums = torch.zeros(0)
        for numbers, vectors in occurrence_vectors(encode, TaggedWords(text.sentences, used)):
            if not len(sums):
                sums = torch.zeros(vectors.shape[0], len(rows), vectors.shape[2])
            _add_vectors(sums, rows, used[numbers.start : numbers.stop], vectors)
        # The sum has the same direction as the mean.
        return cls(wordnet, rows, unit(sums.numpy()) if len(sums) else np.zeros((0, 0, 0), "f4"))

    def candidates(self, entry: Entry) -> list[str]:
        """Return the senses of a lemma and part of speech that have a vector."""
        return [sense for sense in self.wordnet.get(entry, ()) if sense in self.rows]

    def first_sense(self, entry: Entry) -> str | None:
        """Return WordNet's first sense of a lemma and part of speech, or None if there is none."""
        return next(iter(self.wordnet.get(entry, ())), None)

    def nearest(self, senses: Sequence[str], vectors: Vectors) -> list[str]:
        """Return the candidate sense that is nearest to the query vector in each layer.

        Args:
            senses: Candidate senses.
            vectors: Query vector for each layer, scaled to length 1, (layers, dim).
        """
        centroids = self.centroids[:, [self.rows[sense] for sense in senses]]
        cosines = (centroids @ vectors[:, :, None])[:, :, 0]
        # With the tolerance, rounding errors do not break ties between senses with the same vector.
        is_nearest = cosines >= cosines.max(axis=1, keepdims=True) - COSINE_TOLERANCE
        return [senses[position] for position in is_nearest.argmax(axis=1)]


def first_sense_accuracy(data: SenseData) -> float:
    """Return the accuracy of always predicting WordNet's first sense."""
    is_correct = [
        next(iter(data.wordnet.get(entry, ())), None) in target.senses
        for target, entry in zip(data.targets.occurrences, data.entries, strict=True)
    ]
    return sum(is_correct) / len(is_correct)


def sense_accuracy(encode: Encode, data: SenseData) -> SenseAccuracy:
    """Disambiguate all targets with the vectors of each layer and return the accuracies.

    Args:
        encode: Function that returns an array (layers, words, dim) for each sentence.
        data: Result of `SenseData.read`.
    """
    index = SenseIndex.of(encode, data.semcor, data.wordnet, set(data.entries))
    parts = [part for _, part in occurrence_vectors(encode, data.targets)]
    vectors = unit(np.concatenate(parts, axis=1))
    n_correct = np.zeros(len(vectors), dtype=np.int64)
    n_unseen = 0
    for number, (target, entry) in enumerate(
        zip(data.targets.occurrences, data.entries, strict=True)
    ):
        senses = index.candidates(entry)
        if not senses:
            n_unseen += 1
            n_correct += index.first_sense(entry) in target.senses
            continue
        predicted = index.nearest(senses, vectors[:, number])
        n_correct += np.array([sense in target.senses for sense in predicted])
    n_targets = len(data.entries)
    n_occurrences = sum(
        any(key in index.rows for key in item.senses) for item in data.semcor.occurrences
    )
    return SenseAccuracy(
        layers=tuple((n_correct / n_targets).tolist()),
        first_sense=first_sense_accuracy(data),
        n_targets=n_targets,
        n_unseen=n_unseen,
        n_senses=len(index.rows),
        n_occurrences=n_occurrences,
    )


def _add_vectors(
    sums: Tensor, rows: Mapping[str, int], occurrences: Sequence[SenseOccurrence], vectors: Vectors
) -> None:
    """Add occurrence vectors, (layers, occurrences, dim), to the sums of their senses."""
    pairs = [
        (number, rows[sense])
        for number, occurrence in enumerate(occurrences)
        for sense in occurrence.senses
        if sense in rows
    ]
    numbers, sense_rows = torch.tensor(pairs).T
    # Use the CPU, where the order of summation is deterministic.
    sums.index_add_(1, sense_rows, torch.from_numpy(vectors)[:, numbers])


def occurrence_vectors(encode: Encode, text: TaggedWords) -> Iterator[tuple[range, Vectors]]:
    """Yield the vectors of all occurrences, chunk by chunk.

    The vector of a phrase is the mean of its word vectors. Sentences without occurrences are not
    encoded.

    Args:
        encode: Function that returns an array (layers, words, dim) for each sentence.
        text: Sentences and occurrences.

    Yields:
        Indices of the occurrences in a chunk, and their vectors, (layers, occurrences, dim).
    """
    by_sentence: dict[int, list[SenseOccurrence]] = {}
    for occurrence in text.occurrences:
        by_sentence.setdefault(occurrence.sentence, []).append(occurrence)
    sentences = [text.sentences[number] for number in by_sentence]
    groups = list(by_sentence.values())
    n_done = 0
    for numbers, vectors in encode_in_parts(encode, sentences):
        spans = []
        start = 0
        for number in numbers:
            spans += [(start + item.first, start + item.stop) for item in groups[number]]
            start += len(sentences[number])
        span_vectors = vectors[:, [first for first, _ in spans]]
        for position, (first, stop) in enumerate(spans):
            if stop - first > 1:
                span_vectors[:, position] = vectors[:, first:stop].mean(axis=1)
        yield range(n_done, n_done + len(spans)), span_vectors
        n_done += len(spans)
