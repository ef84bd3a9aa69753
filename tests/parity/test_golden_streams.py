"""Parity test with bilm-tf: training batches must have identical ids."""

import numpy as np
import pytest

from elmo.corpus.bptt_segments import read_once
from elmo.corpus.shards import DistinctWords, Split
from elmo.corpus.token_tables import token_tables
from elmo.text.characters import SHIFT, ByteCharacters
from elmo.text.token_batches import TokenMapper
from elmo.text.vocabulary import Vocabulary


@pytest.mark.parametrize(("n_streams", "n_steps"), [(2, 10), (4, 5), (1, 1)])
def test_bptt_segments_equal_bilm_tf_batches(golden_path, n_streams, n_steps):
    golden = np.load(golden_path("generated/bilm-tf/lm_batches_maxword10.npz"))
    folder = golden_path("bilm-tf/train")
    text = (folder / "data.txt").read_text(encoding="utf-8")
    sentences = [line.split() for line in text.split("\n")]
    words = sorted({word for sentence in sentences for word in sentence})
    numbers = {word: number for number, word in enumerate(words)}
    split = Split.of([[numbers[word] for word in sentence] for sentence in sentences])
    vocabulary = Vocabulary.load(folder / "vocab.txt")
    tables = token_tables(DistinctWords.of(words), TokenMapper(ByteCharacters(10)), vocabulary)
    segments = list(
        read_once(split, n_streams=n_streams, n_steps=n_steps, reset=False, drop_tail=True)
    )
    name = f"bs{n_streams}_un{n_steps}"
    assert len(segments) == int(golden[f"{name}_n"])
    for number, segment in enumerate(segments):
        for direction, suffix in enumerate(("", "_reverse")):
            inputs, targets = segment.inputs[direction].T, segment.targets[direction].T
            arrays = {
                "token_ids": tables.targets[inputs],
                "tokens_characters": tables.rows[inputs] - SHIFT,
                "next_token_id": tables.targets[targets],
            }
            for key, value in arrays.items():
                assert np.array_equal(value, golden[f"{name}_{number}_{key}{suffix}"])
