"""Tests of clamped units of an ELMo, in text generation and in the loss."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from conftest import TINY, random_model

from elmo.config import LSTMConfig, TextConfig
from elmo.config.language_model_commands import LMSampleConfig
from elmo.config.language_models import SamplingConfig
from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError
from elmo.lab.elmo_generation import ElmoTextGenerator
from elmo.lab.elmo_stepper import ElmoStepper
from elmo.lab.sample_lm import sample_lm
from elmo.lab.units.ablation import ablated_elmo_losses
from elmo.lab.units.clamp import Clamp
from elmo.lab.units.clamp_units import clamp_units
from elmo.lab.units.clamped_elmo import ClampedElmoStepper, clamped_elmo_bits
from elmo.lab.units.clamped_loss import clamped_loss
from elmo.lab.units.find_units import find_units
from elmo.lab.units.read_traces import read_traces
from elmo.lab.units.traces import UnitTraces
from elmo.lab.units.unit_ablations import second_half
from elmo.text.vocabulary import SPECIAL_TOKENS, Vocabulary

VOCABULARY = Vocabulary([*SPECIAL_TOKENS, "the", "cat", "sat", "on", "mat", "a"])
CONFIG = dataclasses.replace(
    TINY,
    text=TextConfig(max_characters=12),
    lstm=LSTMConfig(cell_dim=16, projection_dim=8, cell_clip=0.9, projection_clip=0.4),
    n_softmax_words=len(VOCABULARY),
)
SENTENCES = [["the", "cat", "sat", "on", "the", "mat"], ["a", "mat"], ["unseen", "cat"]]
DIRECTIONS = ["forward", "backward"]


def make_elmo(config=CONFIG, **extra):
    return random_model(config, vocabulary=VOCABULARY, scale=2.0, **extra)


def stream(stepper):
    """Return the ids of all sentences in one stream, (time, 1)."""
    ids = [n for words in SENTENCES for n in (stepper.border, *stepper.add_words(words))]
    return torch.tensor(ids).unsqueeze(1)


@pytest.mark.parametrize("reset_share", [0.0, 1.0])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_elmo_without_clamps_is_unchanged(direction, reset_share):
    model = make_elmo(training={"reset_share": reset_share})
    plain, clamped = ElmoStepper(model, direction), ClampedElmoStepper(model, direction, [[]])
    expected = plain.hidden(stream(plain), plain.start(1))
    hidden, state = clamped.hidden(stream(clamped), clamped.start(1))
    torch.testing.assert_close(hidden, expected[0])
    torch.testing.assert_close(state.h, expected[1].h)
    torch.testing.assert_close(state.c, expected[1].c)


@pytest.mark.parametrize(
    "clamps",
    [
        [Clamp(0, 3, 0.7)],
        [Clamp(0, 9, -0.8, is_cell=True)],
        [Clamp(1, 9, 3.0, is_cell=True)],
        [Clamp(1, 9, -0.8, is_cell=True), Clamp(1, 2, 0.9)],
    ],
)
def test_clamped_unit_is_read_by_next_layer_and_next_step(clamps):
    """Compare with float64 layers that are written out, with projection, clips and residual."""
    stepper = ClampedElmoStepper(make_elmo(), "backward", [clamps])
    ids = stream(stepper)
    hidden, _ = stepper.hidden(ids, stepper.start(1))
    layers = [
        {name: value.double() for name, value in layer.named_parameters()}
        for layer in stepper.stack.layers
    ]
    h, c = [torch.zeros(8).double() for _ in layers], [torch.zeros(16).double() for _ in layers]
    for step, word in enumerate(ids[:, 0].tolist()):
        x = stepper._token_vectors([word])[0].double()
        for depth, w in enumerate(layers):
            gates = w["weight_ih"] @ x + w["weight_hh"] @ h[depth] + w["bias"]
            i, f, g, o = gates.chunk(4)
            f = f + CONFIG.lstm.forget_bias
            c[depth] = (f.sigmoid() * c[depth] + i.sigmoid() * g.tanh()).clamp(-0.9, 0.9)
            here = [clamp for clamp in clamps if clamp.layer == depth]
            for clamp in here:
                if clamp.is_cell:
                    c[depth][clamp.unit] = clamp.value
            h[depth] = (w["weight_hr"] @ (o.sigmoid() * c[depth].tanh())).clamp(-0.4, 0.4)
            for clamp in here:
                if not clamp.is_cell:
                    h[depth][clamp.unit] = clamp.value
            x = h[depth] + x if depth else h[depth]
        torch.testing.assert_close(hidden[step, 0].double(), x, rtol=1e-4, atol=1e-5)


def test_sentences_start_from_zero_with_clamped_cell():
    clamps = [Clamp(0, 9, -0.8, is_cell=True)]
    model = make_elmo(training={"reset_share": 1.0})
    stepper = ClampedElmoStepper(model, "forward", [clamps])
    ids = stream(stepper)
    hidden, _ = stepper.hidden(ids, stepper.start(1))
    alone, _ = stepper.hidden(ids[7:10], stepper.start(1))
    torch.testing.assert_close(hidden[7:10], alone)


@pytest.mark.parametrize("config", [CONFIG, dataclasses.replace(CONFIG, softmax_cutoffs=(5,))])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_bits_are_those_of_single_predictions(direction, config):
    model = make_elmo(config)
    (bits,) = clamped_elmo_bits(model, SENTENCES, direction, [[]], "cpu")
    stepper = ElmoStepper(model, direction)
    expected = []
    for words in SENTENCES:
        ids = stepper.add_words(words if direction == "forward" else words[::-1])
        state = stepper.start(1)
        for read, target in zip([stepper.border, *ids], [*ids, stepper.border], strict=True):
            scores, state = stepper.step(torch.tensor([read]), state)
            target = target if target < stepper.n_symbols else VOCABULARY.ids["<UNK>"]
            expected.append(-float(scores[0, target]) / math.log(2))
    assert bits == pytest.approx(np.mean(expected), rel=1e-5)
    if direction == "forward":
        surprisal = read_traces(model, SENTENCES, device="cpu").surprisal
        assert bits == pytest.approx(float(surprisal.mean()), rel=1e-4)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_losses_of_elmo_ablations_are_those_of_single_clamps(direction):
    model = make_elmo()
    clamps = [Clamp(0, 1, 0.0), Clamp(1, 5, 2.0), Clamp(1, 15, 0.5, is_cell=True)]
    results = ablated_elmo_losses(model, SENTENCES, direction, clamps, "cpu")
    (plain,) = clamped_elmo_bits(model, SENTENCES, direction, [[]], "cpu")
    for result, clamp in zip(results, clamps, strict=True):
        (alone,) = clamped_elmo_bits(model, SENTENCES, direction, [[clamp]], "cpu")
        assert result.bits == pytest.approx(alone, rel=1e-5)
        assert result.change == pytest.approx(alone - plain, abs=1e-5)
        assert result.change != 0
        assert result.perplexity == pytest.approx(2**alone, rel=1e-4)
        assert result.perplexity_change == pytest.approx(2**alone - 2**plain, abs=1e-3)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_change_of_loss_of_elmo(direction, tmp_path):
    model = make_elmo()
    clamps = [Clamp(0, 1, 0.5), Clamp(1, 15, 0.5, is_cell=True)]
    change = clamped_loss(model, SENTENCES, clamps, direction=direction, device="cpu")
    plain, both = clamped_elmo_bits(model, SENTENCES, direction, [[], clamps], "cpu")
    assert change.bits_per_symbol == pytest.approx(both - plain)
    assert change.free.perplexity == pytest.approx(2**plain)
    assert change.free.unknown_rate == pytest.approx(1 / 13)
    path = tmp_path / "text.txt"
    path.write_text("\n".join(map(" ".join, SENTENCES)) + "\n", encoding="utf-8")
    names = ["0:1=0.5", "1:15:cell=0.5"]
    assert clamped_loss(ELMo(model), path, names, direction=direction, device="cpu") == change
    with pytest.raises(ConfigError, match="batch_size must be 1"):
        clamped_loss(model, SENTENCES, clamps, batch_size=2)


def test_find_units_ablates_units_of_both_directions():
    sentences = [["the", "cat", "sat"], ["a", "mat"]] * 10
    model = make_elmo()
    labels = [float(word == "cat") for words in sentences for word in words]
    before = [float(words[n + 1 : n + 2] == ["sat"]) for words in sentences for n in range(3)][:50]
    results = [
        find_units(model, sentences, labels=values, ablate=True, random=False, device="cpu")
        for values in (labels, before)
    ]
    for found in results:
        (item,) = found.properties
        assert [ablation.clamp.unit for ablation in item.ablations] == [item.units[0].unit] * 2
        (first, _) = item.ablations
        texts = second_half(read_traces(model, sentences, device="cpu"), 2000)
        direction = item.units[0].track.direction
        assert [first] == ablated_elmo_losses(model, texts, direction, [first.clamp], "cpu")
        assert f"perplexity {first.perplexity:.2f}" in str(found)
        assert item.to_dict()["ablations"][0]["perplexity"] == first.perplexity
    assert len(texts) == 10


def test_second_half_has_whole_sentences_and_at_least_one():
    pieces = ("a", "b", "\n", "c", "\n", "d", "e", "\n", "f", "\n")
    traces = UnitTraces(pieces, "words", {})
    assert second_half(traces, 100) == [["d", "e"], ["f"]]
    assert second_half(traces, 4) == [["d", "e"]]
    assert second_half(traces, 1) == [["d", "e"]]
    assert second_half(UnitTraces(("a", "b", "\n"), "words", {}), 1) == [["a", "b"]]


def sampled(folder, *clamps, direction="forward"):
    config = LMSampleConfig(
        str(folder),
        "the cat",
        sampling=SamplingConfig(length=20),
        clamp=clamps,
        direction=direction,
        device="cpu",
    )
    return str(sample_lm(config))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_sample_command_clamps_units_of_elmo(tmp_path, direction):
    model = make_elmo()
    ELMo(model).save_pretrained(tmp_path / "elmo")
    clamps = ["1:0=9", "0:3:cell=-2"]
    text = sampled(tmp_path / "elmo", *clamps, direction=direction)
    generator = clamp_units(model, clamps, direction=direction, device="cpu")
    assert text == generator.sample("the cat", 20).removesuffix("\n")
    plain = ElmoTextGenerator(model, direction, "cpu")
    assert text != plain.sample("the cat", 20).removesuffix("\n")
    none = clamp_units(model, [], direction=direction, device="cpu")
    assert none.samples("the cat", 9, 2) == plain.samples("the cat", 9, 2)


@pytest.mark.parametrize(
    ("clamp", "message"),
    [
        ("2:0=1", "There is no layer 2"),
        ("0:8=1", "Layer 0 has no unit 8 to clamp. Its units are 0 to 7"),
        ("0:16:cell=1", "Its units are 0 to 15"),
    ],
)
def test_invalid_clamps_of_elmo_are_rejected(clamp, message):
    with pytest.raises(ConfigError, match=message):
        clamp_units(make_elmo(), [clamp], device="cpu")


def test_elmo_without_softmax_or_vocabulary_is_not_clamped():
    with pytest.raises(ConfigError, match="no softmax"):
        clamp_units(random_model(TINY), ["0:0=1"], device="cpu")
    with pytest.raises(ConfigError, match="this random model has no vocabulary"):
        find_units(random_model(CONFIG), SENTENCES, ablate=True, device="cpu")
