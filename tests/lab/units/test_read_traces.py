"""Tests of the values of units, against networks that read one symbol at a time."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from conftest import TINY, random_model
from small_networks import TEXT, small_network

from elmo.config import TextConfig
from elmo.errors import ConfigError, InputError
from elmo.lab.elmo_stepper import ElmoStepper
from elmo.lab.recurrent_folder import RecurrentModel, write_model
from elmo.lab.recurrent_model import LanguageModel
from elmo.lab.recurrent_stepper import RecurrentStepper
from elmo.lab.units import sampled_text, symbol_traces, word_lines
from elmo.lab.units.read_traces import read_traces
from elmo.lab.units.traces import Track, UnitTraces
from elmo.text.vocabulary import SPECIAL_TOKENS, Vocabulary

VOCABULARY = Vocabulary([*SPECIAL_TOKENS, "the", "cat", "sat", "on", "mat", "a"])
ELMO = dataclasses.replace(
    TINY, text=TextConfig(max_characters=12), n_softmax_words=len(VOCABULARY)
)
SENTENCES = [["the", "cat", "sat", "on", "the", "mat"], ["a", "mat"], ["unseen", "cat"]]
CELLS = [
    {"cell": "rnn"},
    {"cell": "gru"},
    {"cell": "lstm"},
    {"cell": "lstmp", "projection_dim": 5},
    {"cell": "lstm", "mogrifier_rounds": 2},
]


def make_model(**options):
    network, symbols = small_network(**options)
    return RecurrentModel(network, symbols, {})


def make_elmo(**changes):
    config = dataclasses.replace(ELMO, **changes)
    return random_model(config, vocabulary=VOCABULARY, scale=2.0)


@pytest.mark.parametrize("options", CELLS, ids=lambda options: "-".join(map(str, options.values())))
def test_values_of_language_model_are_states_after_each_symbol(options, monkeypatch):
    monkeypatch.setattr(symbol_traces, "STEPS", 7)
    model = make_model(**options)
    traces = read_traces(model, TEXT)
    stepper = RecurrentStepper(model.network)
    scores, state = stepper.step(torch.tensor([model.symbols.end]), stepper.start(1))
    for position, symbol in enumerate(model.symbols.encode(TEXT).tolist()):
        bits = -float(scores[0, symbol]) / math.log(2)
        assert traces.surprisal[position] == pytest.approx(bits, rel=1e-4)
        assert traces.guesses[position][0][1] == pytest.approx(float(scores.exp().max()), rel=1e-4)
        scores, state = stepper.step(torch.tensor([symbol]), state)
        for layer in range(2):
            hidden = traces.values[Track(layer, "forward", "hidden")][position]
            np.testing.assert_allclose(hidden, state.h[layer][0], rtol=1e-4, atol=1e-6)
            if state.c:
                cell = traces.values[Track(layer, "forward", "cell")][position]
                np.testing.assert_allclose(cell, state.c[layer][0], rtol=1e-4, atol=1e-6)
    gates = {"rnn": 0, "gru": 3}.get(options["cell"], 5)
    assert len(traces.tracks) == 2 * (1 + gates)
    assert "".join(traces.pieces) == traces.text == TEXT


def test_first_symbol_has_no_surprisal_without_line_breaks():
    traces = read_traces(make_model(text="abcab"), "abca")
    assert math.isnan(traces.surprisal[0])
    assert np.isfinite(traces.surprisal[1:]).all()
    assert traces.guesses[0] == ()
    assert len(traces) == 4


def test_words_end_with_line_breaks():
    traces = read_traces(make_model(unit="words"), "to be new\n\nor")
    assert traces.pieces == ("to", "be", "new", "\n", "\n", "or")
    assert traces.text == "to be new\n\nor"
    sentences = read_traces(make_model(unit="words"), [["to", "be"], ["or"]])
    assert sentences.pieces == ("to", "be", "\n", "or", "\n")
    losses = LanguageModel(make_model(unit="words")).score("to be new\n\nor")
    np.testing.assert_allclose(
        traces.surprisal * math.log(2), [loss for _, loss in losses], rtol=1e-4
    )


def test_bytes_of_character_share_its_piece():
    traces = read_traces(make_model(unit="bytes"), "aé€\udc80\ud800b")
    assert traces.pieces == ("a", "é", "", "€", "", "", "\\x80", "\ufffd", "", "", "b")
    assert traces.unit == "bytes"


@pytest.mark.parametrize("unit", ["characters", "bytes", "words"])
def test_long_text_is_cut_and_noted(unit):
    model = make_model(unit=unit)
    traces = read_traces(model, TEXT, max_positions=7)
    assert len(traces) == 7
    whole = read_traces(model, TEXT)
    n_whole = len(whole)
    assert traces.note == f"Read 7 of the {n_whole} {unit} of the text, from its beginning."
    assert whole.note == ""
    assert whole.sample is None
    for track in traces.tracks:
        np.testing.assert_allclose(traces.values[track], whole.values[track][:7], atol=1e-6)
    exact = read_traces(model, TEXT, max_positions=len(whole))
    assert exact.note == ""


@pytest.mark.parametrize("unit", ["characters", "bytes", "words"])
def test_long_text_is_sampled_with_warm_up(unit, monkeypatch):
    monkeypatch.setattr(sampled_text, "MIN_WINDOW", 5)
    monkeypatch.setattr(sampled_text, "WARM_UP", 8)
    model = make_model(unit=unit)
    text = TEXT * 6
    whole = read_traces(model, text)
    traces = read_traces(model, text, max_positions=20)
    assert len(traces) == 20
    windows = traces.sample.windows
    assert len(windows) == 4
    assert (windows[0].start, windows[-1].stop) == (0, len(whole))
    assert traces.pieces == tuple(whole.pieces[position] for position in traces.positions)
    assert traces.note.startswith(f"Read 20 of the {len(whole)} {unit} of the text, in 4 parts")
    # The first window is read from the beginning, the others after their warm-up.
    np.testing.assert_allclose(traces.surprisal[:5], whole.surprisal[:5], rtol=1e-4)
    fed = symbol_traces.text_pieces(text, model.symbols)[1].ids
    for number, window in enumerate(windows[1:], start=1):
        stepper = RecurrentStepper(model.network)
        state = stepper.start(1)
        for symbol in fed[window.start - 8 : window.stop].tolist():
            _, state = stepper.step(torch.tensor([symbol]), state)
        for layer in range(2):
            hidden = traces.values[Track(layer, "forward", "hidden")][5 * number + 4]
            np.testing.assert_allclose(hidden, state.h[layer][0], rtol=1e-4, atol=1e-6)


def test_windows_nearer_than_warm_up_are_read_in_one_run(monkeypatch):
    monkeypatch.setattr(sampled_text, "MIN_WINDOW", 5)
    model = make_model()
    whole = read_traces(model, TEXT)
    traces = read_traces(model, TEXT, max_positions=20)
    assert len(traces.sample.windows) > 1
    for track in whole.tracks:
        np.testing.assert_allclose(
            traces.values[track], whole.values[track][traces.positions], rtol=1e-4, atol=1e-6
        )
    assert traces.guesses == tuple(whole.guesses[position] for position in traces.positions)


@pytest.mark.parametrize("clip", [None, 0.3])
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_values_of_elmo_are_states_after_each_word(direction, clip, monkeypatch):
    monkeypatch.setattr(word_lines, "BATCH_POSITIONS", 16)
    lstm = dataclasses.replace(ELMO.lstm, cell_clip=clip, projection_clip=clip)
    model = make_elmo(lstm=lstm)
    traces = read_traces(model, SENTENCES, device="cpu")
    stepper = ElmoStepper(model, direction)
    first = 0
    for words in SENTENCES:
        # The forward direction ends at `</S>`, where the backward direction begins.
        order = range(len(words)) if direction == "forward" else reversed(range(len(words)))
        _, state = stepper.step(torch.tensor([stepper.border]), stepper.start(1))
        for number in order:
            (word,) = stepper.add_words([words[number]])
            _, state = stepper.step(torch.tensor([word]), state)
            for layer in range(ELMO.lstm.n_layers):
                for kind, value in (("hidden", state.h), ("cell", state.c)):
                    values = traces.values[Track(layer, direction, kind)]
                    np.testing.assert_allclose(
                        values[first + number], value[layer, 0, 0], rtol=1e-4, atol=1e-6
                    )
        first += len(words) + 1


def test_gates_of_elmo_lead_to_its_cells():
    traces = read_traces(make_elmo(), [SENTENCES[0]], device="cpu")
    for direction, step in (("forward", 1), ("backward", -1)):
        values = {
            kind: traces.values[Track(1, direction, kind)][::step]
            for kind in ("input", "forget", "candidate", "cell")
        }
        cells = values["forget"][1:] * values["cell"][:-1]
        cells += values["input"][1:] * values["candidate"][1:]
        np.testing.assert_allclose(values["cell"][1:], cells, rtol=1e-4, atol=1e-6)


def test_surprisal_of_elmo_is_that_of_forward_direction():
    model = make_elmo()
    traces = read_traces(model, "the unseen cat\n\na mat", device="cpu")
    assert traces.pieces == ("the", "unseen", "cat", "\n", "a", "mat", "\n")
    stepper = ElmoStepper(model, "forward")
    expected = []
    for words in (["the", "unseen", "cat"], ["a", "mat"]):
        ids = stepper.add_words(words)
        state = stepper.start(1)
        for read, target in zip([stepper.border, *ids], [*ids, stepper.border], strict=True):
            scores, state = stepper.step(torch.tensor([read]), state)
            target = target if target < stepper.n_symbols else VOCABULARY.ids["<UNK>"]
            expected.append(-float(scores[0, target]) / math.log(2))
    np.testing.assert_allclose(traces.surprisal, expected, rtol=1e-4)
    assert len(traces.guesses[0]) == 5


@pytest.mark.parametrize("n_guesses", [0, 2])
def test_words_that_the_model_cannot_predict_are_unknown(n_guesses):
    unknown = "xyzzy"
    text = f"to {unknown} <unk>\nbe {unknown}"
    traces = read_traces(make_model(unit="words"), text, n_guesses=n_guesses)
    assert [traces.pieces[row] for row in sorted(traces.unknown)] == [unknown] * 2
    assert traces.notes.startswith("Not in the vocabulary of the model: 2 of 5 words (40.00%)")
    assert traces.notes.endswith(", whose surprisal is that of <UNK>.") == (n_guesses > 0)
    known = VOCABULARY.words[-1]
    elmo = read_traces(make_elmo(), f"{known} {unknown}\n{unknown}", n_guesses=n_guesses)
    assert elmo.unknown == ({1, 3} if n_guesses else set())


def test_sampled_text_counts_unknown_pieces_that_were_read():
    traces = read_traces(make_model(), "雨" + "to be " * 4 + "雨", max_positions=5)
    assert traces.unknown == {0}
    assert traces.notes.startswith("Read 5 of the 26 characters of the text, from its beginning. ")
    assert "1 of 5 characters (20.00%)" in traces.notes
    assert read_traces(make_model(unit="bytes"), "雨").unknown == set()


def test_elmo_without_softmax_has_no_surprisal():
    model = random_model(TINY)
    traces = read_traces(model, "the cat", device="cpu")
    assert traces.surprisal is None
    assert traces.guesses is None


def test_text_of_elmo_is_cut_between_lines():
    traces = read_traces(make_elmo(), SENTENCES, max_positions=9, device="cpu")
    assert traces.pieces == ("the", "cat", "sat", "on", "the", "mat", "\n")
    assert traces.note == (
        "Read 7 of the 13 words and line breaks of the text, from its beginning."
    )
    assert len(read_traces(make_elmo(), SENTENCES, max_positions=3, device="cpu")) == 3


def test_sample_of_elmo_has_whole_sentences(monkeypatch):
    monkeypatch.setattr(sampled_text, "MIN_WINDOW", 5)
    text = SENTENCES * 4
    whole = read_traces(make_elmo(), text, device="cpu")
    traces = read_traces(make_elmo(), text, max_positions=20, device="cpu")
    assert len(traces.sample.windows) > 1
    assert len(traces) <= 20
    assert traces.pieces == tuple(whole.pieces[position] for position in traces.positions)
    for window in traces.sample.windows:
        assert window.start == 0 or whole.pieces[window.start - 1] == "\n"
        assert whole.pieces[window.stop - 1] == "\n"
    for track in whole.tracks:
        np.testing.assert_allclose(
            traces.values[track], whole.values[track][traces.positions], rtol=1e-4, atol=1e-6
        )


def test_kinds_limit_values():
    model = make_model()
    hidden = read_traces(model, TEXT, kinds=["hidden"], n_guesses=0)
    assert {track.kind for track in hidden.tracks} == {"hidden"}
    assert hidden.surprisal is None
    whole = read_traces(model, TEXT)
    for track in hidden.tracks:
        np.testing.assert_allclose(hidden.values[track], whole.values[track], rtol=1e-4, atol=1e-6)


def test_missing_kinds_are_rejected():
    with pytest.raises(ConfigError, match="no values of these kinds: forget"):
        read_traces(make_model(cell="rnn"), TEXT, kinds=["forget"])


def test_folders_and_files_are_read(tmp_path):
    model = make_model()
    write_model(model, tmp_path / "model")
    (tmp_path / "text.txt").write_text("to be", encoding="utf-8")
    traces = read_traces(tmp_path / "model", tmp_path / "text.txt", device="cpu")
    assert traces.text == "to be"


@pytest.mark.parametrize("text", ["", []])
def test_empty_text_is_rejected(text):
    with pytest.raises(InputError, match="The text"):
        read_traces(make_elmo(), text, device="cpu")
    with pytest.raises(InputError, match=r"The text is empty|reads a text"):
        read_traces(make_model(), text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kinds": ["state"]}, "Unknown kind 'state'"),
        ({"kinds": []}, "kinds must be a list"),
        ({"max_positions": 0}, "max_positions must be at least 1"),
        ({"n_guesses": -1}, "n_guesses must be at least 0"),
    ],
)
def test_invalid_options_are_rejected(options, message):
    with pytest.raises(ConfigError, match=message):
        read_traces(make_model(), TEXT, **options)


def test_single_character_is_read():
    assert len(read_traces(make_model(), "t")) == 1


def test_traces_check_lengths():
    with pytest.raises(ConfigError, match="2 pieces"):
        UnitTraces(("a", "b"), "characters", {Track(0, "forward", "hidden"): np.zeros((3, 1))})
