"""Tests of task models in the training loop: steps, scores, checkpoints."""

import dataclasses
import itertools

import pytest
import torch
from conftest import TINY, random_model
from small_tasks import (
    EXAMPLES,
    LABELED,
    TAGGED,
    fabric,
    make_fitted_task,
    watch_nothing,
    weights,
    write_elmo,
)

from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError
from elmo.tasks.core.example import Example
from elmo.tasks.training import task_trainable
from elmo.tasks.training.task_trainable import TaskScores, TaskTrainingJob, layers_from_top
from elmo.train.muon import Muon
from elmo.train.run_state import RunState


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_elmo(tmp_path_factory.mktemp("elmo"))


def make_trainable(folder, train=LABELED, dev=LABELED, **settings):
    return TaskTrainingJob(
        make_fitted_task(folder, train, dev, **settings), train, dev
    ).make_trainable(fabric())


def run_steps(trainable, first, last):
    """Run the steps from `first` up to but not including `last`."""
    batches = trainable.batches(first)
    return [trainable.step(batch, n) for n, batch in zip(range(first, last), batches, strict=False)]


@pytest.mark.parametrize(
    ("task", "use"),
    [("classification", "none"), ("classification", "tuned"), ("tagging", "frozen")],
)
def test_task_model_overfits_a_few_examples(tmp_path, model, task, use):
    examples = EXAMPLES[task]
    elmo = {} if use == "none" else {"model": model, "use": use, "elmo_learning_rate": 0.01}
    trainable = make_trainable(tmp_path, examples, examples, task=task, **elmo)
    losses = [float(result.losses) for result in run_steps(trainable, 0, 60)]
    assert losses[0] == pytest.approx(trainable.chance_loss, rel=0.3)
    assert max(losses[-4:]) < 0.3
    evaluation = trainable.evaluation(trainable.measure(60, watch_nothing))
    assert evaluation.scores == dict.fromkeys(trainable.fitted.task.metrics, 1.0)
    assert evaluation.rank == -1


@pytest.mark.parametrize(
    "settings",
    [
        {"schedule": "cosine", "dropout": 0.5, "input_dropout": 0.3, "characters": "bytes"},
        {"model": True, "elmo_dropout": 0.5, "optimizer": "adagrad", "weight_decay": 0.0},
        {"model": True, "use": "tuned", "optimizer": "muon"},
        {
            "model": True,
            "use": "tuned",
            "unfreeze_every": 1,
            "placement": "both",
            "task": "tagging",
        },
    ],
)
def test_resumed_task_training_is_bit_identical(tmp_path, model, settings):
    if settings.get("model"):
        settings = {**settings, "model": model}
    examples = EXAMPLES[settings.get("task", "classification")]
    settings = {"epochs": 3, "warmup_steps": 2, **settings}
    whole = make_trainable(tmp_path / "whole", examples, examples, **settings)
    run_steps(whole, 0, 9)
    first = make_trainable(tmp_path / "resumed", examples, examples, **settings)
    run_steps(first, 0, 5)
    state = first.state_dict()
    # A copy of the state, as in a checkpoint, that shares no tensors with it.
    state = torch.load(saved(state, tmp_path / "state.pt"), weights_only=True)
    second = make_trainable(tmp_path / "resumed", examples, examples, **settings)
    torch.manual_seed(99)  # randomness only depends on the step
    second.load_state_dict(state)
    second.measure(5, watch_nothing)
    run_steps(second, 5, 9)
    expected, actual = weights(whole.fitted), weights(second.fitted)
    assert expected.keys() == actual.keys()
    assert all(torch.equal(expected[name], actual[name]) for name in expected)


def test_muon_trains_the_matrices_of_lstm_layers_and_of_a_tuned_elmo(tmp_path, model):
    trainable = make_trainable(tmp_path, model=model, use="tuned", optimizer="muon")
    names = {value: name for name, value in trainable.model.named_parameters()}
    by_muon = {
        names[value]
        for optimizer in trainable.optimizers
        if isinstance(optimizer, Muon)
        for value in optimizer.param_groups[0]["params"]
    }
    assert by_muon
    parts = ("lstm", "highway", "bilm.encoder.projection.weight")
    expected = {
        name
        for value, name in names.items()
        if value.dim() == 2 and any(part in name for part in parts)
    }
    assert by_muon == expected
    assert len(names) > len(by_muon) + 10


def saved(state, path):
    torch.save(state, path)
    return path


def test_checkpoint_with_softmax_of_an_older_version_loads(tmp_path):
    config = dataclasses.replace(TINY, n_softmax_words=6)
    ELMo(random_model(config)).save_pretrained(tmp_path / "elmo")
    settings = {"model": str(tmp_path / "elmo"), "use": "tuned"}
    trainable = make_trainable(tmp_path / "run", **settings)
    run_steps(trainable, 0, 1)
    state = trainable.state_dict()
    assert not [name for name in state["weights"] if "softmax" in name]
    softmax = trainable.fitted.elmo.to_pretrained().weights
    for name in ("softmax.weight", "softmax.bias"):
        state["weights"][f"features.network.{name}"] = softmax[name]
    other = make_trainable(tmp_path / "run", **settings)
    other.load_state_dict(state)
    expected, actual = weights(trainable.fitted), weights(other.fitted)
    assert all(torch.equal(expected[name], actual[name]) for name in expected)


def test_load_state_dict_rejects_state_from_other_examples(tmp_path):
    state = make_trainable(tmp_path).state_dict()
    for train, dev in ((LABELED[1:], LABELED), (LABELED, LABELED[1:]), (LABELED[::-1],) * 2):
        with pytest.raises(
            ConfigError, match=r"contains a run on other examples\. Use another output folder"
        ):
            make_trainable(tmp_path, train, dev).load_state_dict(state)


def test_training_changes_elmo_weights_only_if_elmo_is_fine_tuned(tmp_path, model):
    for use in ("frozen", "tuned"):
        trainable = make_trainable(tmp_path / use, model=model, use=use)
        elmo = trainable.fitted.elmo.network
        before = {name: value.clone() for name, value in elmo.state_dict().items()}
        run_steps(trainable, 0, 4)
        changed = {
            name
            for name, value in elmo.state_dict().items()
            if not torch.equal(value, before[name])
        }
        if use == "frozen":
            assert not changed
            assert not any(
                name.startswith("features.network") for name in trainable.model.state_dict()
            )
        else:
            # All weights except its layer mixes, because the task model has its own.
            assert changed == {name for name in before if not name.startswith("mixes.")}


def test_layer_mixes_and_fine_tuned_elmo_have_separate_learning_rates(tmp_path, model):
    rates = {
        "elmo_learning_rate": 0.003,
        "mix_learning_rate": 0.5,
        "warmup_steps": 4,
        "weight_decay": 0.1,
    }
    trainable = make_trainable(tmp_path, model=model, use="tuned", placement="both", **rates)
    parameters = [
        [value for group in optimizer.param_groups for value in group["params"]]
        for optimizer in trainable.optimizers
    ]
    task_model, mixes, elmo = map(set, parameters)
    assert elmo == set(trainable.model.features.network.bilm.parameters())
    assert mixes == {mix.weights for _, mix in trainable.model.mixes()}
    assert len(mixes) == 2
    # All other weights are in the first group, and no weight is in two groups.
    assert task_model == set(trainable.model.parameters()) - mixes - set(
        trainable.model.features.network.parameters()
    )
    assert sum(map(len, parameters)) == len(task_model | mixes | elmo)
    for optimizer in trainable.optimizers[1:]:
        assert {group["weight_decay"] for group in optimizer.param_groups} == {0.0}
    (result,) = run_steps(trainable, 0, 1)
    assert result.rate == pytest.approx(0.02 / 4)
    for optimizer, rate in zip(trainable.optimizers, (0.02, 0.5, 0.003), strict=True):
        assert {group["lr"] for group in optimizer.param_groups} == {rate / 4}


def test_single_layer_mix_has_no_separate_optimizer(tmp_path, model):
    assert len(make_trainable(tmp_path, model=model, layers="top").optimizers) == 1


def test_elmo_layers_are_unfrozen_from_top_to_bottom(tmp_path, model):
    trainable = make_trainable(tmp_path, model=model, use="tuned", unfreeze_every=2, batch_size=10)
    assert trainable.steps_per_epoch == 2
    layers = layers_from_top(trainable.model.features.network.bilm)
    assert [len(modules) for modules in layers] == [2, 2, 1]

    def state():
        return [[v.clone() for m in modules for v in m.parameters()] for modules in layers]

    batches = trainable.batches(0)
    for epoch, n_unfrozen in enumerate([0, 0, 1, 1, 2, 2, 3, 3]):
        before = state()
        for step in range(2):
            trainable.step(next(batches), 2 * epoch + step)
        changed = [
            any(not torch.equal(a, b) for a, b in zip(old, new, strict=True))
            for old, new in zip(before, state(), strict=True)
        ]
        assert changed == [depth < n_unfrozen for depth in range(3)]


def test_all_elmo_layers_are_fine_tuned_from_the_start_by_default(tmp_path, model):
    trainable = make_trainable(tmp_path, model=model, use="tuned")
    run_steps(trainable, 0, 1)
    assert all(value.requires_grad for value in trainable.model.features.network.bilm.parameters())


def test_large_mix_penalty_makes_layer_shares_equal(tmp_path, model):
    spreads = []
    for penalty in (0.0, 10.0):
        trainable = make_trainable(
            tmp_path, model=model, placement="both", mix_penalty=penalty, mix_learning_rate=0.05
        )
        for _, mix in trainable.model.mixes():
            mix.weights.data = torch.tensor([1.0, 0.0, -1.0])
        run_steps(trainable, 0, 30)
        shares = trainable.model.shares()
        assert set(shares) == {"input", "output"}
        for mix in shares.values():
            assert sum(mix["shares"]) == pytest.approx(1)
            spreads.append(max(mix["shares"]) - min(mix["shares"]))
    assert min(spreads[:2]) > 0.3
    assert max(spreads[2:]) < 0.1


def test_mix_penalty_is_part_of_the_loss(tmp_path, model):
    losses = []
    for penalty in (0.0, 0.5):
        trainable = make_trainable(tmp_path, model=model, mix_penalty=penalty)
        trainable.model.features.mix.mix.weights.data = torch.tensor([1.0, 2.0, 3.0])
        losses.append(float(run_steps(trainable, 0, 1)[0].losses))
    assert losses[1] - losses[0] == pytest.approx(0.5 * 14)


def test_gradients_are_clipped_to_clip_norm(tmp_path):
    distances = []
    for clip in (0.0, 1e-4):
        settings = {"optimizer": "adagrad", "weight_decay": 0.0, "clip_norm": clip}
        trainable = make_trainable(tmp_path, **settings)
        before = weights(trainable.fitted)
        (result,) = run_steps(trainable, 0, 1)
        assert float(result.norm) > 1e-3
        after = weights(trainable.fitted)
        distances.append(sum(float((after[n] - before[n]).square().sum()) for n in before) ** 0.5)
    # The first step of Adagrad is proportional to a small gradient.
    assert distances[1] == pytest.approx(0.02 * 1e-4, rel=0.01)
    assert distances[0] > 10 * distances[1]


def test_number_of_steps_and_description_of_task_run(tmp_path):
    assert make_trainable(tmp_path, epochs=2.5).n_steps == 10
    assert make_trainable(tmp_path, epochs=0.01).n_steps == 1
    trainable = make_trainable(tmp_path, epochs=10, max_steps=7)
    assert trainable.n_steps == 7
    assert trainable.tokens_per_step == 16
    description = trainable.describe()
    assert "20 training examples, 20 development examples, 2 labels" in description
    assert "\nelmo     none\n" in description
    assert "steps    7, 4 per epoch" in description
    assert "few development examples" not in description
    few = make_trainable(tmp_path, dev=LABELED[:4]).describe()
    assert "note     few development examples to select a model with" in few
    assert trainable.memory_advice() == "Out of memory. Try --batch-words 8."


def test_run_that_predicts_one_label_or_is_short_is_reported(tmp_path, caplog):
    trainable = make_trainable(tmp_path, epochs=2)
    (prediction,) = trainable.fitted.predict(LABELED[:1])
    trainable.fitted.predict = lambda examples: [prediction] * len(examples)
    trainable.measure(0, watch_nothing)
    trainable.save_model(tmp_path / "model", 0, None)
    trainable.result(RunState(step=8), "finished")
    assert f"The model predicts only the label {prediction.label!r} " in caplog.messages[0]
    assert "in 8 steps. Use more epochs" in caplog.messages[0]
    resumed = make_trainable(tmp_path, epochs=2)
    resumed.load_state_dict(trainable.state_dict())
    resumed.result(RunState(step=8), "finished")
    assert caplog.messages[1] == caplog.messages[0]
    resumed.fitted.label_type = "bool"
    resumed.result(RunState(step=8), "finished")
    assert "only the label 'False'" in caplog.messages[2]
    caplog.clear()
    trainable = make_trainable(tmp_path, epochs=2)
    trainable.result(RunState(), "dry run")
    trainable.result(RunState(step=4), "stopped at the time limit")
    assert not caplog.messages
    trainable.result(RunState(step=8), "finished")
    assert caplog.messages[0].startswith("The run has only 8 steps.")


def test_description_counts_the_types_of_spans_with_the_rarest_last(tmp_path):
    trainable = make_trainable(tmp_path, TAGGED, TAGGED, task="tagging")
    assert "2 types: LOC 15, PER 10; tag scheme IOB2\n" in trainable.describe()
    words = tuple("abcdefghijkl")
    examples = [Example((words,), tuple(f"B-{word}" for word in words)), *TAGGED]
    trainable = make_trainable(tmp_path, examples, TAGGED, task="tagging")
    expected = "14 types: LOC 15, PER 10, a 1, b 1, c 1, 4 more, h 1, i 1, j 1, k 1, l 1; tag"
    assert expected in trainable.describe()
    untyped = [Example((("a", "b"),), ("B", "O"))]
    trainable = make_trainable(tmp_path, untyped, untyped, task="tagging")
    assert "1 type: (no name) 1; tag scheme IOB2" in trainable.describe()
    plain = [Example((("a", "b"),), ("N", "V"))]
    trainable = make_trainable(tmp_path, plain, plain, task="tagging")
    assert "2 labels\n" in trainable.describe()


def test_tagger_that_predicts_no_spans_is_reported_in_words(tmp_path, caplog):
    trainable = make_trainable(tmp_path, TAGGED, TAGGED, task="tagging", epochs=2)
    trainable.fitted.predict = lambda examples: [("O",) * len(e.words) for e in examples]
    trainable.measure(0, watch_nothing)
    trainable.save_model(tmp_path / "model", 0, None)
    trainable.result(RunState(step=8), "finished")
    assert caplog.messages[0].startswith("The model predicts no spans on the development set: ")


def test_evaluation_without_development_set_returns_none(tmp_path):
    assert make_trainable(tmp_path, dev=[]).measure(3, watch_nothing) is None


def test_evaluation_is_interruptible_and_has_no_side_effects(tmp_path, monkeypatch):
    monkeypatch.setattr(task_trainable, "CHECK_INTERVAL", 32)
    trainable = make_trainable(tmp_path, TAGGED, TAGGED * 3, task="tagging", dropout=0.5)
    before = weights(trainable.fitted)
    starts = []

    def watch(items, n_items):
        for item in items:
            starts.append(item)
            yield item

    first, second = trainable.measure(0, watch), trainable.measure(0, watch_nothing)
    assert len(starts) == 2
    assert first == second
    assert trainable.model.training
    after = weights(trainable.fitted)
    assert all(torch.equal(after[name], before[name]) for name in before)


def test_task_scores_are_formatted_as_line_and_ranked_by_metric():
    scores = TaskScores("span_f1", {"accuracy": 0.5, "span_f1": 0.25})
    assert scores.line() == "accuracy 0.5000, span f1 0.2500"
    assert scores.rank == -0.25
    assert scores.values() == scores.scores


def test_is_finite_detects_nan_weights(tmp_path):
    trainable = make_trainable(tmp_path)
    assert trainable.is_finite()
    next(itertools.islice(trainable.model.parameters(), 2, None)).data.view(-1)[0] = torch.nan
    assert not trainable.is_finite()
