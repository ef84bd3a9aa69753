"""Training runs from files to folders."""

import dataclasses
import json
import os
import signal

import pytest
import torch
from safetensors.torch import load_file
from small_tasks import (
    LABELLED,
    TAGGED,
    make_trained,
    task_config,
    write_conll,
    write_elmo,
    write_jsonl,
)

from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError, FormatError
from elmo.tasks import fit as fit_module
from elmo.tasks.fit import FitResult, fit
from elmo.tasks.fitted_task import load_fitted_task
from elmo.tasks.task_trainable import TaskTrainable, TaskTrainingJob
from elmo.train import loop
from elmo.train.devices import make_fabric
from elmo.train.loop import train
from elmo.train.report import read_log


@pytest.fixture(autouse=True)
def no_picture(monkeypatch):
    """Pictures take longer to draw than such runs do."""
    monkeypatch.setattr(loop, "draw_curves", lambda folder: None)
    monkeypatch.setattr(fit_module, "draw_mixes", lambda *given: None)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_elmo(tmp_path_factory.mktemp("elmo"))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files of examples, by the task they are for."""
    folder = tmp_path_factory.mktemp("files")
    return {
        "classification": write_jsonl(folder / "labels.jsonl", LABELLED),
        "tagging": write_conll(folder / "tags.txt", TAGGED),
    }


def same_weights(one, other):
    one, other = (load_file(folder / "model.safetensors") for folder in (one, other))
    return one.keys() == other.keys() and all(torch.equal(one[n], other[n]) for n in one)


def scores(folder):
    return [event for event in read_log(folder) if event["kind"] == "evaluation"]


@pytest.mark.parametrize("task", ["classification", "tagging"])
def test_a_run_from_files(tmp_path, model, files, task, capsys):
    path = files[task]
    given = {"train": path, "dev": path, "test": path, "task": task, "model": model}
    result = fit(task_config(tmp_path / "run", epochs=16, evaluate_every=32, **given))
    (run,) = result.runs
    assert run["development"] == run["test"]
    assert run["test"][result.metric] == 1.0
    metric = result.metric.replace("_", " ")
    shown = str(result).splitlines()
    assert shown[0].startswith("development  accuracy 1.0000")
    assert f"{metric} 1.0000" in shown[1]
    assert shown[2].startswith("mix at input: layers 0.")
    assert shown[3] == f"model: {tmp_path / 'run' / 'model'}"
    assert "20 examples to learn from, 20 to choose by" in capsys.readouterr().err
    written = json.loads((tmp_path / "run" / "results.json").read_text())
    assert written["metric"] == result.metric
    assert written["runs"] == [run]
    assert written["scores"]["test"]["accuracy"] == {"mean": 1.0, "deviation": 0.0, "n": 1}
    found = {entry.name for entry in (tmp_path / "run").iterdir()}
    assert {"config.yaml", "checkpoints", "log.jsonl", "model", "layers"} <= found
    trained = load_fitted_task(tmp_path / "run")
    assert trained.facts["steps"] in (32, 64)
    assert trained.facts["development"] == run["development"]
    assert trained.facts["mixes"] == run["mixes"]


def test_started_again_it_has_nothing_to_do(tmp_path, files, monkeypatch):
    config = task_config(tmp_path / "run", train=files["classification"])
    first = fit(config)

    def refuse(*arguments):
        raise AssertionError

    monkeypatch.setattr(TaskTrainable, "step", refuse)
    assert fit(config) == first


@pytest.mark.parametrize(
    ("stop", "given"),
    [
        ("death", {"schedule": "cosine", "dropout": 0.3}),
        ("signal", {"model": True, "use": "tuned", "unfreeze_every": 1, "task": "tagging"}),
    ],
)
def test_stopped_and_gone_on(tmp_path, model, files, monkeypatch, given, stop):
    task = given.get("task", "classification")
    given = {**given, "train": files[task], "epochs": 3, "checkpoint_every": 5}
    if "model" in given:
        given["model"] = model
    whole = fit(task_config(tmp_path / "whole", **given))
    step = TaskTrainable.step

    def dying(self, batch, number):
        if number == 6 and stop == "signal":
            os.kill(os.getpid(), signal.SIGINT)
        elif number == 6:
            raise ZeroDivisionError
        return step(self, batch, number)

    monkeypatch.setattr(TaskTrainable, "step", dying)
    config = task_config(tmp_path / "parts", **given)
    with pytest.raises(KeyboardInterrupt if stop == "signal" else ZeroDivisionError):
        fit(config)
    monkeypatch.setattr(TaskTrainable, "step", step)
    parts = fit(config)
    for whole_run, run in zip(whole.runs, parts.runs, strict=True):
        assert {**whole_run, "out": ""} == {**run, "out": ""}
    assert same_weights(tmp_path / "whole" / "model", tmp_path / "parts" / "model")
    if "model" in given:
        one, other = (
            ELMo.from_pretrained(tmp_path / name / "model" / "elmo").state_dict()
            for name in ("whole", "parts")
        )
        assert all(torch.equal(one[name], other[name]) for name in one)
    assert [e["step"] for e in scores(tmp_path / "parts")] == [
        e["step"] for e in scores(tmp_path / "whole")
    ]


def test_the_best_is_kept_and_worse_ones_stop_it(tmp_path, monkeypatch):
    figures = iter([0.3, 0.6, 0.6, 0.5, 0.9])
    trained = make_trained(tmp_path / "run", dev=LABELLED, epochs=9, patience=2)
    with monkeypatch.context() as patch:
        patch.setattr(TaskTrainable, "metric", lambda self, step, watch: [next(figures), 0.0])
        run = train(TaskTrainingJob(trained, LABELLED, LABELLED))
    assert run.step == 16
    assert run.best.figures["accuracy"] == 0.6
    assert str(run).startswith("stopped early after 2 evaluations without improvement: step 16, ")
    assert str(run).endswith("; development: accuracy 0.6000, macro f1 0.0000")
    kept = load_fitted_task(tmp_path / "run")
    assert kept.facts["steps"] == 8
    # What was kept is the model of that step, not that of the last.
    short = make_trained(tmp_path / "short", epochs=2)
    train(TaskTrainingJob(short, LABELLED, []))
    assert same_weights(tmp_path / "run" / "model", tmp_path / "short" / "model")


def test_seeds(tmp_path, model, files):
    path = files["classification"]
    given = {"train": path, "test": path, "model": model, "epochs": 2, "seed": 4}
    result = fit(task_config(tmp_path / "runs", seeds=2, **given))
    assert [run["seed"] for run in result.runs] == [4, 5]
    folders = [tmp_path / "runs" / f"seed-{seed}" for seed in (4, 5)]
    assert [run["out"] for run in result.runs] == [str(folder) for folder in folders]
    assert not same_weights(*(folder / "model" for folder in folders))
    # Layers are computed once for all of them.
    assert len(list((tmp_path / "runs" / "layers").iterdir())) == 1
    assert not any((folder / "layers").exists() for folder in folders)
    written = json.loads((tmp_path / "runs" / "results.json").read_text())
    for part in ("development", "test"):
        for name in ("accuracy", "macro_f1"):
            one, other = (run[part][name] for run in result.runs)
            found = written["scores"][part][name]
            assert found["mean"] == pytest.approx((one + other) / 2)
            assert found["deviation"] == pytest.approx(abs(one - other) / 2**0.5)
            assert found["n"] == 2
            assert f"{found['mean']:.4f} ± {found['deviation']:.4f}" in str(result)
    with pytest.raises(
        FormatError, match=r"has models of several seeds: name one, such as .*seed-4"
    ):
        load_fitted_task(tmp_path / "runs", "cpu")
    # One of them alone comes to the same.
    fit(task_config(tmp_path / "alone", **{**given, "seed": 5}))
    assert same_weights(tmp_path / "alone" / "model", folders[1] / "model")


def test_seeds_that_were_done_are_not_done_again(tmp_path, files, monkeypatch):
    given = {"train": files["classification"], "max_steps": 1}
    fit(task_config(tmp_path / "runs", seeds=2, **given))
    seen = []
    step = TaskTrainable.step
    monkeypatch.setattr(
        TaskTrainable, "step", lambda self, *a: seen.append(self.config.run.seed) or step(self, *a)
    )
    result = fit(task_config(tmp_path / "runs", seeds=3, **given))
    assert seen == [3]
    assert len(result.runs) == 3


def test_a_fraction(tmp_path, files):
    given = {"train": files["tagging"], "task": "tagging", "fraction": 0.25}
    seen = []
    for seed in (1, 1, 2):
        job = fit_module._job(task_config(tmp_path, seed=seed, **given), None)
        assert (len(job.train), len(job.dev)) == (4, 2)
        seen.append([e.words for e in job.train])
        assert set(job.trained.labels) == set(job.trained.kind.labels(job.train))
    assert seen[0] == seen[1] != seen[2]


def test_a_fraction_is_learned_from_as_long_as_the_whole(tmp_path, files):
    given = {"train": files["tagging"], "task": "tagging", "batch_size": 2, "epochs": 3}
    works = []
    for fraction in (1.0, 1 / 3, 0.1):
        config = task_config(tmp_path, fraction=fraction, **given)
        works.append(fit_module._job(config, None).make_trainable(make_fabric(config.run)))
    whole, part, tenth = works
    assert (len(whole.job.train), len(part.job.train)) == (18, 6)
    assert (whole.n_steps, part.n_steps) == (27, 27)
    assert whole.steps_per_epoch == part.steps_per_epoch == 9
    assert part.data.per_epoch == 3
    # Two examples of a batch that could hold them all twice over: rounding is not multiplied.
    assert (len(tenth.job.train), tenth.data.per_epoch) == (2, 1)
    assert tenth.steps_per_epoch == 10
    assert part.tokens_per_step > 1


def test_other_examples_in_the_same_folder(tmp_path, files):
    path = tmp_path / "train.jsonl"
    write_jsonl(path, LABELLED)
    config = task_config(tmp_path / "run", train=str(path), max_steps=1)
    fit(config)
    write_jsonl(path, LABELLED[::-1])
    with pytest.raises(ConfigError, match="run holds a run on other examples: another --out"):
        fit(config)
    with pytest.raises(
        ConfigError, match="contains a run with other settings: hidden was 8, now 9"
    ):
        fit(dataclasses.replace(config, body=dataclasses.replace(config.encoder, hidden=9)))


def test_runs_with_other_heads_share_their_layers(tmp_path, model, files):
    given = {"train": files["classification"], "model": model, "max_steps": 1}
    for hidden in (3, 4):
        config = task_config(
            tmp_path / str(hidden), hidden=hidden, cache=str(tmp_path / "cache"), **given
        )
        fit(config)
        assert len(list((tmp_path / "cache").iterdir())) == 1
        assert not (tmp_path / str(hidden) / "layers").exists()


@pytest.mark.parametrize("use", ["frozen", "tuned"])
def test_a_dry_run_writes_nothing_and_says_how_long(tmp_path, model, files, use):
    given = {"train": files["classification"], "model": model, "use": use, "seeds": 2}
    result = fit(task_config(tmp_path / "run", dry_run=True, **given))
    assert str(result).startswith("dry run, nothing written; ")
    assert "tokens/s: the run would take about" in str(result)
    assert list(tmp_path.iterdir()) == []


def test_static_vectors_of_all_words(tmp_path, files):
    path = tmp_path / "vectors.txt"
    path.write_text("5 3\nunheard 7 8 9\nfine 1 2 3\nrare 1 1 1\nfilm 4 5 6\nplay 1 0 1\n")
    given = {
        "train": files["classification"],
        "word_vectors": str(path),
        "tune_word_vectors": False,
    }
    fit(task_config(tmp_path / "run", max_steps=2, max_word_vectors=1, **given))
    path.unlink()  # the model has them
    trained = load_fitted_task(tmp_path / "run")
    fields, tokens = trained.built.fields, trained.built.model.tokens
    assert fields.static == {"fine": 1, "film": 2, "play": 3, "unheard": 4}
    expected = [[0.0, 0, 0], [1, 2, 3], [4, 5, 6], [1, 0, 1]]
    assert tokens.static.weight.tolist() == expected
    # Words that were in no example are known too, as far as they are kept.
    rows = fields.batch([("Unheard", "rare", "fine")]).static
    assert tokens._static(tokens.static, rows).tolist() == [[[7, 8, 9], [0, 0, 0], [1, 2, 3]]]
    state = torch.load(next((tmp_path / "run" / "checkpoints").iterdir()), weights_only=False)
    assert "tokens.others" not in state["weights"]
    (tmp_path / "torn.txt").write_text("fine 1 2 3\nfilm 4 5\n")
    given["static"] = str(tmp_path / "torn.txt")
    with pytest.raises(FormatError, match=r"torn.txt, line 2: expected a word and 3 numbers"):
        fit(task_config(tmp_path / "other", **given))


def test_a_baseline_has_no_elmo(tmp_path, files):
    result = fit(task_config(tmp_path / "run", train=files["classification"], max_steps=2))
    assert "mix at" not in str(result)
    assert not (tmp_path / "run" / "layers").exists()
    trained = load_fitted_task(tmp_path / "run")
    assert trained.built.elmo is None
    assert trained.facts["mixes"] == {}


def test_no_label_of_dev_and_test_need_be_known(tmp_path, files):
    dev = [*LABELLED, dataclasses.replace(LABELLED[0], target="neither")]
    path = write_jsonl(tmp_path / "dev.jsonl", dev)
    given = {"train": files["classification"], "dev": path, "test": path}
    result = fit(task_config(tmp_path / "run", max_steps=1, **given))
    assert load_fitted_task(tmp_path / "run").labels == ["bad", "good"]
    assert result.runs[0]["test"]["accuracy"] <= 20 / 21


def test_runs_without_a_development_part_are_told(tmp_path):
    run = {"out": "x", "seed": 1, "development": None, "test": None, "mixes": None}
    assert str(FitResult("x", "accuracy", (run,))) == "model: x/model"


def test_mixed_precision(tmp_path, model):
    given = {"task": "tagging", "model": model, "use": "tuned", "precision": "bfloat16"}
    trained = make_trained(tmp_path, TAGGED, max_steps=2, **given)
    assert train(TaskTrainingJob(trained, TAGGED, TAGGED)).step == 2


@pytest.mark.parametrize("parallel_seeds", [1, 2])
def test_a_test_part_that_cannot_be_read_is_told_before_training(tmp_path, files, side_by_side):
    config = task_config(
        tmp_path / "run", train=files["classification"], test=str(tmp_path / "none.jsonl"), seeds=2
    )
    config = dataclasses.replace(config, parallel_seeds=side_by_side)
    with pytest.raises(FormatError, match=r"cannot read .*none\.jsonl: No such file"):
        fit(config)
    assert not list((tmp_path / "run").rglob("log.jsonl"))


def test_how_a_run_ended_is_told(tmp_path, files, capsys):
    fit(task_config(tmp_path / "run", train=files["classification"], max_steps=2))
    assert "step 2" in capsys.readouterr().err.splitlines()[-1]


def test_the_scheme_of_tags_is_told_and_may_be_named(tmp_path, files, capsys):
    settings = {"task": "tagging", "train": files["tagging"], "max_steps": 1}
    fit(task_config(tmp_path / "found", **settings))
    assert "tags of scheme IOB2" in capsys.readouterr().err
    found = fit(task_config(tmp_path / "named", **settings, scheme="none"))
    assert found.metric == "accuracy"
