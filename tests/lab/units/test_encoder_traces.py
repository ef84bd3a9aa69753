"""Tests of the values of units of task encoders, against PyTorch's own LSTM."""

import numpy as np
import pytest
import torch
from small_tasks import LABELED, TAGGED, make_fitted_task, write_elmo

from elmo.errors import ConfigError
from elmo.lab import explore, find_units, read_traces, saturation
from elmo.lab.units import word_lines
from elmo.lab.units.random_model import random_model
from elmo.lab.units.traces import Track
from elmo.tasks import Classifier, Tagger
from elmo.tasks.core.example import Example
from elmo.tasks.fitted.load_fitted import load_fitted_task
from elmo.tasks.semantic_roles.frame import Frame

TEXT = "a fine film\n\nwhat a very dull end\nlovely\nvery awful unseen words in a long story\n"
LINES = [line.split() for line in TEXT.split("\n") if line]
WORD_VECTORS = "fine 1 2\nfilm 3 4\nodd 5 6\n"


def make_task(folder, train=LABELED, **settings):
    """Write a task model with random weights, and load it."""
    fitted = make_fitted_task(folder, train, **settings)
    generator = torch.Generator().manual_seed(5)
    for value in fitted.built.model.parameters():
        value.data += 0.3 * torch.randn(value.shape, generator=generator)
    fitted.save(folder / "task")
    return load_fitted_task(folder / "task")


def states_of_lstm(lstm, layer, suffix, x):
    """Return the hidden states and cells of one text, one word at a time."""
    cell = torch.nn.LSTMCell(x.shape[1], lstm.hidden_size)
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    cell.load_state_dict({name: getattr(lstm, f"{name}_l{layer}{suffix}") for name in names})
    order = range(len(x)) if not suffix else reversed(range(len(x)))
    hidden, cells = torch.zeros(2, len(x), lstm.hidden_size)
    state = None
    for position in order:
        state = cell(x[position : position + 1], state)
        hidden[position], cells[position] = state[0][0], state[1][0]
    return hidden, cells


@torch.no_grad()
def expected_states(fitted, words):
    """Return hidden states and cells by layer and direction, from a text that is read alone."""
    model = fitted.built.model
    x = model.features(fitted.encoder_input([tuple(words)]))[0][0]
    lstms = [(model.encoder.lstm, None), *((each.lstm, each.gate) for each in model.encoder.upper)]
    states = {}
    depth = 0
    for lstm, gate in lstms:
        read = x
        for layer in range(lstm.num_layers):
            forward, backward = (
                states_of_lstm(lstm, layer, suffix, x) for suffix in ("", "_reverse")
            )
            states |= {(depth, "forward"): forward, (depth, "backward"): backward}
            x = torch.cat([forward[0], backward[0]], dim=1)
            depth += 1
        if gate is not None:
            x = torch.lerp(read, x, gate(read).sigmoid())
    return states


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"depth": 3},
        {"depth": 3, "highway": True},
        {"elmo": "frozen", "placement": "both"},
        {"elmo": "tuned"},
        {"word_vectors": True},
        {"dropout": 0.5, "input_dropout": 0.5, "depth": 2},
    ],
    ids=str,
)
def test_values_are_states_of_each_text_read_alone(settings, tmp_path, monkeypatch):
    monkeypatch.setattr(word_lines, "BATCH_POSITIONS", 16)
    settings = dict(settings)
    if use := settings.pop("elmo", None):
        settings |= {"model": write_elmo(tmp_path / "elmo"), "use": use}
    if settings.pop("word_vectors", False):
        (tmp_path / "vectors.txt").write_text(WORD_VECTORS, encoding="utf-8")
        settings["word_vectors"] = str(tmp_path / "vectors.txt")
    fitted = make_task(tmp_path, **settings)
    fitted.built.model.train()
    traces = read_traces(fitted, TEXT)
    assert fitted.built.model.training
    fitted.built.model.eval()
    assert len(traces.tracks) == 2 * settings.get("depth", 1) * 6
    first = 0
    for words in LINES:
        rows = slice(first, first + len(words))
        assert traces.pieces[rows] == tuple(words)
        for (layer, direction), states in expected_states(fitted, words).items():
            for kind, expected in zip(("hidden", "cell"), states, strict=True):
                values = traces.values[Track(layer, direction, kind)][rows]
                np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-5)
        first += len(words)
    assert first == len(traces)


def test_output_of_highest_layer_is_that_of_encoder(tmp_path):
    fitted = make_task(tmp_path, depth=2)
    fitted.built.model.eval()
    traces = read_traces(fitted, TEXT)
    with torch.no_grad():
        tokens = fitted.encoder_input([tuple(words) for words in LINES])
        vectors = fitted.built.model.vectors(tokens)[tokens.mask]
    hidden = [traces.values[Track(1, direction, "hidden")] for direction in ("forward", "backward")]
    np.testing.assert_allclose(np.concatenate(hidden, axis=1), vectors, rtol=1e-4, atol=1e-6)


def test_gates_lead_to_cells_and_hidden_states(tmp_path):
    traces = read_traces(make_task(tmp_path, depth=2), [LINES[1]])
    for direction, step in (("forward", 1), ("backward", -1)):
        values = {
            track.kind: traces.values[track][::step]
            for track in traces.tracks
            if (track.layer, track.direction) == (1, direction)
        }
        cells = values["forget"][1:] * values["cell"][:-1]
        cells += values["input"][1:] * values["candidate"][1:]
        np.testing.assert_allclose(values["cell"][1:], cells, rtol=1e-4, atol=1e-6)
        hidden = values["output"] * np.tanh(values["cell"])
        np.testing.assert_allclose(values["hidden"], hidden, rtol=1e-4, atol=1e-6)


def test_semantic_roles_read_texts_without_predicates(tmp_path):
    frames = (Frame(1, ("B-A0", "B-V", "B-A1")),)
    examples = [Example((("Kim", "saw", "it"),), frames, extra=(1,))] * 4
    fitted = make_task(tmp_path, examples, task="semantic_roles", depth=2)
    traces = read_traces(fitted, [["Kim", "saw", "it"]])
    assert len(traces) == 3
    assert len(traces.tracks) == 4 * 6


def test_ends_of_lines_are_in_text_but_no_pieces(tmp_path):
    traces = read_traces(make_task(tmp_path), TEXT)
    assert "\n" not in traces.pieces
    assert traces.text == traces.whole_text == TEXT.replace("\n\n", "\n")
    assert traces.line_ends == {2, 7, 8, 16}
    assert traces.surprisal is None


def test_long_text_is_sampled_in_whole_sentences(tmp_path, monkeypatch):
    monkeypatch.setattr("elmo.lab.units.sampled_text.MIN_WINDOW", 5)
    fitted = make_task(tmp_path)
    whole = read_traces(fitted, TEXT * 4)
    traces = read_traces(fitted, TEXT * 4, max_positions=30)
    assert len(traces.sample.windows) > 1
    assert traces.note.startswith(f"Read {len(traces)} of the {len(whole)} words of the text")
    assert traces.pieces == tuple(whole.pieces[position] for position in traces.positions)
    assert traces.whole_text == whole.text
    for track in whole.tracks:
        np.testing.assert_allclose(
            traces.values[track], whole.values[track][traces.positions], rtol=1e-4, atol=1e-6
        )


def test_units_of_properties_are_found(tmp_path):
    fitted = make_task(tmp_path)
    text = TEXT.replace("dull", "7") * 5
    found = find_units(fitted, text, builtin="digit,word-position", pattern="story$", n=2)
    digits = found["digit"]
    assert (digits.n_positions, digits.mean) == (43, pytest.approx(2 / 43))
    assert digits.units[0].auc > 0.9
    # The labels of a line's last word are those of the word, not of the end of the line.
    assert found["word-position"].mean > 0
    assert found["story$"].mean == pytest.approx(3 / 43)
    labels = [float(word == "lovely") for words in LINES for word in words] * 5
    assert find_units(fitted, text, labels=labels)["labels"].units[0].auc > 0.9


def test_random_encoder_reads_the_same_input(tmp_path):
    elmo = write_elmo(tmp_path / "elmo")
    fitted = make_task(tmp_path, model=elmo)
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    random = random_model(fitted, seed=1)
    assert torch.equal(torch.rand(4), expected)
    tokens = fitted.encoder_input([("a", "film")])
    with torch.no_grad():
        inputs = [model.built.model.features(tokens)[0] for model in (fitted, random)]
    assert torch.equal(*inputs)
    first, again, other = (
        read_traces(random_model(fitted, seed), TEXT).values[Track(0, "forward", "hidden")]
        for seed in (1, 1, 2)
    )
    assert np.array_equal(first, again)
    assert not np.allclose(first, other)
    assert not np.allclose(first, read_traces(fitted, TEXT).values[Track(0, "forward", "hidden")])


def test_folder_and_estimator_have_the_same_values(tmp_path):
    fitted = make_task(tmp_path, TAGGED, task="tagging", model=write_elmo(tmp_path / "elmo"))
    folder = tmp_path / "task"
    expected = read_traces(fitted, TEXT)
    traces = read_traces(folder, TEXT, network="encoder", device="cpu")
    assert traces.tracks == expected.tracks
    for track in traces.tracks:
        np.testing.assert_allclose(
            traces.values[track], expected.values[track], rtol=1e-4, atol=1e-6
        )
    tagger = Tagger.load(folder, "cpu")
    assert read_traces(tagger, TEXT, network="encoder").tracks == expected.tracks
    elmo = read_traces(tagger, TEXT, device="cpu")
    assert elmo.values[Track(0, "forward", "hidden")].shape[1] == 8
    assert len(elmo) == len(traces) + len(LINES)


def test_page_shows_encoder_next_to_elmo(tmp_path):
    make_task(tmp_path, model=write_elmo(tmp_path / "elmo"))
    folder = tmp_path / "task"
    page = explore(
        folder, TEXT, network="encoder", compare=folder, compare_network="elmo", device="cpu"
    )
    assert f"Hidden units of {folder}, task encoder and {folder}<" in page.html


def test_saturation_counts_words_only(tmp_path):
    traces = read_traces(make_task(tmp_path), TEXT)
    gates = saturation(traces)
    assert len(gates) == 6
    track = Track(0, "backward", "input")
    np.testing.assert_allclose(gates[track].low, (traces.values[track] < 0.1).sum(axis=0) / 17)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("task", {"network": "head"}, "network must be elmo or encoder"),
        ("task", {"network": "encoder", "ablate": True}, "the encoder of a task model does not"),
        ("estimator", {}, "There is no ELMo in the Classifier"),
    ],
)
def test_invalid_options_are_rejected(model, options, message, tmp_path):
    make_task(tmp_path)
    loaded = Classifier.load(tmp_path / "task", "cpu") if model == "estimator" else tmp_path / model
    with pytest.raises(ConfigError, match=message):
        find_units(loaded, TEXT, **options)
