"""Tests of loading the examples named in a config."""

from dataclasses import replace

import pytest
from small_tasks import LABELED, TAGGED, write_conll, write_jsonl

from elmo.config import ExamplesConfig
from elmo.errors import ConfigError, FormatError, InputError
from elmo.tasks.core.example import Example
from elmo.tasks.reading import load_examples
from elmo.tasks.reading.load_examples import (
    read_examples,
    split_off_dev,
    subsample,
    training_examples,
)
from elmo.tasks.registry.reader_row import ReaderRow
from elmo.tasks.registry.task_rows import TASKS, TaskRow

MANY = [Example(((f"w{n}",),), "x") for n in range(100)]


def test_default_development_set_is_a_fixed_tenth_of_the_training_file(tmp_path):
    path = write_jsonl(tmp_path / "train.jsonl", MANY)
    parts = [training_examples(ExamplesConfig(train=path), str.split, seed) for seed in (1, 2)]
    assert parts[0] == parts[1]
    train, dev = parts[0]
    assert (len(train), len(dev)) == (90, 10)
    # Both sets are in file order, and together they contain every example.
    numbers = [[int(example.words[0][1:]) for example in part] for part in (train, dev)]
    assert numbers == [sorted(part) for part in numbers]
    assert sorted(numbers[0] + numbers[1]) == list(range(100))
    # The split must be the same on all machines and in all versions.
    assert numbers[1] == [5, 16, 20, 36, 52, 72, 82, 90, 93, 94]


def test_fraction_applies_to_the_development_set_only_if_it_is_split_off(tmp_path, monkeypatch):
    path = write_jsonl(tmp_path / "train.jsonl", MANY)
    config = ExamplesConfig(train=path, dev_share=0.5)
    _, full_dev = training_examples(config, str.split, 1)
    for minimum, expected in ((4, 10), (16, 16), (200, 50)):
        monkeypatch.setattr(load_examples, "MIN_DEV_EXAMPLES", minimum)
        part = replace(config, fraction=0.2)
        dev = training_examples(part, str.split, 1)[1]
        assert len(dev) == expected
        assert set(dev) <= set(full_dev)
        assert training_examples(part, str.split, 2)[1] == dev
    dev = training_examples(replace(part, dev=path), str.split, 1)[1]
    assert len(dev) == len(MANY)


def test_fraction_with_kept_steps_only_applies_to_the_training_set(tmp_path):
    path = write_jsonl(tmp_path / "train.jsonl", MANY)
    full, dev = training_examples(ExamplesConfig(train=path), str.split, 1)
    config = ExamplesConfig(train=path, fraction=0.2, keep_steps=True)
    sample, same_dev = training_examples(config, str.split, 1)
    assert same_dev == dev
    assert len(sample) == 18
    assert [example for example in full if example in sample] == sample
    assert training_examples(config, str.split, 1)[0] == sample
    assert training_examples(config, str.split, 2)[0] != sample


def test_development_set_is_read_from_its_own_file_if_set(tmp_path):
    config = ExamplesConfig(
        train=write_conll(tmp_path / "train.txt", TAGGED),
        dev=write_conll(tmp_path / "dev.txt", TAGGED[:3]),
    )
    train, dev = training_examples(config, str.split, 1)
    assert [example.target for example in train] == [example.target for example in TAGGED]
    assert [example.texts for example in dev] == [example.texts for example in TAGGED[:3]]


def test_splitting_and_subsampling_return_at_least_one_example():
    assert len(split_off_dev(LABELED[:2], 0.01)[1]) == 1
    with pytest.raises(InputError, match=r"Too few examples \(1\) to split off a development set"):
        split_off_dev(LABELED[:1], 0.1)
    assert len(subsample(LABELED, 0.001, 1)) == 1
    assert subsample(LABELED, 1, 1) == LABELED


def test_split_off_development_set_has_a_span_if_there_is_one():
    plain = [Example(((str(n), "b"),), ("O", "O")) for n in range(30)]
    _, unchanged = split_off_dev(plain, 0.1)
    for number in range(30):
        examples = list(plain)
        examples[number] = Example(((str(number), "b"),), ("B-PER", "O"))
        train, dev = split_off_dev(examples, 0.1)
        assert examples[number] in dev
        assert len(dev) == 3
        assert sorted(e.words for e in train + dev) == sorted(e.words for e in plain)
        assert len({e.words for e in dev} & {e.words for e in unchanged}) >= 2


def test_missing_or_empty_training_file_raises(tmp_path):
    with pytest.raises(ConfigError, match=r"There are no training examples\. Set the"):
        training_examples(ExamplesConfig(), str.split, 1)
    (tmp_path / "empty.tsv").write_text("text\tlabel\n\tx\n")
    with pytest.raises(FormatError, match=r"empty.tsv: contains no rows below the header"):
        read_examples(ExamplesConfig(empty="skip"), str(tmp_path / "empty.tsv"), str.split)


def test_config_options_are_passed_to_each_reader(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id,title,topic\n1,Ein Film,x\n2,,y\n", encoding="utf-8")
    config = ExamplesConfig(text_column="title", label_column="topic", empty="keep")
    examples = read_examples(config, str(path), lambda text: text.lower().split())
    assert [(e.words, e.target) for e in examples] == [(("ein", "film"), "x"), ((".",), "y")]

    path = tmp_path / "a.txt"
    path.write_text("a DT O\nb NN B-X\n\nc NN O\n", encoding="utf-8")
    tags = {None: ("O", "B-X"), "1": ("DT", "NN")}
    for label, expected in tags.items():
        examples = read_examples(ExamplesConfig(label_column=label), str(path), str.split)
        assert examples[0].target == expected
    with pytest.raises(ConfigError, match="--label-column must be a column number"):
        read_examples(ExamplesConfig(label_column="ner"), str(path), str.split)

    path = tmp_path / "a.conllu"
    path.write_text("1\ta\t_\tDT\tX\t_\t0\t_\t_\t_\n\n", encoding="utf-8")
    for label, expected in ((None, ("DT",)), ("xpos", ("X",))):
        examples = read_examples(ExamplesConfig(label_column=label), str(path), str.split)
        assert examples[0].target == expected

    path = tmp_path / "trees.txt"
    path.write_text("(3 (4 good) (2 film))\n", encoding="utf-8")
    config = ExamplesConfig(reader="sst5", phrases=True)
    assert len(read_examples(config, str(path), str.split)) == 1
    assert len(read_examples(config, str(path), str.split, is_training=True)) == 3


def test_phrases_from_development_sentences_are_not_in_the_training_set(tmp_path):
    path = tmp_path / "trees.txt"
    path.write_text("".join(f"(3 (2 w{n}) (4 v{n}))\n" for n in range(20)))
    config = ExamplesConfig(train=str(path), reader="sst5", phrases=True)
    train, dev = training_examples(config, str.split, 1)
    assert (len(train), len(dev)) == (18 * 3, 2)
    assert all(len(example.words) == 2 for example in dev)
    dev_words = {word for example in dev for word in example.words}
    assert dev_words.isdisjoint(word for example in train for word in example.words)


def test_phrases_option_is_rejected_for_other_readers_only_in_training(tmp_path):
    path = write_conll(tmp_path / "tags.txt", TAGGED)
    config = ExamplesConfig(train=path, phrases=True)
    with pytest.raises(
        ConfigError,
        match=r"--phrases is only supported for the tree readers .* but the reader is conll",
    ):
        training_examples(config, str.split, 1)
    # A model that was trained on phrases can be evaluated on any file.
    assert len(read_examples(config, path, str.split)) == len(TAGGED)


@pytest.mark.parametrize("reader", ["auto", "table", "sentence_pairs"])
def test_two_text_columns_are_read_as_two_texts(tmp_path, reader):
    path = tmp_path / "a.tsv"
    path.write_text("one\ttwo\tsame\na b\tc\tyes\n", encoding="utf-8")
    config = ExamplesConfig(reader=reader, text_column="one, two", label_column="same")
    (example,) = read_examples(config, str(path), str.split, is_training=True)
    assert (example.texts, example.target) == ((("a", "b"), ("c",)), "yes")


def test_sentence_pairs_reader_has_default_columns(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("premise\thypothesis\tlabel\tsame\na\tb\tx\ty\n", encoding="utf-8")
    for label, expected in ((None, "x"), ("same", "y")):
        config = ExamplesConfig(reader="sentence_pairs", label_column=label)
        assert read_examples(config, str(path), str.split)[0].target == expected
    with pytest.raises(ConfigError, match="text_column must name two columns"):
        read_examples(
            ExamplesConfig(reader="sentence_pairs", text_column="premise"), str(path), str.split
        )


def test_column_options_are_rejected_for_other_readers_only_in_training(tmp_path):
    path = tmp_path / "trees.txt"
    path.write_text("(3 (4 good) (2 film))\n", encoding="utf-8")
    for config, flag in (
        (ExamplesConfig(text_column="title"), "text-column"),
        (ExamplesConfig(label_column="x"), "label-column"),
    ):
        message = f"--{flag} selects a column, but the reader sst5 has no selectable columns"
        with pytest.raises(ConfigError, match=message):
            read_examples(config, str(path), str.split, is_training=True)
        # A model that was trained on a table can be evaluated on trees.
        assert len(read_examples(config, str(path), str.split)) == 1


def read_lines_as(path, *, column="text", empty="error", encoding=None):
    return [Example(((column, empty),), path.name)]


def test_options_are_passed_to_the_parameters_that_the_row_of_a_reader_names(monkeypatch):
    reader = ReaderRow(f"{__name__}:read_lines_as", text="column", options=("empty",))
    monkeypatch.setitem(TASKS, "lines", TaskRow("lines", "", readers={"lines": reader}))
    for config, expected in (
        (ExamplesConfig(reader="lines"), ("text", "error")),
        (ExamplesConfig(reader="lines", text_column="b", empty="skip"), ("b", "skip")),
    ):
        (example,) = read_examples(config, "a.txt", str.split, task="lines", is_training=True)
        assert example.words == expected
    config = ExamplesConfig(reader="lines", label_column="b")
    with pytest.raises(ConfigError, match=r"the reader lines .* another --reader: conll, conllu, "):
        read_examples(config, "a.txt", str.split, task="lines", is_training=True)


def test_unknown_reader_is_rejected(tmp_path):
    with pytest.raises(ConfigError, match=r"Unknown reader 'tables'\. Expected one of: conll, "):
        read_examples(ExamplesConfig(reader="tables"), str(tmp_path / "a.csv"), str.split)
