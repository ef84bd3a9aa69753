"""How well pronouns are understood: F1 of GAP over all, by gender, and their ratio.

Each pronoun has two names, and each name is a question: is it meant? A name that is meant and said
to be is right; F1 is over the names of all pronouns. All figures are of 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from elmo.errors import InputError
from elmo.tasks.scores.label_scores import Score

MASCULINE, FEMININE = "masculine", "feminine"

# Whether the first name is meant, and whether the second.
Meant = tuple[bool, bool]


@dataclass(frozen=True)
class PronounScores:
    """Of pronouns.

    Attributes:
        f1: of all.
        masculine: F1 of he, him, his.
        feminine: F1 of she, her, hers.
        bias: feminine by masculine, 1 where both are understood alike.
        n: pronouns.
    """

    f1: float
    masculine: float
    feminine: float
    bias: float
    n: int


def pronoun_scores(
    gold: Sequence[Meant], found: Sequence[Meant], genders: Sequence[str]
) -> PronounScores:
    """Score answers.

    Args:
        gold: which names are meant.
        found: which are said to be, in the same order.
        genders: of the pronouns, masculine or feminine.
    """
    if not len(gold) == len(found) == len(genders):
        raise InputError(
            f"pronouns: {len(gold)} in gold, {len(found)} in the answers, {len(genders)} genders; "
            "expected as many"
        )
    if unknown := set(genders) - {MASCULINE, FEMININE}:
        raise InputError(f"{sorted(unknown)[0]!r} is no gender; expected {MASCULINE}, {FEMININE}")
    rows = list(zip(gold, found, genders, strict=True))
    by_gender = {
        gender: _f1([row[:2] for row in rows if row[2] == gender])
        for gender in (MASCULINE, FEMININE)
    }
    masculine, feminine = by_gender[MASCULINE], by_gender[FEMININE]
    return PronounScores(
        f1=_f1([row[:2] for row in rows]),
        masculine=masculine,
        feminine=feminine,
        bias=feminine / masculine if masculine else 0.0,
        n=len(rows),
    )


def _f1(rows: Sequence[tuple[Meant, Meant]]) -> float:
    names = [pair for gold, found in rows for pair in zip(gold, found, strict=True)]
    return Score.from_counts(
        gold=sum(meant for meant, _ in names),
        found=sum(said for _, said in names),
        right=sum(meant and said for meant, said in names),
    ).f1
