"""A model's folder: bit for bit what was saved, or one clear error."""

import json

import pytest
import torch
from small_tasks import EXAMPLES, LABELED, TAGGED, make_fitted_task, weights, write_elmo

from elmo.errors import ConfigError, FormatError, OutputError
from elmo.tasks.examples import Example
from elmo.tasks.fitted_task import load_fitted_task

STATIC = "fine 1 2\nfilm 3 4\nodd\x85\u2028 5 6\nodd\r 7 8\n"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_elmo(tmp_path_factory.mktemp("elmo"))


@pytest.fixture
def static(tmp_path):
    path = tmp_path / "static.txt"
    path.write_bytes(STATIC.encode())
    return str(path)


def shaken(trained):
    """Move all weights away from where they begin."""
    torch.manual_seed(5)
    for value in trained.built.model.parameters():
        value.data += 0.1 * torch.randn_like(value)
    return trained


@pytest.mark.parametrize("use", ["none", "frozen", "tuned"])
@pytest.mark.parametrize("task", ["classification", "tagging"])
def test_what_is_loaded_is_what_was_saved(tmp_path, model, static, task, use):
    examples = EXAMPLES[task]
    given = {"model": None} if use == "none" else {"model": model, "use": use, "placement": "both"}
    words = [("odd\x85\u2028", "odd\r")]
    more = [type(examples[0])(tuple(words), "good" if task == "classification" else ("O", "O"))]
    trained = make_fitted_task(
        tmp_path, [*examples, *more], task=task, word_vectors=static, seed=7, **given
    )
    trained = shaken(trained)
    trained.facts = {"steps": 3, "development": {"accuracy": 0.1 + 0.2}}
    trained.raw = True
    trained.save(tmp_path / "model")
    torch.manual_seed(3)
    drawn = torch.rand(4)
    torch.manual_seed(3)
    again = load_fitted_task(tmp_path / "model")
    # Whoever loads a model draws the same numbers as if they had not.
    assert torch.equal(torch.rand(4), drawn)
    assert again.config == trained.config
    assert again.labels == trained.labels
    assert again.facts == trained.facts
    assert again.raw
    assert vars(again.task) == vars(trained.task)
    one, other = weights(trained), weights(again)
    assert one.keys() == other.keys()
    assert [name for name in one if not torch.equal(one[name], other[name])] == []
    asked = [*examples, *(Example((one,)) for one in words)]
    assert again.built.indexer.word_vector_rows == trained.built.indexer.word_vector_rows
    assert again.predict(asked) == trained.predict(asked)
    assert not again.built.model.training
    files = {path.name for path in (tmp_path / "model").iterdir()}
    tuned = {"elmo"} if use == "tuned" else set()
    assert files == {"config.json", "model.safetensors", "static.txt", *tuned}


def test_a_training_folder_is_its_model(tmp_path):
    make_fitted_task(tmp_path).save(tmp_path / "run" / "model")
    assert load_fitted_task(tmp_path / "run").labels == ["bad", "good"]


def test_saving_over_an_older_model(tmp_path, static):
    make_fitted_task(tmp_path, word_vectors=static).save(tmp_path / "model")
    make_fitted_task(tmp_path, TAGGED, task="tagging").save(tmp_path / "model")
    assert not (tmp_path / "model" / "static.txt").exists()
    assert load_fitted_task(tmp_path / "model").config.task == "tagging"
    (tmp_path / "file").touch()
    with pytest.raises(OutputError):
        make_fitted_task(tmp_path).save(tmp_path / "file")


def test_answers_are_in_the_order_of_the_texts(tmp_path, monkeypatch):
    trained = shaken(make_fitted_task(tmp_path, TAGGED, task="tagging"))
    together = trained.predict(TAGGED)
    assert together == [trained.predict([example])[0] for example in TAGGED]
    monkeypatch.setattr("elmo.tasks.fitted_task.TOGETHER", 3)
    assert together == trained.predict(TAGGED)
    assert trained.predict([]) == []
    trained.built.model.train()
    trained.predict(TAGGED)
    assert trained.built.model.training


def test_a_frozen_elmo_that_has_changed(tmp_path):
    name = write_elmo(tmp_path / "elmo")
    make_fitted_task(tmp_path, model=name).save(tmp_path / "model")
    load_fitted_task(tmp_path / "model")
    write_elmo(tmp_path / "elmo", seed=1)
    with pytest.raises(ConfigError, match=r"was trained on the ELMo .* is another one: train the"):
        load_fitted_task(tmp_path / "model")


def test_a_frozen_elmo_is_found_from_any_folder(tmp_path, monkeypatch):
    write_elmo(tmp_path / "elmo")
    monkeypatch.chdir(tmp_path)
    make_fitted_task(tmp_path, model="elmo").save(tmp_path / "model")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert load_fitted_task(tmp_path / "model").config.elmo.model == str(tmp_path / "elmo")


def test_a_tuned_elmo_needs_the_first_one_no_more(tmp_path):
    name = write_elmo(tmp_path / "elmo")
    make_fitted_task(tmp_path, model=name, use="tuned").save(tmp_path / "model")
    write_elmo(tmp_path / "elmo", seed=1)
    load_fitted_task(tmp_path / "model")
    # But the one beside it must be the one it was saved with.
    write_elmo(tmp_path / "model" / "elmo", seed=1)
    with pytest.raises(FormatError, match="its elmo is of another one"):
        load_fitted_task(tmp_path / "model")
    (tmp_path / "model" / "elmo").rename(tmp_path / "gone")
    with pytest.raises(FormatError, match="there is no elmo in it"):
        load_fitted_task(tmp_path / "model")


def edited(change):
    def edit(folder):
        path = folder / "config.json"
        head = json.loads(path.read_text(encoding="utf-8"))
        change(head)
        path.write_text(json.dumps(head))

    return edit


def cut(name):
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:40])


def write(name, data):
    return lambda folder: (folder / name).write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "config.json").unlink(), "is no model of a task"),
        (cut("config.json"), "is no model of a task"),
        (write("config.json", b"\xff"), "is no model of a task"),
        (write("config.json", b"[]"), "its config.json does not say so"),
        (write("config.json", b"{}"), "its config.json does not say so"),
        (edited(lambda head: head.update(version=99)), "is of version 99, this reads 1"),
        *(
            (edited(lambda head, name=name: head.pop(name)), f"is damaged: its {name} is not")
            for name in ("labels", "task_settings", "facts", "fingerprint", "config")
        ),
        (edited(lambda head: head.update(labels={})), "is damaged: its labels is not"),
        (edited(lambda head: head.update(label_type="x")), "is damaged: its label_type is 'x'"),
        (edited(lambda head: head["labels"].pop()), "is no whole model of a task: .*size mismatch"),
        (edited(lambda head: head.update(task_settings={"x": 1})), "is no whole model of a task"),
        (edited(lambda head: head["config"]["encoder"].update(depth=2)), "does not fit its config"),
        (edited(lambda head: head["config"].update(depth=2)), "unknown name depth; known: out, "),
        (edited(lambda head: head["config"].update(task="x")), "config.task: found 'x', expected"),
        (lambda folder: (folder / "model.safetensors").unlink(), "is no whole model of a task"),
        (cut("model.safetensors"), "is no whole model of a task"),
        (lambda folder: (folder / "static.txt").unlink(), "is no whole .*size mismatch"),
        (write("static.txt", b"fine\n"), "static.txt has 1 words for 4 vectors"),
        (write("static.txt", b"fine\n\xff\n"), "is no whole model of a task: .*utf-8"),
    ],
)
def test_a_damaged_folder(tmp_path, static, damage, message):
    make_fitted_task(tmp_path, LABELED, word_vectors=static).save(tmp_path / "model")
    damage(tmp_path / "model")
    with pytest.raises(FormatError, match=message) as raised:
        load_fitted_task(tmp_path / "model")
    assert "\n" not in str(raised.value)


def test_a_damaged_tagger(tmp_path):
    make_fitted_task(tmp_path, TAGGED, task="tagging").save(tmp_path / "model")
    edited(lambda head: head["labels"].__setitem__(0, "Q"))(tmp_path / "model")
    with pytest.raises(FormatError, match="'Q' is no tag of the scheme"):
        load_fitted_task(tmp_path / "model")


def test_a_device_that_is_not_there(tmp_path):
    make_fitted_task(tmp_path).save(tmp_path / "model")
    with pytest.raises(ConfigError, match="Device 'nowhere' is not available"):
        load_fitted_task(tmp_path / "model", "nowhere")
