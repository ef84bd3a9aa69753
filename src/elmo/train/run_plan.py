"""What a run will take, before its first step: weights, steps, memory.

Arithmetic on configs alone. The memory is an estimate for the plain kernels, meant to tell whether
a batch fits and which one would; it is no promise to the megabyte.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import torch

from elmo.config import (
    EncoderConfig,
    LossConfig,
    LSTMConfig,
    ModelConfig,
    OptimizerConfig,
    RunConfig,
    StreamConfig,
)
from elmo.model.losses import CHUNK_VALUES

FLOAT = 4  # bytes
GIB = 2**30


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes on one device.

    Attributes:
        fixed: weights, gradients and optimiser, whatever the batch.
        window: what the gradient of a window needs; grows with the batch.
    """

    fixed: int
    window: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.fixed + self.window


@dataclass(frozen=True)
class RunPlan:
    """A run in numbers; `str` is a table for people.

    Attributes:
        n_bilm: weights of the biLM.
        n_softmax: weights of the softmax.
        n_pairs: predictions of one direction in an epoch: every word and every sentence end.
        tokens_per_step: of them in a step, over all processes.
        n_steps: of the whole run.
        memory: estimate for one device.
    """

    n_bilm: int
    n_softmax: int
    n_pairs: int
    tokens_per_step: int
    n_steps: int
    memory: MemoryEstimate

    @property
    def steps_per_epoch(self) -> float:
        """Steps in which the text is read once; an epoch may end within a step."""
        return self.n_pairs / self.tokens_per_step

    def __str__(self) -> str:
        """Write the table."""
        rows = {
            "weights": f"{_millions(self.n_bilm)} biLM, {_millions(self.n_softmax)} softmax",
            "epoch": f"{self.n_pairs:,} tokens, sentence ends included; "
            f"{self.steps_per_epoch:,.1f} steps of {self.tokens_per_step:,}",
            "run": f"{self.n_steps:,} steps, {self.n_steps / self.steps_per_epoch:,.3g} epochs",
            "memory": f"about {self.memory.total / GIB:.2f} GiB a device: "
            f"{self.memory.fixed / GIB:.2f} for weights, gradients and optimiser, "
            f"{self.memory.window / GIB:.2f} for a window",
        }
        return "\n".join(f"{name:9}{text}" for name, text in rows.items())


def _millions(count: int) -> str:
    return f"{count / 1e6:,.1f} M" if count >= 1e5 else f"{count:,}"


def plan(
    model: ModelConfig,
    *,
    n_bilm: int,
    n_softmax: int,
    n_pairs: int,
    stream: StreamConfig,
    loss: LossConfig,
    optimizer: OptimizerConfig,
    run: RunConfig,
) -> RunPlan:
    """Work out what a run will take.

    Args:
        model: its shape, the size of the softmax included.
        n_bilm: weights of the biLM.
        n_softmax: weights of the softmax.
        n_pairs: predictions of one direction in an epoch.
        stream: batches.
        loss: the softmax in training.
        optimizer: what it keeps for each weight.
        run: how long, and on how many devices.
    """
    tokens_per_step = stream.batch_size * stream.unroll
    n_steps = count_steps(n_pairs, stream, run)
    is_narrow = run.precision != "32-true"
    lanes = math.ceil(stream.batch_size / (run.devices * run.num_nodes * run.accumulate))
    memory = MemoryEstimate(
        fixed_memory(n_bilm, n_softmax, loss=loss, optimizer=optimizer, run=run),
        segment_memory(
            model,
            lanes=lanes,
            steps=stream.unroll,
            shared=stream.directions == "together",
            loss=loss,
            value=2 if is_narrow else FLOAT,
        ),
    )
    return RunPlan(n_bilm, n_softmax, n_pairs, tokens_per_step, n_steps, memory)


def count_steps(n_pairs: int, stream: StreamConfig, run: RunConfig) -> int:
    """Count the steps of a run: its epochs, or fewer where they are limited."""
    n_steps = max(1, math.ceil(run.epochs * n_pairs / (stream.batch_size * stream.unroll)))
    return n_steps if run.max_steps is None else min(n_steps, run.max_steps)


# ----------------------------------------------------------------------------------------- memory


def fixed_memory(
    n_bilm: int, n_softmax: int, *, loss: LossConfig, optimizer: OptimizerConfig, run: RunConfig
) -> int:
    """Estimate the bytes that do not depend on the batch.

    A weight is a float32, its gradient another, and so is what the optimiser keeps of it: one
    value for Adagrad, two for AdamW. The sampled softmax has gradients of a few rows only. With
    several processes the gradients of the biLM are held once more for their exchange; with
    narrow arithmetic there is a narrow copy of its weights.
    """
    kept = 1 if optimizer.optimizer == "adagrad" else 2
    bilm = 2 + kept + (run.devices * run.num_nodes > 1)
    softmax = 1 + kept + (loss.softmax != "sampled")
    narrow = 2 * n_bilm if run.precision != "32-true" else 0
    return FLOAT * (bilm * n_bilm + softmax * n_softmax) + narrow


def segment_memory(
    model: ModelConfig, *, lanes: int, steps: int, shared: bool, loss: LossConfig, value: int
) -> int:
    """Estimate the bytes kept for the gradient of a window.

    With n = lanes x steps places in each direction and u distinct words among them:

    - token encoder: u times its values for a word (`_encoder_values`), and once more the widest
      convolution, whose gradient is the largest at a time;
    - LSTM: 2 n times, for each layer, 8 cell + 4.5 projection values, of which 3 cell are float32
      always (the cell, before and after its clip, and its tanh);
    - softmax: logits, their exponentials and their gradient, 3 float32 for each of 2 n places and
      each word it is computed over; the full one is computed in parts where there are many.
    """
    n = lanes * steps
    distinct = distinct_words(n) if shared else 2 * distinct_words(n)
    encoder = value * distinct * _encoder_values(model.encoder, model.text.max_characters)
    lstm = 2 * n * model.lstm.n_layers * _lstm_bytes(model.lstm, value)
    logits = 2 * n * _softmax_words(loss, model.n_softmax_words)
    if loss.softmax == "full":
        logits = min(logits, CHUNK_VALUES)
    return int(encoder + lstm + 3 * FLOAT * logits)


def distinct_words(n: int) -> int:
    """Guess how many different words stand in n running ones (Heaps' law, fitted to WikiText-2)."""
    return min(n, math.ceil(4.4 * math.pow(n, 0.7)))


def _encoder_values(encoder: EncoderConfig, n_columns: int) -> float:
    """Count the values kept for a word: characters, convolutions, highway layers."""
    if not encoder.n_characters:
        return encoder.width
    convolutions = [count * (n_columns - width + 1) for width, count in encoder.filters]
    highway = (2 + 4 * encoder.n_highway) * encoder.n_filters
    characters = n_columns * encoder.character_dim
    return characters + sum(convolutions) + max(convolutions) + highway + encoder.width


def _lstm_bytes(lstm: LSTMConfig, value: int) -> float:
    """Count the bytes kept for one place in one layer."""
    return value * (5 * lstm.cell_dim + 4.5 * lstm.projection_dim) + FLOAT * 3 * lstm.cell_dim


def _softmax_words(loss: LossConfig, n_words: int) -> float:
    """Count the words a prediction is compared with."""
    if loss.softmax == "sampled":
        return min(n_words, loss.n_samples + 1)
    if loss.softmax == "full":
        return n_words
    head = min(n_words, loss.cutoffs[0] if loss.cutoffs else n_words)
    # A tenth of running words or so are rare enough for the clusters.
    return head + 0.1 * (n_words - head)


def fitting_batch(batch: int, needed: int, fixed: int, available: int) -> int:
    """Give the largest round batch that would fit, below one that did not; 0 where none does.

    Round is a power of two, or one and a half of it.

    Args:
        batch: rows of the batch that did not fit.
        needed: bytes it needs, the fixed ones included.
        fixed: bytes that do not depend on the batch.
        available: bytes there are.
    """
    row = max(1.0, (needed - fixed) / batch)
    most = min(batch - 1, int((available - fixed) // row))
    if most < 1:
        return 0
    power = 1 << (most.bit_length() - 1)
    return power + power // 2 if power + power // 2 <= most else power


def available_memory(device: torch.device) -> int | None:
    """Give the bytes this process can have on a device, or None where the system does not tell."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        # What the allocator holds and does not use is free to us, but not to the driver.
        return free + torch.cuda.memory_reserved(device)
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    told = dict(line.split(":", 1) for line in lines if ":" in line)
    return int(told["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in told else None
