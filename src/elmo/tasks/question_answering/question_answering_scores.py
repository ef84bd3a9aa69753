"""Extractive question answering scores, as defined by SQuAD and KorQuAD.

Answers are lowercased and stripped of punctuation and articles. The scores are exact match and the
F1 of the word overlap. KorQuAD counts characters instead of words, does not remove articles and
removes more punctuation. If there are several gold answers, the best match counts. For an
unanswerable question, only the empty answer is correct. All scores are fractions between 0 and 1.

The official SQuAD scorers differ for answers that consist only of articles and punctuation. Version
2.0 treats such an answer as no answer. Version 1.1, which has no unanswerable questions, treats it
as an exact match of other such answers, but with an F1 of 0.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from elmo.errors import InputError
from elmo.tasks.core.label_scores import check_lengths

# Only ASCII punctuation, as in the official scorer.
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
# Characters that KorQuAD replaces by a space.
_KORQUAD_PUNCTUATION = str.maketrans(dict.fromkeys("'\"《》<>〈〉()‘’", " "))

F1Unit = Literal["words", "characters"]


@dataclass(frozen=True)
class AnswerScores:
    """Fraction of exact answers, and mean F1 with the best gold answer of each question."""

    exact_match: float
    f1: float
    n: int


def answer_scores(
    gold: Sequence[Sequence[str]], predicted: Sequence[str], f1_unit: F1Unit = "words"
) -> AnswerScores:
    """Score predicted answers; an empty string means no answer.

    An unanswerable question has no gold answers. SQuAD 2.0 rules apply if there are such questions,
    otherwise SQuAD 1.1 rules. The unit of the overlap F1 is words (SQuAD) or characters (KorQuAD).
    """
    check_lengths("questions", len(gold), len(predicted))
    if not gold:
        raise InputError("There are no answers to score.")
    has_unanswerable = not all(gold)
    exact_match, f1 = 0.0, 0.0
    for gold_answers, prediction in zip(gold, predicted, strict=True):
        answer = normalize_answer(prediction, f1_unit)
        candidates = [normalize_answer(text, f1_unit) for text in gold_answers]
        if has_unanswerable:
            candidates = list(filter(None, candidates)) or [""]
        exact_match += answer in candidates
        if answer or has_unanswerable:
            units = _units(answer, f1_unit)
            f1 += max(overlap_f1(_units(candidate, f1_unit), units) for candidate in candidates)
    return AnswerScores(exact_match / len(gold), f1 / len(gold), len(gold))


def normalize_answer(answer: str, f1_unit: F1Unit = "words") -> str:
    """Lowercase an answer and remove punctuation, extra spaces and, for SQuAD, articles."""
    if f1_unit == "characters":
        answer = answer.translate(_KORQUAD_PUNCTUATION).lower()
        return " ".join(answer.translate(_PUNCTUATION).split())
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def _units(answer: str, f1_unit: F1Unit) -> list[str]:
    return answer.split() if f1_unit == "words" else list(answer.replace(" ", ""))


def overlap_f1(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """Return the overlap F1 of two answers, as multisets of words or characters."""
    if not gold or not predicted:
        return float(gold == predicted)
    shared = (Counter(gold) & Counter(predicted)).total()
    return 2 * shared / (len(gold) + len(predicted))
