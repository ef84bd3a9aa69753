"""Tests of `runs/distill.py`: its loss against slow formulas, resumed runs, and errors."""

import dataclasses
import itertools
import json
import math

import distill
import numpy as np
import pytest
import torch
from conftest import TINY, random_model
from lightning.fabric import Fabric

from elmo.config import CorpusConfig, PrepareConfig, RegularizationConfig
from elmo.corpus.prepare_corpus import prepare
from elmo.corpus.shards import Corpus
from elmo.errors import ConfigError
from elmo.evaluate.perplexity import model_tables
from elmo.formats import model_folder
from elmo.formats.load import read
from elmo.kernels.torch_kernels import REFERENCE_KERNELS
from elmo.model.bidirectional_lm import BidirectionalLM
from elmo.model.losses import log_expected_count
from elmo.model.lstm import LSTMState
from elmo.model.network import ELMoNetwork
from elmo.text.vocabulary import UNKNOWN, Vocabulary
from elmo.train.pretrain_model import pretrain_job
from elmo.train.step_input import StepInput

N_STREAMS = 4
N_STEPS = 20


def words_of(corpus):
    return Corpus.open(corpus).vocabulary.words


def with_vocabulary(corpus, words):
    """Prepare the text of a corpus again with another vocabulary, and return the new corpus."""
    folder = corpus.with_name("other")
    vocabulary = folder.with_suffix(".txt")
    vocabulary.write_text("".join(f"{word}\n" for word in words))
    text, valid = (str(corpus.with_name(name)) for name in ("text.txt", "valid.txt"))
    prepare(
        PrepareConfig((text,), str(folder), (valid,), corpus=CorpusConfig(vocab=str(vocabulary)))
    )
    return folder


def write_teacher(folder, words, tokenizer="whitespace"):
    """Write a random model that has a softmax over the words, and a larger LSTM than students."""
    shape = dataclasses.replace(
        TINY,
        text=dataclasses.replace(TINY.text, tokenizer=tokenizer),
        lstm=dataclasses.replace(TINY.lstm, cell_dim=24, projection_dim=32),
        n_softmax_words=len(words),
    )
    model_folder.write(random_model(shape, vocabulary=Vocabulary(words)), folder)
    return folder


@pytest.fixture
def teacher(corpus, tmp_path):
    """Write a teacher with the vocabulary of the corpus, in another order."""
    return write_teacher(tmp_path / "teacher", words_of(corpus)[::-1])


def options(corpus, out="run", teacher="teacher", **changes):
    """Return the command-line options of a run of eight steps."""
    values = {
        "data": corpus,
        "out": out,
        "teacher": teacher,
        "tokens": 8 * N_STREAMS * N_STEPS,
        "cell-dim": 16,
        "projection-dim": 8,
        "batch-size": N_STREAMS,
        "n-samples": 6,
        "evaluate-every": 3,
        "precision": "float32",
    }
    values |= {name.replace("_", "-"): value for name, value in changes.items()}
    words = [str(word) for name, value in values.items() for word in (f"--{name}", value)]
    return [*words, "--filters", "1:4", "2:8"]


def make_job(corpus, teacher, **changes):
    """Return the job of a student with random weights; of ordinary training without a teacher."""
    args = distill.parser().parse_args(options(corpus, teacher=teacher, **changes))
    config, opened = distill.student_config(args), Corpus.open(corpus)
    if teacher is None:
        return pretrain_job(config, opened)
    return distill.distillation_job(config, opened, args.teacher, args.weight)


def fabric():
    return Fabric(accelerator="cpu", devices=1)


def train_steps(job, n_steps):
    """Train; return the losses and the trainable."""
    trainable = job.make_trainable(fabric())
    batches = trainable.batches(0)
    losses = [trainable.step(next(batches), number).losses for number in range(n_steps)]
    return torch.stack(losses), trainable


# -------------------------------------------------------------------------------------------- loss


def random_logits(seed):
    generator = torch.Generator().manual_seed(seed)
    targets, candidates = (
        torch.randn(5, generator=generator),
        torch.randn(5, 7, generator=generator),
    )
    # In the second row the target is also a candidate.
    candidates[1, 3] = distill.LOWEST
    return targets, candidates


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_distillation_losses_equal_the_formulas(weight):
    student, teacher = random_logits(1), random_logits(2)
    expected = []
    for row in range(5):
        p, q = (
            torch.cat([targets[row : row + 1], candidates[row]]).double().softmax(0).tolist()
            for targets, candidates in (teacher, student)
        )
        divergence = sum(a * (math.log(a) - math.log(b)) for a, b in zip(p, q, strict=True) if a)
        expected.append((1 - weight) * -math.log(q[0]) + weight * divergence)
    result = distill.distillation_losses(student, teacher, weight)
    torch.testing.assert_close(result, torch.tensor(expected), rtol=1e-5, atol=1e-6)


def hidden_vectors(model, corpus, batches):
    """Return the hidden vectors of the batches, (2, time, streams, dim), read at once."""
    network = ELMoNetwork(config=model.config)
    network.load_state_dict(dict(model.weights))
    language_model = BidirectionalLM(
        bilm=network.bilm, regularization=RegularizationConfig(), kernels=REFERENCE_KERNELS
    )
    rows = torch.from_numpy(model_tables(model, corpus.words).rows).long()
    index = np.concatenate([batch.words[batch.index] for batch in batches], axis=1)
    resets = np.concatenate([batch.resets for batch in batches], axis=1)
    state = LSTMState.zeros(model.config.lstm, N_STREAMS)
    with torch.no_grad():
        return language_model(
            rows, torch.from_numpy(index), torch.from_numpy(resets), state.h, state.c
        )[0]


def slow_distribution(model, hidden, words, log_expected):
    """Return the probability of each word as a class of a sampled softmax."""
    ids = [model.vocabulary.ids[word] for word in words]
    weight, bias = (model.weights[f"softmax.{name}"].double()[ids] for name in ("weight", "bias"))
    return (weight @ hidden.double() + bias - log_expected).softmax(0)


@pytest.mark.parametrize("has_more_words", [False, True])
def test_loss_of_steps_equals_slow_reference(corpus, tmp_path, has_more_words):
    """The student hardly learns, so that its weights are known in each step."""
    words = words_of(corpus)
    # Some words of the text are unknown to the student; the teacher knows them.
    folder = with_vocabulary(corpus, words[:-3]) if has_more_words else corpus
    path = write_teacher(tmp_path / "teacher", words[::-1])
    job = make_job(folder, path, weight=1.0, learning_rate=1e-9)
    student, teacher, opened = job.model, read(str(path)), job.corpus
    known = opened.vocabulary.words
    trainable = job.make_trainable(fabric())
    steps = list(itertools.islice(trainable.batches(0), 3))
    parts = [step.parts[0] for step in steps]
    of_student, of_teacher = (hidden_vectors(m, opened, parts) for m in (student, teacher))
    n_unknown = 0
    for number, step in enumerate(steps):
        result = trainable.step(step, number).losses
        for side in (0, 1):
            candidates = step.drawn.sampled[side].tolist()
            losses = []
            for time, stream in itertools.product(range(N_STEPS), range(N_STREAMS)):
                target = int(step.parts[0].targets[side, time, stream])
                classes = [target, *(word for word in candidates if word != target)]
                log_expected = log_expected_count(
                    torch.tensor(classes), len(known), step.drawn.n_tries[side]
                ).double()
                names = [known[word] for word in classes]
                at = side, N_STEPS * number + time, stream
                p = slow_distribution(teacher, of_teacher[at], names, log_expected)
                q = slow_distribution(student, of_student[at], names, log_expected)
                if has_more_words and UNKNOWN in names:
                    is_unknown = torch.tensor([name == UNKNOWN for name in names])
                    p[is_unknown != (names[0] == UNKNOWN)] = 0.0
                    p /= p.sum()
                n_unknown += names[0] == UNKNOWN
                losses.append((torch.special.xlogy(p, p) - p * q.log()).sum())
            torch.testing.assert_close(
                result[side].double(), torch.stack(losses).mean(), rtol=1e-4, atol=1e-5
            )
    assert (n_unknown > 0) == has_more_words


def test_weight_zero_is_ordinary_training(corpus, teacher):
    expected, ordinary = train_steps(make_job(corpus, None), 5)
    losses, trainable = train_steps(make_job(corpus, teacher, weight=0.0), 5)
    assert torch.equal(losses, expected)
    weights = trainable.job.network.state_dict()
    for name, value in ordinary.job.network.state_dict().items():
        assert torch.equal(weights[name], value), name
    changed, _ = train_steps(make_job(corpus, teacher), 5)
    assert not torch.equal(changed, expected)


def test_divergence_of_a_student_with_the_weights_of_the_teacher_is_zero(corpus, tmp_path):
    shape = make_job(corpus, None).model.config
    model = random_model(shape, vocabulary=Vocabulary(words_of(corpus)))
    model.weights["softmax.weight"].mul_(100.0)
    model_folder.write(model, tmp_path / "teacher")
    job = make_job(corpus, tmp_path / "teacher", weight=1.0, seed=2, learning_rate=1e-9)
    losses, _ = train_steps(job, 3)
    assert (losses > 0.1).all()
    job.network.load_state_dict(dict(read(str(tmp_path / "teacher")).weights))
    losses, _ = train_steps(job, 3)
    torch.testing.assert_close(losses, torch.zeros(3, 2), rtol=0, atol=1e-5)


def test_input_padded_for_a_cuda_graph_has_the_same_losses(corpus, teacher):
    expected, _ = train_steps(make_job(corpus, teacher), 3)
    learner = (trainable := make_job(corpus, teacher).make_trainable(fabric())).learner
    for number, batch in enumerate(itertools.islice(trainable.batches(0), 3)):
        padded = StepInput.of(batch.parts, batch.drawn).pad_words(64)
        flat = torch.empty(padded.size(), dtype=torch.int32)
        padded.flatten(flat)
        losses, _ = learner._update(padded.split(flat), False, number)
        torch.testing.assert_close(losses, expected[number])


# -------------------------------------------------------------------------------------------- runs


def run(corpus, out, teacher, **changes):
    distill.main(options(corpus, out, teacher, **changes))


def test_resumed_run_equals_an_uninterrupted_run(corpus, teacher, tmp_path, monkeypatch, capsys):
    run(corpus, tmp_path / "whole", teacher)
    assert '"valid_loss": ' in capsys.readouterr().out
    mean_losses, n_calls = distill.DistillationLearner.mean_losses, 0

    def interrupted(*arguments):
        nonlocal n_calls
        n_calls += 1
        if n_calls == 6:
            raise RuntimeError("power failure")
        return mean_losses(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(distill.DistillationLearner, "mean_losses", interrupted)
        with pytest.raises(RuntimeError, match="power failure"):
            run(corpus, tmp_path / "parts", teacher)
    with pytest.raises(
        ConfigError, match=r"started with the teacher .*, weight 0\.5, not .*, weight 1"
    ):
        run(corpus, tmp_path / "parts", teacher, weight=1)
    run(corpus, tmp_path / "parts", teacher)
    assert "Resuming from step 3." in capsys.readouterr().err
    whole, parts = (read(str(tmp_path / name)) for name in ("whole", "parts"))
    assert whole.training == parts.training
    assert whole.training["teacher"] == f"{teacher}, weight 0.5"
    for name, value in whole.weights.items():
        assert torch.equal(parts.weights[name], value), name


def test_run_in_bfloat16_has_nearly_the_same_loss(corpus, teacher, tmp_path, capsys):
    losses = []
    for precision in ("float32", "bfloat16"):
        run(corpus, tmp_path / precision, teacher, precision=precision)
        record = json.loads(capsys.readouterr().out.splitlines()[-1])
        losses.append(record["valid_loss"])
    assert losses[0] != losses[1]
    assert losses[1] == pytest.approx(losses[0], abs=0.02)


def test_teacher_without_a_word_of_the_student_is_rejected(corpus, tmp_path):
    words = words_of(corpus)
    path = write_teacher(tmp_path / "teacher", words[:-2])
    message = f"2 of the {len(words)} words .* the first is '{words[-2]}'.* --vocab"
    with pytest.raises(SystemExit, match=message):
        run(corpus, tmp_path / "run", path)
    assert not (tmp_path / "run").exists()


def test_teacher_of_another_tokenizer_is_rejected(corpus, tmp_path):
    path = write_teacher(tmp_path / "teacher", words_of(corpus), tokenizer="english")
    with pytest.raises(SystemExit, match="was trained on words of english"):
        run(corpus, tmp_path / "run", path)


def test_teacher_without_a_softmax_is_rejected(corpus, tmp_path):
    model_folder.write(random_model(), tmp_path / "teacher")
    with pytest.raises(SystemExit, match="no full softmax with a vocabulary"):
        run(corpus, tmp_path / "run", tmp_path / "teacher")


def test_weight_above_one_is_rejected(corpus, teacher, tmp_path, capsys):
    with pytest.raises(SystemExit):
        run(corpus, tmp_path / "run", teacher, weight=1.5)
    assert "1.5 is not between 0 and 1." in capsys.readouterr().err
