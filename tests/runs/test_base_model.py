"""Tests that `runs/base_model.py` moves a model in parts and notices damaged ones."""

import base_model
import pytest
from conftest import TINY, random_model

from elmo.formats import model_folder
from elmo.formats.load import read
from elmo.kernels.lstm_native import has_native_widths


@pytest.fixture
def model(tmp_path):
    model_folder.write(random_model(TINY), tmp_path / "model")
    return tmp_path / "model"


def test_joined_parts_are_the_model_in_int8(script, tmp_path, model):
    script("base_model.py", "split", "--model", model, "--out", tmp_path / "parts")
    script("base_model.py", "join", "--parts", tmp_path / "parts", "--out", tmp_path / "joined")
    model_folder.write(read(str(model)), tmp_path / "int8", "int8")
    files = sorted(path.name for path in (tmp_path / "int8").iterdir())
    assert files == sorted(path.name for path in (tmp_path / "joined").iterdir())
    for name in files:
        assert (tmp_path / "joined" / name).read_bytes() == (tmp_path / "int8" / name).read_bytes()


def test_join_rejects_a_damaged_part_and_an_existing_folder(script, tmp_path, model):
    script("base_model.py", "split", "--model", model, "--out", tmp_path / "parts")
    with pytest.raises(SystemExit, match="exists"):
        script("base_model.py", "join", "--parts", tmp_path / "parts", "--out", model)
    part = tmp_path / "parts" / "part-00"
    part.write_bytes(part.read_bytes()[:-1] + b"?")
    with pytest.raises(SystemExit, match="part-00 is damaged"):
        script("base_model.py", "join", "--parts", tmp_path / "parts", "--out", tmp_path / "joined")
    assert not (tmp_path / "joined").exists()


def test_train_requires_steps_for_the_decay_only(script, tmp_path):
    options = ["--data", tmp_path / "none", "--out", tmp_path / "run"]
    with pytest.raises(SystemExit, match="--steps is required"):
        script("base_model.py", "train", *options, "--stage", "decay")
    with pytest.raises(SystemExit, match="only for the decay"):
        script("base_model.py", "train", *options, "--steps", 5)


def test_default_dimensions_are_supported_by_the_native_kernels():
    args = base_model.parser().parse_args(["train", "--data", "corpus", "--out", "run"])
    assert has_native_widths((args.cell_dim, args.projection_dim))


@pytest.mark.parametrize(("option", "decay_steps"), [((), 300), (("--decay-steps", "100"), 100)])
def test_rate_of_a_later_part_falls_from_the_end_of_the_warmup_by_default(
    monkeypatch, option, decay_steps
):
    configs = []
    monkeypatch.setattr(base_model, "finetune", configs.append)
    files = ["--data", "corpus", "--out", "run", "--weights", "model"]
    command = ["train", *files, "--stage", "decay", "--steps", "500", *option]
    base_model.train(base_model.parser().parse_args(command))
    optimizer = configs[0].optimizer
    assert (optimizer.schedule, optimizer.decay_steps) == ("wsd", decay_steps)
    assert optimizer.warmup_steps == 200
