"""Coreference: the mentions of a document, in a cluster for each person or thing.

A model of it also answers which of two names a pronoun means (GAP), which is scored, not learned.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from itertools import accumulate
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from elmo.config import CoreferenceConfig, TaskConfig, TaskEncoderConfig
from elmo.errors import InputError
from elmo.tasks.examples import Example, IndexRange, PronounCandidates
from elmo.tasks.frozen_layers import Words
from elmo.tasks.heads.coreference_head import CoreferenceHead
from elmo.tasks.readers.coreference_files import Cluster
from elmo.tasks.readers.raw_text import SplitFunction
from elmo.tasks.scores.coreference_scores import cluster_scores
from elmo.tasks.scores.pronoun_scores import Meant, pronoun_scores
from elmo.tasks.task_model import TaskHead
from elmo.tasks.task_types.task import BaseTask, TextGroup, to_words
from elmo.text.sentences import split_sentences

logger = logging.getLogger(__name__)

# Speakers that are told apart; further ones share the marks of the first.
N_SPEAKERS = 15
# Share of words that a found mention and a name have in common where they are the same.
SAME_NAME = 0.5


class Coreference(BaseTask):
    """Clusters of mentions."""

    has_sentences: ClassVar[bool] = True
    max_batch_examples: ClassVar[int | None] = 1
    target_description: ClassVar[str] = (
        "clusters of mentions, each its first word and the one after its last, and in one cluster"
    )
    # Nobody that is known, or one of the speakers.
    n_indicators: ClassVar[int] = N_SPEAKERS + 1

    def __init__(self, has_singletons: bool, **dials: Any) -> None:
        """Say what a cluster may be.

        Args:
            has_singletons: whether there are clusters of one mention.
            dials: of `CoreferenceConfig`.
        """
        self.has_singletons, self.dials = has_singletons, CoreferenceConfig(**dials)
        self.metric = "mean_f1"
        self.metrics: tuple[str, ...] = ("muc_f1", "b3_f1", "ceafe_f1", "mean_f1", "mention_f1")

    @classmethod
    def from_examples(cls, examples: Sequence[Example], config: TaskConfig) -> Self:
        """Make the kind that a config says; examples tell whether mentions may stand alone."""
        if any(isinstance(example.extra, PronounCandidates) for example in examples):
            raise InputError(
                "clusters: GAP says of two names alone whether a pronoun means them, so that there "
                "is nothing to learn clusters from; a trained model can be evaluated on it"
            )
        has_singletons = any(len(cluster) == 1 for one in examples for cluster in one.target)
        return cls(has_singletons, **asdict(config.coreference))

    @staticmethod
    def has_valid_target(example: Example) -> bool:
        """Tell whether an example has clusters, or the names of a pronoun."""
        if not isinstance(example.target, tuple):
            return False
        if isinstance(example.extra, PronounCandidates):
            return len(example.target) == 2
        n_words = sum(map(len, example.texts))
        if not all(
            isinstance(cluster, tuple)
            and cluster
            and all(0 <= start < end <= n_words for start, end in cluster)
            for cluster in example.target
        ):
            return False
        mentions = [mention for cluster in example.target for mention in {*map(tuple, cluster)}]
        return len(set(mentions)) == len(mentions)

    @staticmethod
    def make_example(texts: Sequence[str | Sequence[str]], split: SplitFunction) -> Example:
        """Make an example of a document: raw, its words, or the words of its sentences."""
        (document,) = texts
        if document and not isinstance(document[0], str):
            return Example(tuple(map(tuple, document)))
        sentences = split_sentences(list(to_words(document, split)))
        return Example(tuple(map(tuple, sentences)) or ((),))

    def split_example(self, example: Example) -> list[Example]:
        """Cut long sentences, and a long document between sentences."""
        sentences = [
            (text[at : at + self.dials.max_sentence_words], number)
            for number, text in enumerate(example.texts)
            for at in range(0, len(text), self.dials.max_sentence_words)
        ]
        runs = list(self._runs(sentences))
        if len(runs) > 1:
            _tell(self.dials.max_document_words)
        firsts = [0, *accumulate(sum(len(text) for text, _ in run) for run in runs)]
        return [
            Example(
                tuple(text for text, _ in run),
                _inside(example, first, after),
                example.id,
                _speakers(example, [number for _, number in run]),
            )
            for run, first, after in zip(runs, firsts, firsts[1:], strict=False)
        ]

    def _runs(self, sentences: Sequence[tuple[Words, int]]) -> Iterator[list[tuple[Words, int]]]:
        """Give sentences that are read together."""
        run: list[tuple[Words, int]] = []
        n_words = 0
        for sentence in sentences:
            n_words += len(sentence[0])
            if run and n_words > self.dials.max_document_words:
                yield run
                run, n_words = [], len(sentence[0])
            run.append(sentence)
        yield run

    def text_groups(self, examples: Sequence[Example]) -> list[TextGroup]:
        """Give the sentences of the only document, words marked by who speaks."""
        (example,) = examples
        marks = [
            [mark] * len(text)
            for text, mark in zip(example.texts, _marks(example.extra), strict=True)
        ]
        return [TextGroup(list(example.texts), marks)]

    def labels(self, examples: Sequence[Example]) -> list[str]:
        """Give nothing: what is chosen from is the document."""
        return []

    def n_choices(self, labels: Sequence[str]) -> int:
        """Give how many mentions a mention may be linked to, and none."""
        return self.dials.max_antecedents + 1

    def head(self, dim: int, labels: Sequence[str], config: TaskEncoderConfig) -> TaskHead:
        """Make a head for vectors of a width."""
        return CoreferenceHead(
            dim=dim, dials=self.dials, has_singletons=self.has_singletons, dropout=config.dropout
        )

    def targets(self, examples: Sequence[Example], numbers: Mapping[str, int]) -> Tensor:
        """Give first word, word after the last and cluster of each mention, (mentions, 3)."""
        (example,) = examples
        rows = [
            (*place, number) for number, cluster in enumerate(example.target) for place in cluster
        ]
        return torch.tensor(rows, dtype=torch.int64).reshape(-1, 3)

    def decode_predictions(self, outputs: Sequence[Any], labels: Sequence[str]) -> list[Any]:
        """Give clusters in the order of the text."""
        return [tuple(sorted(tuple(sorted(one)) for one in clusters)) for clusters in outputs]

    def merge_predictions(
        self, example: Example, pieces: Sequence[Example], answers: Sequence[Any]
    ) -> Any:
        """Give the clusters of all pieces, words counted over the whole document."""
        firsts = accumulate((sum(map(len, piece.texts)) for piece in pieces), initial=0)
        return tuple(
            tuple((start + first, end + first) for start, end in cluster)
            for first, clusters in zip(firsts, answers, strict=False)
            for cluster in clusters
        )

    def scores(self, examples: Sequence[Example], answers: Sequence[Any]) -> dict[str, float]:
        """Give MUC, B³, CEAFe, their mean and how mentions are found; of names of pronouns GAP's.

        Clusters of one mention count as the examples have them.
        """
        gold = [example.target for example in examples]
        names = [one.extra for one in examples if isinstance(one.extra, PronounCandidates)]
        if names and len(names) == len(examples):
            meant = [_meant(own, one) for own, one in zip(answers, names, strict=True)]
            of_names = pronoun_scores(gold, meant, [one.gender for one in names])
            return {
                "gap_f1": of_names.f1,
                "masculine_f1": of_names.masculine,
                "feminine_f1": of_names.feminine,
                "bias": of_names.bias,
            }
        found = cluster_scores(gold, answers)
        return {
            "muc_f1": found.muc.f1,
            "b3_f1": found.b3.f1,
            "ceafe_f1": found.ceafe.f1,
            "mean_f1": found.mean_f1,
            "mention_f1": found.mentions.f1,
        }

    def to_record(self, example: Example, answer: Any) -> dict[str, Any]:
        """Give the words of the document, and the mentions of each cluster."""
        words = [word for text in example.texts for word in text]
        return {
            "words": words,
            "clusters": [
                [
                    {"text": " ".join(words[start:end]), "start": start, "end": end}
                    for start, end in cluster
                ]
                for cluster in answer
            ],
        }

    def to_settings(self) -> dict[str, Any]:
        """Give what `make_task` makes the same kind of again."""
        return {"has_singletons": self.has_singletons, **asdict(self.dials)}


@cache
def _tell(longest: int) -> None:
    """Say once that documents are cut."""
    logger.warning(
        "documents above %s words are cut between sentences, and nothing is linked across the cut: "
        "--longest-document",
        f"{longest:,}",
    )


def _inside(example: Example, first: int, after: int) -> tuple[Cluster, ...] | None:
    """Give the clusters of the words from one up to another, counted from there."""
    if example.target is None or isinstance(example.extra, PronounCandidates):
        return None
    clusters = (
        tuple((start - first, end - first) for start, end in cluster if first <= start < after)
        for cluster in example.target
    )
    return tuple(cluster for cluster in clusters if cluster)


def _speakers(example: Example, numbers: Sequence[int]) -> tuple[str, ...]:
    """Give who speaks in some sentences, nothing where it is not known."""
    if not isinstance(example.extra, tuple):
        return ("",) * len(numbers)
    return tuple(example.extra[number] for number in numbers)


def _marks(speakers: Sequence[str]) -> list[int]:
    """Number speakers from 1, in the order in which they first speak; 0 for nobody."""
    numbers = {
        name: at % N_SPEAKERS + 1 for at, name in enumerate(dict.fromkeys(filter(None, speakers)))
    }
    return [numbers.get(name, 0) for name in speakers]


def _meant(clusters: Sequence[Cluster], names: PronounCandidates) -> Meant:
    """Tell of both names whether they are in the cluster of the pronoun.

    A model may draw the limits of a name in another way: the mention that shares most words with it
    is taken for it.
    """
    own = _cluster_of(clusters, names.pronoun)
    of_names = [_cluster_of(clusters, name) for name in (names.a, names.b)]
    first, second = (own is not None and own == number for number in of_names)
    return first, second


def _cluster_of(clusters: Sequence[Cluster], place: IndexRange) -> int | None:
    """Give the number of the cluster of a mention; None where it is in none."""
    best: int | None = None
    most = 0.0
    for number, cluster in enumerate(clusters):
        for mention in cluster:
            share = _shared(mention, place)
            if share >= SAME_NAME and share > most:
                best, most = number, share
    return best


def _shared(one: IndexRange, other: IndexRange) -> float:
    """Give the share of words that two spans have in common."""
    both = min(one[1], other[1]) - max(one[0], other[0])
    return max(0, both) / (max(one[1], other[1]) - min(one[0], other[0]))
