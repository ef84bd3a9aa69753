"""Tests of `explore` and of the command, without a browser."""

import base64
import html
import json
import re

import numpy as np
import pytest
from explorer_traces import TEXT, quote_traces
from small_networks import TEXT as LM_TEXT
from small_networks import small_network
from typer.testing import CliRunner

from elmo import cli
from elmo.errors import ConfigError, InputError
from elmo.lab import explore
from elmo.lab.explorer.explore import explorer_page
from elmo.lab.pages.html_page import HtmlPage
from elmo.lab.recurrent_folder import RecurrentModel, write_model
from elmo.lab.units.traces import Track, UnitTraces


def page_data(page):
    return json.loads(re.search(r'id="page-data">(.*?)</script>', page.html, re.DOTALL)[1])


def array(encoded):
    data = np.frombuffer(base64.b64decode(encoded["base64"]), encoded["dtype"])
    return data.reshape(encoded["shape"])


def model(**options):
    return RecurrentModel(*small_network(**options), {})


def test_page_stores_pieces_predictions_and_values():
    traces = quote_traces(note="A note.")
    (source,) = page_data(explorer_page({"name": traces}))["sources"]
    assert source["pieces"] == list(TEXT)
    assert source["note"] == "A note."
    np.testing.assert_array_equal(array(source["surprisal"]), traces.surprisal)
    assert len(source["tracks"]) == 6
    for track in source["tracks"]:
        values = traces.values[Track(track["layer"], track["direction"], track["kind"])]
        restored = array(track["values"]).T * array(track["scale"]) / 127
        np.testing.assert_allclose(restored, values, atol=0.01)


def test_page_stores_guesses_with_probabilities():
    traces = quote_traces("ab")
    guesses = page_data(explorer_page({"name": traces}))["sources"][0]["guesses"]
    ids = array(guesses["ids"])
    assert ids[0].tolist() == [-1, -1]
    assert [guesses["names"][number] for number in ids[1]] == ["b", "<"]
    np.testing.assert_allclose(array(guesses["probabilities"])[1] / 65535, [0.75, 0.25], atol=1e-5)


def test_page_of_ten_thousand_characters_is_below_eight_megabytes():
    generator = np.random.default_rng(0)
    text = (TEXT * 60)[:10_000]
    values = {
        Track(layer, "forward", "hidden"): generator.normal(size=(10_000, 300)).astype("float32")
        for layer in range(2)
    }
    guesses = (tuple(("x" + character, 0.2) for character in "abcde"),) * 10_000
    traces = UnitTraces(
        tuple(text), "characters", values, np.ones(10_000, dtype=np.float32), guesses
    )
    page = explorer_page({"name": traces})
    assert 6e6 < len(page.html) < 8e6
    stored = [len(array(t["units"])) for t in page_data(page)["sources"][0]["tracks"]]
    assert stored == [225, 225]
    assert len(explorer_page({"name": traces}, all_units=True).html) > 8e6


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm", "lstmp"])
def test_explore_reads_every_cell(cell):
    source = page_data(explore(model(cell=cell), LM_TEXT))["sources"][0]
    kinds = {track["kind"] for track in source["tracks"]}
    assert ("forget" in kinds) == cell.startswith("lstm")
    assert ("update" in kinds) == (cell == "gru")
    assert source["pieces"] == list(LM_TEXT)


def test_explore_accepts_one_character():
    assert page_data(explore(model(), "t"))["sources"][0]["pieces"] == ["t"]


def test_explore_rejects_an_empty_text():
    with pytest.raises(InputError):
        explore(model(), "")


def test_explore_samples_a_long_text_and_states_it():
    text = LM_TEXT * 100
    source = page_data(explore(model(), text, max_positions=600))["sources"][0]
    assert len(source["pieces"]) == 600
    assert source["note"].startswith(f"Read 600 of the {len(text):,} characters of the text")
    assert [first for first, _ in source["parts"]] == [0, 200, 400]
    for first, position in source["parts"]:
        assert "".join(source["pieces"][first : first + 200]) == text[position : position + 200]


def test_explore_compares_two_models():
    sources = page_data(explore(model(), LM_TEXT, compare=model(cell="gru")))["sources"]
    assert [source["name"] for source in sources] == [
        "a RecurrentModel",
        "a RecurrentModel (second)",
    ]


def test_explorer_page_rejects_unknown_units_and_numbers_of_models():
    with pytest.raises(ConfigError, match="no unit 99"):
        explorer_page({"name": quote_traces()}, units=[99])
    with pytest.raises(ConfigError, match="one or two models"):
        explorer_page({})


def test_page_in_a_notebook_is_a_frame():
    frame = explore(model(), "to be")._repr_html_()
    assert frame.startswith("<iframe srcdoc=")
    assert html.unescape(re.search(r'srcdoc="([^"]*)"', frame)[1]).startswith("<!doctype html>")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lm") / "model"
    write_model(model(), folder)
    return folder


def command(*words):
    words = ["explore", *map(str, words)]
    return CliRunner().invoke(cli.application(words), words)


def test_command_writes_the_page(folder, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text(LM_TEXT)
    out = tmp_path / "page.html"
    options = ["--kinds", "[hidden]", "--guesses", 0, "--max-positions", 9]
    result = command(folder, text, "--out", out, *options, "--json")
    assert result.exit_code == 0, result.output
    record = json.loads(result.output)
    assert record["page"] == str(out)
    assert record["note"].startswith(f"Read 9 of the {len(LM_TEXT)} characters")
    assert record["megabytes"] == pytest.approx(out.stat().st_size / 1e6)
    data = json.loads(re.search(r'page-data">(.*?)</script>', out.read_text(), re.DOTALL)[1])
    assert {track["kind"] for track in data["sources"][0]["tracks"]} == {"hidden"}
    assert data["sources"][0]["guesses"] is None


def test_command_states_the_share_of_unknown_characters(folder, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text(LM_TEXT[:60] + "雨雨", encoding="utf-8")
    out = tmp_path / "page.html"
    result = command(folder, text, "--out", out, "--compare", folder, "--json")
    note = (
        "Not in the vocabulary of the model: 2 of 62 characters (3.23%), whose surprisal is that "
        "of <UNK>."
    )
    assert json.loads(result.output)["note"] == note
    first, _ = page_data(HtmlPage(out.read_text(encoding="utf-8")))["sources"]
    assert first["note"] == note
    assert first["unknown"] == [60, 61]


def test_command_writes_the_saturation_of_gates(folder, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text(LM_TEXT)
    figure = tmp_path / "gates.svg"
    result = command(folder, text, "--out", tmp_path / "page.html", "--saturation", figure)
    assert f"Wrote {figure}." in result.output
    assert figure.read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--max-positions", 0], "max_positions must be at least 1"),
        (["--guesses", -1], "guesses must be 0 or more"),
        (["--kinds", "[memory]"], "memory"),
        (["--units", "[400]"], "no unit 400"),
        (["--saturation", "gates.gif"], "saturation must be a file with .png, .svg or .json"),
        (["--saturation", "gates.png", "--kinds", "[hidden]"], "No gates were read"),
    ],
)
def test_command_reports_invalid_options(folder, tmp_path, options, message):
    text = tmp_path / "text.txt"
    text.write_text(LM_TEXT)
    result = command(folder, text, "--out", tmp_path / "page.html", *options)
    assert result.exit_code == 2
    assert message in result.output
    assert not (tmp_path / "page.html").exists()


def test_command_rejects_comparison_on_standard_input(folder, tmp_path):
    result = command(folder, "-", "--out", tmp_path / "page.html", "--compare", folder)
    assert "standard input can be read only once" in result.output


def test_command_without_output_names_an_example(folder, tmp_path):
    result = command(folder, tmp_path / "text.txt")
    assert "--out page.html" in result.output
