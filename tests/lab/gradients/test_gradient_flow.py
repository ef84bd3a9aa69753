"""Tests of `gradient_flow` and of the command `gradients`."""

import json
import math

import pytest
import torch
from small_flow import small_flow, small_model
from small_networks import TEXT, small_network
from small_tasks import make_fitted_task
from typer.testing import CliRunner

from elmo import cli
from elmo.errors import ConfigError, FormatError, InputError
from elmo.lab import gradient_flow
from elmo.lab.gradients.gradient_figure import draw_gradients
from elmo.lab.gradients.measured_network import LanguageModelNetwork
from elmo.lab.recurrent_folder import RecurrentModel, write_model


def elmo(*words):
    words = [str(word) for word in words]
    return CliRunner().invoke(cli.application(words), words)


@pytest.fixture
def folders(tmp_path):
    """Folders of an LSTM and of an RNN, and a text file."""
    for cell in ("lstm", "rnn"):
        network, symbols = small_network(cell=cell, n_layers=1)
        write_model(RecurrentModel(network, symbols, {}), tmp_path / cell)
    (tmp_path / "text.txt").write_text(TEXT)
    return tmp_path


def finite(value):
    """Whether all numbers of plain data are finite."""
    if isinstance(value, dict):
        return all(map(finite, value.values()))
    if isinstance(value, list | tuple):
        return all(map(finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def test_flow_has_all_panels_and_networks():
    flow = small_flow()
    assert list(flow.panels) == ["Training", "Cells", "Forget bias", "Recurrent weights"]
    assert flow.panels["Training"] == (
        "lstm, trained",
        "rnn, trained",
        "lstm, initial",
        "rnn, initial, 1 x 12",
    )
    assert flow.panels["Cells"] == ("rnn, initial", "gru, initial", "lstm, initial")
    names = [network.name for network in flow.networks]
    assert len(set(names)) == len(names)
    assert {name for panel in flow.panels.values() for name in panel} == set(names)
    for network in flow.networks:
        assert all(len(curve.norms) == 21 for curve in network.curves)
    lstm = flow["lstm, trained"]
    assert [(curve.layer, curve.state) for curve in lstm.curves] == [
        (0, "hidden"),
        (1, "hidden"),
        (0, "cell"),
        (1, "cell"),
    ]
    assert lstm.curve() == lstm.curves[1]
    with pytest.raises(KeyError, match="no network 'x'"):
        flow["x"]


def test_flow_is_plain_data_and_a_page():
    flow = small_flow()
    data = flow.to_dict()
    assert finite(data)
    text = json.dumps(data)
    assert json.dumps(json.loads(text)) == text
    assert flow.page.html.startswith("<!doctype html>")
    assert "<iframe" in flow._repr_html_()
    assert "lstm, trained" in str(flow)


def test_flow_is_the_same_again():
    first, second = (
        gradient_flow(small_model(cell="gru"), TEXT, steps=5, windows=2) for _ in range(2)
    )
    assert first.to_dict() == second.to_dict()


def test_larger_forget_bias_keeps_more_gradient():
    flow = gradient_flow(small_model(), TEXT, steps=30, windows=4)
    ends = [flow[f"lstm, forget bias {bias}"].curve().norms[-1] for bias in (0, 1, 2, 4)]
    assert ends == sorted(ends)


def test_models_with_the_same_cell_have_different_names():
    models = [small_model(), small_model(seed=9)]
    flow = gradient_flow(models[0], TEXT, compare=models[1:], steps=5, windows=2)
    assert flow.panels["Training"] == ("lstm, trained (1)", "lstm, trained (2)", "lstm, initial")


def test_flow_rejects_bad_arguments(site, tmp_path):
    model = small_model()
    with pytest.raises(InputError, match=r"only 1 character, .*--steps"):
        gradient_flow(model, "a")
    with pytest.raises(InputError, match="too few"):
        gradient_flow(model, "")
    with pytest.raises(ConfigError, match="steps must be at least 1"):
        gradient_flow(model, TEXT, steps=0)
    with pytest.raises(ConfigError, match="clip_norm must be 0 or more"):
        gradient_flow(model, TEXT, clip_norm=-1.0)
    with pytest.raises(ConfigError, match="no model, config file or preset 'missing'"):
        gradient_flow("missing", TEXT)
    with pytest.raises(FormatError, match="contains no model"):
        gradient_flow(tmp_path, TEXT)
    with pytest.raises(FormatError, match="base-en is in a package that is not installed"):
        gradient_flow("base-en", TEXT)
    with pytest.raises(ConfigError, match="same unit"):
        gradient_flow(model, TEXT, compare=[small_model(unit="bytes", text="ab")], steps=5)


def test_flow_rejects_task_models(tmp_path):
    make_fitted_task(tmp_path / "out").save(tmp_path / "task" / "model")
    with pytest.raises(ConfigError, match=r"is a task model\. .* or an ELMo model with a softmax"):
        gradient_flow(tmp_path / "task", TEXT)


def test_flow_of_a_config_has_no_trained_network(tmp_path):
    config = tmp_path / "net.yaml"
    config.write_text("network: {cell: gru, n_layers: 1, hidden_dim: 6}\n")
    flow = gradient_flow(config, TEXT, steps=10, windows=3)
    assert "Training" not in flow.panels
    assert "gru, initial" in flow.panels["Cells"]


@pytest.mark.parametrize("unit", ["bytes", "words"])
def test_flow_of_other_units(unit):
    text = TEXT + "\u202eعربي 🙂</script>\n"
    flow = gradient_flow(small_model(unit=unit, text=text), text, steps=5, windows=3)
    assert flow.unit == unit
    assert finite(flow.to_dict())


CHARACTERS = {"word_input": "characters", "filters": ((1, 4), (2, 4))}


@pytest.mark.parametrize(
    ("options", "is_spelled"),
    [(CHARACTERS, True), ({**CHARACTERS, "tied": True}, True), ({}, False)],
    ids=["characters", "tied characters", "words"],
)
def test_words_outside_the_softmax_are_read_by_their_spelling(options, is_spelled):
    def flow(word):
        model = small_model(unit="words", **options)
        other = small_model(unit="words", cell="gru", **options)
        text = TEXT.replace("question", word)
        return gradient_flow(model, text, compare=[other], steps=5, windows=2)

    first, second, unknown = (flow(word) for word in ("cat", "dogs", "<UNK>"))
    for networks in zip(first.networks, second.networks, unknown.networks, strict=True):
        norms = [network.curve().norms for network in networks]
        assert (norms[0] != norms[1]) == is_spelled
        assert (norms[0] != norms[2]) == is_spelled


def test_read_words_have_the_vectors_of_the_model():
    network, symbols = small_network(unit="words", **CHARACTERS)
    text = symbols.open_ids("to cat or dogs to\n")
    assert text.new_words == ("cat", "dogs")
    index = torch.from_numpy(text.ids).long().unsqueeze(1)
    expected = network.vectors_with(text.new_words)[index]
    measured = LanguageModelNetwork(network, text.new_words)
    torch.testing.assert_close(measured.embed(index), expected)
    hidden, _ = measured.run(index, measured.zero_state(1))
    whole = network(network.vectors_with(text.new_words), index, network.zero_state(1))
    torch.testing.assert_close(hidden, whole.hidden)


def test_command_writes_page_and_picture(folders):
    page, picture = folders / "page.html", folders / "flow.png"
    options = ["--compare", folders / "rnn", "--steps", 20, "--windows", 3]
    words = [folders / "lstm", folders / "text.txt", "--out", page, "--png", picture, *options]
    result = elmo("gradients", *words)
    assert result.exit_code == 0, result.output
    assert "rnn, trained" in result.stdout
    note = f"Measured in 3 windows of 21 steps, evenly spaced in a text of {len(TEXT)} characters."
    assert note in result.stdout
    assert f"written: {page}, {picture}" in result.stdout
    assert page.read_text().startswith("<!doctype html>")
    assert picture.read_bytes().startswith(b"\x89PNG")
    data = json.loads(elmo("gradients", *words, "--json").stdout)
    assert data["panels"]["Training"][:2] == ["lstm, trained", "rnn, trained"]
    assert data["files"] == [str(page), str(picture)]


def test_command_reports_errors_before_it_measures(folders):
    words = [folders / "lstm", folders / "text.txt", "--out"]
    result = elmo("gradients", *words, folders / "no" / "page.html")
    assert result.exit_code == 2
    assert "does not exist" in result.output
    result = elmo("gradients", *words, folders / "page.html")
    assert result.exit_code == 1
    assert "too few for 201 time steps" in " ".join(result.output.split())
    assert not (folders / "page.html").exists()
    result = elmo("gradients", *words, folders / "page.html", "--png", folders / "flow.jpg")
    assert result.exit_code == 2
    assert "png must be a file with .png" in result.output


def test_picture_draws_each_panel(tmp_path):
    path = draw_gradients(small_flow(), tmp_path / "flow.png")
    assert path.stat().st_size > 10_000
