"""Files with WordNet senses: WordNet 3.0, SemCor 3.0 and the data of Raganato et al. (2017).

WordNet is `index.sense`, SemCor `semcor3.0/*/tagfiles/*`, and a test set a folder such as
`Evaluation_Datasets/ALL`.
"""

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from elmo.errors import FormatError, shortened
from elmo.tasks.files.text_lines import numbered_lines

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


@dataclass(frozen=True)
class SenseOccurrence:
    """Words from `first` to before `stop`, tagged with one or more correct senses."""

    sentence: int
    first: int
    stop: int
    senses: tuple[str, ...]


@dataclass(frozen=True)
class TaggedWords:
    """Sentences and their sense-tagged occurrences."""

    sentences: Sequence[Sequence[str]]
    occurrences: Sequence[SenseOccurrence]


def entry_of(sense: str) -> Entry:
    """Return the lemma and part of speech of a sense key such as `art%1:09:00::`."""
    lemma, _, lexical_sense = sense.partition("%")
    return lemma, PART_OF_SPEECH[lexical_sense[0]]


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
    and those of proper names, whose sense is only "person", "group" or "location". The SemCor 3.0
    folder has files */tagfiles/*; by default all sentences are read.
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

    The folder NAME contains NAME.data.xml and NAME.gold.key.txt.
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
