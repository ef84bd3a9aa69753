"""Tests that the task in docs/add-a-task.md works, in the package and next to it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import elmo
from elmo import tasks
from elmo.config.serialization import from_dict, to_dict
from elmo.errors import ConfigError, FormatError
from elmo.tasks import TaskConfig
from elmo.tasks.fitted.load_fitted import load_fitted_task
from elmo.tasks.registry.reader_row import ReaderRow
from elmo.tasks.registry.task_flags import all_leaves, task_leaves
from elmo.tasks.registry.task_rows import TASKS, TaskRow, register
from elmo.tasks.training.fit import fit

PAGE = Path(__file__).parents[2] / "docs" / "add-a-task.md"
OPTIONS, TASK, ROW, ESTIMATOR = re.findall(
    r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S
)
(COMMANDS,) = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S)
ROW_IMPORT, ROW_CALL = ROW.split("\n\n")
TEXTS = [f"{a} the {b} is old" for a in ("well", "so") for b in ("house", "car", "tree", "door")]


def write_package(folder):
    """Write the task of the page to a folder of a package."""
    folder.mkdir()
    (folder / "__init__.py").write_text('"""Keywords."""\n')
    (folder / "keywords_options.py").write_text(OPTIONS)
    (folder / "keywords_task.py").write_text(TASK)


def write_texts(path):
    lines = [f"{text.split()[2]}\t{text}" for text in TEXTS * 4]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.fixture
def keywords(tmp_path, monkeypatch):
    """Add the task of the page to `elmo.tasks`, and remove it afterwards."""
    write_package(tmp_path / "keywords")
    monkeypatch.setattr(tasks, "__path__", [*tasks.__path__, str(tmp_path)])
    names = {"TaskRow": TaskRow, "ReaderRow": ReaderRow, "register": register}
    exec(f"{ROW_IMPORT}\nregister({ROW_CALL})", names)
    yield names["KeywordsOptions"]
    del TASKS["keywords"], tasks.keywords
    for name in [name for name in sys.modules if name.startswith("elmo.tasks.keywords")]:
        del sys.modules[name]


def test_folder_and_row_are_enough_for_the_commands(tmp_path):
    # A copy of the package, in which only the folder and the row are new.
    package, copy = Path(elmo.__file__).parent, tmp_path / "elmo"
    copy.mkdir()
    for path in package.iterdir():
        if path.name == "tasks":
            shutil.copytree(path, copy / "tasks")
        else:
            (copy / path.name).symlink_to(path)
    write_package(copy / "tasks" / "keywords")
    rows = copy / "tasks" / "registry" / "task_rows.py"
    before, start, after = rows.read_text().partition("for _row in (\n")
    assert start
    new = "".join(f"    {line}\n" for line in ROW_CALL.splitlines()).rstrip() + ",\n"
    before = before.replace("\nfrom elmo", f"\n{ROW_IMPORT}\nfrom elmo", 1)
    rows.write_text(before + start + new + after)

    write_texts(tmp_path / "train.txt")
    (tmp_path / "texts.txt").write_text("now the river is old\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}

    def run(command):
        words = [sys.executable, "-m", *command.split()]
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    shown = run("elmo task fit keywords --help")
    assert "--min-probability <float>" in shown
    assert "--text-column" not in shown
    outputs = [run(command) for command in COMMANDS.splitlines()]
    assert "accuracy 1.0000" in outputs[0]
    assert "1.0000" in outputs[1]
    assert '"keyword": "river"' in (tmp_path / "answers.jsonl").read_text()


def test_task_of_the_page_is_trained_and_used_in_python(keywords, tmp_path):
    names = {}
    exec(ESTIMATOR, names)
    finder = names["finder"]
    assert finder.predict(["now the river is old"]) == ["river"]
    assert finder.evaluate(["oh the dog is old"], [2]) == {"accuracy": 1.0}
    finder.set_params(min_probability=0.5)
    path = write_texts(tmp_path / "train.txt")
    data = {"task": "keywords", "examples": {"train": path, "dev": path}, "run": {"epochs": 8}}
    data |= {"options": {"min_probability": 0.2}, "out": str(tmp_path / "run")}
    fit(from_dict(TaskConfig, data))
    loaded = load_fitted_task(tmp_path / "run")
    assert loaded.task.min_probability == 0.2
    example = loaded.task.make_example(["well the dog is old"], str.split)
    (answer,) = loaded.predict([example])
    assert loaded.task.to_record(example, answer)["keyword"] == "dog"


def test_options_of_the_task_belong_to_it_alone(keywords):
    config = TaskConfig(out="x", task="keywords")
    assert config.options == keywords()
    assert from_dict(TaskConfig, to_dict(config)) == config
    flags = {leaf.flag for leaf in task_leaves(config)}
    assert "--min-probability" in flags
    assert not {"--crf", "--text-column", "--max-mention-words"} & flags
    assert "--min-probability" in {leaf.flag for leaf in all_leaves()}
    data = {"out": "x", "task": "tagging", "options": {"min_probability": 0.5}}
    with pytest.raises(ConfigError, match="unknown option min_probability"):
        from_dict(TaskConfig, data)


def test_damaged_file_of_the_task_is_an_error_with_the_line(keywords, tmp_path):
    from elmo.tasks.keywords.keywords_task import read_keywords

    path = tmp_path / "damaged.txt"
    path.write_text("dog\tthe dog\ncat\tthe dog\n")
    with pytest.raises(FormatError, match="line 2: the text does not contain 'cat'"):
        read_keywords(path)
