"""Tests of the script that scores minimal pairs."""

import json
import math

import numpy as np
import pytest
from blimp import PairSet, SetScores, read_sets, score_set, summarize, table
from conftest import TINY, random_model

from elmo.config import ModelConfig
from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError, FormatError
from elmo.semantics.word_scorer import WordScorer, WordScores
from elmo.text.vocabulary import Vocabulary

WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", "cats", "sleep", "sleeps"]
PAIRS = [
    # Equal sentences are a tie.
    ("the cat sleeps", "the cat sleeps"),
    ("the cat sleeps", "the cat sleep"),
    # Only the second sentence has an unknown word, then both.
    ("the cats sleep", "the dogs sleep"),
    ("the dogs sleep", "the dogs sleeps"),
]
NEITHER, ONLY_ONE = False, True


@pytest.fixture(scope="module")
def elmo():
    config = ModelConfig(TINY.text, TINY.encoder, TINY.lstm, n_softmax_words=len(WORDS))
    return ELMo(random_model(config, scale=1.5, vocabulary=Vocabulary(WORDS)))


class FixedScorer:
    """Returns given log-probabilities: of the words forward and backward, end and beginning."""

    def __init__(self, values):
        self._values = values

    def score(self, sentences):
        results = []
        for words in sentences:
            forward, backward, end, begin = self._values[" ".join(words)]
            known = np.array([word in WORDS for word in words])
            results.append(WordScores(np.array(forward), np.array(backward), end, begin, known))
        return results


def write_set(folder, name, pairs, field="syntax", phenomenon="binding"):
    rows = [
        {
            "sentence_good": good,
            "sentence_bad": bad,
            "field": field,
            "linguistics_term": phenomenon,
        }
        for good, bad in pairs
    ]
    folder.mkdir(exist_ok=True)
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")


def test_sentence_score_is_the_sum_of_its_words_and_its_boundary(elmo):
    scorer = FixedScorer(
        {
            # Forward -6 and -7 with the end, -5 and -4 without it; backward -9 and -5.
            "the cat": ([-2.0, -3.0], [-2.0, -3.0], -1.0, -4.0),
            "the cats": ([-2.0, -2.0], [-2.0, -2.0], -3.0, -1.0),
        }
    )
    pair_set = PairSet("x", "syntax", "binding", [("the cat", "the cats")])
    credits = score_set(elmo, scorer, pair_set).credits
    assert {name: values.tolist() for name, values in credits.items()} == {
        "forward": [1],
        "backward": [0],
        "both": [0],
    }


def test_ties_count_half_and_pairs_with_one_unknown_word_are_marked(elmo):
    scorer = FixedScorer(
        {
            "the cat sleeps": ([-1.0], [-5.0], 0.0, 0.0),
            "the cat sleep": ([-2.0], [-4.0], 0.0, 0.0),
            "the cats sleep": ([-3.0], [-3.0], 0.0, 0.0),
            "the dogs sleep": ([-1.0], [-4.0], 0.0, 0.0),
            "the dogs sleeps": ([-2.0], [-1.0], 0.0, 0.0),
        }
    )
    scores = score_set(elmo, scorer, PairSet("x", "syntax", "binding", PAIRS))
    assert scores.credits["forward"].tolist() == [0.5, 1, 0, 1]
    assert scores.credits["backward"].tolist() == [0.5, 0, 1, 0]
    # The sums of both directions of the second pair are equal, too.
    assert scores.credits["both"].tolist() == [0.5, 0.5, 0, 0]
    assert scores.one_unknown.tolist() == [NEITHER, NEITHER, ONLY_ONE, NEITHER]


def test_scores_of_a_model_agree_with_probabilities_of_its_words(elmo):
    scorer = WordScorer(elmo)
    scores = score_set(elmo, scorer, PairSet("x", "syntax", "binding", PAIRS))

    def total(sentence):
        (item,) = scorer.score([sentence.split()])
        return math.fsum([*item.forward, *item.backward, item.end, item.begin])

    expected = [0.5, *(total(good) > total(bad) for good, bad in PAIRS[1:])]
    assert scores.credits["both"].tolist() == expected
    assert scores.one_unknown.tolist() == [NEITHER, NEITHER, ONLY_ONE, NEITHER]


def set_scores(name, field, phenomenon, forward, one_unknown):
    pair_set = PairSet(name, field, phenomenon, [("a", "b")] * len(forward))
    return SetScores(pair_set, {"forward": np.array(forward)}, np.array(one_unknown))


def test_accuracies_are_means_over_sets():
    sets = [
        set_scores("a", "syntax", "binding", [1, 0.5, 0, 0], [NEITHER, NEITHER, ONLY_ONE, NEITHER]),
        set_scores("b", "syntax", "ellipsis", [1, 1], [ONLY_ONE, ONLY_ONE]),
        set_scores("c", "semantics", "quantifiers", [0, 1], [ONLY_ONE, NEITHER]),
    ]
    result = summarize(sets, ["forward"])
    assert result == {
        "n_sets": 3,
        "n_pairs": 8,
        "one_unknown": 0.5,
        "forward": {
            "all": (0.375 + 1 + 0.5) / 3,
            # All pairs of the second set are skipped.
            "others": (0.5 + 1) / 2,
            "fields": {"semantics": 0.5, "syntax": 1.375 / 2},
            "phenomena": {"binding": 0.375, "ellipsis": 1.0, "quantifiers": 0.5},
            "sets": {"a": 0.375, "b": 1.0, "c": 0.5},
        },
    }
    assert table(result, ["forward"]).splitlines()[:4] == [
        "| accuracy | forward |",
        "| --- | ---: |",
        "| all 8 pairs | 62.5 |",
        "| without the 50.0% in which only one sentence has an unknown word | 75.0 |",
    ]
    without_others = summarize(sets[1:2], ["forward"])
    assert without_others["forward"]["others"] is None
    assert "unknown word |  |" in table(without_others, ["forward"])


def test_sets_are_read_in_order_with_one_spelling_of_fields(tmp_path):
    write_set(tmp_path, "b", PAIRS)
    write_set(tmp_path, "a", PAIRS, field="syntax/semantics")
    first, second = read_sets(tmp_path, 2)
    assert first == PairSet("a", "syntax_semantics", "binding", PAIRS[:2])
    assert (second.name, second.field) == ("b", "syntax")
    assert len(read_sets(tmp_path)[0].pairs) == 4


@pytest.mark.parametrize("text", ["", "{}\n", "[1]\n", "no JSON\n"])
def test_damaged_sets_are_rejected(tmp_path, text):
    (tmp_path / "a.jsonl").write_text(text)
    with pytest.raises(FormatError, match=r"a\.jsonl is not a set of BLiMP"):
        read_sets(tmp_path)


def test_missing_sets_and_number_of_pairs_below_one_are_rejected(tmp_path):
    with pytest.raises(FormatError, match=r"has no \.jsonl files"):
        read_sets(tmp_path)
    with pytest.raises(ConfigError, match="--pairs is 0"):
        read_sets(tmp_path, 0)


def test_script_prints_table_and_writes_one_line_of_json(elmo, tmp_path, script):
    elmo.save_pretrained(tmp_path / "model")
    write_set(tmp_path / "data", "a", PAIRS)
    out = tmp_path / "result.json"
    arguments = ["--data", tmp_path / "data", "--device", "cpu", "--out", out, "--pairs", "3"]
    printed = script("blimp.py", tmp_path / "model", *arguments, "--directions", "both")
    assert printed.startswith("| accuracy | both |\n| --- | ---: |\n| all 3 pairs | ")
    (line,) = out.read_text().splitlines()
    result = json.loads(line)
    assert set(result) == {"n_sets", "n_pairs", "one_unknown", "both"}
    assert f"| all 3 pairs | {100 * result['both']['all']:.1f} |" in printed


def test_script_reports_a_folder_without_sets(tmp_path, script):
    with pytest.raises(SystemExit) as exit_info:
        script("blimp.py", "small-en", "--data", tmp_path)
    assert "has no .jsonl files" in str(exit_info.value)
