"""Pronouns of GAP with two candidate names."""

from dataclasses import dataclass

from elmo.tasks.core.example import IndexRange


@dataclass(frozen=True)
class PronounCandidates:
    """A pronoun from GAP and the two names that it may refer to.

    Attributes:
        pronoun: Word range of the pronoun in the document.
        a: Word range of the first name.
        b: Word range of the second name.
        gender: Gender of the pronoun: masculine or feminine.
    """

    pronoun: IndexRange
    a: IndexRange
    b: IndexRange
    gender: str
