"""Lane batches of bilm-tf, integer for integer."""

import numpy as np
import pytest

from elmo.corpus.bptt_segments import read_once
from elmo.corpus.shards import DistinctWords, Split
from elmo.corpus.token_tables import token_tables
from elmo.text.characters import SHIFT, ByteCharacters
from elmo.text.token_batches import TokenMapper
from elmo.text.vocabulary import Vocabulary


@pytest.mark.parametrize(("lanes", "steps"), [(2, 10), (4, 5), (1, 1)])
def test_windows(golden_path, lanes, steps):
    golden = np.load(golden_path("generated/bilm-tf/lm_batches_maxword10.npz"))
    folder = golden_path("bilm-tf/train")
    text = (folder / "data.txt").read_text(encoding="utf-8")
    sentences = [line.split() for line in text.split("\n")]
    words = sorted({word for sentence in sentences for word in sentence})
    number = {word: place for place, word in enumerate(words)}
    split = Split.of([[number[word] for word in sentence] for sentence in sentences])
    vocabulary = Vocabulary.load(folder / "vocab.txt")
    tables = token_tables(DistinctWords.of(words), TokenMapper(ByteCharacters(10)), vocabulary)
    windows = list(read_once(split, lanes=lanes, steps=steps, reset=False, drop_tail=True))
    name = f"bs{lanes}_un{steps}"
    assert len(windows) == int(golden[f"{name}_n"])
    for place, window in enumerate(windows):
        for side, suffix in enumerate(("", "_reverse")):
            inputs, targets = window.inputs[side].T, window.targets[side].T
            found = {
                "token_ids": tables.targets[inputs],
                "tokens_characters": tables.rows[inputs] - SHIFT,
                "next_token_id": tables.targets[targets],
            }
            for key, value in found.items():
                assert np.array_equal(value, golden[f"{name}_{place}_{key}{suffix}"])
