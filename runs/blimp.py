"""Score a language model on the minimal pairs of BLiMP (Warstadt et al., 2020).

    python runs/blimp.py small-en --data blimp [--pairs 150] [--directions both] [--out FILE]

A pair counts 1 if the model gives its grammatical sentence the higher probability, and 1/2 if both
are equal. Forward, the probability of a sentence is that of all its words and its end; backward,
that of all its words and its beginning; "both" adds the two log-probabilities. Every accuracy is a
mean over sets of pairs.

Words outside the vocabulary of the softmax have the probability of `<UNK>`. This favors a sentence
with such a word, so a second accuracy skips the pairs in which only one sentence has one.
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo import ELMo
from elmo.errors import ConfigError, ElmoError, FormatError
from elmo.kernels.device import default_device
from elmo.progress import Progress
from elmo.semantics.word_scorer import WordScorer, WordScores

# Log-probability of a sentence in each direction.
DIRECTIONS: dict[str, Callable[[WordScores], float]] = {
    "forward": lambda scores: scores.forward.sum(dtype=float) + scores.end,
    "backward": lambda scores: scores.backward.sum(dtype=float) + scores.begin,
    "both": lambda scores: DIRECTIONS["forward"](scores) + DIRECTIONS["backward"](scores),
}
Words = tuple[str, ...]


@dataclass(frozen=True)
class PairSet:
    """A set of minimal pairs of one grammatical contrast.

    Attributes:
        name: Identifier of the set.
        field: Field of linguistics.
        phenomenon: Phenomenon within the field.
        pairs: Grammatical and ungrammatical sentence of each pair.
    """

    name: str
    field: str
    phenomenon: str
    pairs: list[tuple[str, str]]


@dataclass(frozen=True)
class SetScores:
    """Scores of the pairs of a set.

    Attributes:
        pair_set: The set.
        credits: By direction, 1 for each pair that is decided correctly, 1/2 for a tie, else 0.
        one_unknown: Whether only one sentence of each pair has an unknown word.
    """

    pair_set: PairSet
    credits: dict[str, NDArray[np.float64]]
    one_unknown: NDArray[np.bool_]


def read_sets(folder: Path, n_pairs: int | None = None) -> list[PairSet]:
    """Read the sets of a folder of JSON lines, sorted by name.

    Args:
        folder: Folder with one file per set.
        n_pairs: Number of pairs to read, from the beginning of each file. Default: all.

    Raises:
        ConfigError: If the number of pairs is not positive.
        FormatError: If there are no sets, or a file is not one.
    """
    if n_pairs is not None and n_pairs < 1:
        raise ConfigError(f"--pairs is {n_pairs}, but at least one pair per set is required.")
    paths = sorted(folder.glob("*.jsonl"))
    if not paths:
        raise FormatError(
            f"{folder} has no .jsonl files. Pass the folder with the files of BLiMP to --data."
        )
    return [_read_set(path, n_pairs) for path in paths]


def _read_set(path: Path, n_pairs: int | None) -> PairSet:
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return PairSet(
            name=path.stem,
            # One set has the field "syntax/semantics", the others "syntax_semantics".
            field=rows[0]["field"].replace("/", "_"),
            phenomenon=rows[0]["linguistics_term"],
            pairs=[(row["sentence_good"], row["sentence_bad"]) for row in rows[:n_pairs]],
        )
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise FormatError(
            f"{path} is not a set of BLiMP: each line must be a JSON object with sentence_good, "
            "sentence_bad, field and linguistics_term."
        ) from error


def score_set(elmo: ELMo, scorer: WordScorer, pair_set: PairSet) -> SetScores:
    """Score the pairs of a set in all directions."""
    pairs: list[tuple[Words, Words]] = [
        (_words(elmo, good), _words(elmo, bad)) for good, bad in pair_set.pairs
    ]
    # Scored only once, equal sentences have exactly the same score.
    sentences = list(dict.fromkeys(words for pair in pairs for words in pair))
    scores = dict(zip(sentences, scorer.score(sentences), strict=True))
    unknown = np.array([[not scores[words].is_known.all() for words in pair] for pair in pairs])
    credits = {}
    for direction, log_probability in DIRECTIONS.items():
        values = np.array([[log_probability(scores[words]) for words in pair] for pair in pairs])
        good, bad = values.T
        credits[direction] = np.where(good == bad, 0.5, good > bad)
    return SetScores(pair_set, credits, unknown[:, 0] != unknown[:, 1])


def _words(elmo: ELMo, sentence: str) -> Words:
    return tuple(token.text for token in elmo.tokenize(sentence))


def summarize(sets: Sequence[SetScores], directions: Sequence[str]) -> dict[str, Any]:
    """Return the share of pairs in which one sentence has an unknown word, and all accuracies."""
    return {
        "n_sets": len(sets),
        "n_pairs": sum(len(item.one_unknown) for item in sets),
        "one_unknown": float(np.mean(np.concatenate([item.one_unknown for item in sets]))),
        **{direction: _accuracies(sets, direction) for direction in directions},
    }


def _accuracies(sets: Sequence[SetScores], direction: str) -> dict[str, Any]:
    """Return the accuracies in a direction.

    "others" skips the pairs in which only one sentence has an unknown word, and sets that have no
    other pairs. It is None if no set has.
    """
    others = [
        float(item.credits[direction][~item.one_unknown].mean())
        for item in sets
        if not item.one_unknown.all()
    ]
    by_set, by_field, by_phenomenon = {}, defaultdict(list), defaultdict(list)
    for item in sets:
        accuracy = float(item.credits[direction].mean())
        by_set[item.pair_set.name] = accuracy
        by_field[item.pair_set.field].append(accuracy)
        by_phenomenon[item.pair_set.phenomenon].append(accuracy)
    return {
        "all": mean(by_set.values()),
        "others": mean(others) if others else None,
        "fields": {name: mean(by_field[name]) for name in sorted(by_field)},
        "phenomena": {name: mean(by_phenomenon[name]) for name in sorted(by_phenomenon)},
        "sets": by_set,
    }


def table(result: dict[str, Any], directions: Sequence[str]) -> str:
    """Return a Markdown table of accuracies in percent."""
    columns = [result[direction] for direction in directions]
    rows = {
        f"all {result['n_pairs']:,} pairs": [column["all"] for column in columns],
        f"without the {result['one_unknown']:.1%} in which only one sentence has an unknown word": [
            column["others"] for column in columns
        ],
    }
    for title, group in (("field", "fields"), ("phenomenon", "phenomena")):
        for name in columns[0][group]:
            rows[f"{title}: {name.replace('_', ' ')}"] = [column[group][name] for column in columns]
    lines = [["accuracy", *directions], ["---", *["---:"] * len(directions)]]
    for title, values in rows.items():
        cells = ["" if value is None else f"{100 * value:.1f}" for value in values]
        lines.append([title, *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    """Print a table of accuracies and write them as one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", help="Model name, model folder or hub id.")
    parser.add_argument("--data", type=Path, required=True, help="Folder of the files of BLiMP.")
    parser.add_argument("--pairs", type=int, help="First pairs of each set. Default: all.")
    parser.add_argument(
        "--directions",
        nargs="+",
        choices=list(DIRECTIONS),
        default=list(DIRECTIONS),
        help="Directions to report. Default: all.",
    )
    parser.add_argument("--device", help="Device, such as cpu or cuda. Default: cuda if available.")
    parser.add_argument("--out", type=Path, help="File for the result, one line of JSON.")
    args = parser.parse_args()
    try:
        sets = read_sets(args.data, args.pairs)
        elmo = ELMo.from_pretrained(args.model).to(args.device or default_device())
        scorer = WordScorer(elmo)
        scored = []
        n_pairs = sum(len(item.pairs) for item in sets)
        with Progress("BLiMP", n_pairs, "pairs") as progress:
            for pair_set in sets:
                scored.append(score_set(elmo, scorer, pair_set))
                progress.advance(len(pair_set.pairs))
    except ElmoError as error:
        sys.exit(f"blimp: {error}")
    result = summarize(scored, args.directions)
    print(table(result, args.directions))
    if args.out is not None:
        args.out.write_text(json.dumps(result) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
