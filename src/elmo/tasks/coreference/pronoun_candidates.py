"""Pronouns of GAP with two candidate names."""

from dataclasses import dataclass

from elmo.tasks.core.example import IndexRange


@dataclass(frozen=True)
class PronounCandidates:
    """A pronoun from GAP, masculine or feminine, and the two names that it may refer to.

    All are word ranges in the document.
    """

    pronoun: IndexRange
    a: IndexRange
    b: IndexRange
    gender: str
