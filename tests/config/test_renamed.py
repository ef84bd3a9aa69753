"""Tests that configs with field names and values from earlier versions still load."""

import dataclasses

import pytest

from elmo import config as configs
from elmo.config import EvaluateConfig, PrepareConfig, PretrainConfig, TaskPredictConfig
from elmo.config.renamed import (
    NEGATED_FIELDS,
    REMOVED_FIELDS,
    RENAMED_FIELDS,
    RENAMED_VALUES,
    original_names,
    upgrade,
)
from elmo.config.serialization import from_dict, load_config, to_dict
from elmo.embed.job_records import JobSettings
from elmo.errors import ConfigError
from elmo.tasks.question_answering.question_answering_options import QuestionAnsweringOptions
from elmo.tasks.registry.task_config import TaskConfig


def config_class(name):
    others = {cls.__name__: cls for cls in (TaskConfig, JobSettings)}
    return others.get(name) or getattr(configs, name)


@pytest.mark.parametrize("name", sorted(RENAMED_FIELDS))
def test_renamed_fields_refer_to_existing_classes_and_fields(name):
    fields = {item.name for item in dataclasses.fields(config_class(name))}
    assert set(RENAMED_FIELDS[name].values()) <= fields
    assert not set(RENAMED_FIELDS[name]) & fields


@pytest.mark.parametrize(("name", "field"), sorted(RENAMED_VALUES))
def test_renamed_values_belong_to_existing_fields(name, field):
    assert field in {item.name for item in dataclasses.fields(config_class(name))}


@pytest.mark.parametrize("name", sorted(REMOVED_FIELDS))
def test_removed_fields_belong_to_existing_classes_and_do_not_exist(name):
    fields = {item.name for item in dataclasses.fields(getattr(configs, name))}
    assert not set(REMOVED_FIELDS[name]) & fields


@pytest.mark.parametrize(
    ("section", "name", "accepted", "rejected"),
    [("optimizer", "final_rate", 0.0, 0.1), ("run", "strategy", "ddp", "fsdp")],
)
def test_removed_option_is_accepted_only_with_a_value_of_same_effect(
    section, name, accepted, rejected
):
    required = {"data": ["x"], "out": "o"}
    config = from_dict(PretrainConfig, {**required, section: {name: accepted}})
    assert config == PretrainConfig(("x",), "o")
    with pytest.raises(ConfigError, match=f"{name} was removed; only .*got {rejected!r}"):
        from_dict(PretrainConfig, {**required, section: {name: rejected}})


def test_from_dict_accepts_old_task_config_names_in_all_sections():
    old = {
        "out": "o",
        "task": "answers",
        "side_by_side": 2,
        "examples": {"reader": "pairs", "empty": "refuse"},
        "elmo": {"place": "both", "mix_rate": 0.5},
        "words": {"letters": "none", "static": "glove.txt", "mark_dim": 3},
        "measure": "accuracy",
        "body": {"gram_rows": 7, "crf": True, "depth": 2},
        "answers": {"longest_answer": 9},
        "clusters": {"n_antecedents": 150},
        "run": {"precision": "bf16-mixed"},
    }
    config = from_dict(TaskConfig, old)
    assert (config.task, config.parallel_seeds) == ("question_answering", 2)
    assert (config.examples.reader, config.examples.empty) == ("sentence_pairs", "error")
    assert (config.elmo.placement, config.elmo.mix_learning_rate) == ("both", 0.5)
    assert (config.word_features.characters, config.word_features.indicator_dim) == ("none", 3)
    assert config.word_features.word_vectors == "glove.txt"
    assert config.encoder.depth == 2
    assert config.options == QuestionAnsweringOptions(max_answer_words=9)
    assert config.run.precision == "bfloat16"


@pytest.mark.parametrize("name", sorted(NEGATED_FIELDS))
def test_negated_fields_refer_to_existing_switches(name):
    fields = {item.name: item.type for item in dataclasses.fields(config_class(name))}
    assert all(fields[new] is bool for new in NEGATED_FIELDS[name].values())


@pytest.mark.parametrize(
    ("data", "pretokenized"),
    [({"raw": True}, False), ({"raw": False}, True), ({"raw": None}, False)],
)
def test_from_dict_reads_raw_as_the_opposite_of_pretokenized(data, pretokenized):
    config = from_dict(TaskPredictConfig, {"model": "m", "input": "-", **data})
    assert config.pretokenized is pretokenized


@pytest.mark.parametrize(
    ("cls", "data", "column"),
    [
        (PrepareConfig, {"corpus": {"reading": {"text_field": "body"}}}, "body"),
        (EvaluateConfig, {"text_field": "body"}, "body"),
    ],
)
def test_from_dict_reads_text_field_as_text_column(cls, data, column):
    required = (
        {"input": ["x"], "out": "y"} if cls is PrepareConfig else {"text": ["x"], "model": "m"}
    )
    config = from_dict(cls, {**required, **data})
    reading = config.corpus.reading if cls is PrepareConfig else config
    assert reading.text_column == column


def test_upgrade_leaves_current_names_unchanged():
    config = TaskConfig("o", task="coreference")
    assert upgrade(TaskConfig, to_dict(config)) == to_dict(config)


def test_overrides_apply_to_config_file_with_old_names(tmp_path):
    file = tmp_path / "x.yaml"
    file.write_text("data: [a]\nout: o\nregular: {dropout: 0.1, locked: true}\n")
    config = load_config(PretrainConfig, str(file), {"locked": False})
    assert (config.regularization.dropout, config.regularization.locked) == (0.1, False)


def test_upgrade_returns_non_mapping_data_unchanged():
    assert upgrade(TaskConfig, [1, 2]) == [1, 2]


def test_original_names_reverts_upgrade_in_all_sections():
    new = to_dict(PretrainConfig(("a",), "o"))
    old = original_names(PretrainConfig, new)
    assert old["regular"] == new["regularization"]
    assert upgrade(PretrainConfig, old) == new


@pytest.mark.parametrize(
    ("task", "old", "options"),
    [
        ("ynat", {"metric": "macro_f1", "encoder": {"char_ngrams": 3}}, ("macro_f1", 3, 262_144)),
        ("tagging", {"examples": {"scheme": "IOB1"}, "encoder": {"crf": False}}, ("IOB1", False)),
        ("semantic_roles", {"metric": "accuracy", "encoder": {"crf": False}}, ("auto", False)),
        ("nearest_occurrences", {"memory": {"per_word": 4, "wordnet": None}}, (3, 4)),
        ("word_senses", {"lookup": {"n_nearest": 3, "wordnet": "w"}}, ("w",)),
        ("coreference", {"clusters": {"widest": 7}}, (7, 0.3, 150, 150, 150, 4000)),
        ("coreference", {"options": {"scorer_dim": 9}}, (20, 0.3, 150, 9, 150, 4000)),
    ],
)
def test_options_of_a_task_are_moved_from_their_old_places(task, old, options):
    task = "classification" if task == "ynat" else task
    config = from_dict(TaskConfig, {"out": "o", "task": task, **old})
    assert dataclasses.astuple(config.options) == options


@pytest.mark.parametrize(
    ("task", "old", "message"),
    [
        ("tagging", {"metric": "macro_f1"}, "unknown option metric"),
        ("sentence_pairs", {"encoder": {"char_ngrams": 3}}, "unknown option char_ngrams"),
        ("parsing", {}, "Unknown task 'parsing'. Expected one of: classification, tagging"),
    ],
)
def test_options_of_other_tasks_are_rejected(task, old, message):
    with pytest.raises(ConfigError, match=message):
        from_dict(TaskConfig, {"out": "o", "task": task, **old})
