"""Tests of clamped units in text generation and in the loss."""

import math

import pytest
import torch
from small_networks import TEXT, small_network

from elmo.config.language_model_commands import LMEvaluateConfig, LMSampleConfig
from elmo.config.language_models import SamplingConfig
from elmo.errors import ConfigError, InputError
from elmo.lab.evaluate_lm import evaluate_lm
from elmo.lab.generation import TextGenerator
from elmo.lab.recurrent_folder import RecurrentModel, write_model
from elmo.lab.recurrent_model import LanguageModel
from elmo.lab.sample_lm import sample_lm
from elmo.lab.symbol_text import text_part
from elmo.lab.symbols import OpenIds
from elmo.lab.text_loss import text_loss
from elmo.lab.units.ablation import ablated_losses
from elmo.lab.units.clamp import Clamp
from elmo.lab.units.clamp_units import clamp_units
from elmo.lab.units.clamped_loss import clamped_loss
from elmo.lab.units.clamped_recurrent import clamped_units, run_clamped

CELLS = ["rnn", "gru", "lstm", "lstmp"]


def make_model(**options):
    network, symbols = small_network(**options)
    return RecurrentModel(network, symbols, {})


def segment(model):
    network = model.network
    ids = torch.from_numpy(model.symbols.encode(TEXT)).long()[:12].unsqueeze(1)
    return network.input_vectors(), ids, network.zero_state(1)


@pytest.mark.parametrize("cell", CELLS)
def test_network_without_clamps_is_unchanged(cell):
    model = make_model(cell=cell)
    vectors, ids, state = segment(model)
    expected = model.network(vectors, ids, state)
    units = clamped_units(model.network, [[]])
    hidden, last = run_clamped(model.network, vectors, ids, state, units)
    torch.testing.assert_close(hidden, expected.hidden)
    torch.testing.assert_close(last.h, expected.state.h)
    torch.testing.assert_close(last.c, expected.state.c)


def test_clamped_unit_is_read_by_next_layer_and_next_step():
    model = make_model(cell="rnn")
    vectors, ids, state = segment(model)
    first, second = model.network.recurrent_layers()
    units = clamped_units(model.network, [[Clamp(0, 3, 0.7)]])
    hidden, _ = run_clamped(model.network, vectors, ids, state, units)
    h, g = state.h
    for step, symbol in enumerate(ids[:, 0]):
        total = first.weight_ih @ vectors[symbol] + first.bias_ih
        h = (total + first.weight_hh @ h.flatten() + first.bias_hh).tanh()
        h[3] = 0.7
        total = second.weight_ih @ h + second.bias_ih
        g = (total + second.weight_hh @ g.flatten() + second.bias_hh).tanh()
        torch.testing.assert_close(hidden[step, 0], g)


def plain_lstm(network, vectors, ids, clamp):
    """Return the last layer of an LSTM with a clamped cell, step by step in float64."""
    layers = [
        {name: value.double() for name, value in layer.named_parameters()}
        for layer in network.recurrent_layers()
    ]
    h = [torch.zeros(len(w["weight_hh"][0])).double() for w in layers]
    c = [torch.zeros(len(w["weight_hh"]) // 4).double() for w in layers]
    outputs = []
    for symbol in ids[:, 0]:
        x = vectors[symbol].double()
        for number, w in enumerate(layers):
            total = w["weight_ih"] @ x + w["bias_ih"] + w["weight_hh"] @ h[number] + w["bias_hh"]
            i, f, g, o = total.chunk(4)
            c[number] = f.sigmoid() * c[number] + i.sigmoid() * g.tanh()
            if clamp.layer == number:
                c[number][clamp.unit] = clamp.value
            x = o.sigmoid() * c[number].tanh()
            if "weight_hr" in w:
                x = w["weight_hr"] @ x
            h[number] = x
        outputs.append(x)
    return torch.stack(outputs), c


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("options", [{"cell": "lstm"}, {"cell": "lstmp", "projection_dim": 5}])
def test_hidden_state_is_computed_from_clamped_cell(options, layer):
    model = make_model(**options)
    vectors, ids, state = segment(model)
    clamp = Clamp(layer, 2, -1.5, is_cell=True)
    units = clamped_units(model.network, [[clamp]])
    hidden, last = run_clamped(model.network, vectors, ids, state, units)
    expected, c = plain_lstm(model.network, vectors, ids, clamp)
    torch.testing.assert_close(hidden[:, 0].double(), expected, rtol=1e-5, atol=1e-6)
    for number in range(2):
        torch.testing.assert_close(last.c[number][0].double(), c[number], rtol=1e-5, atol=1e-6)


def test_clamp_of_cell_of_last_layer_changes_prediction_of_same_step():
    model = make_model(mogrifier_rounds=2)
    vectors, ids, state = segment(model)
    free, _ = run_clamped(
        model.network, vectors, ids[:1], state, clamped_units(model.network, [[]])
    )
    units = clamped_units(model.network, [[Clamp(1, 2, -1.5, is_cell=True)]])
    clamped, _ = run_clamped(model.network, vectors, ids[:1], state, units)
    assert (clamped != free).flatten().nonzero().flatten().tolist() == [2]


def test_clamp_at_own_value_of_constant_unit_does_not_change_text():
    model = make_model()
    layer = model.network.recurrent_layers()[1]
    # With an output gate of zero, the hidden state is always 0.
    layer.bias_ih.data[3 * layer.hidden_dim + 4] = -1e4
    generator = TextGenerator(model.network, model.symbols)
    clamped = clamp_units(LanguageModel(model), ["1:4=0"])
    assert clamped.sample("to", 40) == generator.sample("to", 40)
    assert clamped.samples("to", 20, 2) == generator.samples("to", 20, 2)


def test_losses_of_ablations_are_those_of_single_clamps():
    model = make_model()
    clamps = [Clamp(0, 1, 0.0), Clamp(1, 5, 2.0), Clamp(1, 5, 2.0, is_cell=True)]
    part = text_part(TEXT, model.symbols)
    results = ablated_losses(model, part.inputs, clamps)
    expected = text_loss(model.network, model.symbols, part, rows=1).bits_per_character
    for result, clamp in zip(results, clamps, strict=True):
        (single,) = ablated_losses(model, part.inputs, [clamp])
        assert result.clamp == clamp
        assert result.bits == pytest.approx(single.bits, rel=1e-5)
        assert result.bits - result.change == pytest.approx(expected, rel=1e-5)
        assert result.change != 0
    with pytest.raises(InputError, match="too short"):
        ablated_losses(make_model(text="ab"), OpenIds(part.ids[:1]), clamps)


@pytest.fixture
def folder(tmp_path):
    write_model(make_model(), tmp_path / "model")
    return str(tmp_path / "model")


def sampled(folder, *clamps, **options):
    config = LMSampleConfig(
        folder, "to be", sampling=SamplingConfig(length=40), clamp=clamps, device="cpu", **options
    )
    return str(sample_lm(config))


def test_sample_command_clamps_units(folder):
    model = LanguageModel.load(folder, device="cpu")
    assert sampled(folder) == model.sample("to be", 40)
    clamped = sampled(folder, "1:0=40", "0:3:cell=-2")
    assert clamped == clamp_units(model, ["1:0=40", "0:3:cell=-2"]).sample("to be", 40)
    assert clamped != sampled(folder)


def evaluated(folder, tmp_path, *clamps, text=TEXT, **options):
    path = tmp_path / "text.txt"
    path.write_text(text, encoding="utf-8")
    return evaluate_lm(
        LMEvaluateConfig(folder, (str(path),), clamp=clamps, device="cpu", **options)
    )


@pytest.mark.parametrize("cell", ["", ":cell"])
def test_evaluate_command_measures_change_of_loss(folder, tmp_path, cell):
    clamp = f"1:5{cell}=0.5"
    result = evaluated(folder, tmp_path, clamp)
    plain = evaluated(folder, tmp_path)
    model = LanguageModel.load(folder, device="cpu")
    (expected,) = ablated_losses(
        RecurrentModel(model.network, model.symbols, {}),
        model.symbols.open_ids(TEXT),
        [Clamp.parse(clamp)],
    )
    assert result.loss == plain.loss
    change = result.clamped
    assert change.clamped.bits_per_character == pytest.approx(expected.bits, rel=1e-5)
    assert change.bits_per_character == pytest.approx(expected.change, abs=1e-5)
    assert change == clamped_loss(model, TEXT, [clamp])
    assert f"change: {change.bits_per_character:+.4f} bits per character" in str(result)
    assert f"with {clamp}: {change.clamped.nats:.4f} nats" in str(result)
    data = result.to_dict()["clamped"]
    assert data["clamps"] == [clamp]
    assert data["bits_per_character"] == change.clamped.bits_per_character
    assert data["change"]["bits_per_character"] == change.bits_per_character
    assert plain.to_dict()["clamped"] is None


def test_clamps_of_evaluate_command_apply_together_in_all_rows(folder, tmp_path):
    text = TEXT * 40
    clamps = ["0:3:cell=2", "1:0=0.9"]
    one = evaluated(folder, tmp_path, *clamps, text=text).clamped
    rows = evaluated(folder, tmp_path, *clamps, text=text, batch_size=4).clamped
    assert rows.clamped.nats == pytest.approx(one.clamped.nats, rel=1e-3)
    single = [evaluated(folder, tmp_path, clamp, text=text).clamped.clamped for clamp in clamps]
    assert one.clamped.nats not in [loss.nats for loss in single]
    reset = evaluated(folder, tmp_path, *clamps, text=text, state="reset", unroll=2).clamped
    assert reset.clamped.nats != pytest.approx(one.clamped.nats, rel=1e-5)


def test_change_of_loss_of_words_is_per_word(tmp_path):
    model = LanguageModel(make_model(unit="words"))
    change = clamped_loss(model, TEXT, ["1:5=0.5"])
    expected = (change.clamped.nats - change.free.nats) / math.log(2)
    assert f"change: {expected:+.4f} bits per word, perplexity" in str(change)
    with pytest.raises(ConfigError, match="must be a string or a Path"):
        clamped_loss(model, [["to", "be"]], ["1:5=0.5"])
    with pytest.raises(ConfigError, match="batch_size must be at least 1"):
        clamped_loss(model, TEXT, [], batch_size=0)
    with pytest.raises(ConfigError, match="only ELMo models predict backward"):
        clamped_loss(model, TEXT, ["1:5=0.5"], direction="backward")
    with pytest.raises(ConfigError, match="clamps is empty"):
        clamped_loss(model, TEXT, [])


def test_evaluate_command_rejects_clamps(folder, tmp_path):
    with pytest.raises(ConfigError, match="Layer 0 has no unit 12"):
        evaluated(folder, tmp_path, "0:12=1")
    with pytest.raises(ConfigError, match=r"with 1:2=.* is not a finite number"):
        evaluated(folder, tmp_path, "1:2=3e38", "1:3=3e38")
    with pytest.raises(ConfigError, match=r"value of the clamp 0:2:cell=.* is out of range"):
        evaluated(folder, tmp_path, "0:2:cell=1e39")


@pytest.mark.parametrize(
    ("clamp", "message"),
    [
        ("1:2", "--clamp must be layer:unit=value"),
        ("1:2=x", "--clamp must be layer:unit=value"),
        ("1:2=nan", "--clamp must be layer:unit=value"),
        ("2:0=1", "There is no layer 2"),
        ("0:12=1", "Layer 0 has no unit 12 to clamp. Its units are 0 to 11"),
    ],
)
def test_invalid_clamps_are_rejected(folder, clamp, message):
    with pytest.raises(ConfigError, match=message):
        sampled(folder, clamp)


def test_cell_clamp_needs_cell():
    with pytest.raises(ConfigError, match="gru cells has no cell state"):
        clamp_units(LanguageModel(make_model(cell="gru")), ["0:1:cell=1"])


def test_language_model_has_no_backward_direction():
    with pytest.raises(ConfigError, match="direction must be forward"):
        clamp_units(LanguageModel(make_model()), [], direction="backward")
