"""Tests of the `find-units` command and of the page that it writes."""

import json
import re

import pytest
from conftest import TINY
from conftest import random_model as random_elmo
from small_networks import small_network
from small_tasks import make_fitted_task, write_elmo

from elmo.config.look_inside import ExploreConfig, FindUnitsConfig
from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError
from elmo.lab.explorer.explore_command import explore_text
from elmo.lab.explorer.find_units_command import find_units_command
from elmo.lab.recurrent_folder import RecurrentModel, write_model

LONG = 'He said "go (now)" and went.\nA 7th "word" here (too).\n' * 30


@pytest.fixture
def files(tmp_path):
    """Return the folder of a language model and a text file."""
    write_model(RecurrentModel(*small_network(), {}), tmp_path / "model")
    (tmp_path / "text.txt").write_text(LONG, encoding="utf-8")
    return str(tmp_path / "model"), str(tmp_path / "text.txt")


def stored_units(path, track):
    content = re.search(r'id="page-data">(.*?)</script>', path.read_text("utf-8"), re.DOTALL)[1]
    (source,) = json.loads(content)["sources"]
    keys = ("layer", "direction", "kind")
    return [each for each in source["tracks"] if [each[key] for key in keys] == list(track)]


def test_command_reads_folder_and_file_and_writes_no_page_unless_asked(files):
    found = find_units_command(FindUnitsConfig(*files, builtin="digit", device="cpu"))
    assert found["digit"].n_positions == len(LONG) // 2
    assert found.page == ""
    assert found.to_dict()["links"] == {}
    assert "#layer" not in str(found)


def test_page_shows_the_units_and_the_table_links_to_them(files, tmp_path):
    page = tmp_path / "the units.html"
    config = FindUnitsConfig(*files, builtin="digit,quotes", page=str(page), device="cpu")
    found = find_units_command(config)
    for item in found.properties:
        best = item.units[0]
        link = f"{page.as_uri()}#layer={best.track.layer}&direction=forward"
        link += f"&values={best.track.kind}"
        assert link.startswith("file:///")
        assert "the%20units.html#" in link
        assert f"  {link}&unit={best.unit}\n" in str(found)
        assert found.to_dict()["links"][item.name] == f"{link}&unit={best.unit}"
        (track,) = stored_units(page, (best.track.layer, "forward", best.track.kind))
        assert track["n_units"] > best.unit


def test_page_of_a_conllu_file_shows_its_words(tmp_path):
    ELMo(random_elmo(TINY)).save_pretrained(tmp_path / "elmo")
    rows = ["1\tthe\t_\tDET\t_\t_\t2\tdet\t_\t_", "2\tcats\t_\tNOUN\t_\t_\t0\troot\t_\t_"]
    text, page = tmp_path / "words.conllu", tmp_path / "units.html"
    text.write_text(("\n".join(rows) + "\n\n") * 6, encoding="utf-8")
    files = str(tmp_path / "elmo"), str(text)
    find_units_command(
        FindUnitsConfig(*files, builtin="upos=NOUN", page=str(page), random=False, device="cpu")
    )
    assert '"pieces":["the","cats","\\n"' in page.read_text("utf-8").replace('", "', '","')


def test_page_of_standard_input_is_rejected():
    with pytest.raises(ConfigError, match="page needs a text file"):
        FindUnitsConfig("run", "-", page="units.html")


def test_explore_shows_the_words_of_a_conllu_file(tmp_path):
    ELMo(random_elmo(TINY)).save_pretrained(tmp_path / "elmo")
    text, page = tmp_path / "words.conllu", tmp_path / "page.html"
    text.write_text("1\tthe\t_\tDET\t_\t_\t2\tdet\t_\t_\n", encoding="utf-8")
    explore_text(ExploreConfig(str(tmp_path / "elmo"), str(text), str(page), device="cpu"))
    content = re.search(r'id="page-data">(.*?)</script>', page.read_text("utf-8"), re.DOTALL)[1]
    assert json.loads(content)["sources"][0]["pieces"] == ["the", "\n"]


@pytest.fixture
def task_files(tmp_path):
    """Return the folder of a task model with an ELMo, and a file of words with their labels."""
    make_fitted_task(tmp_path / "out", model=write_elmo(tmp_path / "elmo")).save(tmp_path / "task")
    (tmp_path / "words.txt").write_text("a fine,film\n\nlovely (end\n" * 9, encoding="utf-8")
    (tmp_path / "numbers.txt").write_text("- 1\n1 0\n" * 9, encoding="utf-8")
    return tmp_path


def test_encoder_of_task_model_reads_pretokenized_words(task_files):
    page = task_files / "units.html"
    config = FindUnitsConfig(
        str(task_files / "task"),
        str(task_files / "words.txt"),
        network="encoder",
        pretokenized=True,
        labels=str(task_files / "numbers.txt"),
        page=str(page),
        device="cpu",
    )
    found = find_units_command(config)
    assert found["labels"].n_positions == 14
    assert len(stored_units(page, (0, "backward", "cell"))) == 1
    content = re.search(r'id="page-data">(.*?)</script>', page.read_text("utf-8"), re.DOTALL)[1]
    (source,) = json.loads(content)["sources"]
    assert source["name"] == f"{task_files / 'task'}, task encoder"
    assert source["pieces"][:4] == ["a", "fine,film", "lovely", "(end"]
    assert source["line_ends"] == list(range(1, 36, 2))


def test_explore_compares_networks_of_task_model(task_files):
    page = task_files / "page.html"
    task, text = str(task_files / "task"), str(task_files / "words.txt")
    config = ExploreConfig(
        task,
        text,
        str(page),
        network="encoder",
        pretokenized=True,
        compare=task,
        compare_network="elmo",
        device="cpu",
    )
    explore_text(config)
    content = re.search(r'id="page-data">(.*?)</script>', page.read_text("utf-8"), re.DOTALL)[1]
    encoder, elmo = json.loads(content)["sources"]
    assert len(elmo["pieces"]) - len(encoder["pieces"]) == len(encoder["line_ends"]) == 18
    assert elmo["line_ends"] == []
    with pytest.raises(ConfigError, match="add --compare"):
        ExploreConfig(task, text, str(page), compare_network="elmo")
