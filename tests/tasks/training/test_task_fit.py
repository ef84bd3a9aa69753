"""Tests of complete task training runs, from input files to output folders."""

import dataclasses
import json
import os
import signal

import pytest
import torch
from conftest import TINY
from safetensors.torch import load_file
from small_tasks import (
    LABELED,
    TAGGED,
    make_fitted_task,
    task_config,
    write_conll,
    write_elmo,
    write_jsonl,
)

from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError, FormatError
from elmo.tasks.core import loaded_elmo
from elmo.tasks.core.example import Example
from elmo.tasks.fitted.load_fitted import load_fitted_task
from elmo.tasks.tagging.tagging_options import TaggingOptions
from elmo.tasks.tagging.tagging_task import Tagging
from elmo.tasks.training import fit as fit_module
from elmo.tasks.training.fit import fit
from elmo.tasks.training.fit_result import FitResult
from elmo.tasks.training.task_trainable import TaskTrainable, TaskTrainingJob
from elmo.train.devices import make_fabric
from elmo.train.loop import train
from elmo.train.report import read_log


@pytest.fixture(autouse=True)
def no_plots(monkeypatch):
    """Disable plots, which take longer than the runs in these tests."""
    monkeypatch.setattr(fit_module, "draw_mixes", lambda *arguments: None)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_elmo(tmp_path_factory.mktemp("elmo"))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Example files by task."""
    folder = tmp_path_factory.mktemp("files")
    return {
        "classification": write_jsonl(folder / "labels.jsonl", LABELED),
        "tagging": write_conll(folder / "tags.txt", TAGGED),
    }


def same_weights(*folders):
    first, second = (load_file(folder / "model.safetensors") for folder in folders)
    return first.keys() == second.keys() and all(torch.equal(first[n], second[n]) for n in first)


def evaluations(folder):
    return [event for event in read_log(folder) if event["kind"] == "evaluation"]


@pytest.mark.parametrize("task", ["classification", "tagging"])
def test_fit_trains_and_scores_a_model_and_writes_its_folder(tmp_path, model, files, task, capsys):
    path = files[task]
    settings = {"train": path, "dev": path, "test": path, "task": task, "model": model}
    result = fit(task_config(tmp_path / "run", epochs=16, evaluate_every=32, **settings))
    (run,) = result.runs
    assert run["development"] == run["test"]
    assert run["test"][result.metric] == 1.0
    metric = result.metric.replace("_", " ")
    shown = str(result).splitlines()
    assert shown[0].startswith("development  accuracy 1.0000")
    assert f"{metric} 1.0000" in shown[1]
    assert shown[2].startswith("mix at input: layers 0.")
    assert shown[3] == f"model: {tmp_path / 'run' / 'model'}"
    described = capsys.readouterr().err
    assert "20 training examples, 20 development examples" in described
    assert f"\nelmo     {model}, frozen\n" in described
    written = json.loads((tmp_path / "run" / "results.json").read_text())
    assert written["metric"] == result.metric
    assert written["runs"] == [run]
    assert written["scores"]["test"]["accuracy"] == {"mean": 1.0, "deviation": 0.0, "n": 1}
    names = {entry.name for entry in (tmp_path / "run").iterdir()}
    assert {"config.yaml", "checkpoints", "log.jsonl", "model", "layers"} <= names
    fitted = load_fitted_task(tmp_path / "run")
    assert fitted.facts["steps"] in (32, 64)
    assert fitted.facts["development"] == run["development"]
    assert fitted.facts["mixes"] == run["mixes"]


@pytest.mark.parametrize(("use", "n_loads"), [("frozen", 1), ("tuned", 2)])
def test_fit_loads_the_elmo_model_once_and_hashes_frozen_weights_once(
    tmp_path, model, files, monkeypatch, use, n_loads
):
    loads, hashes = [], []
    load, compute = ELMo.from_pretrained, loaded_elmo.fingerprint

    def count_load(*arguments, **settings):
        loads.append(arguments)
        return load(*arguments, **settings)

    def count_hash(*arguments):
        hashes.append(arguments)
        return compute(*arguments)

    monkeypatch.setattr(ELMo, "from_pretrained", count_load)
    monkeypatch.setattr(loaded_elmo, "fingerprint", count_hash)
    path = files["classification"]
    settings = {"train": path, "dev": path, "test": path, "model": model, "use": use}
    result = fit(task_config(tmp_path / "run", epochs=4, evaluate_every=4, **settings))
    assert result.runs[0]["test"]["accuracy"] >= 0.5
    # The best weights of a fine-tuned ELMo are read from the folder of the run.
    assert len(loads) == n_loads
    assert use == "tuned" or len(hashes) == 1


@pytest.mark.parametrize("seeds", [1, 2])
def test_frozen_elmo_model_is_loaded_once_for_all_seeds(tmp_path, model, files, monkeypatch, seeds):
    loads = []
    load = ELMo.from_pretrained

    def count_load(*arguments, **settings):
        loads.append(arguments)
        return load(*arguments, **settings)

    monkeypatch.setattr(ELMo, "from_pretrained", count_load)
    path = files["classification"]
    fit(task_config(tmp_path / "run", train=path, dev=path, model=model, seeds=seeds))
    assert len(loads) == 1


def test_finished_run_is_not_trained_again(tmp_path, files, monkeypatch):
    config = task_config(tmp_path / "run", train=files["classification"])
    first = fit(config)

    def fail(*arguments):
        raise AssertionError

    monkeypatch.setattr(TaskTrainable, "step", fail)
    assert fit(config) == first


@pytest.mark.parametrize(
    ("stop", "settings"),
    [
        ("error", {"schedule": "cosine", "dropout": 0.3}),
        ("signal", {"model": True, "use": "tuned", "unfreeze_every": 1, "task": "tagging"}),
    ],
)
def test_resumed_run_equals_uninterrupted_run(tmp_path, model, files, monkeypatch, settings, stop):
    task = settings.get("task", "classification")
    settings = {**settings, "train": files[task], "epochs": 3, "checkpoint_every": 5}
    if "model" in settings:
        settings["model"] = model
    whole = fit(task_config(tmp_path / "whole", **settings))
    step = TaskTrainable.step

    def interrupted(self, batch, number, *arguments):
        if number == 6 and stop == "signal":
            os.kill(os.getpid(), signal.SIGINT)
        elif number == 6:
            raise ZeroDivisionError
        return step(self, batch, number, *arguments)

    monkeypatch.setattr(TaskTrainable, "step", interrupted)
    config = task_config(tmp_path / "resumed", **settings)
    with pytest.raises(KeyboardInterrupt if stop == "signal" else ZeroDivisionError):
        fit(config)
    monkeypatch.setattr(TaskTrainable, "step", step)
    resumed = fit(config)
    for whole_run, run in zip(whole.runs, resumed.runs, strict=True):
        assert {**whole_run, "out": ""} == {**run, "out": ""}
    assert same_weights(tmp_path / "whole" / "model", tmp_path / "resumed" / "model")
    if "model" in settings:
        first, second = (
            ELMo.from_pretrained(tmp_path / name / "model" / "elmo").state_dict()
            for name in ("whole", "resumed")
        )
        assert all(torch.equal(first[name], second[name]) for name in first)
    assert [e["step"] for e in evaluations(tmp_path / "resumed")] == [
        e["step"] for e in evaluations(tmp_path / "whole")
    ]


@pytest.mark.parametrize("stop", [6, 2])
def test_run_begun_with_only_the_tags_seen_resumes_with_them(tmp_path, monkeypatch, stop):
    """Earlier versions did not add the tags of spans that the training set does not contain."""
    train = write_conll(tmp_path / "train.txt", [TAGGED[1], TAGGED[2], TAGGED[3]] * 5)
    settings = {"task": "tagging", "train": train, "epochs": 3, "checkpoint_every": 1}
    config = task_config(tmp_path / "run", **settings)
    step = TaskTrainable.step

    def interrupted(self, batch, number, *arguments):
        if number == stop:
            raise ZeroDivisionError
        return step(self, batch, number, *arguments)

    seen = ["B-LOC", "B-PER", "E-LOC", "E-PER", "O", "S-LOC"]
    with monkeypatch.context() as patch:
        patch.setattr(TaskTrainable, "step", interrupted)
        patch.setattr(Tagging, "labels", lambda self, examples: seen)
        with pytest.raises(ZeroDivisionError):
            fit(config)
    if stop == 2:  # before the first evaluation, so that there is no model
        with pytest.raises(ConfigError, match="run of an earlier version that stopped before its"):
            fit(config)
        return
    fit(config)
    assert load_fitted_task(tmp_path / "run").labels == seen
    fit(task_config(tmp_path / "new", **settings))
    assert load_fitted_task(tmp_path / "new").labels == sorted({*seen, "I-LOC", "I-PER", "S-PER"})


def test_fit_saves_best_model_and_stops_after_patience(tmp_path, monkeypatch):
    accuracies = iter([0.3, 0.6, 0.6, 0.5, 0.9])
    fitted = make_fitted_task(tmp_path / "run", dev=LABELED, epochs=9, patience=2)
    with monkeypatch.context() as patch:
        patch.setattr(TaskTrainable, "measure", lambda self, step, watch: [next(accuracies), 0.0])
        run = train(TaskTrainingJob(fitted, LABELED, LABELED))
    assert run.step == 16
    assert run.best.scores["accuracy"] == 0.6
    assert str(run).startswith("stopped early after 2 evaluations without improvement: step 16, ")
    assert str(run).endswith("; development: accuracy 0.6000, macro f1 0.0000")
    kept = load_fitted_task(tmp_path / "run")
    assert kept.facts["steps"] == 8
    # The saved model is from the best step, not the last.
    short = make_fitted_task(tmp_path / "short", epochs=2)
    train(TaskTrainingJob(short, LABELED, []))
    assert same_weights(tmp_path / "run" / "model", tmp_path / "short" / "model")


def test_each_seed_gets_its_own_folder_and_results_are_combined(tmp_path, model, files):
    path = files["classification"]
    settings = {"train": path, "test": path, "model": model, "epochs": 2, "seed": 4}
    result = fit(task_config(tmp_path / "runs", seeds=2, **settings))
    assert [run["seed"] for run in result.runs] == [4, 5]
    folders = [tmp_path / "runs" / f"seed-{seed}" for seed in (4, 5)]
    assert [run["out"] for run in result.runs] == [str(folder) for folder in folders]
    assert not same_weights(*(folder / "model" for folder in folders))
    # ELMo layers are computed once for all seeds.
    assert len(list((tmp_path / "runs" / "layers").iterdir())) == 1
    assert not any((folder / "layers").exists() for folder in folders)
    written = json.loads((tmp_path / "runs" / "results.json").read_text())
    for part in ("development", "test"):
        for name in ("accuracy", "macro_f1"):
            first, second = (run[part][name] for run in result.runs)
            spread = written["scores"][part][name]
            assert spread["mean"] == pytest.approx((first + second) / 2)
            assert spread["deviation"] == pytest.approx(abs(first - second) / 2**0.5)
            assert spread["n"] == 2
            assert f"{spread['mean']:.4f} ± {spread['deviation']:.4f}" in str(result)
    with pytest.raises(
        FormatError, match=r"contains several models, one per seed\. Choose one, .*seed-4"
    ):
        load_fitted_task(tmp_path / "runs", "cpu")
    # A separate run with one of the seeds has the same result.
    fit(task_config(tmp_path / "alone", **{**settings, "seed": 5}))
    assert same_weights(tmp_path / "alone" / "model", folders[1] / "model")


def test_finished_seeds_are_not_trained_again(tmp_path, files, monkeypatch):
    settings = {"train": files["classification"], "max_steps": 1}
    fit(task_config(tmp_path / "runs", seeds=2, **settings))
    seeds = []
    step = TaskTrainable.step
    monkeypatch.setattr(
        TaskTrainable, "step", lambda self, *a: seeds.append(self.config.run.seed) or step(self, *a)
    )
    result = fit(task_config(tmp_path / "runs", seeds=3, **settings))
    assert seeds == [3]
    assert len(result.runs) == 3


def test_each_seed_trains_on_a_different_fraction_of_the_examples(tmp_path, files):
    settings = {"train": files["tagging"], "task": "tagging", "fraction": 0.25, "keep_steps": True}
    samples = []
    for seed in (1, 1, 2):
        job = fit_module._job(task_config(tmp_path, seed=seed, **settings), None)
        assert (len(job.train), len(job.dev)) == (4, 2)
        samples.append([e.words for e in job.train])
        assert set(job.fitted.labels) == set(job.fitted.task.labels(job.train))
    assert samples[0] == samples[1] != samples[2]


def test_steps_and_warm_up_shrink_with_the_fraction(tmp_path, files):
    settings = {"train": files["tagging"], "task": "tagging", "batch_size": 2, "epochs": 3}
    config = task_config(tmp_path, fraction=1 / 3, warmup_steps=6, learning_rate=1.0, **settings)
    trainable = fit_module._job(config, None).make_trainable(make_fabric(config.run))
    assert (trainable.steps_per_epoch, trainable.n_steps) == (3, 9)
    batches = trainable.batches(0)
    rates = [trainable.step(next(batches), number).rate for number in range(3)]
    assert rates == [0.5, 1.0, 1.0]


def test_number_of_steps_per_epoch_with_keep_steps_does_not_depend_on_fraction(tmp_path, files):
    settings = {"train": files["tagging"], "task": "tagging", "batch_size": 2, "epochs": 3}
    trainables = []
    for fraction in (1.0, 1 / 3, 0.1):
        config = task_config(tmp_path, fraction=fraction, keep_steps=fraction < 1, **settings)
        trainables.append(fit_module._job(config, None).make_trainable(make_fabric(config.run)))
    whole, part, tenth = trainables
    assert (len(whole.job.train), len(part.job.train)) == (18, 6)
    assert (whole.n_steps, part.n_steps) == (27, 27)
    assert whole.steps_per_epoch == part.steps_per_epoch == 9
    assert part.data.per_epoch == 3
    # Two examples are less than a batch: rounding errors are not multiplied.
    assert (len(tenth.job.train), tenth.data.per_epoch) == (2, 1)
    assert tenth.steps_per_epoch == 10
    assert part.tokens_per_step > 1


def test_resuming_with_changed_examples_or_settings_is_rejected(tmp_path, files):
    path = tmp_path / "train.jsonl"
    write_jsonl(path, LABELED)
    config = task_config(tmp_path / "run", train=str(path), max_steps=1)
    fit(config)
    write_jsonl(path, LABELED[::-1])
    with pytest.raises(
        ConfigError, match=r"run contains a run on other examples\. Use another output folder"
    ):
        fit(config)
    with pytest.raises(
        ConfigError, match="contains a run with other settings: hidden was 8, now 9"
    ):
        fit(dataclasses.replace(config, encoder=dataclasses.replace(config.encoder, hidden=9)))


def test_runs_with_different_options_share_stored_layers(tmp_path, model, files):
    settings = {"train": files["classification"], "model": model, "max_steps": 1}
    for hidden in (3, 4):
        config = task_config(
            tmp_path / str(hidden), hidden=hidden, cache=str(tmp_path / "cache"), **settings
        )
        fit(config)
        assert len(list((tmp_path / "cache").iterdir())) == 1
        assert not (tmp_path / str(hidden) / "layers").exists()


@pytest.mark.parametrize("use", ["frozen", "tuned"])
def test_dry_run_estimates_time_and_writes_no_files(tmp_path, model, files, use):
    settings = {"train": files["classification"], "model": model, "use": use, "seeds": 2}
    result = fit(task_config(tmp_path / "run", dry_run=True, **settings))
    assert str(result).startswith("dry run, nothing written; ")
    assert "tokens/s: the run would take about" in str(result)
    assert list(tmp_path.iterdir()) == []


def test_word_vectors_are_saved_with_the_model(tmp_path, files):
    path = tmp_path / "vectors.txt"
    path.write_text("5 3\nunheard 7 8 9\nfine 1 2 3\nrare 1 1 1\nfilm 4 5 6\nplay 1 0 1\n")
    settings = {
        "train": files["classification"],
        "word_vectors": str(path),
        "tune_word_vectors": False,
    }
    fit(task_config(tmp_path / "run", max_steps=2, max_word_vectors=1, **settings))
    path.unlink()  # the model folder has the vectors
    fitted = load_fitted_task(tmp_path / "run")
    indexer, features = fitted.built.indexer, fitted.built.model.features
    assert indexer.word_vector_rows == {"fine": 1, "film": 2, "play": 3, "unheard": 4}
    expected = [[0.0, 0, 0], [1, 2, 3], [4, 5, 6], [1, 0, 1]]
    assert features.word_vectors.weight.tolist() == expected
    # The first max_word_vectors words outside the examples are known too.
    rows = indexer.batch([("Unheard", "rare", "fine")]).word_vector_rows
    assert features._look_up(features.word_vectors, rows).tolist() == [
        [[7, 8, 9], [0, 0, 0], [1, 2, 3]]
    ]
    state = torch.load(next((tmp_path / "run" / "checkpoints").iterdir()), weights_only=False)
    assert "features.frozen_word_vectors" not in state["weights"]
    (tmp_path / "damaged.txt").write_text("fine 1 2 3\nfilm 4 5\n")
    settings["word_vectors"] = str(tmp_path / "damaged.txt")
    with pytest.raises(FormatError, match=r"damaged.txt, line 2: expected a word and 3 finite"):
        fit(task_config(tmp_path / "other", **settings))


def test_model_without_elmo_has_no_layer_mixes(tmp_path, files):
    result = fit(task_config(tmp_path / "run", train=files["classification"], max_steps=2))
    assert "mix at" not in str(result)
    assert not (tmp_path / "run" / "layers").exists()
    fitted = load_fitted_task(tmp_path / "run")
    assert fitted.built.elmo is None
    assert fitted.facts["mixes"] == {}


def test_labels_missing_from_training_set_are_allowed_in_dev_and_test_sets(tmp_path, files):
    dev = [*LABELED, dataclasses.replace(LABELED[0], target="neither")]
    path = write_jsonl(tmp_path / "dev.jsonl", dev)
    settings = {"train": files["classification"], "dev": path, "test": path}
    result = fit(task_config(tmp_path / "run", max_steps=1, **settings))
    assert load_fitted_task(tmp_path / "run").labels == ["bad", "good"]
    assert result.runs[0]["test"]["accuracy"] <= 20 / 21


def test_fit_result_without_scores_prints_model_path(tmp_path):
    run = {"out": "x", "seed": 1, "development": None, "test": None, "mixes": None}
    assert str(FitResult("x", "accuracy", (run,))) == "model: x/model"


def test_task_model_can_be_trained_in_bfloat16(tmp_path, model):
    settings = {"task": "tagging", "model": model, "use": "tuned", "precision": "bfloat16"}
    fitted = make_fitted_task(tmp_path, TAGGED, max_steps=2, **settings)
    assert train(TaskTrainingJob(fitted, TAGGED, TAGGED)).step == 2


@pytest.mark.parametrize("parallel_seeds", [1, 2])
def test_missing_test_set_raises_before_training(tmp_path, files, parallel_seeds):
    config = task_config(
        tmp_path / "run", train=files["classification"], test=str(tmp_path / "none.jsonl"), seeds=2
    )
    config = dataclasses.replace(config, parallel_seeds=parallel_seeds)
    with pytest.raises(FormatError, match=r"Cannot read .*none\.jsonl: No such file"):
        fit(config)
    assert not list((tmp_path / "run").rglob("log.jsonl"))


def test_fit_reports_how_the_run_ended(tmp_path, files, capsys):
    fit(task_config(tmp_path / "run", train=files["classification"], max_steps=2))
    assert "step 2" in capsys.readouterr().err.splitlines()[-1]


def test_tag_scheme_is_detected_unless_set(tmp_path, files, capsys):
    settings = {"task": "tagging", "train": files["tagging"], "max_steps": 1}
    fit(task_config(tmp_path / "detected", **settings))
    assert "tag scheme IOB2" in capsys.readouterr().err
    result = fit(task_config(tmp_path / "given", **settings, scheme="none"))
    assert result.metric == "accuracy"


@pytest.mark.parametrize("use", ["frozen", "tuned"])
def test_fit_warns_once_if_the_text_is_not_in_the_script_of_an_english_model(tmp_path, caplog, use):
    english = write_elmo(tmp_path / "elmo", attribution={"language": "en"})
    examples = [
        dataclasses.replace(example, texts=(("영화", *example.words[:1], "재미있다"),))
        for example in LABELED
    ]
    path = write_jsonl(tmp_path / "korean.jsonl", examples)
    fit(task_config(tmp_path / "run", train=path, model=english, use=use, max_steps=1))
    assert caplog.text.count("Use the model small-ko for Korean (--model small-ko).") == 1


@pytest.mark.parametrize(
    ("trained", "settings", "is_warned"),
    [
        ("korean", {"tokenizer": "english"}, True),
        ("korean", {"tokenizer": "korean"}, False),
        ("korean", {"tokenizer": "english", "pretokenized": True}, False),
        ("english", {"tokenizer": "characters"}, True),
        ("english", {"tokenizer": "spacy:blank-en"}, False),
        (None, {"tokenizer": "english"}, False),
    ],
)
def test_fit_warns_about_a_tokenizer_that_is_not_that_of_the_model(
    tmp_path, caplog, files, trained, settings, is_warned
):
    text = dataclasses.replace(TINY.text, tokenizer=trained)
    model = write_elmo(tmp_path / "elmo", config=dataclasses.replace(TINY, text=text))
    settings = {**settings, "train": files["classification"], "model": model}
    fit(task_config(tmp_path / "run", dry_run=True, **settings))
    assert ("was trained on words of the tokenizer" in caplog.text) == is_warned


def test_tag_that_begins_a_span_without_b_is_reported_with_its_line(tmp_path, caplog):
    train = tmp_path / "train.txt"
    train.write_text("Kim B-PER\nLee I-PRE\n\nthen O\nhe O\nAnn I-PER\n\nBo B-PER\nX I-PER\n")
    settings = {"task": "tagging", "train": str(train), "dev": str(train), "dry_run": True}
    fit(task_config(tmp_path / "run", **settings, scheme="IOB2"))
    expected = (
        "4 tags without B- at the start of a span: read as its start. The first is 'I-PRE' "
        f"({train}, line 2)."
    )
    assert caplog.messages[0] == expected  # training and development set


def test_misplaced_tags_of_texts_in_python_are_reported_by_text_and_word(caplog):
    examples = [Example((("a", "b", "c"),), ("S-X", "E-X", "O"), "4")]
    assert Tagging.from_examples(examples, TaggingOptions()).scheme == "BIOES"
    (message,) = caplog.messages
    assert message == (
        "1 tag not allowed by the scheme BIOES after the tag of the previous word. The first is "
        "'E-X' (text 4, at word 1)."
    )
    caplog.clear()
    Tagging.from_examples(TAGGED, TaggingOptions())
    assert not caplog.messages
