"""GAP scores: F1 over all pronouns, F1 per gender, and the feminine-to-masculine F1 ratio.

Each pronoun comes with two candidate names, and each candidate is a binary decision: does the
pronoun refer to it? F1 is computed over the candidates of all pronouns. All scores except the ratio
are fractions between 0 and 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from elmo.errors import InputError
from elmo.tasks.core.label_scores import Score

MASCULINE, FEMININE = "masculine", "feminine"

# Whether a pronoun refers to the first name, and to the second name.
References = tuple[bool, bool]


@dataclass(frozen=True)
class PronounScores:
    """F1 of all pronouns, and by gender; `bias` is feminine F1 divided by masculine F1."""

    f1: float
    masculine: float
    feminine: float
    bias: float
    n: int


def pronoun_scores(
    gold: Sequence[References], predicted: Sequence[References], genders: Sequence[str]
) -> PronounScores:
    """Score predicted pronoun references.

    A reference states for each of the two candidate names whether the pronoun refers to it. The
    genders are masculine and feminine.
    """
    if not len(gold) == len(predicted) == len(genders):
        raise InputError(
            f"The number of pronouns differs: {len(gold)} in the gold data, {len(predicted)} in "
            f"the predictions, {len(genders)} genders."
        )
    if unknown := set(genders) - {MASCULINE, FEMININE}:
        raise InputError(
            f"Unknown gender {sorted(unknown)[0]!r}. Expected one of: {MASCULINE}, {FEMININE}."
        )
    rows = list(zip(gold, predicted, genders, strict=True))
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


def _f1(rows: Sequence[tuple[References, References]]) -> float:
    names = [pair for gold, predicted in rows for pair in zip(gold, predicted, strict=True)]
    return Score.from_counts(
        gold=sum(gold for gold, _ in names),
        predicted=sum(predicted for _, predicted in names),
        correct=sum(gold and predicted for gold, predicted in names),
    ).f1
