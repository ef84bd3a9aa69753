"""One update: what it computes, what it moves, what it leaves alone, and how to repeat it."""

import copy
import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tiny_runs import (
    BY_WORD,
    CLUSTERED,
    SPELLED,
    VOCABULARY,
    batches,
    changed,
    fabric,
    make_config,
    make_learner,
    make_network,
    make_tables,
    without_capture,
    weights,
    windows,
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
KINDS = {
    "full": ("full", SPELLED),
    "sampled": ("sampled", SPELLED),
    "adaptive": ("adaptive", CLUSTERED),
}


@pytest.fixture(params=KINDS)
def kind(request):
    """A softmax and a shape that has it."""
    return KINDS[request.param]


@pytest.fixture(params=[OptimizerConfig(), ADAMW], ids=lambda config: config.optimizer)
def optimizer(request):
    return request.param


def frozen_copy(learner):
    """Give all that a learner keeps, cut off from it."""
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
def test_losses_and_state(reset, clustered):
    config = make_config("adaptive" if clustered else "full", reset=reset)
    learner = make_learner(config, CLUSTERED if clustered else SPELLED)
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


def test_everything_moves(kind, optimizer):
    softmax, shape = kind
    learner = make_learner(make_config(softmax, optimizer), shape)
    before = weights(learner)
    first, *_, last = [
        learner.step(step, number) for number, step in enumerate(batches(learner, 8))
    ]
    moved = changed(before, weights(learner))
    assert before.keys() - moved == {name for name in before if name.startswith("mixes.")}
    assert last.losses.isfinite().all()
    assert all(value.grad is None for value in learner.network.parameters())
    # The row of the mask is no word.
    assert not learner.network.bilm.encoder.characters.embedding.weight[0].any()
    assert first.rate == pytest.approx(0.2 if optimizer.optimizer == "adagrad" else 0.01 / 3)


def test_it_learns(kind):
    softmax, shape = kind
    learner = make_learner(make_config(softmax), shape)
    (step,) = batches(learner, 1)
    losses = []
    for number in range(30):
        learner.h.zero_()
        learner.c.zero_()
        losses.append(float(learner.step(step, number).losses.mean()))
    assert losses[-1] < 0.7 * losses[0]


def test_the_rate_of_the_schedule_reaches_the_optimiser(kind):
    softmax, shape = kind
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
    """Record the norm of all gradients as the optimiser meets them."""
    norms = []
    step = learner.optimizer.step

    def spy():
        norms.append(gradient_norm(learner))
        step()

    learner.optimizer.step = spy
    return norms


@pytest.mark.parametrize("clip", [0.01, 0.0, 1e6])
def test_clipping_is_over_all_weights(kind, clip):
    softmax, shape = kind
    learner = make_learner(make_config(softmax, OptimizerConfig(clip_norm=clip)), shape)
    norms = spied_norms(learner)
    result = learner.step(batches(learner, 1)[0], 0)
    norm = float(result.norm)
    assert norm > 0.1
    assert norms[0] == pytest.approx(0.01 if clip == 0.01 else norm, rel=1e-4)


def test_scale_of_the_loss(kind):
    softmax, shape = kind
    norms, losses = {}, {}
    cases = {
        "adagrad": {},
        "adagrad 1": {"loss_scale": 1.0},
        "adagrad 3": {"loss_scale": 3.0},
        "adamw": {"optimizer": "adamw"},
    }
    for name, dials in cases.items():
        learner = make_learner(make_config(softmax, OptimizerConfig(**dials)), shape)
        result = learner.step(batches(learner, 1)[0], 0)
        norms[name], losses[name] = float(result.norm), result.losses
    one = norms["adagrad 1"]
    # bilm-tf multiplies by the steps of a window, here 5.
    assert norms["adagrad"] == pytest.approx(5 * one, rel=1e-4)
    assert norms["adagrad 3"] == pytest.approx(3 * one, rel=1e-4)
    assert norms["adamw"] == pytest.approx(one, rel=1e-4)
    # What is told is not scaled.
    assert all(torch.equal(value, losses["adamw"]) for value in losses.values())


# ------------------------------------------------------------------------------------ accumulate


@pytest.mark.parametrize("parts", [2, 4])
def test_parts_are_the_whole(kind, optimizer, parts):
    softmax, shape = kind
    learners = [
        make_learner(make_config(softmax, optimizer, accumulate=accumulate), shape)
        for accumulate in (1, parts)
    ]
    assert [len(batches(learner, 1)[0]) for learner in learners] == [1, parts]
    for number in range(3):
        one, other = (learner.step(batches(learner, 3)[number], number) for learner in learners)
        torch.testing.assert_close(other.losses, one.losses, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(other.norm, one.norm, rtol=1e-4, atol=1e-5)
    whole, cut = (frozen_copy(learner) for learner in learners)
    for name, value in whole["weights"].items():
        # Adam divides by the size of a gradient, and so makes much of a rounding.
        atol = 1e-5 if optimizer.optimizer == "adagrad" else 2e-4
        torch.testing.assert_close(cut["weights"][name], value, rtol=0, atol=atol)
    torch.testing.assert_close((cut["h"], cut["c"]), (whole["h"], whole["c"]), rtol=0, atol=1e-3)


def test_parts_have_their_own_dropout():
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
def test_a_batch_that_cannot_be_cut(batch_size, accumulate, processes):
    config = make_config(batch_size=batch_size, accumulate=accumulate)
    with pytest.raises(ConfigError, match=f"batch_size is {batch_size}, which cannot be cut into"):
        streams_per_process(config, processes)


def test_lanes_of_a_process():
    assert streams_per_process(make_config(batch_size=12, accumulate=3), 2) == 6
    with pytest.raises(ConfigError, match="cannot be cut into 3 equal parts"):
        make_learner(make_config(accumulate=3))


# ------------------------------------------------------------------------------------ repetition


@pytest.mark.parametrize("locked", [False, True])
def test_a_step_is_decided_by_its_number(kind, optimizer, locked):
    """Same weights, same window, same number: the same step, whatever happened before it."""
    softmax, shape = kind
    config = make_config(softmax, optimizer, dataclasses.replace(DROPOUTS, locked=locked))
    results = []
    for number, noise in ((3, 0), (3, 1), (4, 0)):
        learner = make_learner(config, shape)
        torch.manual_seed(noise)
        torch.rand(7 * noise)
        if noise:
            evaluate(learner)
        result = learner.step(batches(learner, 1)[0], number)
        results.append((frozen_copy(learner), result.losses, result.norm))
    assert same_state(results[0], results[1])
    assert not torch.equal(results[0][1], results[2][1])


def evaluate(learner):
    """What an evaluation does to a learner: nothing."""
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


def test_the_seed_of_the_run_decides():
    losses = []
    for seed in (1, 1, 2):
        learner = make_learner(make_config(regularization=DROPOUTS, seed=seed))
        step = learner.batches(windows(make_config(), 1)[0])
        losses.append(learner.step(step, 0).losses)
    assert torch.equal(losses[0], losses[1])
    assert not torch.equal(losses[0], losses[2])


def test_resumed_is_uninterrupted(tmp_path, kind, optimizer):
    softmax, shape = kind
    config = make_config(softmax, optimizer, DROPOUTS)
    learner = make_learner(config, shape)
    steps = batches(learner, 6)
    for number in range(3):
        learner.step(steps[number], number)
    checkpoint.save(tmp_path, 3, {"learner": learner.state_dict()})
    expected = [learner.step(steps[number], number) for number in range(3, 6)]
    again = make_learner(config, shape, seed=99)
    again.load_state_dict(checkpoint.load_newest(tmp_path)["learner"])
    found = [again.step(steps[number], number) for number in range(3, 6)]
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one.losses, other.losses)
        assert torch.equal(one.norm, other.norm)
    assert same_state(frozen_copy(again), frozen_copy(learner))


def test_the_state_of_lanes_is_shared_out():
    learner = make_learner(make_config())
    learner.step(batches(learner, 1)[0], 0)
    state = frozen_copy(learner)
    second = make_learner(make_config(batch_size=2))
    second.fabric = type("Second", (), {"global_rank": 1, "device": torch.device("cpu")})()
    second.load_state_dict(state)
    assert torch.equal(second.h, state["h"][:, :, 2:4])
    assert torch.equal(second.c, state["c"][:, :, 2:4])


def as_tensor(optimizer):
    """Make the rate of an optimiser a tensor, as it is on a GPU."""
    rate = torch.tensor(optimizer.param_groups[0]["lr"])
    for group in optimizer.param_groups:
        group["lr"] = rate


@pytest.mark.parametrize("tensors", [(False, True), (True, False), (True, True)])
def test_the_kind_of_rate_is_the_machines(tmp_path, optimizer, tensors):
    """What was saved where the rate is a number goes on where it is a tensor, and back."""
    config = make_config("sampled", optimizer, DROPOUTS)
    learner, again = make_learner(config), make_learner(config, seed=99)
    for each, is_tensor in zip((learner, again), tensors, strict=True):
        if is_tensor:
            as_tensor(each.optimizer)
    steps = batches(learner, 6)
    for number in range(3):
        learner.step(steps[number], number)
    checkpoint.save(tmp_path, 3, {"learner": learner.state_dict()})
    again.load_state_dict(checkpoint.load_newest(tmp_path)["learner"])
    for number in range(3, 6):
        found, expected = (each.step(steps[number], number) for each in (again, learner))
        torch.testing.assert_close(found.losses, expected.losses, rtol=1e-4, atol=0)
        for group in again.optimizer.param_groups:
            assert float(group["lr"]) == pytest.approx(expected.rate)
            assert isinstance(group["lr"], torch.Tensor if tensors[1] else float)
    torch.testing.assert_close(weights(again), weights(learner), rtol=0, atol=1e-5)


def test_how_adam_is_computed_is_the_machines():
    config = make_config(optimizer=ADAMW)
    learner, again = make_learner(config), make_learner(config)
    learner.step(batches(learner, 1)[0], 0)
    # As on a GPU, where a step cannot be recorded without.
    for group in again.optimizer.param_groups:
        group.update(fused=True, capturable=True)
    again.load_state_dict(frozen_copy(learner))
    assert all(group["fused"] and group["capturable"] for group in again.optimizer.param_groups)


# ------------------------------------------------------------------------------------ filled up


def close_states(one, other, optimizer):
    # Adam divides by the size of a gradient, and so makes much of a rounding.
    atol = 1e-6 if optimizer.optimizer == "adagrad" else 1e-4
    states = [frozen_copy(learner) for learner in (one, other)]
    for state in states:
        # To how many words a window was filled up.
        del state["n_words"]
    torch.testing.assert_close(*states, rtol=1e-4, atol=atol)


@pytest.mark.parametrize("parts", [1, 2])
def test_softmax_rows_that_fill_up_change_nothing(optimizer, parts):
    config = make_config("sampled", optimizer, DROPOUTS, accumulate=parts)
    filled, plain = make_learner(config), make_learner(config)
    for number, step in enumerate(batches(plain, 4)):
        targets = np.stack([part.targets for part in step])
        drawn = filled.head.draw(number, targets, 48)
        assert len(drawn.ids) == 48
        assert not drawn.valid.all()
        found, expected = filled.step(step, number, drawn), plain.step(step, number)
        torch.testing.assert_close(found.losses, expected.losses)
        torch.testing.assert_close(found.norm, expected.norm)
    close_states(filled, plain, optimizer)


@pytest.mark.parametrize("softmax", ["full", "sampled"])
def test_words_that_fill_up_change_nothing(softmax, optimizer):
    # Leaving out words is drawn for each of them, for those too that fill up.
    regular = dataclasses.replace(DROPOUTS, embedding_dropout=0.0)
    config = make_config(softmax, optimizer, regular)
    filled, plain = (make_learner(config, softmax_steps=1) for _ in range(2))
    sizes = without_capture(filled)
    for number, step in enumerate(batches(plain, 4)):
        assert len(step[0].words) < 64
        # Ahead of the step, as the loop does it.
        drawn = filled.draw(step, number)
        found, expected = filled.step(step, number, drawn), plain.step(step, number)
        torch.testing.assert_close(found.losses, expected.losses)
        torch.testing.assert_close(found.norm, expected.norm)
        assert found.rate == expected.rate
    assert sizes == [64] * 4
    close_states(filled, plain, optimizer)


def test_a_learner_that_records_draws_in_multiples(monkeypatch):
    monkeypatch.setattr(learner_module, "ROWS_MULTIPLE", 48)
    learner = make_learner(make_config("sampled"))
    (step,) = batches(learner, 1)
    n_plain = len(learner.draw(step, 0).ids)
    without_capture(learner)
    assert n_plain < len(learner.draw(step, 0).ids) == 48


# ------------------------------------------------------------------------------------ processes


@pytest.mark.parametrize("parts", [1, 2])
def test_the_targets_of_all_processes_are_among_the_rows(monkeypatch, parts):
    learner = make_learner(make_config("sampled", accumulate=parts))
    (step,) = batches(learner, 1)
    own = np.concatenate([part.targets for part in step], axis=2)
    others = (own + 17) % len(VOCABULARY)
    alone = learner.draw(step, 5)

    def all_gather(gathered, value):
        assert np.array_equal(value.numpy(), own)
        gathered[0].copy_(value)
        gathered[1].copy_(torch.from_numpy(others))

    monkeypatch.setattr(torch.distributed, "all_gather", all_gather)
    learner.fabric = SimpleNamespace(world_size=2, device=torch.device("cpu"))
    # Nothing can be found out ahead, where nobody else is asked.
    assert learner.draw(step, 5) is None
    drawn = learner._draw_for_all_processes(step, 5)
    expected = {*drawn.sampled.flatten(), *own.flatten(), *others.flatten()}
    assert drawn.ids.tolist() == sorted(expected)
    assert drawn.valid.all()
    assert len(alone.ids) < len(drawn.ids)
    assert np.array_equal(drawn.sampled, alone.sampled)
    assert np.array_equal(drawn.n_tries, alone.n_tries)


# ------------------------------------------------------------------------------------ frozen, tied


def test_a_softmax_learns_alone_at_first(kind, optimizer):
    softmax, shape = kind
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


def test_tied_weights_move_together(optimizer):
    config = make_config(optimizer=optimizer, regularization=RegularizationConfig(tied=True))
    learner = make_learner(config, BY_WORD)
    table, softmax = learner.network.bilm.encoder.words.weight, learner.network.softmax
    for number, step in enumerate(batches(learner, 3)):
        before = table.detach().clone()
        learner.step(step, number)
        assert torch.equal(softmax.weight, table[1:])
        # All of them: words that were not read were still not predicted.
        assert (table[1:] != before[1:]).any(dim=1).all()
        assert not table[0].any()


def test_tied_gradient_is_that_of_both_places():
    learner = make_learner(make_config(regularization=RegularizationConfig(tied=True)), BY_WORD)
    kept = {}
    step = learner.optimizer.step

    def spy():
        kept["tied"] = learner.network.bilm.encoder.words.weight.grad.clone()
        step()

    learner.optimizer.step = spy
    apart = make_learner(make_config(), BY_WORD)
    apart.network.softmax.weight.data.copy_(apart.network.bilm.encoder.words.weight.data[1:])
    inner = apart.optimizer.step

    def spy_apart():
        kept["input"] = apart.network.bilm.encoder.words.weight.grad.clone()
        kept["softmax"] = apart.network.softmax.weight.grad.clone()
        inner()

    apart.optimizer.step = spy_apart
    for each in (learner, apart):
        each.config = dataclasses.replace(
            each.config, optimizer=dataclasses.replace(each.config.optimizer, clip_norm=0.0)
        )
        each.step(batches(each, 1)[0], 0)
    expected = kept["input"]
    expected[1:] += kept["softmax"]
    torch.testing.assert_close(kept["tied"], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("softmax", "shape", "message"),
    [
        ("full", SPELLED, "tied is for models whose input is words"),
        ("sampled", BY_WORD, "a sampled softmax cannot be tied"),
        ("full", dataclasses.replace(BY_WORD, softmax_cutoffs=(9,)), "with a full softmax"),
        (
            "full",
            dataclasses.replace(
                BY_WORD, encoder=dataclasses.replace(BY_WORD.encoder, project=True, word_dim=8)
            ),
            "word_dim and projection_dim must be equal",
        ),
        ("full", dataclasses.replace(BY_WORD, n_softmax_words=20), r"\(20, 16\) weights"),
    ],
)
def test_what_cannot_be_tied(softmax, shape, message):
    with pytest.raises(ConfigError, match=message):
        make_learner(make_config(softmax, regularization=RegularizationConfig(tied=True)), shape)


def test_an_adaptive_softmax_is_not_sampled():
    with pytest.raises(ConfigError, match="nor be adaptive"):
        make_learner(make_config("sampled"), CLUSTERED)


# ------------------------------------------------------------------------------------ the rest


def test_parts_that_were_frozen_are_trained():
    """A model read for embedding may come with its weights frozen."""
    network = make_network().requires_grad_(False)
    learner = Learner(fabric(), network, make_config(), make_tables(), n_steps=3)
    before = weights(learner)
    learner.step(batches(learner, 1)[0], 0)
    assert "bilm.forward_lstm.layers.0.weight_hh" in changed(before, weights(learner))


@pytest.mark.parametrize("kernel", ["auto", "reference", "cudnn"])
def test_the_kernel_of_the_run(kernel):
    config = make_config()
    config = dataclasses.replace(config, run=dataclasses.replace(config.run, kernel=kernel))
    learner = make_learner(config)
    bilm = learner.network.bilm
    assert (bilm.forward_lstm.kernel, bilm.backward_lstm.kernel) == (kernel, kernel)
    (step,) = batches(learner, 1)
    if kernel == "cudnn":
        with pytest.raises(ConfigError, match="kernel is cudnn, which needs"):
            learner.step(step, 0)
    else:
        assert learner.step(step, 0).losses.isfinite().all()


@pytest.mark.parametrize("softmax", ["full", "sampled"])
def test_sums_of_an_earlier_adagrad(softmax):
    learner = make_learner(make_config(softmax, OptimizerConfig(accumulator=1.0)))
    named = dict(learner.network.named_parameters())
    sums = {
        name: torch.full_like(named[name], 2.0 + number)
        for number, name in enumerate(
            ("softmax.weight", "softmax.bias", "bilm.forward_lstm.layers.0.bias")
        )
    }
    learner.load_accumulators({**sums, "unknown": torch.ones(1)})
    rows = dict(
        zip(("softmax.weight", "softmax.bias"), learner.head.row_optimizers(), strict=False)
    )
    for name, value in named.items():
        if name.startswith("mixes."):
            continue
        found = rows[name].state["sum"] if name in rows else learner.optimizer.state[value]["sum"]
        expected = sums.get(name, torch.ones_like(value))
        assert torch.equal(found, expected), name
        assert found is not expected
