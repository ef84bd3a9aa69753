"""A task as the loop sees it: steps, scores, what is kept."""

import itertools

import pytest
import torch
from small_tasks import EXAMPLES, LABELED, TAGGED, fabric, make_fitted_task, weights, write_elmo

from elmo.errors import ConfigError
from elmo.tasks import task_trainable as work_module
from elmo.tasks.task_trainable import TaskScores, TaskTrainingJob, parts_from_top


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_elmo(tmp_path_factory.mktemp("elmo"))


def work_of(folder, train=LABELED, dev=LABELED, **settings):
    return TaskTrainingJob(
        make_fitted_task(folder, train, dev, **settings), train, dev
    ).make_trainable(fabric())


def take(work, first, last):
    """Take the steps from one up to another."""
    batches = work.batches(first)
    return [work.step(batch, n) for n, batch in zip(range(first, last), batches, strict=False)]


@pytest.mark.parametrize(
    ("task", "use"),
    [("classification", "none"), ("classification", "tuned"), ("tagging", "frozen")],
)
def test_a_few_examples_are_learned_by_heart(tmp_path, model, task, use):
    examples = EXAMPLES[task]
    elmo = {} if use == "none" else {"model": model, "use": use, "elmo_learning_rate": 0.01}
    work = work_of(tmp_path, examples, examples, task=task, **elmo)
    losses = [float(result.losses) for result in take(work, 0, 60)]
    assert losses[0] == pytest.approx(work.chance_loss, rel=0.3)
    assert max(losses[-4:]) < 0.3
    found = work.evaluation(work.measure(60, iter))
    assert found.figures == dict.fromkeys(work.trained.task.metrics, 1.0)
    assert found.rank == -1


@pytest.mark.parametrize(
    "settings",
    [
        {"schedule": "cosine", "dropout": 0.5, "input_dropout": 0.3, "characters": "bytes"},
        {"model": True, "elmo_dropout": 0.5, "optimizer": "adagrad", "weight_decay": 0.0},
        {
            "model": True,
            "use": "tuned",
            "unfreeze_every": 1,
            "placement": "both",
            "task": "tagging",
        },
    ],
)
def test_a_restart_changes_no_bit(tmp_path, model, settings):
    if settings.get("model"):
        settings = {**settings, "model": model}
    examples = EXAMPLES[settings.get("task", "classification")]
    given = {"epochs": 3, "warmup_steps": 2, **settings}
    whole = work_of(tmp_path / "whole", examples, examples, **given)
    take(whole, 0, 9)
    first = work_of(tmp_path / "parts", examples, examples, **given)
    take(first, 0, 5)
    state = first.state_dict()
    # What a checkpoint has, not what the old process still holds.
    state = torch.load(saved(state, tmp_path / "state.pt"), weights_only=True)
    second = work_of(tmp_path / "parts", examples, examples, **given)
    torch.manual_seed(99)  # what is random depends on the step alone
    second.load_state_dict(state)
    second.measure(5, iter)
    take(second, 5, 9)
    one, other = weights(whole.trained), weights(second.trained)
    assert one.keys() == other.keys()
    assert [name for name in one if not torch.equal(one[name], other[name])] == []


def saved(state, path):
    torch.save(state, path)
    return path


def test_other_examples_are_refused(tmp_path):
    state = work_of(tmp_path).state_dict()
    for train, dev in ((LABELED[1:], LABELED), (LABELED, LABELED[1:]), (LABELED[::-1],) * 2):
        with pytest.raises(ConfigError, match="holds a run on other examples: another --out"):
            work_of(tmp_path, train, dev).load_state_dict(state)


def test_a_frozen_elmo_stays_and_a_tuned_one_moves(tmp_path, model):
    for use in ("frozen", "tuned"):
        work = work_of(tmp_path / use, model=model, use=use)
        elmo = work.trained.built.elmo.network
        before = {name: value.clone() for name, value in elmo.state_dict().items()}
        take(work, 0, 4)
        moved = {n for n, value in elmo.state_dict().items() if not torch.equal(value, before[n])}
        if use == "frozen":
            assert not moved
            assert not any(name.startswith("tokens.network") for name in work.model.state_dict())
        else:
            # All of it but its mixes, which the task has of its own.
            assert moved == {name for name in before if not name.startswith("mixes.")}


def test_mixes_and_a_tuned_elmo_have_rates_of_their_own(tmp_path, model):
    rates = {
        "elmo_learning_rate": 0.003,
        "mix_learning_rate": 0.5,
        "warmup_steps": 4,
        "weight_decay": 0.1,
    }
    work = work_of(tmp_path, model=model, use="tuned", placement="both", **rates)
    found = [
        [value for group in optimizer.param_groups for value in group["params"]]
        for optimizer in work.optimizers
    ]
    own, mixes, elmo = map(set, found)
    assert elmo == set(work.model.features.network.bilm.parameters())
    assert mixes == {mix.weights for _, mix in work.model.mixes()}
    assert len(mixes) == 2
    # Everything else is the model's own, and nothing learns twice.
    assert own == set(work.model.parameters()) - mixes - set(
        work.model.features.network.parameters()
    )
    assert sum(map(len, found)) == len(own | mixes | elmo)
    for optimizer in work.optimizers[1:]:
        assert {group["weight_decay"] for group in optimizer.param_groups} == {0.0}
    (result,) = take(work, 0, 1)
    assert result.rate == pytest.approx(0.02 / 4)
    for optimizer, rate in zip(work.optimizers, (0.02, 0.5, 0.003), strict=True):
        assert {group["lr"] for group in optimizer.param_groups} == {rate / 4}


def test_one_layer_has_no_mix_to_learn(tmp_path, model):
    assert len(work_of(tmp_path, model=model, layers="top").optimizers) == 1


def test_layers_are_let_loose_from_the_top(tmp_path, model):
    work = work_of(tmp_path, model=model, use="tuned", unfreeze_every=2, batch_size=10)
    assert work.steps_per_epoch == 2
    parts = parts_from_top(work.model.features.network.bilm)
    assert [len(part) for part in parts] == [2, 2, 1]

    def state():
        return [[v.clone() for m in part for v in m.parameters()] for part in parts]

    batches = work.batches(0)
    for epoch, loose in enumerate([0, 0, 1, 1, 2, 2, 3, 3]):
        before = state()
        for step in range(2):
            work.step(next(batches), 2 * epoch + step)
        moved = [
            any(not torch.equal(a, b) for a, b in zip(one, other, strict=True))
            for one, other in zip(before, state(), strict=True)
        ]
        assert moved == [depth < loose for depth in range(3)]


def test_without_unfreezing_all_layers_learn_at_once(tmp_path, model):
    work = work_of(tmp_path, model=model, use="tuned")
    take(work, 0, 1)
    assert all(value.requires_grad for value in work.model.features.network.bilm.parameters())


def test_lambda_pulls_the_shares_together(tmp_path, model):
    spreads = []
    for penalty in (0.0, 10.0):
        work = work_of(
            tmp_path, model=model, placement="both", mix_penalty=penalty, mix_learning_rate=0.05
        )
        for _, mix in work.model.mixes():
            mix.weights.data = torch.tensor([1.0, 0.0, -1.0])
        take(work, 0, 30)
        shares = work.model.shares()
        assert set(shares) == {"input", "output"}
        for mix in shares.values():
            assert sum(mix["shares"]) == pytest.approx(1)
            spreads.append(max(mix["shares"]) - min(mix["shares"]))
    assert min(spreads[:2]) > 0.3
    assert max(spreads[2:]) < 0.1


def test_the_penalty_is_part_of_the_loss(tmp_path, model):
    losses = []
    for penalty in (0.0, 0.5):
        work = work_of(tmp_path, model=model, mix_penalty=penalty)
        work.model.features.mix.mix.weights.data = torch.tensor([1.0, 2.0, 3.0])
        losses.append(float(take(work, 0, 1)[0].losses))
    assert losses[1] - losses[0] == pytest.approx(0.5 * 14)


def test_gradients_are_clipped(tmp_path):
    moves = []
    for clip in (0.0, 1e-4):
        settings = {"optimizer": "adagrad", "weight_decay": 0.0, "clip_norm": clip}
        work = work_of(tmp_path, **settings)
        before = weights(work.trained)
        (result,) = take(work, 0, 1)
        assert float(result.norm) > 1e-3
        after = weights(work.trained)
        moves.append(sum(float((after[n] - before[n]).square().sum()) for n in before) ** 0.5)
    # Adagrad's first step is in proportion to the gradient where that is small.
    assert moves[1] == pytest.approx(0.02 * 1e-4, rel=0.01)
    assert moves[0] > 10 * moves[1]


def test_how_long_it_takes(tmp_path):
    assert work_of(tmp_path, epochs=2.5).n_steps == 10
    assert work_of(tmp_path, epochs=0.01).n_steps == 1
    work = work_of(tmp_path, epochs=10, max_steps=7)
    assert work.n_steps == 7
    assert work.tokens_per_step == 16
    told = work.describe()
    assert "20 examples to learn from, 20 to choose by, 2 labels" in told
    assert "steps    7, 4 an epoch" in told
    assert work.memory_advice() == "out of memory: try --batch-words 8"


def test_nothing_to_choose_by(tmp_path):
    assert work_of(tmp_path, dev=[]).metric(3, iter) is None


def test_measuring_can_be_watched_and_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(work_module, "WATCHED", 32)
    work = work_of(tmp_path, TAGGED, TAGGED * 3, task="tagging", dropout=0.5)
    before = weights(work.trained)
    seen = []

    def watch(parts):
        for part in parts:
            seen.append(part)
            yield part

    first, second = work.measure(0, watch), work.measure(0, iter)
    assert len(seen) == 2
    assert first == second
    assert work.model.training
    after = weights(work.trained)
    assert all(torch.equal(after[name], before[name]) for name in before)


def test_scores_in_a_line():
    found = TaskScores("span_f1", {"accuracy": 0.5, "span_f1": 0.25})
    assert found.line() == "accuracy 0.5000, span f1 0.2500"
    assert found.rank == -0.25
    assert found.values() == found.figures


def test_weights_that_are_no_numbers(tmp_path):
    work = work_of(tmp_path)
    assert work.is_finite()
    next(itertools.islice(work.model.parameters(), 2, None)).data.view(-1)[0] = torch.nan
    assert not work.is_finite()
