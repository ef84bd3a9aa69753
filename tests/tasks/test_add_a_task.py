"""Tests that the task in docs/add-a-task.md works."""

import importlib
import re
import sys
from pathlib import Path

import pytest

from elmo.config.serialization import from_dict, to_dict
from elmo.errors import ConfigError, FormatError
from elmo.tasks import TaskConfig
from elmo.tasks.fitted.load_fitted import load_fitted_task
from elmo.tasks.registry.task_flags import all_leaves, task_leaves
from elmo.tasks.registry.task_rows import TASKS

PAGE = Path(__file__).parents[2] / "docs" / "add-a-task.md"


@pytest.fixture
def keywords(tmp_path, monkeypatch):
    """Write the first block of the page to a module, import it and return the second block."""
    task, use = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S)
    (tmp_path / "keywords.py").write_text(task, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.import_module("keywords")
    yield use
    del TASKS["keywords"], sys.modules["keywords"]


def test_task_of_the_page_is_trained_and_used(keywords, capsys):
    names = {}
    exec(keywords, names)
    assert "accuracy 1.0000" in capsys.readouterr().out
    finder = names["finder"]
    assert finder.predict(["now the river is old"]) == ["river"]
    assert finder.evaluate(["oh the dog is old"], [2]) == {"accuracy": 1.0}
    finder.set_params(min_probability=0.5)
    loaded = load_fitted_task(Path("run"))
    assert loaded.task.min_probability == 0.2
    example = loaded.task.make_example(["well the dog is old"], str.split)
    (answer,) = loaded.predict([example])
    assert loaded.task.to_record(example, answer)["keyword"] == "dog"


def test_options_of_the_task_belong_to_it_alone(keywords):
    config = TaskConfig(out="x", task="keywords")
    assert from_dict(TaskConfig, to_dict(config)) == config
    flags = {leaf.flag for leaf in task_leaves(config)}
    assert "--min-probability" in flags
    assert not {"--crf", "--text-column", "--max-mention-words"} & flags
    assert "--min-probability" in {leaf.flag for leaf in all_leaves()}
    data = {"out": "x", "task": "tagging", "options": {"min_probability": 0.5}}
    with pytest.raises(ConfigError, match="unknown option min_probability"):
        from_dict(TaskConfig, data)


def test_damaged_file_of_the_task_is_an_error_with_the_line(keywords, tmp_path):
    path = tmp_path / "damaged.txt"
    path.write_text("dog\tthe dog\ncat\tthe dog\n")
    with pytest.raises(FormatError, match="line 2: the text does not contain 'cat'"):
        sys.modules["keywords"].read_keywords(path)
