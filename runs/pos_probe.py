"""Part-of-speech probes for each layer and for a learned layer mix (Peters et al., 2018, 5.3).

The probe is a linear classifier of individual word vectors, so it can only use information that the
vectors contain. The data set is UD English EWT. Its Penn Treebank tags (XPOS) are those used in the
paper; the universal tags (UPOS) are coarser.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from linear_probe import fit, standardize
from torch import Tensor

from elmo.errors import ConfigError
from elmo.evaluate.probe_vectors import Encode, encode_in_parts
from elmo.tasks.core.example import gold
from elmo.tasks.tagging.column_files import read_conllu

Tags = Literal["xpos", "upos"]


@dataclass(frozen=True)
class TaggedSentence:
    """Sentence with two part-of-speech tags per word.

    Attributes:
        words: Syntactic words. For example, `don't` consists of two words.
        upos: Universal tags.
        xpos: Language-specific tags; Penn Treebank tags in English.
    """

    words: tuple[str, ...]
    upos: tuple[str, ...]
    xpos: tuple[str, ...]


@dataclass(frozen=True)
class TaggedText:
    """Training and test sentences for a probe."""

    train: Sequence[TaggedSentence]
    test: Sequence[TaggedSentence]

    @classmethod
    def read(cls, folder: Path, limit: int | None = None) -> "TaggedText":
        """Read train.conllu and test.conllu from a folder.

        Args:
            folder: Folder with both files.
            limit: Maximum number of sentences to read from each file. Default: all.
        """
        train, test = (read_tags(folder / f"{name}.conllu")[:limit] for name in ("train", "test"))
        return cls(train, test)


@dataclass(frozen=True)
class TagAccuracy:
    """Tagging accuracy on the test set, from 0 to 1.

    Attributes:
        tags: Name of the tag set, "xpos" or "upos".
        layers: Accuracy of the probe for each layer.
        mix: Accuracy of the probe for a learned mix of all layers.
        mix_shares: Normalized weight of each layer in the mix.
        most_frequent: Accuracy of the baseline that assigns each word its most frequent tag in the
            training set, and unknown words the most frequent tag overall.
        n_tags: Number of distinct tags in the training set.
        n_train: Number of training words.
        n_test: Number of test words.
    """

    tags: Tags
    layers: tuple[float, ...]
    mix: float
    mix_shares: tuple[float, ...]
    most_frequent: float
    n_tags: int
    n_train: int
    n_test: int


def read_tags(path: Path) -> list[TaggedSentence]:
    """Read the words and both tags of each sentence in a CoNLL-U file."""
    upos, xpos = (read_conllu(path, tags=tags) for tags in ("upos", "xpos"))
    return [
        TaggedSentence(sentence.words, gold(sentence), gold(other))
        for sentence, other in zip(upos, xpos, strict=True)
    ]


def tag_accuracies(
    encode: Encode,
    text: TaggedText,
    *,
    tags: Sequence[Tags] = ("xpos", "upos"),
    device: str | torch.device = "cpu",
    seed: int = 0,
) -> list[TagAccuracy]:
    """Train a probe for each tag set and layer, and evaluate it on the test set.

    The vectors are computed once and held in memory: 1.4 GB for EWT with 512 dimensions.

    Args:
        encode: Function that returns an array (layers, words, dim) for each sentence.
        text: Training and test sentences.
        tags: Names of the tag sets, "xpos" or "upos".
        device: Device on which to train the probes.
        seed: Random seed for the order of the training words.

    Raises:
        ConfigError: There are no training sentences or no test sentences.
    """
    if not text.train or not text.test:
        raise ConfigError("The probe needs at least one training sentence and one test sentence.")
    train = _features(encode, text.train).to(device)
    test = _features(encode, text.test).to(device)
    standardize(train, test)
    return [_accuracies(train, test, text, tag_set, seed) for tag_set in tags]


def _features(encode: Encode, sentences: Sequence[TaggedSentence]) -> Tensor:
    """Return the vectors of all words, (layers, words, dim)."""
    words = [sentence.words for sentence in sentences]
    n_words, start = sum(map(len, words)), 0
    features = torch.empty(0)
    for _, vectors in encode_in_parts(encode, words):
        if not start:
            features = torch.empty(vectors.shape[0], n_words, vectors.shape[2])
        features[:, start : start + vectors.shape[1]] = torch.from_numpy(vectors)
        start += vectors.shape[1]
    return features


def _accuracies(
    train: Tensor, test: Tensor, text: TaggedText, tag_set: Tags, seed: int
) -> TagAccuracy:
    tags = sorted({tag for sentence in text.train for tag in getattr(sentence, tag_set)})
    tag_ids = {tag: number for number, tag in enumerate(tags)}
    # Tags that are not in the training set get the id -1, which no probe predicts.
    targets, labels = (
        torch.tensor([tag_ids.get(tag, -1) for item in part for tag in getattr(item, tag_set)])
        for part in (text.train, text.test)
    )
    targets, labels = targets.to(train.device), labels.to(test.device)
    layers = []
    for layer in range(len(train)):
        probe = fit(train[layer : layer + 1], targets, len(tags), seed=seed)
        layers.append(probe.accuracy(test[layer : layer + 1], labels))
    mix_probe = fit(train, targets, len(tags), seed=seed)
    return TagAccuracy(
        tags=tag_set,
        layers=tuple(layers),
        mix=mix_probe.accuracy(test, labels),
        mix_shares=tuple(mix_probe.mix.weights.softmax(dim=0).tolist()),
        most_frequent=_most_frequent_tag_accuracy(text, tag_set),
        n_tags=len(tags),
        n_train=len(targets),
        n_test=len(labels),
    )


def _most_frequent_tag_accuracy(text: TaggedText, tag_set: Tags) -> float:
    word_counts: dict[str, Counter[str]] = {}
    all_counts: Counter[str] = Counter()
    for sentence in text.train:
        for word, tag in zip(sentence.words, getattr(sentence, tag_set), strict=True):
            word_counts.setdefault(word, Counter())[tag] += 1
            all_counts[tag] += 1
    best_tags = {word: _most_frequent(counts) for word, counts in word_counts.items()}
    default = _most_frequent(all_counts)
    pairs: list[tuple[str, str]] = [
        (word, tag)
        for sentence in text.test
        for word, tag in zip(sentence.words, getattr(sentence, tag_set), strict=True)
    ]
    return sum(best_tags.get(word, default) == tag for word, tag in pairs) / len(pairs)


def _most_frequent(counts: Counter[str]) -> str:
    """Return the most frequent tag. Ties are broken alphabetically."""
    return min(counts, key=lambda tag: (-counts[tag], tag))
