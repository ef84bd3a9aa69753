"""Likely words at positions of sentences, given the words before and after."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from elmo.semantics.word_scorer import WordScorer


@dataclass(frozen=True)
class SubstituteQuery:
    """Positions of a sentence for which substitutes are requested.

    Attributes:
        words: Words of the sentence.
        positions: Indices of words.
        n: Number of substitutes per position.
    """

    words: Sequence[str]
    positions: Sequence[int]
    n: int = 10


@dataclass(frozen=True)
class Substitute:
    """A likely word at a position, and its probability among all words of the softmax."""

    word: str
    probability: float


def find_substitutes(
    scorer: WordScorer, queries: Sequence[SubstituteQuery]
) -> list[list[list[Substitute]]]:
    """Return the substitutes for each position of each query, most likely first.

    The word at the position and special tokens are not among them.
    """
    rows = scorer.at_positions(
        [query.words for query in queries], [query.positions for query in queries]
    )
    results = []
    for query in queries:
        of_query = []
        for position, row in zip(query.positions, rows, strict=False):
            top = row.topk(min(query.n + 1, len(row)))
            candidates = (
                Substitute(scorer.words[number], probability)
                for number, probability in zip(
                    top.indices.tolist(), top.values.exp().tolist(), strict=True
                )
                if probability > 0 and scorer.words[number] != query.words[position]
            )
            of_query.append(list(islice(candidates, query.n)))
        results.append(of_query)
    return results
