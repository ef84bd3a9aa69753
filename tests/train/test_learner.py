"""Tests of training steps: losses, updates, frozen weights, and reproducibility."""

import copy
import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tiny_runs import (
    ADAPTIVE_MODEL,
    CHARACTER_MODEL,
    VOCABULARY,
    WORD_MODEL,
    batches,
    changed,
    fabric,
    make_config,
    make_learner,
    make_network,
    make_tables,
    segments,
    weights,
    without_capture,
)

from elmo.config import OptimizerConfig, RegularizationConfig
from elmo.errors import ConfigError
from elmo.model.losses import exact_losses
from elmo.train import checkpoint
from elmo.train import learner as learner_module
from elmo.train.learner import Learner, streams_per_process

DROPOUTS = RegularizationConfig(
    dropout=0.3, output_dropout=0.2, weight_drop=0.2, embedding_dropout=0.2
)
ADAMW = OptimizerConfig(
    optimizer="adamw",
    learning_rate=0.01,
    weight_decay=0.1,
    warmup_steps=3,
    schedule="cosine",
    clip_norm=1.0,
)
MUON = dataclasses.replace(ADAMW, optimizer="muon")
SOFTMAXES = {
    "full": ("full", CHARACTER_MODEL),
    "sampled": ("sampled", CHARACTER_MODEL),
    "adaptive": ("adaptive", ADAPTIVE_MODEL),
}


@pytest.fixture(params=SOFTMAXES)
def softmax_and_model(request):
    """Return the name of a softmax and the configuration of a model with this softmax."""
    return SOFTMAXES[request.param]


@pytest.fixture(params=[OptimizerConfig(), ADAMW, MUON], ids=lambda config: config.optimizer)
def optimizer(request):
    return request.param


def state_copy(learner):
    """Return a deep copy of the learner's state."""
    return copy.deepcopy(learner.state_dict())


def same_state(one, other):
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_state(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same_state, one, other))
    return one == other


def gradient_norm(learner):
    gradients = [value.grad for value in learner.model.parameters() if value.grad is not None]
    gradients += learner.head.gradients()
    return math.sqrt(sum(float(gradient.double().square().sum()) for gradient in gradients))


# ------------------------------------------------------------------------------------ one step


@pytest.mark.parametrize("reset", [0.0, 1.0])
@pytest.mark.parametrize("clustered", [False, True])
def test_step_returns_losses_and_carries_the_lstm_state(reset, clustered):
    config = make_config("adaptive" if clustered else "full", reset=reset)
    learner = make_learner(config, ADAPTIVE_MODEL if clustered else CHARACTER_MODEL)
    steps = batches(learner, 3)
    learner.step(steps[0], 0)
    model, softmax = copy.deepcopy((learner.model, learner.network.softmax))
    assert model.training
    (batch,) = steps[1]
    arrays = (learner.tables.rows[batch.words], batch.index, batch.targets, batch.resets)
    rows, index, targets, resets = map(torch.from_numpy, arrays)
    assert resets.any() == bool(reset)
    hidden, h, c = model(rows.long(), index, resets, learner.h, learner.c)
    expected = torch.stack(
        [
            exact_losses(softmax, hidden[side].flatten(0, 1), targets[side].flatten()).mean()
            for side in (0, 1)
        ]
    )
    result = learner.step(steps[1], 1)
    torch.testing.assert_close(result.losses, expected)
    torch.testing.assert_close((learner.h, learner.c), (h, c))
    assert not result.losses.requires_grad
    assert not learner.h.requires_grad


def test_steps_update_all_weights_except_layer_mixes(softmax_and_model, optimizer):
    softmax, shape = softmax_and_model
    learner = make_learner(make_config(softmax, optimizer), shape)
    before = weights(learner)
    first, *_, last = [
        learner.step(step, number) for number, step in enumerate(batches(learner, 8))
    ]
    moved = changed(before, weights(learner))
    assert before.keys() - moved == {name for name in before if name.startswith("mixes.")}
    assert last.losses.isfinite().all()
    assert all(value.grad is None for value in learner.network.parameters())
    # The padding row is not updated.
    assert not learner.network.bilm.encoder.characters.embedding.weight[0].any()
    assert first.rate == pytest.approx(0.2 if optimizer.optimizer == "adagrad" else 0.01 / 3)


def test_repeated_steps_on_the_same_batch_reduce_the_loss(softmax_and_model):
    softmax, shape = softmax_and_model
    learner = make_learner(make_config(softmax), shape)
    (step,) = batches(learner, 1)
    losses = []
    for number in range(30):
        learner.h.zero_()
        learner.c.zero_()
        losses.append(float(learner.step(step, number).losses.mean()))
    assert losses[-1] < 0.7 * losses[0]


def test_scheduled_learning_rate_is_passed_to_all_optimizers(softmax_and_model):
    softmax, shape = softmax_and_model
    learner = make_learner(make_config(softmax, ADAMW), shape, n_steps=6)
    rates = []
    update = learner.head.update
    learner.head.update = lambda rate: rates.append(rate) or update(rate)
    for number, step in enumerate(batches(learner, 6)):
        result = learner.step(step, number)
        assert all(group["lr"] == result.rate for group in learner.optimizer.param_groups)
        assert rates[-1] == result.rate
    assert rates[:3] == pytest.approx([0.01 / 3, 0.02 / 3, 0.01])
    assert rates[4] == pytest.approx(0.01 * 0.75)


# ------------------------------------------------------------------------------------ clip, scale


def spied_norms(learner):
    """Return a list to which each optimizer step appends the total gradient norm."""
    norms = []
    step = learner.optimizer.step

    def spy():
        norms.append(gradient_norm(learner))
        step()

    learner.optimizer.step = spy
    return norms


@pytest.mark.parametrize("clip", [0.01, 0.0, 1e6])
def test_clip_norm_limits_the_total_gradient_norm(softmax_and_model, clip):
    softmax, shape = softmax_and_model
    learner = make_learner(make_config(softmax, OptimizerConfig(clip_norm=clip)), shape)
    norms = spied_norms(learner)
    result = learner.step(batches(learner, 1)[0], 0)
    norm = float(result.norm)
    assert norm > 0.1
    assert norms[0] == pytest.approx(0.01 if clip == 0.01 else norm, rel=1e-4)


def test_loss_scale_multiplies_gradients_but_not_reported_losses(softmax_and_model):
    softmax, shape = softmax_and_model
    norms, losses = {}, {}
    cases = {
        "adagrad": {},
        "adagrad 1": {"loss_scale": 1.0},
        "adagrad 3": {"loss_scale": 3.0},
        "adamw": {"optimizer": "adamw"},
    }
    for name, options in cases.items():
        learner = make_learner(make_config(softmax, OptimizerConfig(**options)), shape)
        result = learner.step(batches(learner, 1)[0], 0)
        norms[name], losses[name] = float(result.norm), result.losses
    unscaled = norms["adagrad 1"]
    # bilm-tf multiplies by the number of time steps of a segment, here 5.
    assert norms["adagrad"] == pytest.approx(5 * unscaled, rel=1e-4)
    assert norms["adagrad 3"] == pytest.approx(3 * unscaled, rel=1e-4)
    assert norms["adamw"] == pytest.approx(unscaled, rel=1e-4)
    # The reported losses are not scaled.
    assert all(torch.equal(value, losses["adamw"]) for value in losses.values())


# ------------------------------------------------------------------------------------ accumulate


@pytest.mark.parametrize("parts", [2, 4])
def test_step_with_gradient_accumulation_equals_step_on_the_whole_batch(
    softmax_and_model, optimizer, parts
):
    softmax, shape = softmax_and_model
    learners = [
        make_learner(make_config(softmax, optimizer, accumulate=accumulate), shape)
        for accumulate in (1, parts)
    ]
    assert [len(batches(learner, 1)[0]) for learner in learners] == [1, parts]
    for number in range(3):
        expected, result = (
            learner.step(batches(learner, 3)[number], number) for learner in learners
        )
        torch.testing.assert_close(result.losses, expected.losses, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(result.norm, expected.norm, rtol=1e-4, atol=1e-5)
    whole, split = (state_copy(learner) for learner in learners)
    for name, value in whole["weights"].items():
        # Adam divides by the size of a gradient and thus amplifies rounding errors.
        atol = 1e-5 if optimizer.optimizer == "adagrad" else 2e-4
        torch.testing.assert_close(split["weights"][name], value, rtol=0, atol=atol)
    torch.testing.assert_close(
        (split["h"], split["c"]), (whole["h"], whole["c"]), rtol=0, atol=1e-3
    )


def test_batches_of_an_accumulated_step_use_different_seeds():
    learner = make_learner(make_config(regularization=DROPOUTS, accumulate=2))
    seeds = []
    seed = learner._seed

    def spy(number, part):
        seed(number, part)
        seeds.append(torch.initial_seed())

    learner._seed = spy
    for number, step in enumerate(batches(learner, 2)):
        learner.step(step, number)
    assert len(set(seeds)) == 4


@pytest.mark.parametrize(
    ("batch_size", "accumulate", "processes"), [(4, 3, 1), (6, 2, 2), (1, 1, 2)]
)
def test_streams_per_process_rejects_indivisible_batch_size(batch_size, accumulate, processes):
    config = make_config(batch_size=batch_size, accumulate=accumulate)
    with pytest.raises(ConfigError, match=rf"batch_size \({batch_size}\) must be a multiple of"):
        streams_per_process(config, processes)


def test_streams_per_process_does_not_depend_on_gradient_accumulation():
    assert streams_per_process(make_config(batch_size=12, accumulate=3), 2) == 6
    with pytest.raises(ConfigError, match="must be a multiple of 3"):
        make_learner(make_config(accumulate=3))


# ------------------------------------------------------------------------------------ determinism


@pytest.mark.parametrize("locked", [False, True])
def test_step_depends_only_on_learner_state_segment_and_step_number(
    softmax_and_model, optimizer, locked
):
    """Earlier steps, evaluations and random numbers do not affect the result of a step."""
    softmax, shape = softmax_and_model
    config = make_config(softmax, optimizer, dataclasses.replace(DROPOUTS, locked=locked))
    results = []
    for number, noise in ((3, 0), (3, 1), (4, 0)):
        learner = make_learner(config, shape)
        torch.manual_seed(noise)
        torch.rand(7 * noise)
        if noise:
            evaluate(learner)
        result = learner.step(batches(learner, 1)[0], number)
        results.append((state_copy(learner), result.losses, result.norm))
    assert same_state(results[0], results[1])
    assert not torch.equal(results[0][1], results[2][1])


def evaluate(learner):
    """Run the model in evaluation mode, which must not change the learner."""
    (batch,) = batches(learner, 1)[0]
    learner.model.eval()
    with torch.no_grad():
        learner.model(
            learner.token_rows[torch.from_numpy(batch.words)].long(),
            torch.from_numpy(batch.index),
            None,
            learner.h,
            learner.c,
        )
    learner.model.train()


def test_dropout_depends_on_the_seed_of_the_run():
    losses = []
    for seed in (1, 1, 2):
        learner = make_learner(make_config(regularization=DROPOUTS, seed=seed))
        step = learner.batches(segments(make_config(), 1)[0])
        losses.append(learner.step(step, 0).losses)
    assert torch.equal(losses[0], losses[1])
    assert not torch.equal(losses[0], losses[2])


def test_steps_after_resuming_equal_uninterrupted_steps(tmp_path, softmax_and_model, optimizer):
    softmax, shape = softmax_and_model
    config = make_config(softmax, optimizer, DROPOUTS)
    learner = make_learner(config, shape)
    steps = batches(learner, 6)
    for number in range(3):
        learner.step(steps[number], number)
    checkpoint.save(tmp_path, 3, {"learner": learner.state_dict()})
    expected = [learner.step(steps[number], number) for number in range(3, 6)]
    resumed = make_learner(config, shape, seed=99)
    resumed.load_state_dict(checkpoint.load_newest(tmp_path)["learner"])
    results = [resumed.step(steps[number], number) for number in range(3, 6)]
    for one, other in zip(results, expected, strict=True):
        assert torch.equal(one.losses, other.losses)
        assert torch.equal(one.norm, other.norm)
    assert same_state(state_copy(resumed), state_copy(learner))


def test_load_state_dict_loads_only_the_streams_of_the_process():
    learner = make_learner(make_config())
    learner.step(batches(learner, 1)[0], 0)
    state = state_copy(learner)
    second = make_learner(make_config(batch_size=2))
    second.fabric = type("Second", (), {"global_rank": 1, "device": torch.device("cpu")})()
    second.load_state_dict(state)
    assert torch.equal(second.h, state["h"][:, :, 2:4])
    assert torch.equal(second.c, state["c"][:, :, 2:4])


def use_tensor_rate(optimizer):
    """Replace an optimizer's learning rate with a tensor, as used with CUDA graphs."""
    rate = torch.tensor(optimizer.param_groups[0]["lr"])
    for group in optimizer.param_groups:
        group["lr"] = rate


@pytest.mark.parametrize("tensors", [(False, True), (True, False), (True, True)])
def test_resumed_run_does_not_adopt_the_saved_learning_rate_type(tmp_path, optimizer, tensors):
    """A run saved with a float learning rate can be resumed with a tensor, and vice versa."""
    config = make_config("sampled", optimizer, DROPOUTS)
    learner, resumed = make_learner(config), make_learner(config, seed=99)
    for each, is_tensor in zip((learner, resumed), tensors, strict=True):
        if is_tensor:
            use_tensor_rate(each.optimizer)
    steps = batches(learner, 6)
    for number in range(3):
        learner.step(steps[number], number)
    checkpoint.save(tmp_path, 3, {"learner": learner.state_dict()})
    resumed.load_state_dict(checkpoint.load_newest(tmp_path)["learner"])
    for number in range(3, 6):
        result, expected = (each.step(steps[number], number) for each in (resumed, learner))
        torch.testing.assert_close(result.losses, expected.losses, rtol=1e-4, atol=0)
        for group in resumed.optimizer.param_groups:
            assert float(group["lr"]) == pytest.approx(expected.rate)
            assert isinstance(group["lr"], torch.Tensor if tensors[1] else float)
    torch.testing.assert_close(weights(resumed), weights(learner), rtol=0, atol=1e-5)


def test_resumed_run_does_not_adopt_the_saved_adam_implementation():
    config = make_config(optimizer=ADAMW)
    learner, resumed = make_learner(config), make_learner(config)
    learner.step(batches(learner, 1)[0], 0)
    # As on a GPU, where capturing a CUDA graph needs these options.
    for group in resumed.optimizer.param_groups:
        group.update(fused=True, capturable=True)
    resumed.load_state_dict(state_copy(learner))
    assert all(group["fused"] and group["capturable"] for group in resumed.optimizer.param_groups)


# ------------------------------------------------------------------------------------ padding


def check_close_states(one, other, optimizer):
    # Adam divides by the size of a gradient and thus amplifies rounding errors.
    atol = 1e-6 if optimizer.optimizer == "adagrad" else 1e-4
    states = [state_copy(learner) for learner in (one, other)]
    for state in states:
        # The number of words after padding, which differs.
        del state["n_words"]
    torch.testing.assert_close(*states, rtol=1e-4, atol=atol)


@pytest.mark.parametrize("parts", [1, 2])
def test_step_results_do_not_change_if_softmax_rows_are_padded(optimizer, parts):
    config = make_config("sampled", optimizer, DROPOUTS, accumulate=parts)
    padded, unpadded = make_learner(config), make_learner(config)
    for number, step in enumerate(batches(unpadded, 4)):
        targets = np.stack([part.targets for part in step])
        drawn = padded.head.draw(number, targets, 48)
        assert len(drawn.ids) == 48
        assert not drawn.valid.all()
        result, expected = padded.step(step, number, drawn), unpadded.step(step, number)
        torch.testing.assert_close(result.losses, expected.losses)
        torch.testing.assert_close(result.norm, expected.norm)
    check_close_states(padded, unpadded, optimizer)


@pytest.mark.parametrize("softmax", ["full", "sampled"])
def test_step_results_do_not_change_if_words_are_padded(softmax, optimizer):
    # Embedding dropout draws a random number for each word, including padding.
    regularization = dataclasses.replace(DROPOUTS, embedding_dropout=0.0)
    config = make_config(softmax, optimizer, regularization)
    padded, unpadded = (make_learner(config, softmax_steps=1) for _ in range(2))
    sizes = without_capture(padded)
    for number, step in enumerate(batches(unpadded, 4)):
        assert len(step[0].words) < 64
        # In advance of the step, like the loop.
        drawn = padded.draw(step, number)
        result, expected = padded.step(step, number, drawn), unpadded.step(step, number)
        torch.testing.assert_close(result.losses, expected.losses)
        torch.testing.assert_close(result.norm, expected.norm)
        assert result.rate == expected.rate
    assert sizes == [64] * 4
    check_close_states(padded, unpadded, optimizer)


def test_draw_pads_softmax_rows_if_cuda_graphs_are_used(monkeypatch):
    monkeypatch.setattr(learner_module, "ROWS_MULTIPLE", 48)
    learner = make_learner(make_config("sampled"))
    (step,) = batches(learner, 1)
    n_unpadded = len(learner.draw(step, 0).ids)
    without_capture(learner)
    assert n_unpadded < len(learner.draw(step, 0).ids) == 48


# ------------------------------------------------------------------------------------ processes


@pytest.mark.parametrize("parts", [1, 2])
def test_softmax_rows_include_the_targets_of_all_processes(monkeypatch, parts):
    learner = make_learner(make_config("sampled", accumulate=parts))
    (step,) = batches(learner, 1)
    targets = np.concatenate([part.targets for part in step], axis=2)
    others = (targets + 17) % len(VOCABULARY)
    alone = learner.draw(step, 5)

    def all_gather(gathered, value):
        assert np.array_equal(value.numpy(), targets)
        gathered[0].copy_(value)
        gathered[1].copy_(torch.from_numpy(others))

    monkeypatch.setattr(torch.distributed, "all_gather", all_gather)
    learner.fabric = SimpleNamespace(world_size=2, device=torch.device("cpu"))
    # Rows cannot be drawn in advance, since they depend on the targets of other processes.
    assert learner.draw(step, 5) is None
    drawn = learner._draw_for_all_processes(step, 5)
    expected = {*drawn.sampled.flatten().tolist(), *targets.flatten(), *others.flatten()}
    assert drawn.ids.tolist() == sorted(expected)
    assert drawn.valid.all()
    assert len(alone.ids) < len(drawn.ids)
    assert torch.equal(drawn.sampled, alone.sampled)
    assert torch.equal(drawn.n_tries, alone.n_tries)


# ------------------------------------------------------------------------------------ frozen, tied


def test_only_the_softmax_is_trained_in_the_first_softmax_steps(softmax_and_model, optimizer):
    softmax, shape = softmax_and_model
    learner = make_learner(make_config(softmax, optimizer, DROPOUTS), shape, softmax_steps=2)
    start = weights(learner)
    steps = batches(learner, 3)
    for number in range(2):
        before = weights(learner)
        learner.step(steps[number], number)
        moved = changed(before, weights(learner))
        assert moved
        assert all(name.startswith("softmax.") for name in moved)
    assert learner.h.any()
    learner.step(steps[2], 2)
    assert {name for name in start if name.startswith("bilm.")} <= changed(start, weights(learner))


def test_tied_softmax_equals_word_embeddings_after_each_step(optimizer):
    config = make_config(optimizer=optimizer, regularization=RegularizationConfig(tied=True))
    learner = make_learner(config, WORD_MODEL)
    table, softmax = learner.network.bilm.encoder.words.weight, learner.network.softmax
    for number, step in enumerate(batches(learner, 3)):
        before = table.detach().clone()
        learner.step(step, number)
        assert torch.equal(softmax.weight, table[1:])
        # All rows change: words that do not occur get a gradient from the softmax.
        assert (table[1:] != before[1:]).any(dim=1).all()
        assert not table[0].any()


def test_gradient_of_tied_weights_is_the_sum_of_input_and_softmax_gradients():
    learner = make_learner(make_config(regularization=RegularizationConfig(tied=True)), WORD_MODEL)
    gradients = {}
    step = learner.optimizer.step

    def spy():
        gradients["tied"] = learner.network.bilm.encoder.words.weight.grad.clone()
        step()

    learner.optimizer.step = spy
    untied = make_learner(make_config(), WORD_MODEL)
    untied.network.softmax.weight.data.copy_(untied.network.bilm.encoder.words.weight.data[1:])
    inner = untied.optimizer.step

    def spy_untied():
        gradients["input"] = untied.network.bilm.encoder.words.weight.grad.clone()
        gradients["softmax"] = untied.network.softmax.weight.grad.clone()
        inner()

    untied.optimizer.step = spy_untied
    for each in (learner, untied):
        each.config = dataclasses.replace(
            each.config, optimizer=dataclasses.replace(each.config.optimizer, clip_norm=0.0)
        )
        each.step(batches(each, 1)[0], 0)
    expected = gradients["input"]
    expected[1:] += gradients["softmax"]
    torch.testing.assert_close(gradients["tied"], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("softmax", "shape", "message"),
    [
        ("full", CHARACTER_MODEL, "--tied needs a model with word input"),
        ("sampled", WORD_MODEL, "--softmax sampled cannot be combined with --tied"),
        ("full", dataclasses.replace(WORD_MODEL, softmax_cutoffs=(9,)), "and a full softmax"),
        (
            "full",
            dataclasses.replace(
                WORD_MODEL,
                encoder=dataclasses.replace(WORD_MODEL.encoder, project=True, word_dim=8),
            ),
            "Set --word-dim and --projection-dim to the same value",
        ),
        ("full", dataclasses.replace(WORD_MODEL, n_softmax_words=20), r"got \(20, 16\) and"),
    ],
)
def test_tied_option_is_rejected_for_unsuitable_models(softmax, shape, message):
    with pytest.raises(ConfigError, match=message):
        make_learner(make_config(softmax, regularization=RegularizationConfig(tied=True)), shape)


def test_sampled_softmax_is_rejected_for_a_model_with_adaptive_softmax():
    with pytest.raises(ConfigError, match="nor be used for a model with an adaptive softmax"):
        make_learner(make_config("sampled"), ADAPTIVE_MODEL)


# ------------------------------------------------------------------------------------ other options


def test_learner_trains_a_network_whose_weights_were_frozen():
    """The weights of a model that was loaded for embedding may be frozen."""
    network = make_network().requires_grad_(False)
    learner = Learner(fabric(), network, make_config(), make_tables(), n_steps=3)
    before = weights(learner)
    learner.step(batches(learner, 1)[0], 0)
    assert "bilm.forward_lstm.layers.0.weight_hh" in changed(before, weights(learner))


@pytest.mark.parametrize("kernel", ["auto", "reference", "cudnn"])
def test_learner_uses_the_lstm_kernel_set_in_the_options(kernel):
    config = make_config()
    config = dataclasses.replace(config, run=dataclasses.replace(config.run, kernel=kernel))
    learner = make_learner(config)
    assert learner.model.kernels.name == kernel
    (step,) = batches(learner, 1)
    if kernel == "cudnn":
        with pytest.raises(ConfigError, match="Kernel 'cudnn' needs"):
            learner.step(step, 0)
    else:
        assert learner.step(step, 0).losses.isfinite().all()


@pytest.mark.parametrize("softmax", ["full", "sampled"])
def test_load_accumulators_ignores_unknown_parameter_names(softmax):
    learner = make_learner(make_config(softmax, OptimizerConfig(accumulator=1.0)))
    named = dict(learner.network.named_parameters())
    accumulators = {
        name: torch.full_like(named[name], 2.0 + number)
        for number, name in enumerate(
            ("softmax.weight", "softmax.bias", "bilm.forward_lstm.layers.0.bias")
        )
    }
    learner.load_accumulators({**accumulators, "unknown": torch.ones(1)})
    rows = dict(
        zip(("softmax.weight", "softmax.bias"), learner.head.row_optimizers(), strict=False)
    )
    for name, value in named.items():
        if name.startswith("mixes."):
            continue
        loaded = rows[name].state["sum"] if name in rows else learner.optimizer.state[value]["sum"]
        expected = accumulators.get(name, torch.ones_like(value))
        assert torch.equal(loaded, expected), name
        assert loaded is not expected
