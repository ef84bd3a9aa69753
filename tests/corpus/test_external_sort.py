"""Tests for word counting by external sort, with various run and buffer sizes."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo.corpus import external_sort
from elmo.corpus.external_sort import RunWriter, merge_runs, merged_counts, run_table, write_table
from elmo.corpus.shards import open_table

any_word = st.text(st.characters(exclude_categories=["Cs", "Z", "Cc"]), min_size=1, max_size=6)
word_lists = st.lists(
    st.sampled_from(["a", "b", "aa", "ab", "é", "日本", "z"]) | any_word, max_size=12
)


@settings(max_examples=40)
@given(
    runs=st.lists(word_lists, min_size=1, max_size=6), merge_bytes=st.sampled_from([1, 20, 2**22])
)
def test_merged_runs_have_same_counts_as_counter(tmp_path_factory, runs, merge_bytes):
    folder = tmp_path_factory.mktemp("runs")
    writer = RunWriter(folder, "run", limit=0)
    numbers = []
    for part in runs:
        numbers.append(writer.number([part], len(part)))
        writer.count(numbers[-1])
        writer.write()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(external_sort, "MERGE_BYTES", merge_bytes)
        patch.setattr(external_sort, "MIN_RUN_BYTES", 1)
        patch.setattr(external_sort, "ORDER_BYTES", merge_bytes)
        n_words = merge_runs(folder, writer.runs)
        rank = write_table(folder, folder, merged_counts(folder))
    counts = Counter(word for part in runs for word in part)
    ordered = sorted(counts, key=lambda word: (-counts[word], word.encode()))
    table, table_counts = open_table(folder)
    assert n_words == len(table) == len(ordered)
    if ordered:
        assert table.strings(0, len(table)) == ordered
    assert table_counts.tolist() == [counts[word] for word in ordered]
    for part, name, run_numbers in zip(runs, writer.runs, numbers, strict=True):
        final_numbers = run_table(folder, name, rank)[run_numbers]
        assert [ordered[number] for number in final_numbers] == part


def test_words_outside_counted_text_have_count_zero(tmp_path):
    writer = RunWriter(tmp_path, "run", limit=1000)
    writer.count(writer.number([["b", "a", "b"]], 3))
    writer.number([["c", "a"]], 2)
    writer.write()
    assert merge_runs(tmp_path, writer.runs) == 3
    assert merged_counts(tmp_path).tolist() == [1, 2, 0]
    assert write_table(tmp_path, tmp_path, merged_counts(tmp_path)).tolist() == [1, 0, 2]


def test_run_writer_is_full_when_size_limit_is_exceeded(tmp_path):
    writer = RunWriter(tmp_path, "run", limit=100_000)
    assert not writer.is_full()
    numbers = writer.number([[str(number) for number in range(1000)] * 2], 2000)
    assert numbers.tolist() == [*range(1000)] * 2
    assert writer.is_full()
    assert writer.run == "run-00000"
    writer.write()
    assert not writer.is_full()
    assert writer.run == "run-00001"


def test_dictionary_size_estimate_is_close_to_allocated_memory(tmp_path):
    import tracemalloc

    writer = RunWriter(tmp_path, "run", limit=0)
    sample = [f"word{number}" for number in range(100_000)]
    tracemalloc.start()
    writer.number([[word + "x" for word in sample]], len(sample))
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert 0.6 * used < writer._words.n_bytes < 1.6 * used


def test_words_longer_than_buffers_are_sorted_correctly(tmp_path, monkeypatch):
    monkeypatch.setattr(external_sort, "ORDER_BYTES", 100)
    monkeypatch.setattr(external_sort, "MERGE_BYTES", 100)
    monkeypatch.setattr(external_sort, "MIN_RUN_BYTES", 10)
    writer = RunWriter(tmp_path, "run", limit=0)
    sample = ["x" * 1000, "y", "x" * 999, "z" * 150]
    writer.count(writer.number([sample], 4))
    writer.write()
    merge_runs(tmp_path, writer.runs)
    write_table(tmp_path, tmp_path, merged_counts(tmp_path))
    assert open_table(tmp_path)[0].strings(0, 4) == sorted(sample)


def test_merging_an_empty_run_yields_no_words(tmp_path):
    writer = RunWriter(tmp_path, "run", limit=0)
    writer.write()
    assert merge_runs(tmp_path, writer.runs) == 0
    assert write_table(tmp_path, tmp_path, merged_counts(tmp_path)).dtype == np.uint32
