"""Tests of the model folder of a fitted task: exact round trips, and errors for damaged files."""

import json

import pytest
import torch
from small_tasks import EXAMPLES, LABELED, TAGGED, make_fitted_task, weights, write_elmo

from elmo.errors import ConfigError, FormatError, OutputError
from elmo.tasks.core.example import Example
from elmo.tasks.fitted.load_fitted import load_fitted_task

WORD_VECTORS = "fine 1 2\nfilm 3 4\nodd\x85\u2028 5 6\nodd\r 7 8\n"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_elmo(tmp_path_factory.mktemp("elmo"))


@pytest.fixture
def word_vectors(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_bytes(WORD_VECTORS.encode())
    return str(path)


def perturb(fitted):
    """Change all weights so that they differ from their initial values."""
    torch.manual_seed(5)
    for value in fitted.built.model.parameters():
        value.data += 0.1 * torch.randn_like(value)
    return fitted


@pytest.mark.parametrize("use", ["none", "frozen", "tuned"])
@pytest.mark.parametrize("task", ["classification", "tagging"])
def test_loaded_model_equals_saved_model(tmp_path, model, word_vectors, task, use):
    examples = EXAMPLES[task]
    elmo = {"model": None} if use == "none" else {"model": model, "use": use, "placement": "both"}
    words = [("odd\x85\u2028", "odd\r")]
    more = [type(examples[0])(tuple(words), "good" if task == "classification" else ("O", "O"))]
    fitted = make_fitted_task(
        tmp_path, [*examples, *more], task=task, word_vectors=word_vectors, seed=7, **elmo
    )
    perturb(fitted)
    fitted.facts = {"steps": 3, "development": {"accuracy": 0.1 + 0.2}}
    fitted.save(tmp_path / "model")
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    loaded = load_fitted_task(tmp_path / "model")
    # Loading does not change the random state.
    assert torch.equal(torch.rand(4), expected)
    assert loaded.config == fitted.config
    assert loaded.labels == fitted.labels
    assert loaded.facts == fitted.facts
    assert vars(loaded.task) == vars(fitted.task)
    saved_weights, loaded_weights = weights(fitted), weights(loaded)
    assert saved_weights.keys() == loaded_weights.keys()
    assert all(torch.equal(saved_weights[name], loaded_weights[name]) for name in saved_weights)
    unlabeled = [*examples, *(Example((text,)) for text in words)]
    assert loaded.built.indexer.word_vector_rows == fitted.built.indexer.word_vector_rows
    assert loaded.predict(unlabeled) == fitted.predict(unlabeled)
    assert not loaded.built.model.training
    files = {path.name for path in (tmp_path / "model").iterdir()}
    tuned = {"elmo"} if use == "tuned" else set()
    assert files == {"config.json", "model.safetensors", "static.txt", *tuned}


def test_load_fitted_task_accepts_training_folder(tmp_path):
    make_fitted_task(tmp_path).save(tmp_path / "run" / "model")
    assert load_fitted_task(tmp_path / "run").labels == ["bad", "good"]


def test_saving_fitted_task_replaces_previous_model(tmp_path, word_vectors):
    make_fitted_task(tmp_path, word_vectors=word_vectors).save(tmp_path / "model")
    make_fitted_task(tmp_path, TAGGED, task="tagging").save(tmp_path / "model")
    assert not (tmp_path / "model" / "static.txt").exists()
    assert load_fitted_task(tmp_path / "model").config.task == "tagging"
    (tmp_path / "file").touch()
    with pytest.raises(OutputError):
        make_fitted_task(tmp_path).save(tmp_path / "file")


def test_predictions_are_in_order_and_do_not_depend_on_batch(tmp_path, monkeypatch):
    fitted = perturb(make_fitted_task(tmp_path, TAGGED, task="tagging"))
    predictions = fitted.predict(TAGGED)
    assert predictions == [fitted.predict([example])[0] for example in TAGGED]
    monkeypatch.setattr("elmo.tasks.fitted.trained_model.MAX_BATCH_EXAMPLES", 3)
    assert predictions == fitted.predict(TAGGED)
    assert fitted.predict([]) == []
    fitted.built.model.train()
    fitted.predict(TAGGED)
    assert fitted.built.model.training


def test_load_fitted_task_rejects_changed_frozen_elmo(tmp_path):
    name = write_elmo(tmp_path / "elmo")
    make_fitted_task(tmp_path, model=name).save(tmp_path / "model")
    load_fitted_task(tmp_path / "model")
    write_elmo(tmp_path / "elmo", seed=1)
    with pytest.raises(
        ConfigError, match=r"was trained with a different ELMo model .* Fit the task again"
    ):
        load_fitted_task(tmp_path / "model")


def test_relative_path_of_frozen_elmo_is_saved_as_absolute(tmp_path, monkeypatch):
    write_elmo(tmp_path / "elmo")
    monkeypatch.chdir(tmp_path)
    make_fitted_task(tmp_path, model="elmo").save(tmp_path / "model")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert load_fitted_task(tmp_path / "model").config.elmo.model == str(tmp_path / "elmo")


@pytest.mark.parametrize("is_run", [True, False])
def test_frozen_elmo_that_was_moved_with_the_task_is_found_next_to_it(tmp_path, is_run):
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    elmo = write_elmo(before / "elmo")
    fitted = make_fitted_task(tmp_path, model=elmo)
    fitted.save(before / "run" / "model" if is_run else before / "run")
    if is_run:
        (before / "run" / "config.yaml").touch()
    before.rename(after)
    moved = load_fitted_task(after / "run")
    assert [p.label for p in moved.predict(LABELED)] == [p.label for p in fitted.predict(LABELED)]
    # The new path is saved.
    moved.save(tmp_path / "elsewhere" / "copy")
    assert load_fitted_task(tmp_path / "elsewhere" / "copy").config.elmo.model == str(
        after / "elmo"
    )
    write_elmo(after / "elmo", seed=1)
    with pytest.raises(ConfigError, match=f"a different ELMo model than the current {after}/elmo"):
        load_fitted_task(after / "run")
    (after / "elmo").rename(after / "other")
    expected = (
        rf"run(/model)? needs the ELMo model .* neither {elmo} nor {after}/elmo exists\. Copy"
    )
    with pytest.raises(ConfigError, match=expected):
        load_fitted_task(after / "run")


def test_fine_tuned_elmo_is_loaded_from_model_folder(tmp_path):
    name = write_elmo(tmp_path / "elmo")
    make_fitted_task(tmp_path, model=name, use="tuned").save(tmp_path / "model")
    write_elmo(tmp_path / "elmo", seed=1)
    load_fitted_task(tmp_path / "model")
    # The ELMo in the folder must be the one that was saved with the model.
    write_elmo(tmp_path / "model" / "elmo", seed=1)
    with pytest.raises(FormatError, match="the ELMo in elmo belongs to another"):
        load_fitted_task(tmp_path / "model")
    (tmp_path / "model" / "elmo").rename(tmp_path / "gone")
    with pytest.raises(FormatError, match="the folder elmo is missing"):
        load_fitted_task(tmp_path / "model")


def edit_config(change):
    def edit(folder):
        path = folder / "config.json"
        record = json.loads(path.read_text(encoding="utf-8"))
        change(record)
        path.write_text(json.dumps(record))

    return edit


def truncate(name):
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:40])


def write(name, data):
    return lambda folder: (folder / name).write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "config.json").unlink(), "is not a fitted task model"),
        (truncate("config.json"), "is not a fitted task model"),
        (write("config.json", b"\xff"), "is not a fitted task model"),
        (write("config.json", b"[]"), "the format in its config.json is not"),
        (write("config.json", b"{}"), "the format in its config.json is not"),
        (
            edit_config(lambda record: record.update(version=99)),
            "has format version 99; only version 1",
        ),
        *(
            (
                edit_config(lambda record, name=name: record.pop(name)),
                f"is damaged: {name} is missing",
            )
            for name in ("labels", "task_settings", "facts", "fingerprint", "config")
        ),
        (
            edit_config(lambda record: record.update(labels={})),
            "is damaged: labels is missing or has",
        ),
        (
            edit_config(lambda record: record.update(label_type="x")),
            "is damaged: label_type is 'x'",
        ),
        (
            edit_config(lambda record: record["labels"].pop()),
            "is not a complete fitted task model: .*size mismatch",
        ),
        (
            edit_config(lambda record: record.update(task_settings={"x": 1})),
            "is not a complete fitted task model",
        ),
        (
            edit_config(lambda record: record["config"]["encoder"].update(depth=2)),
            "does not match its config",
        ),
        (
            edit_config(lambda record: record["config"].update(depth=2)),
            r"unknown option depth\. Did you mean encoder\.depth\?",
        ),
        (
            edit_config(lambda record: record["config"].update(task="x")),
            r"config: Unknown task 'x'. Expected one of: class",
        ),
        (
            lambda folder: (folder / "model.safetensors").unlink(),
            "is not a complete fitted task model",
        ),
        (truncate("model.safetensors"), "is not a complete fitted task model"),
        (lambda folder: (folder / "static.txt").unlink(), "is not a complete .*size mismatch"),
        (write("static.txt", b"fine\n"), "static.txt has 1 words but there are 4 vectors"),
        (write("static.txt", b"fine\n\xff\n"), "is not a complete fitted task model: .*utf-8"),
    ],
)
def test_load_fitted_task_rejects_damaged_model_folder(tmp_path, word_vectors, damage, message):
    make_fitted_task(tmp_path, LABELED, word_vectors=word_vectors).save(tmp_path / "model")
    damage(tmp_path / "model")
    with pytest.raises(FormatError, match=message) as raised:
        load_fitted_task(tmp_path / "model")
    assert "\n" not in str(raised.value)


def test_load_fitted_task_rejects_label_outside_tag_scheme(tmp_path):
    make_fitted_task(tmp_path, TAGGED, task="tagging").save(tmp_path / "model")
    edit_config(lambda record: record["labels"].__setitem__(0, "Q"))(tmp_path / "model")
    with pytest.raises(FormatError, match="'Q' is not a tag of the scheme"):
        load_fitted_task(tmp_path / "model")


def test_load_fitted_task_rejects_unavailable_device(tmp_path):
    make_fitted_task(tmp_path).save(tmp_path / "model")
    with pytest.raises(ConfigError, match="Device 'nowhere' is not available"):
        load_fitted_task(tmp_path / "model", "nowhere")
