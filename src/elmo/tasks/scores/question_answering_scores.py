"""How well answers to questions fit, by the definitions of SQuAD and of KorQuAD.

Answers are compared in small letters, without punctuation and articles: whether they are equal
(exact match), and F1 of the words they share; KorQuAD counts characters, knows no articles and has
more marks to leave out. Of several right answers the best fitting counts. For
a question without an answer, none is right and everything else is wrong. All figures are of 1.

SQuAD's two programs part where nothing is left of an answer but articles and punctuation: in 2.0 it
is no answer, in 1.1, which knows none, it equals others of its kind and shares nothing with them.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from elmo.errors import InputError

# Those of ASCII, as the definition has it.
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
# KorQuAD's, in place of which a space is read.
_KOREAN_MARKS = str.maketrans(dict.fromkeys("'\"《》<>〈〉()‘’", " "))

F1Unit = Literal["words", "characters"]


@dataclass(frozen=True)
class AnswerScores:
    """Of answers to questions.

    Attributes:
        exact_match: share of answers that equal a right one.
        f1: mean over the questions of the best F1.
        n: questions.
    """

    exact_match: float
    f1: float
    n: int


def answer_scores(
    gold: Sequence[Sequence[str]], found: Sequence[str], f1_unit: F1Unit = "words"
) -> AnswerScores:
    """Score answers.

    Args:
        gold: the right answers to each question; none where there is no answer. Where no question
            is without one, the definitions are those of 1.1, else of 2.0.
        found: what was answered, empty for no answer, in the same order.
        f1_unit: what F1 counts: words, as SQuAD does, or characters, as KorQuAD does.
    """
    if len(gold) != len(found):
        raise InputError(
            f"questions: {len(gold)} in gold, {len(found)} in the answers; expected as many"
        )
    if not gold:
        raise InputError("there is no answer to score")
    has_unanswerable = not all(gold)
    exact, overlap = 0.0, 0.0
    for answers, answer in zip(gold, found, strict=True):
        bare = normalised(answer, f1_unit)
        right = [normalised(text, f1_unit) for text in answers]
        if has_unanswerable:
            right = list(filter(None, right)) or [""]
        exact += bare in right
        if bare or has_unanswerable:
            overlap += max(shared_f1(_units(one, f1_unit), _units(bare, f1_unit)) for one in right)
    return AnswerScores(exact / len(gold), overlap / len(gold), len(gold))


def normalised(answer: str, f1_unit: F1Unit = "words") -> str:
    """Give an answer in small letters, without punctuation and spaces that say nothing."""
    if f1_unit == "characters":
        return " ".join(answer.translate(_KOREAN_MARKS).lower().translate(_PUNCTUATION).split())
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def _units(answer: str, f1_unit: F1Unit) -> list[str]:
    return answer.split() if f1_unit == "words" else list(answer.replace(" ", ""))


def shared_f1(gold: Sequence[str], found: Sequence[str]) -> float:
    """Give F1 of two answers by what they share, each word as often as both have it."""
    if not gold or not found:
        return float(gold == found)
    shared = (Counter(gold) & Counter(found)).total()
    return 2 * shared / (len(gold) + len(found))
