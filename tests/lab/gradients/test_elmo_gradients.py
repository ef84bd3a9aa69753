"""Tests of the gradients of both directions of an ELMo."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from conftest import TINY
from conftest import random_model as random_elmo
from small_flow import small_model
from test_gradient_flow import elmo, finite

from elmo.config import TextConfig
from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError, InputError
from elmo.lab import gradient_flow, read_traces
from elmo.lab.gradients.backward_norms import unroll, window_norms
from elmo.lab.gradients.elmo_source import ElmoSource
from elmo.lab.gradients.gradient_figure import draw_gradients
from elmo.lab.gradients.recurrent_jacobian import step_jacobian
from elmo.lab.gradients.text_windows import TextWindows
from elmo.lab.units.traces import Track
from elmo.text.vocabulary import SPECIAL_TOKENS, Vocabulary

VOCABULARY = Vocabulary([*SPECIAL_TOKENS, "the", "cat", "sat", "on", "mat", "a"])
CONFIG = dataclasses.replace(
    TINY, text=TextConfig(max_characters=12), n_softmax_words=len(VOCABULARY)
)
CLIPPED = dataclasses.replace(CONFIG.lstm, cell_clip=0.3, projection_clip=0.2)
TEXT = "the cat sat on the mat\n\na mat\nunseen cat\n" * 4
DIRECTIONS = ("forward", "backward")


def make_elmo(**changes):
    """Return an ELMo with a softmax; its weights are large enough for the clips."""
    return random_elmo(dataclasses.replace(CONFIG, **changes), vocabulary=VOCABULARY, scale=2.0)


def frozen(model, direction, text=TEXT):
    """Return a direction in double precision, and the text that it reads."""
    source = ElmoSource(model).read(text)
    return source.trained(direction).frozen_copy(), source.stream(direction)


def test_streams_are_those_of_training():
    text = ElmoSource(make_elmo()).read("the unseen cat\na mat")
    words = {number: word for word, number in text.numbers.items()}
    names = [*VOCABULARY.words]
    read = {
        direction: (
            [words.get(number, number) for number in text.stream(direction).inputs.tolist()],
            [names[number] for number in text.stream(direction).targets],
        )
        for direction in DIRECTIONS
    }
    assert read["forward"] == (
        [0, "the", "unseen", "cat", 0, "a", "mat"],
        ["the", "<UNK>", "cat", "</S>", "a", "mat", "</S>"],
    )
    assert read["backward"] == (
        [1, "mat", "a", 1, "cat", "unseen", "the"],
        ["mat", "a", "<S>", "cat", "<UNK>", "the", "<S>"],
    )


@pytest.mark.parametrize("lstm", [CONFIG.lstm, CLIPPED], ids=["no clip", "clip"])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_unrolled_states_are_those_of_the_model(direction, lstm):
    model = make_elmo(lstm=lstm)
    sentence = "the cat sat on the mat"
    network, stream = frozen(model, direction, sentence)
    index = torch.from_numpy(stream.inputs).long()[:, None]
    states = unroll(network, index, network.zero_state(1))
    traces = read_traces(model, [sentence.split()], device="cpu", n_guesses=0)
    for layer in range(2):
        for kind, steps in (("hidden", states.hidden), ("cell", states.cell)):
            values = torch.stack(steps[layer])[1:, 0].detach().numpy()
            # The traces have the end of the sentence too, in the order of the text.
            expected = traces.values[Track(layer, direction, kind)][:-1]
            expected = expected if direction == "forward" else expected[::-1]
            np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-5)


def reference_loss(network, windows, change):
    """Return the loss at the last step by plain formulas, with a vector added to one state."""
    x = list(network.embed(windows.inputs))
    for number, layer in enumerate(network.stack.layers):
        rows = windows.n_windows
        h = torch.zeros(rows, layer.config.projection_dim, dtype=torch.float64)
        c = torch.zeros(rows, layer.config.cell_dim, dtype=torch.float64)
        outputs = []
        for step, vector in enumerate(x):
            deltas = {
                kind: delta for where, kind, at, delta in [change] if (where, at) == (number, step)
            }
            gates = vector @ layer.weight_ih.T + h @ layer.weight_hh.T + layer.bias
            i, f, g, o = gates.chunk(4, 1)
            c = torch.sigmoid(f + layer.config.forget_bias) * c + torch.sigmoid(i) * torch.tanh(g)
            if layer.config.cell_clip is not None:
                c = c.clamp(-layer.config.cell_clip, layer.config.cell_clip)
            c = c + deltas.get("cell", 0.0)
            h = (torch.sigmoid(o) * torch.tanh(c)) @ layer.weight_hr.T
            if layer.config.projection_clip is not None:
                h = h.clamp(-layer.config.projection_clip, layer.config.projection_clip)
            h = h + deltas.get("hidden", 0.0)
            outputs.append(h + vector if number else h)
        x = outputs
    logits = network.softmax(x[-1].float())
    return torch.nn.functional.cross_entropy(logits, windows.targets[-1], reduction="sum")


@pytest.mark.parametrize("lstm", [CONFIG.lstm, CLIPPED], ids=["no clip", "clip"])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_norms_match_one_backward_pass_per_state(direction, lstm):
    network, stream = frozen(make_elmo(lstm=lstm), direction)
    windows = TextWindows.of_text(stream, 3, 6)
    windows = dataclasses.replace(
        windows,
        inputs=windows.inputs[windows.warm_up :],
        targets=windows.targets[windows.warm_up :],
        warm_up=0,
    )
    states = unroll(network, windows.inputs, network.zero_state(3))
    norms = window_norms(network, windows, states)
    assert set(norms) == {(layer, kind) for layer in range(2) for kind in ("hidden", "cell")}
    for (layer, kind), values in norms.items():
        dim = lstm.cell_dim if kind == "cell" else lstm.projection_dim
        for k in range(6):
            delta = torch.zeros(3, dim, dtype=torch.float64, requires_grad=True)
            reference_loss(network, windows, (layer, kind, 5 - k, delta)).backward()
            np.testing.assert_allclose(values[k], delta.grad.norm(dim=1), rtol=1e-5, atol=1e-12)


def test_step_jacobian_matches_finite_differences():
    network, _ = frozen(make_elmo(), "backward")
    generator = torch.Generator().manual_seed(1)
    x, h, c = (torch.randn(n, generator=generator, dtype=torch.float64) for n in (8, 8, 16))
    jacobian = step_jacobian(network, 1, x, h, c)
    size = 1e-6
    for column, state in enumerate(torch.eye(24, dtype=torch.float64) * size):
        ends = []
        for sign in (1, -1):
            moved_h, moved_c = (torch.cat([h, c]) + sign * state).split([8, 16])
            after = network.step(1, x[None], moved_h[None], moved_c[None])
            ends.append(torch.cat([value[0] for value in after]))
        slope = (ends[0] - ends[1]) / (2 * size)
        torch.testing.assert_close(jacobian[:, column], slope, rtol=1e-5, atol=1e-7)


def test_flow_compares_both_directions_with_untrained_ones(tmp_path):
    flow = gradient_flow(make_elmo(), TEXT, steps=10, windows=3)
    assert (flow.unit, flow.n_symbols) == ("words", 52)
    assert flow.panels == {
        "Training": (
            "ELMo forward, trained",
            "ELMo backward, trained",
            "ELMo forward, initial",
            "ELMo backward, initial",
        ),
        "Forget bias": tuple(f"ELMo forward, forget bias {bias}" for bias in (0, 1, 2, 4)),
    }
    ends = [flow[name].curve().norms[-1] for name in flow.panels["Forget bias"]]
    assert ends == sorted(ends)
    # The model's configuration adds 1 to the bias of forget gates.
    initial = flow["ELMo forward, initial"].curve().norms
    assert flow["ELMo forward, forget bias 1"].curve().norms == initial
    curves = flow["ELMo backward, trained"].curves
    assert [(curve.layer, curve.state) for curve in curves] == [
        (0, "hidden"),
        (1, "hidden"),
        (0, "cell"),
        (1, "cell"),
    ]
    assert finite(flow.to_dict())
    assert all(network.clipping.before[0] > 0 for network in flow.networks)
    assert draw_gradients(flow, tmp_path / "flow.png").stat().st_size > 10_000


def test_gradients_of_weights_match_a_backward_pass():
    source = ElmoSource(make_elmo()).read(TEXT)
    network, stream = source.trained("forward").trainable_copy(), source.stream("forward")
    windows = TextWindows.of_text(stream, 2, 8)
    state = network.run(windows.inputs[: windows.warm_up], network.zero_state(2))[1].detach()
    output, _ = network.run(windows.inputs[windows.warm_up :], state)
    targets = windows.targets[windows.warm_up :].flatten()
    torch.nn.functional.cross_entropy(network.softmax(output.flatten(0, 1)), targets).backward()
    total = sum(
        float(value.grad.pow(2).sum()) for value in network.parameters() if value.grad is not None
    )
    from elmo.lab.gradients.clipped_norms import clipped_norms

    norms = clipped_norms(source.trained("forward"), windows, 2, 1.0)
    assert norms.before == pytest.approx([total**0.5], rel=1e-5)


def test_models_over_words_are_compared_with_elmo():
    words = small_model(unit="words", text=TEXT)
    names = ("ELMo forward", "ELMo backward")
    flow = gradient_flow(words, TEXT, compare=[make_elmo()], steps=5, windows=2)
    assert flow.panels["Training"][:3] == ("lstm, trained", *(f"{name}, trained" for name in names))
    assert "Cells" in flow.panels
    flow = gradient_flow(make_elmo(), TEXT, compare=[make_elmo(), words], steps=5, windows=2)
    assert flow.panels["Training"][1:5] == (
        "ELMo backward, trained (1)",
        "ELMo forward, trained (2)",
        "ELMo backward, trained (2)",
        "lstm, trained",
    )
    with pytest.raises(ConfigError, match="lstm, trained has characters, not words"):
        gradient_flow(make_elmo(), TEXT, compare=[small_model()], steps=5)


def test_models_without_loss_and_short_texts_are_rejected():
    with pytest.raises(ConfigError, match="has no softmax"):
        gradient_flow(random_elmo(TINY), TEXT)
    with pytest.raises(ConfigError, match="has no vocabulary"):
        gradient_flow(dataclasses.replace(make_elmo(), vocabulary=None), TEXT)
    with pytest.raises(InputError, match="only 3 words, too few for 201 time steps"):
        gradient_flow(make_elmo(), "a mat")
    with pytest.raises(InputError, match="no words"):
        gradient_flow(make_elmo(), " \n")


def test_command_reads_a_folder(tmp_path):
    ELMo(make_elmo()).save_pretrained(tmp_path / "elmo")
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    words = [tmp_path / "elmo", tmp_path / "text.txt", "--out", tmp_path / "page.html"]
    result = elmo("gradients", *words, "--steps", 5, "--windows", 2, "--json")
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert data["networks"][0]["name"] == "ELMo forward, trained"
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
