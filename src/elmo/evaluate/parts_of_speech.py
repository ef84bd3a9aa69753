"""Parts of speech by a linear probe of each layer and of a learned mix (Peters et al., 2018, 5.3).

The probe is one linear map and a softmax over the vectors of single words, so that whatever it
finds stands in the vectors. The text is UD English EWT; its tags of the Penn Treebank (XPOS) are
those of the paper, the universal ones (UPOS) are coarser.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from elmo.errors import ConfigError, FormatError
from elmo.evaluate.linear_probe import fit, standardise
from elmo.evaluate.probe_vectors import Encode, encode_in_parts, numbered_lines

Tags = Literal["xpos", "upos"]

N_COLUMNS = 10
RANGE_OR_EMPTY = re.compile(r"\d+-\d+|\d+\.\d+")


@dataclass(frozen=True)
class TaggedSentence:
    """A sentence with two tags for each word.

    Attributes:
        words: syntactic words: `don't` is two of them.
        upos: universal tags.
        xpos: tags of the language, those of the Penn Treebank in English.
    """

    words: tuple[str, ...]
    upos: tuple[str, ...]
    xpos: tuple[str, ...]


@dataclass(frozen=True)
class TaggedText:
    """Sentences to train a probe on, and others to measure it."""

    train: Sequence[TaggedSentence]
    test: Sequence[TaggedSentence]

    @classmethod
    def read(cls, folder: Path, limit: int | None = None) -> "TaggedText":
        """Read train.conllu and test.conllu of a folder.

        Args:
            folder: with both files.
            limit: sentences of each, at most; None for all.
        """
        train, test = (read_conllu(folder / f"{part}.conllu")[:limit] for part in ("train", "test"))
        return cls(train, test)


@dataclass(frozen=True)
class TagAccuracy:
    """How many words of the test part get their tag, of 1.

    Attributes:
        tags: xpos or upos.
        layers: from each layer.
        mix: from the learned mix of all layers.
        mix_shares: what the mix makes of each layer, summing to 1.
        most_frequent: from no vectors: the tag each word has most often in training, and for
            new words the most frequent one.
        n_tags: distinct ones in training.
        n_train: words.
        n_test: words.
    """

    tags: Tags
    layers: tuple[float, ...]
    mix: float
    mix_shares: tuple[float, ...]
    most_frequent: float
    n_tags: int
    n_train: int
    n_test: int


# ----------------------------------------------------------------------------- reading


def read_conllu(path: Path) -> list[TaggedSentence]:
    """Read words and tags of a CoNLL-U file, without its surface ranges and empty nodes."""
    sentences: list[TaggedSentence] = []
    rows: list[tuple[str, str, str]] = []
    for number, line in numbered_lines(path):
        if line.startswith("#"):
            continue
        if line.strip():
            row = _row(path, number, line, len(rows) + 1)
            if row is not None:
                rows.append(row)
        elif rows:
            sentences.append(_sentence(rows))
            rows = []
    if rows:
        sentences.append(_sentence(rows))
    if not sentences:
        raise FormatError(f"{path} holds no sentence; expected CoNLL-U")
    return sentences


def _row(path: Path, number: int, line: str, expected: int) -> tuple[str, str, str] | None:
    """Give word and tags of a line, None where it is no word of its own."""
    columns = line.split("\t")
    if len(columns) != N_COLUMNS or not all(columns):
        raise FormatError(
            f"{path}, line {number} is {line!r}; CoNLL-U has {N_COLUMNS} columns between tabs, "
            "none of them empty"
        )
    if RANGE_OR_EMPTY.fullmatch(columns[0]):
        return None
    if columns[0] != str(expected):
        raise FormatError(
            f"{path}, line {number} begins with {columns[0]!r}; expected word {expected} of its "
            "sentence, or a blank line before a new one"
        )
    return columns[1], columns[3], columns[4]


def _sentence(rows: list[tuple[str, str, str]]) -> TaggedSentence:
    words, upos, xpos = zip(*rows, strict=True)
    return TaggedSentence(words, upos, xpos)


# ----------------------------------------------------------------------------- measuring


def tag_accuracies(
    encode: Encode,
    text: TaggedText,
    *,
    tags: Sequence[Tags] = ("xpos", "upos"),
    device: str | torch.device = "cpu",
    seed: int = 0,
) -> list[TagAccuracy]:
    """Train a probe for each kind of tag and layer, and measure it on the test part.

    The vectors are computed once; at 512 dimensions those of EWT take 1.4 GB.

    Args:
        encode: gives (layers, words, dim) for each sentence.
        text: to train and to measure on.
        tags: kinds of tags.
        device: of the probes.
        seed: of the order in which words are met.
    """
    if not text.train or not text.test:
        raise ConfigError("the probe needs sentences to train on and others to measure it")
    train = _features(encode, text.train).to(device)
    test = _features(encode, text.test).to(device)
    standardise(train, test)
    return [_accuracies(train, test, text, kind, seed) for kind in tags]


def _features(encode: Encode, sentences: Sequence[TaggedSentence]) -> Tensor:
    """Give the vectors of all words, (layers, words, dim)."""
    words = [sentence.words for sentence in sentences]
    n_words, done = sum(map(len, words)), 0
    features = torch.empty(0)
    for _, vectors in encode_in_parts(encode, words):
        if not done:
            features = torch.empty(vectors.shape[0], n_words, vectors.shape[2])
        features[:, done : done + vectors.shape[1]] = torch.from_numpy(vectors)
        done += vectors.shape[1]
    return features


def _accuracies(
    train: Tensor, test: Tensor, text: TaggedText, kind: Tags, seed: int
) -> TagAccuracy:
    known = sorted({tag for sentence in text.train for tag in getattr(sentence, kind)})
    numbers = {tag: number for number, tag in enumerate(known)}
    # A tag that was never trained is missed by every probe.
    targets, answers = (
        torch.tensor([numbers.get(tag, -1) for item in part for tag in getattr(item, kind)])
        for part in (text.train, text.test)
    )
    targets, answers = targets.to(train.device), answers.to(test.device)
    layers = []
    for layer in range(len(train)):
        probe = fit(train[layer : layer + 1], targets, len(known), seed=seed)
        layers.append(probe.accuracy(test[layer : layer + 1], answers))
    mixed = fit(train, targets, len(known), seed=seed)
    return TagAccuracy(
        tags=kind,
        layers=tuple(layers),
        mix=mixed.accuracy(test, answers),
        mix_shares=tuple(mixed.mix.weights.softmax(dim=0).tolist()),
        most_frequent=_most_frequent(text, kind),
        n_tags=len(known),
        n_train=len(targets),
        n_test=len(answers),
    )


def _most_frequent(text: TaggedText, kind: Tags) -> float:
    counts: dict[str, Counter[str]] = {}
    everything: Counter[str] = Counter()
    for sentence in text.train:
        for word, tag in zip(sentence.words, getattr(sentence, kind), strict=True):
            counts.setdefault(word, Counter())[tag] += 1
            everything[tag] += 1
    best = {word: _top(found) for word, found in counts.items()}
    usual = _top(everything)
    pairs: list[tuple[str, str]] = [
        (word, tag)
        for sentence in text.test
        for word, tag in zip(sentence.words, getattr(sentence, kind), strict=True)
    ]
    return sum(best.get(word, usual) == tag for word, tag in pairs) / len(pairs)


def _top(counts: Counter[str]) -> str:
    return min(counts, key=lambda tag: (-counts[tag], tag))
