r"""Train a small language model with the predictions of a larger one as soft labels (distillation).

    elmo prepare TEXT --out corpus --tokenizer english --sentences split --vocab vocab.txt
    python runs/distill.py --data corpus --out run --teacher TEACHER --weight 0.5 --tokens 1e9

The student is trained with the sampled softmax. In each step the teacher reads the same text and
computes its logits for the same classes (the target and the sampled words), with the same
correction for the sampling. Their softmax is the teacher's probability of each class to be the
target, given the classes. The loss of a prediction is

    (1 - weight) * cross entropy of the target + weight * KL(teacher || student)

over these classes. With weight 0 it is the loss of `elmo pretrain`. The held-out loss is always
that of the full softmax without a teacher.

The vocabulary of the corpus is that of the student, and the teacher must have all of its words. If
the teacher has more words, `<UNK>` stands for fewer words in its softmax than in the student's. Its
distribution is then conditioned on whether the target is `<UNK>` for the student: if so, it is the
target alone; otherwise it has no `<UNK>`.

The other settings are those of a cell of `scaling_study.py`. Checkpoints contain the LSTM state of
the teacher: rerun the same command to continue after an interruption. The memory that is printed
before the first step does not include the teacher.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from scaling_study import Cell, filters, run_config, tokens_per_second
from torch import Tensor, nn
from torch.nn import functional

from elmo.config import PretrainConfig, RegularizationConfig
from elmo.corpus.shards import Corpus
from elmo.errors import ConfigError
from elmo.evaluate.perplexity import model_tables
from elmo.formats.load import read
from elmo.formats.pretrained import Pretrained
from elmo.inference.engine import compile_kernels
from elmo.kernels.torch_kernels import Kernels
from elmo.model.bidirectional_lm import BidirectionalLM
from elmo.model.losses import all_classes
from elmo.model.lstm import LSTMState
from elmo.model.network import ELMoNetwork
from elmo.text.vocabulary import UNKNOWN, Vocabulary
from elmo.train.learner import Learner
from elmo.train.lm_trainable import LMTrainingJob
from elmo.train.loop import train
from elmo.train.pretrain_model import pretrain_job
from elmo.train.run_corpus import open_corpus
from elmo.train.step_input import SegmentTensors

# Those of `small-en`.
FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 128), (6, 128))
LOWEST = torch.finfo(torch.float32).min


# -------------------------------------------------------------------------------------------- loss


def distillation_losses(
    student: tuple[Tensor, Tensor], teacher: tuple[Tensor, Tensor], weight: float
) -> Tensor:
    """Return the loss of each prediction.

    Args:
        student: Logits of the targets, (predictions,), and of the candidates, (predictions,
            candidates), as `sampled_logits` returns them.
        teacher: The same of the teacher.
        weight: Weight of the KL divergence.

    Returns:
        Losses, (predictions,).
    """
    logits = all_classes(student)
    log_probabilities = functional.log_softmax(all_classes(teacher), dim=1)
    log_sum = logits.logsumexp(dim=1)
    cross_entropy = log_sum - student[0]
    difference = logits - log_probabilities
    divergence = log_sum - (log_probabilities.exp() * difference).sum(dim=1)
    return (1 - weight) * cross_entropy + weight * divergence


def conditioned_on_unknown(
    logits: tuple[Tensor, Tensor], targets: Tensor, sampled: Tensor, unknown: int
) -> tuple[Tensor, Tensor]:
    """Condition the teacher's distribution on whether the target is `<UNK>`.

    Args:
        logits: Logits of the targets, (predictions,), and of the candidates, (predictions,
            candidates).
        targets: Word ids of the targets, (predictions,).
        sampled: Word ids of the candidates, (candidates,).
        unknown: Id of `<UNK>`.

    Returns:
        Logits in which `<UNK>` is the only class if it is the target, and no class otherwise.
    """
    true_logits, others = logits
    is_excluded = (targets == unknown).unsqueeze(1) | (sampled == unknown).unsqueeze(0)
    return true_logits, others.masked_fill(is_excluded, LOWEST)


# ----------------------------------------------------------------------------------------- teacher


def teacher_ids(student: Vocabulary, teacher: Vocabulary) -> list[int]:
    """Return the teacher's id of each word of the student.

    Args:
        student: Vocabulary of the student.
        teacher: Vocabulary of the teacher, which must contain all words of the student.
    """
    missing = [word for word in student.words if word not in teacher.ids]
    if missing:
        raise SystemExit(
            f"{len(missing):,} of the {len(student):,} words of the corpus vocabulary are not in "
            f"the vocabulary of the teacher, the first is {missing[0]!r}. Prepare the corpus with "
            "--vocab and words of the teacher."
        )
    return [teacher.ids[word] for word in student.words]


class DistillationLearner(Learner):
    """Trains a student with the predictions of a teacher; holds the LSTM states of both.

    The teacher's computations are part of the training step, so that they are captured in its CUDA
    graph. The student's logits are computed by PyTorch, without the fused sampled softmax.
    """

    def __init__(
        self,
        *args: Any,
        teacher: Pretrained,
        corpus: Corpus,
        weight: float,
        teaching: str,
        **options: Any,
    ) -> None:
        """Move the teacher to the device of the run.

        Args:
            *args: Arguments of `Learner`.
            teacher: The teacher, with a full softmax and a vocabulary.
            corpus: Corpus of the run.
            weight: Weight of the KL divergence.
            teaching: Name and weight of the teacher, which must stay the same for resuming.
            **options: Keyword arguments of `Learner`.
        """
        super().__init__(*args, **options)
        if self.config.run.accumulate > 1 or self.fabric.world_size > 1:
            raise ConfigError("A step of distillation must be one part on one device.")
        device = self.fabric.device
        network = ELMoNetwork(config=teacher.config)
        network.load_state_dict(dict(teacher.weights))
        network.requires_grad_(False).to(device)
        bilm, softmax = network.bilm, network.softmax
        assert isinstance(softmax, nn.Linear)
        self.teacher = BidirectionalLM(
            bilm=bilm,
            regularization=RegularizationConfig(),
            kernels=compile_kernels(bilm.named_parameters(), Kernels(self.config.run.kernel)),
        ).eval()
        self.teacher_softmax = softmax
        ids = teacher_ids(corpus.vocabulary, teacher.vocabulary)
        self.teacher_ids = torch.tensor(ids, device=device)
        tables = model_tables(teacher, corpus.words)
        self.teacher_rows = torch.from_numpy(tables.rows).to(device)
        self.teacher_state = LSTMState.zeros(teacher.config.lstm, self.n_streams, device=device)
        has_more_words = len(teacher.vocabulary) > len(corpus.vocabulary)
        self.unknown = corpus.vocabulary.ids[UNKNOWN] if has_more_words else None
        self.weight, self.teaching = weight, teaching

    def mean_losses(self, hidden: Tensor, part: SegmentTensors) -> Tensor:
        """Return the mean loss of each direction, with the teacher's distributions.

        Args:
            hidden: Hidden vectors of the student, (2, time, streams, dim).
            part: The batch.

        Returns:
            Losses, (2,).
        """
        teacher_hidden = self._teacher_hidden(part)
        ids = self.teacher_ids[self.head.rows.ids]
        table = self.teacher_softmax.weight[ids], self.teacher_softmax.bias[ids]
        losses = []
        for side in (0, 1):
            targets = part.targets[side].flatten()
            student = self.head.logits(hidden[side].flatten(0, 1), targets, side)
            teacher = self.head.logits(teacher_hidden[side].flatten(0, 1), targets, side, table)
            if self.unknown is not None:
                sampled = self.head.rows.sampled[side]
                teacher = conditioned_on_unknown(teacher, targets, sampled, self.unknown)
            losses.append(distillation_losses(student, teacher, self.weight).mean())
        return torch.stack(losses)

    @torch.no_grad()
    def _teacher_hidden(self, part: SegmentTensors) -> Tensor:
        """Return the teacher's hidden vectors, (2, time, streams, dim), and update its state."""
        rows = self.teacher_rows[part.words].long()
        resets = part.resets if self.config.stream.reset else None
        state = self.teacher_state
        hidden, h, c = self.teacher(rows, part.index, resets, state.h, state.c)
        # In place, since a captured graph reads these tensors.
        state.h.copy_(h)
        state.c.copy_(c)
        return hidden

    def state_dict(self) -> dict[str, object]:
        """Return the state of the student, and the teacher's LSTM state."""
        state = self.teacher_state
        return {**super().state_dict(), "teacher": [state.h, state.c], "teaching": self.teaching}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state returned by `state_dict`.

        Args:
            state: The state.
        """
        if state["teaching"] != self.teaching:
            raise ConfigError(
                f"The run was started with the teacher {state['teaching']}, not {self.teaching}. "
                "Use the same teacher and weight to resume, or another --out."
            )
        super().load_state_dict(state)
        for tensor, value in zip(vars(self.teacher_state).values(), state["teacher"], strict=True):
            tensor.copy_(value)


# -------------------------------------------------------------------------------------------- run


def distillation_job(
    config: PretrainConfig, corpus: Corpus, teacher_name: str, weight: float
) -> LMTrainingJob:
    """Return the training job of a new student.

    Args:
        config: Options of the student.
        corpus: Corpus, prepared with the vocabulary of the student.
        teacher_name: Name or folder of the teacher.
        weight: Weight of the KL divergence.
    """
    teacher = read(teacher_name)
    if teacher.vocabulary is None or teacher.config.softmax_cutoffs:
        raise SystemExit(f"{teacher_name} has no full softmax with a vocabulary.")
    if corpus.reading.tokenizer != teacher.config.text.tokenizer:
        raise SystemExit(
            f"The text is split with the tokenizer {corpus.reading.tokenizer}, but {teacher_name} "
            f"was trained on words of {teacher.config.text.tokenizer}. Prepare it with --tokenizer "
            f"{teacher.config.text.tokenizer}."
        )
    teacher_ids(corpus.vocabulary, teacher.vocabulary)  # check before the first output
    job = pretrain_job(config, corpus)
    teaching = f"{teacher_name}, weight {weight:g}"
    learner = partial(
        DistillationLearner, teacher=teacher, corpus=corpus, weight=weight, teaching=teaching
    )
    model = replace(job.model, training={"teacher": teaching})
    return replace(job, model=model, make_learner=learner)


def student_config(args: argparse.Namespace) -> PretrainConfig:
    """Return the options of the student.

    Args:
        args: Command-line options.
    """
    config = run_config(Cell(args.cell_dim, args.tokens, args.learning_rate), args)
    every = min(args.evaluate_every, config.run.max_steps)
    run = replace(config.run, evaluate_every=every, checkpoint_every=every)
    return replace(config, out=args.out, run=run)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(description="Train a student with the predictions of a teacher.")
    top.add_argument("--data", required=True, help="Prepared corpus with held-out text.")
    top.add_argument("--out", required=True, help="Training folder.")
    top.add_argument("--teacher", required=True, help="Name or folder of the teacher.")
    top.add_argument("--weight", type=share, default=0.5, help="Weight of the KL divergence.")
    top.add_argument("--tokens", type=float, required=True, help="Training tokens.")
    top.add_argument("--cell-dim", type=int, default=768)
    top.add_argument("--projection-dim", type=int, default=256)
    top.add_argument("--filters", type=filters, nargs="+", default=FILTERS, metavar="WIDTH:COUNT")
    top.add_argument("--learning-rate", type=float, default=8e-3)
    top.add_argument("--batch-size", type=int, default=2048)
    top.add_argument("--n-samples", type=int, default=8192)
    top.add_argument("--evaluate-every", type=int, default=2500, help="Steps between checkpoints.")
    top.add_argument("--precision", choices=["float32", "bfloat16"], default="bfloat16")
    top.add_argument("--seed", type=int, default=1)
    # The remaining options of a cell.
    top.set_defaults(optimizer="muon", schedule="wsd", unroll=20)
    return top


def share(text: str) -> float:
    """Return a number from 0 to 1.

    Args:
        text: The number.
    """
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1.")
    return value


def main(words: Sequence[str] | None = None) -> None:
    """Run the command line.

    Args:
        words: Arguments. Default: those of the process.
    """
    args = parser().parse_args(words)
    config = student_config(args)
    with open_corpus(config, config.corpus) as corpus:
        result = train(distillation_job(config, corpus, args.teacher, args.weight))
    print(result)
    speed = tokens_per_second(Path(args.out))
    record = {"weight": args.weight, "tokens_per_second": speed, "seconds": result.seconds}
    if result.best is not None:
        record["valid_loss"] = result.best.loss
    print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
