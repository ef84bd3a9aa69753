"""Tests of task options and presets."""

import json

import pytest
from small_tasks import task_config

from elmo.config.serialization import load_config, presets
from elmo.errors import ConfigError
from elmo.tasks.reading.load_examples import read_examples
from elmo.tasks.registry.task_config import TaskConfig

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
def test_preset_config_is_loaded_with_its_task(name):
    config = load_config(TaskConfig, name, {"out": "x"}, PRESETS)
    assert config.out == "x"
    assert config.elmo.model in ("small-en", "small-ko")
    assert config.task == TASKS[name]


def read_as(name, path, text):
    path.write_text(text, encoding="utf-8")
    config = load_config(TaskConfig, name, {"out": "x"}, PRESETS)
    return [(e.words, e.target) for e in read_examples(config.examples, str(path), str.split)]


def test_ynat_preset_reads_json_and_table_files(tmp_path):
    records = [{"guid": "1", "title": "유튜브 내달", "label": "IT과학", "url": "x"}]
    expected = [(("유튜브", "내달"), "IT과학")]
    for indent in (None, 4):
        text = json.dumps(records, ensure_ascii=False, indent=indent)
        assert read_as("ynat", tmp_path / "ynat-v1.1_dev.json", text) == expected
    assert read_as("ynat", tmp_path / "dev.tsv", "title\tlabel\n유튜브 내달\tIT과학\n") == expected


def test_kmou_preset_reads_parallel_files_and_column_files(tmp_path):
    (tmp_path / "a.tags.txt").write_text("B-PS O\n")
    expected = [(("김", "씨"), ("B-PS", "O"))]
    assert read_as("kmou-ner", tmp_path / "a.words.txt", "김 씨\n") == expected
    columns = "; 김 씨\n$<김:PS> 씨\n1\t김\tNNP\tB_PS\n2\t씨\tNNB\tO\n\n"
    assert read_as("kmou-ner", tmp_path / "ner.train", columns) == expected


def test_every_preset_is_tested():
    assert set(PRESETS) == set(TASKS)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dev_share": 0.0}, "dev_share must be between 0 and 1"),
        ({"dev_share": 1.0}, "dev_share must be between 0 and 1"),
        ({"fraction": 0.0}, "fraction must be above 0 and at most 1"),
        ({"fraction": 1.5}, "fraction must be above 0 and at most 1"),
        ({"layers": "bottom"}, "layers must be all, top, or distinct layer numbers .*'bottom'"),
        ({"layers": "1,"}, "layers must be all, top, or distinct layer numbers .*'1,'"),
        ({"layers": "1,2,1"}, "layers must be all, top, or distinct layer numbers .*'1,2,1'"),
        ({"layers": "-1"}, "layers must be all, top, or distinct layer numbers .*'-1'"),
        ({"mix_penalty": -1.0}, "mix_penalty must be 0 or more"),
        ({"elmo_dropout": 1.0}, "elmo_dropout must be at least 0 and below 1"),
        ({"elmo_learning_rate": 0.0}, "elmo_learning_rate must be above 0"),
        ({"mix_learning_rate": -1.0}, "mix_learning_rate must be above 0"),
        ({"unfreeze_every": -1}, "unfreeze_every must be 0 or more"),
        ({"unfreeze_every": 1, "model": "x"}, r"unfreeze_every \(1\) requires use: tuned"),
        ({"use": "tuned"}, "use: tuned requires an ELMo model"),
        (
            {"metric": "macro_f1", "task": "tagging"},
            "unknown option metric",
        ),
        (
            {"max_mention_words": 5},
            "unknown option max_mention_words",
        ),
        (
            {"max_answer_words": 9, "task": "sentence_pairs"},
            "unknown option max_answer_words",
        ),
        ({"max_per_word": 9}, "unknown option max_per_word"),
        ({"max_word_vectors": -1}, "max_word_vectors must be 0 or more"),
        ({"character_dim": 0}, "character_dim must be at least 1"),
        ({"character_filters": []}, r"character_filters must be pairs of a width.*\(\)"),
        ({"character_filters": [[26, 4]]}, r"character_filters must be .*at most 25.*\(26, 4\)"),
        ({"character_filters": [[1, 0]]}, "character_filters must be"),
        ({"hidden": -1}, "hidden must be 0 or more"),
        ({"depth": 0}, "depth must be at least 1"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1"),
        ({"input_dropout": -0.1}, "input_dropout must be at least 0 and below 1"),
        ({"seeds": 0}, "seeds must be at least 1"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"devices": 2}, "trained on one device"),
        ({"accumulate": 2}, "trained on one device"),
        ({"characters": "none"}, "The task model has no input"),
        (
            {"characters": "none", "model": "x", "placement": "output"},
            "The task model has no input",
        ),
        ({"n_nearest": 0, "task": "nearest_occurrences"}, "n_nearest must be at least 1"),
        ({"max_per_word": 0, "task": "nearest_occurrences"}, "max_per_word must be at least 1"),
        ({"task": "parsing"}, "Unknown task 'parsing'. Expected one of: classification"),
    ],
)
def test_task_config_rejects_invalid_settings(settings, message):
    with pytest.raises(ConfigError, match=message):
        task_config("x", **settings)


def test_task_config_accepts_valid_edge_cases():
    task_config("x", characters="none", model="x")
    task_config("x", characters="none", word_vectors="x")
    task_config("x", character_filters=[[25, 1]], layers="12")


def test_string_options_in_task_config_accept_numbers():
    config = task_config("x", layers=1, label_column=3)
    assert (config.elmo.layers, config.examples.label_column) == ("1", "3")
