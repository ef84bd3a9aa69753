"""Coreference resolution: clusters the mentions in a document that refer to the same entity.

A trained model can also be evaluated on GAP, a data set of pronouns with two candidate names each.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from itertools import accumulate
from typing import ClassVar, Self, cast

import torch
from torch import Tensor

from elmo.config import TaskEncoderConfig
from elmo.config.serialization import from_dict
from elmo.config.tasks import TaskOptions
from elmo.errors import InputError
from elmo.tasks.core.example import Example, IndexRange, Words, gold
from elmo.tasks.core.task import Record, Text, TextGroup, TrainedTask, to_words
from elmo.tasks.core.task_model import TaskHead
from elmo.tasks.coreference.coreference_files import Cluster
from elmo.tasks.coreference.coreference_head import CoreferenceHead
from elmo.tasks.coreference.coreference_options import CoreferenceOptions
from elmo.tasks.coreference.coreference_scores import cluster_scores
from elmo.tasks.coreference.gap import PronounCandidates
from elmo.tasks.coreference.pronoun_scores import References, pronoun_scores
from elmo.text.line_splitter import SplitFunction
from elmo.text.sentences import split_sentences

logger = logging.getLogger(__name__)

Clusters = tuple[Cluster, ...]
# Clusters; for GAP, whether the pronoun refers to each of the two names.
CoreferenceTarget = Clusters | References

# Number of distinct speaker indicators. With more speakers, numbering starts over at 1.
N_SPEAKERS = 15
# Minimum overlap (intersection over union) for a predicted mention to match a name.
MIN_NAME_OVERLAP = 0.5


class Coreference(TrainedTask[CoreferenceTarget, Clusters, list[list[IndexRange]]]):
    """Predicts the clusters of coreferent mentions in a document."""

    n_texts: ClassVar[int | None] = None
    max_batch_examples: ClassVar[int | None] = 1
    target_description: ClassVar[str] = (
        "clusters of mentions; each mention is a word range (start, end) in exactly one cluster"
    )
    # 0 stands for an unknown speaker.
    n_indicators: ClassVar[int] = N_SPEAKERS + 1

    empty_answer: Clusters = ()

    def __init__(self, has_singletons: bool, options: CoreferenceOptions) -> None:
        """Store the settings; with `has_singletons`, a cluster can consist of a single mention."""
        self.has_singletons, self.options = has_singletons, options
        self.metric = "mean_f1"
        self.metrics: tuple[str, ...] = ("muc_f1", "b3_f1", "ceafe_f1", "mean_f1", "mention_f1")

    @classmethod
    def from_examples(
        cls, examples: Sequence[Example[CoreferenceTarget]], options: TaskOptions
    ) -> Self:
        """Create the task; `has_singletons` is true if any example has a single-mention cluster.

        Examples from GAP are an error, because it does not annotate clusters.
        """
        if any(isinstance(example.extra, PronounCandidates) for example in examples):
            raise InputError(
                "Task coreference: cannot train on GAP, because it has no clusters, only pronouns "
                "with two candidate names. Use it to evaluate a trained model."
            )
        has_singletons = any(
            len(cluster) == 1 for example in examples for cluster in clusters_of(example)
        )
        assert isinstance(options, CoreferenceOptions)
        return cls(has_singletons, options)

    @classmethod
    def from_settings(cls, settings: Mapping[str, object]) -> Self:
        """Create the task from the settings in a model folder."""
        options = dict(settings)
        has_singletons = bool(options.pop("has_singletons"))
        return cls(has_singletons, from_dict(CoreferenceOptions, options, "task_settings"))

    @staticmethod
    def has_valid_target(example: Example[object]) -> bool:
        """Whether the example has valid clusters or, if it is from GAP, two labels."""
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

    @classmethod
    def make_example(
        cls, texts: Sequence[Text], split: SplitFunction
    ) -> Example[CoreferenceTarget]:
        """Create an example from a document: raw text, a list of words, or a list of sentences."""
        (document,) = texts
        if document and not isinstance(document[0], str):
            return Example(tuple(tuple(words) for words in document if len(words)) or ((),))
        sentences = split_sentences(list(to_words(document, split)))
        return Example(tuple(map(tuple, sentences)) or ((),))

    def split_example(
        self, example: Example[CoreferenceTarget]
    ) -> list[Example[CoreferenceTarget]]:
        """Split long sentences, and long documents at sentence boundaries."""
        max_words = self.options.max_sentence_words
        sentences = [
            (text[start : start + max_words], number)
            for number, text in enumerate(example.texts)
            for start in range(0, len(text), max_words)
        ]
        parts = list(self._parts(sentences))
        if len(parts) > 1:
            _warn_about_split(self.options.max_document_words)
        starts = [0, *accumulate(sum(len(text) for text, _ in part) for part in parts)]
        return [
            Example(
                tuple(text for text, _ in part),
                _clusters_between(example, start, end),
                example.id,
                _speakers(example, [number for _, number in part]),
            )
            for part, start, end in zip(parts, starts, starts[1:], strict=False)
        ]

    def _parts(self, sentences: Sequence[tuple[Words, int]]) -> Iterator[list[tuple[Words, int]]]:
        """Yield runs of consecutive sentences with at most `max_document_words` words in total."""
        part: list[tuple[Words, int]] = []
        n_words = 0
        for sentence in sentences:
            n_words += len(sentence[0])
            if part and n_words > self.options.max_document_words:
                yield part
                part, n_words = [], len(sentence[0])
            part.append(sentence)
        yield part

    def text_groups(self, parts: Sequence[Example[CoreferenceTarget]]) -> list[TextGroup]:
        """Return the sentences of the document; the indicator of a word is its speaker number."""
        (part,) = parts
        speakers = _speakers(part, range(len(part.texts)))
        indicators = [
            [speaker] * len(text)
            for text, speaker in zip(part.texts, _speaker_numbers(speakers), strict=True)
        ]
        return [TextGroup(list(part.texts), indicators)]

    def n_choices(self, labels: Sequence[str]) -> int:
        """Return the maximum number of candidate antecedents, plus one for "no antecedent"."""
        return self.options.max_antecedents + 1

    def head(
        self, dim: int, labels: Sequence[str], encoder: TaskEncoderConfig, options: TaskOptions
    ) -> TaskHead[list[list[IndexRange]]]:
        """Create the head."""
        return CoreferenceHead(
            dim=dim,
            config=self.options,
            has_singletons=self.has_singletons,
            dropout=encoder.dropout,
        )

    def targets(
        self, parts: Sequence[Example[CoreferenceTarget]], label_ids: Mapping[str, int]
    ) -> Tensor:
        """Return the start, end and cluster index of each mention, (mentions, 3)."""
        (part,) = parts
        rows = [
            (*mention, number)
            for number, cluster in enumerate(clusters_of(part))
            for mention in cluster
        ]
        return torch.tensor(rows, dtype=torch.int64).reshape(-1, 3)

    def answer(
        self,
        example: Example[CoreferenceTarget],
        parts: Sequence[Example[CoreferenceTarget]],
        outputs: Sequence[list[list[IndexRange]]],
        labels: Sequence[str],
    ) -> Clusters:
        """Return the clusters of all parts, with word indices relative to the whole document."""
        offsets = accumulate((sum(map(len, part.texts)) for part in parts), initial=0)
        return tuple(
            cluster
            for offset, clusters in zip(offsets, outputs, strict=False)
            for cluster in sorted(
                tuple(sorted((start + offset, end + offset) for start, end in mentions))
                for mentions in clusters
            )
        )

    def scores(
        self, examples: Sequence[Example[CoreferenceTarget]], answers: Sequence[Clusters]
    ) -> dict[str, float]:
        """Return the F1 of MUC, B³ and CEAFe, their mean, and mention F1; for GAP, the GAP metrics.

        Gold clusters with a single mention are scored like any other cluster.
        """
        candidates = [
            example.extra for example in examples if isinstance(example.extra, PronounCandidates)
        ]
        if candidates and len(candidates) == len(examples):
            pairs = zip(answers, candidates, strict=True)
            predicted = [_references(clusters, names) for clusters, names in pairs]
            genders = [names.gender for names in candidates]
            gap_scores = pronoun_scores(list(map(_gold_references, examples)), predicted, genders)
            return {
                "gap_f1": gap_scores.f1,
                "masculine_f1": gap_scores.masculine,
                "feminine_f1": gap_scores.feminine,
                "bias": gap_scores.bias,
            }
        scores = cluster_scores(list(map(clusters_of, examples)), answers)
        return {
            "muc_f1": scores.muc.f1,
            "b3_f1": scores.b3.f1,
            "ceafe_f1": scores.ceafe.f1,
            "mean_f1": scores.mean_f1,
            "mention_f1": scores.mentions.f1,
        }

    def to_record(self, example: Example[CoreferenceTarget], answer: Clusters) -> Record:
        """Return the words of the document and its clusters of mentions."""
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

    def to_settings(self) -> dict[str, object]:
        """Return the settings from which `from_settings` recreates this task."""
        return {"has_singletons": self.has_singletons, **asdict(self.options)}


@cache
def _warn_about_split(max_document_words: int) -> None:
    """Warn that long documents are split; the warning is shown once per limit."""
    logger.warning(
        "Documents with more than %s words are split at sentence boundaries. Mentions in different "
        "parts are never linked. To raise the limit, use --max-document-words.",
        f"{max_document_words:,}",
    )


def clusters_of(example: Example[CoreferenceTarget]) -> Clusters:
    """Return the clusters of an example that is not from GAP."""
    assert not isinstance(example.extra, PronounCandidates)
    return cast(Clusters, gold(example))


def _gold_references(example: Example[CoreferenceTarget]) -> References:
    """Return the target of an example from GAP."""
    return cast(References, gold(example))


def _clusters_between(
    example: Example[CoreferenceTarget], first: int, after: int
) -> Clusters | None:
    """Return the clusters in words `first` to `after - 1`, with indices relative to `first`."""
    if example.target is None or isinstance(example.extra, PronounCandidates):
        return None
    clusters = (
        tuple((start - first, end - first) for start, end in cluster if first <= start < after)
        for cluster in clusters_of(example)
    )
    return tuple(cluster for cluster in clusters if cluster)


def _speakers(example: Example[CoreferenceTarget], numbers: Sequence[int]) -> tuple[str, ...]:
    """Return the speakers of the given sentences; an empty string if the speaker is unknown."""
    if not isinstance(example.extra, tuple):
        return ("",) * len(numbers)
    return tuple(example.extra[number] for number in numbers)


def _speaker_numbers(speakers: Sequence[str]) -> list[int]:
    """Return speaker numbers, from 1 in order of first occurrence; 0 for unknown speakers."""
    distinct = dict.fromkeys(filter(None, speakers))
    numbers = {name: index % N_SPEAKERS + 1 for index, name in enumerate(distinct)}
    return [numbers.get(name, 0) for name in speakers]


def _references(clusters: Sequence[Cluster], names: PronounCandidates) -> References:
    """Return whether each of the two names is in the same cluster as the pronoun.

    The boundaries of a predicted mention can differ from those of a name, so the mention with the
    largest overlap is taken as the name.
    """
    pronoun_cluster = _cluster_of(clusters, names.pronoun)
    name_clusters = [_cluster_of(clusters, name) for name in (names.a, names.b)]
    first, second = (
        pronoun_cluster is not None and pronoun_cluster == cluster for cluster in name_clusters
    )
    return first, second


def _cluster_of(clusters: Sequence[Cluster], span: IndexRange) -> int | None:
    """Return the index of the cluster with the best match for a span; None if there is no match."""
    best: int | None = None
    best_overlap = 0.0
    for number, cluster in enumerate(clusters):
        for mention in cluster:
            overlap = _overlap(mention, span)
            if overlap >= MIN_NAME_OVERLAP and overlap > best_overlap:
                best, best_overlap = number, overlap
    return best


def _overlap(first: IndexRange, second: IndexRange) -> float:
    """Return the intersection over union of two word ranges."""
    shared = min(first[1], second[1]) - max(first[0], second[0])
    return max(0, shared) / (max(first[1], second[1]) - min(first[0], second[0]))
