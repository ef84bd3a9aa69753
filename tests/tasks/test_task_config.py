"""Dials of tasks, and the presets."""

import json

import pytest
from small_tasks import task_config

from elmo.config import TaskConfig
from elmo.config.serialization import load_config, presets
from elmo.errors import ConfigError
from elmo.tasks.load_examples import read_examples

PRESETS = presets("tasks")
TASKS = {
    "conll2003": "tagging",
    "conll2012-coref": "coreference",
    "conll2012-srl": "semantic_roles",
    "klue-nli": "sentence_pairs",
    "kmou-ner": "tagging",
    "litbank": "coreference",
    "nearest": "nearest_occurrences",
    "nsmc": "classification",
    "pos-probe": "tagging",
    "propbank-ewt": "semantic_roles",
    "sick": "sentence_pairs",
    "snli": "sentence_pairs",
    "squad": "question_answering",
    "sst2": "classification",
    "sst5": "classification",
    "ud-pos": "tagging",
    "wsd": "word_senses",
    "ynat": "classification",
}


@pytest.mark.parametrize("name", list(PRESETS))
def test_every_preset_loads(name):
    config = load_config(TaskConfig, name, {"out": "x"}, PRESETS)
    assert config.out == "x"
    assert config.elmo.model in ("small-en", "small-ko")
    # What is tagged and what is labelled is said by the preset, not by chance.
    assert config.task == TASKS[name]


def read_as(name, path, text):
    path.write_text(text, encoding="utf-8")
    config = load_config(TaskConfig, name, {"out": "x"}, PRESETS)
    return [(e.words, e.target) for e in read_examples(config.examples, str(path), str.split)]


def test_ynat_as_json_and_as_a_table(tmp_path):
    records = [{"guid": "1", "title": "유튜브 내달", "label": "IT과학", "url": "x"}]
    expected = [(("유튜브", "내달"), "IT과학")]
    for indent in (None, 4):
        text = json.dumps(records, ensure_ascii=False, indent=indent)
        assert read_as("ynat", tmp_path / "ynat-v1.1_dev.json", text) == expected
    assert read_as("ynat", tmp_path / "dev.tsv", "title\tlabel\n유튜브 내달\tIT과학\n") == expected


def test_kmou_in_two_files_and_in_columns(tmp_path):
    (tmp_path / "a.tags.txt").write_text("B-PS O\n")
    expected = [(("김", "씨"), ("B-PS", "O"))]
    assert read_as("kmou-ner", tmp_path / "a.words.txt", "김 씨\n") == expected
    columns = "; 김 씨\n$<김:PS> 씨\n1\t김\tNNP\tB_PS\n2\t씨\tNNB\tO\n\n"
    assert read_as("kmou-ner", tmp_path / "ner.train", columns) == expected


def test_there_are_presets():
    assert set(PRESETS) == set(TASKS)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dev_share": 0.0}, "dev_share is 0.0; a share between 0 and 1"),
        ({"dev_share": 1.0}, "dev_share is 1.0"),
        ({"fraction": 0.0}, "fraction is 0.0; a share above 0"),
        ({"fraction": 1.5}, "fraction is 1.5"),
        ({"layers": "bottom"}, "layers is 'bottom'; expected all, top, or numbers of layers"),
        ({"layers": "1,"}, "layers is '1,'; expected all, top, or numbers of layers"),
        ({"layers": "1,2,1"}, "layers is '1,2,1'; expected all, top, or numbers of layers"),
        ({"layers": "-1"}, "layers is '-1'"),
        ({"mix_penalty": -1.0}, "mix_penalty is -1.0"),
        ({"elmo_dropout": 1.0}, "elmo_dropout is 1.0; a share below 1"),
        ({"elmo_learning_rate": 0.0}, "elmo_learning_rate is 0.0; it must be above 0"),
        ({"mix_learning_rate": -1.0}, "mix_learning_rate is -1.0; it must be above 0"),
        ({"unfreeze_every": -1}, "unfreeze_every is -1"),
        ({"unfreeze_every": 1, "model": "x"}, "unfreeze_every is 1, but a frozen ELMo does not"),
        ({"use": "tuned"}, "use is tuned, but there is no ELMo"),
        ({"metric": "macro_f1", "task": "tagging"}, "metric is macro_f1, but tagging has a sc"),
        (
            {"max_mention_words": 5},
            "max_mention_words is 5, which means nothing in classification: it is of coreference",
        ),
        (
            {"max_answer_words": 9, "task": "sentence_pairs"},
            "max_answer_words is 9, which means nothing in sentence_pairs",
        ),
        ({"max_per_word": 9}, "max_per_word is 9, .* it is of word_senses and nearest_occurrences"),
        ({"max_word_vectors": -1}, "max_word_vectors is -1; it must be 0 or more"),
        ({"character_dim": 0}, "character_dim is 0; it must be at least 1"),
        ({"character_filters": []}, r"character_filters is \(\); expected pairs of a width"),
        ({"character_filters": [[26, 4]]}, r"character_filters is \(\(26, 4\),\); .* 25 at most"),
        ({"character_filters": [[1, 0]]}, "character_filters is"),
        ({"hidden": -1}, "hidden must be 0 or more"),
        ({"depth": 0}, "depth at least 1"),
        ({"dropout": 1.0}, "dropout is 1.0; a share below 1"),
        ({"input_dropout": -0.1}, "input_dropout is -0.1"),
        ({"seeds": 0}, "seeds is 0; it must be at least 1"),
        ({"batch_size": 0}, "batch_size is 0; it must be at least 1"),
        ({"devices": 2}, "a task is trained on one device"),
        ({"accumulate": 2}, "a task is trained on one device"),
        ({"characters": "none"}, "the model has no input"),
        ({"characters": "none", "model": "x", "placement": "output"}, "the model has no input"),
        ({"n_nearest": 0}, "n_nearest is 0; it must be at least 1"),
        ({"max_per_word": 0}, "max_per_word is 0; it must be at least 1"),
        ({"task": "parsing"}, "found 'parsing', expected one of classification, tagging"),
    ],
)
def test_what_cannot_be_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        task_config("x", **settings)


def test_what_can_be_is_not():
    task_config("x", characters="none", model="x")
    task_config("x", characters="none", word_vectors="x")
    task_config("x", character_filters=[[25, 1]], layers="12")


def test_a_number_needs_no_quotes():
    config = task_config("x", layers=1, label=3)
    assert (config.elmo.layers, config.examples.label) == ("1", "3")
