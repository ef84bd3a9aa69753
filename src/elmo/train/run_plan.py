"""Run plan, computed before the first step: number of weights, number of steps, and memory.

The plan depends only on the configuration. The memory usage is a rough estimate for the reference
kernels, which is used to suggest a batch size that fits into memory.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import torch

from elmo.config import (
    EncoderConfig,
    FinetuneConfig,
    LossConfig,
    LSTMConfig,
    ModelConfig,
    OptimizerConfig,
    PretrainConfig,
    RunConfig,
    StreamConfig,
)
from elmo.model.losses import CHUNK_VALUES
from elmo.progress import format_count

FLOAT = 4  # bytes
GIB = 2**30


@dataclass(frozen=True)
class MemoryEstimate:
    """Estimated memory usage on one device, in bytes.

    `fixed` is for weights, gradients and optimizer state; it does not depend on the batch size.
    `segment` is for the activations saved for the backward pass of one BPTT segment.
    """

    fixed: int
    segment: int

    @property
    def total(self) -> int:
        """Total memory usage in bytes."""
        return self.fixed + self.segment


@dataclass(frozen=True)
class RunPlan:
    """Size of a run; `str()` returns a readable table.

    The biLM parameters are counted as by `elmo info`. `n_pairs` is the number of predictions per
    direction and epoch, one for each word and each sentence end, and `tokens_per_step` that per
    direction and step, over all processes.
    """

    n_bilm: int
    n_softmax: int
    n_pairs: int
    tokens_per_step: int
    n_steps: int
    memory: MemoryEstimate

    @property
    def steps_per_epoch(self) -> float:
        """Number of steps per epoch, which can be fractional."""
        return self.n_pairs / self.tokens_per_step

    def __str__(self) -> str:
        rows = {
            "weights": self._weights(),
            "epoch": f"{format_count(self.n_pairs, 'token')}, sentence ends included; "
            f"{self.steps_per_epoch:,.1f} steps of {self.tokens_per_step:,}",
            "run": f"{format_count(self.n_steps, 'step')}, "
            f"{format_count(self.n_steps / self.steps_per_epoch, 'epoch', ',.3g')}",
            "memory": f"about {self.memory.total / GIB:.2f} GiB per device: "
            f"{self.memory.fixed / GIB:.2f} for weights, gradients and optimizer, "
            f"{self.memory.segment / GIB:.2f} for the activations of a step",
        }
        return "\n".join(f"{name:9}{text}" for name, text in rows.items())

    def _weights(self) -> str:
        """Return the numbers of weights, all in millions unless the model is small."""
        if self.n_bilm + self.n_softmax < 1e7:
            return f"{self.n_bilm:,} biLM, {self.n_softmax:,} softmax"
        return f"{self.n_bilm / 1e6:,.1f} M biLM, {self.n_softmax / 1e6:,.1f} M softmax"


def plan(
    model: ModelConfig,
    config: PretrainConfig | FinetuneConfig,
    *,
    n_bilm: int,
    n_softmax: int,
    n_pairs: int,
) -> RunPlan:
    """Compute the plan of a run with `n_pairs` predictions per direction and epoch."""
    stream, loss, run = config.stream, config.loss, config.run
    tokens_per_step = stream.batch_size * stream.unroll
    n_steps = count_steps(n_pairs, stream, run)
    is_half = run.precision != "float32"
    n_streams = math.ceil(stream.batch_size / (run.devices * run.num_nodes * run.accumulate))
    memory = MemoryEstimate(
        fixed_memory(n_bilm, n_softmax, loss=loss, optimizer=config.optimizer, run=run),
        segment_memory(
            model,
            n_streams=n_streams,
            n_steps=stream.unroll,
            shared=stream.directions == "together",
            loss=loss,
            value_bytes=2 if is_half else FLOAT,
        ),
    )
    return RunPlan(n_bilm, n_softmax, n_pairs, tokens_per_step, n_steps, memory)


def count_steps(n_pairs: int, stream: StreamConfig, run: RunConfig) -> int:
    """Return the number of steps in a run: those in its epochs, but at most `max_steps`."""
    n_steps = max(1, math.ceil(run.epochs * n_pairs / (stream.batch_size * stream.unroll)))
    return n_steps if run.max_steps is None else min(n_steps, run.max_steps)


def default_warmup(n_steps: float, most: int) -> int:
    """Return the default number of warmup steps: a tenth of all steps, but at most `most`."""
    return min(most, int(n_steps / 10))


def length_notes(n_steps: int, optimizer: OptimizerConfig, run: RunConfig) -> list[str]:
    """Return notes on a run that is shorter than expected, which explain the reason."""
    notes = []
    if run.max_steps is not None and n_steps < run.max_steps:
        notes.append(
            f"the run ends before --max-steps {run.max_steps:,}, because --epochs is "
            f"{run.epochs:g}; for more steps set a larger --epochs or a smaller --batch-size"
        )
    if n_steps <= (optimizer.warmup_steps or 0):
        notes.append(
            f"the learning rate rises until the end of the run (--warmup-steps "
            f"{optimizer.warmup_steps:,}), so little is learned; train for more steps or set fewer "
            "warmup steps"
        )
    return notes


# ----------------------------------------------------------------------------------------- memory


def fixed_memory(
    n_bilm: int, n_softmax: int, *, loss: LossConfig, optimizer: OptimizerConfig, run: RunConfig
) -> int:
    """Estimate the memory that does not depend on the batch size, in bytes.

    Weights, gradients and optimizer states are float32; Adagrad has one state value per weight,
    AdamW has two. Muon has one for hidden matrices and needs about one more while it computes their
    updates. A sampled softmax has gradients for a few rows only. With several processes, there is a
    second copy of the biLM gradients for their exchange; in half precision, there is a second copy
    of its weights.
    """
    n_states = 1 if optimizer.optimizer == "adagrad" else 2
    bilm = 2 + n_states + (run.devices * run.num_nodes > 1)
    softmax = 1 + n_states + (loss.softmax != "sampled")
    half_copy = 2 * n_bilm if run.precision != "float32" else 0
    return FLOAT * (bilm * n_bilm + softmax * n_softmax) + half_copy


def segment_memory(
    model: ModelConfig,
    *,
    n_streams: int,
    n_steps: int,
    shared: bool,
    loss: LossConfig,
    value_bytes: int,
) -> int:
    """Estimate the memory saved for the backward pass of a BPTT segment, in bytes.

    With n = n_streams * n_steps positions per direction and u distinct words among them:

    - token encoder: u times the values per word (`_encoder_values`), which include the gradient of
      the widest convolution, the largest one in memory at a time;
    - LSTM: for each of 2 n positions and each layer, 8 cell_dim + 4.5 projection_dim values, of
      which 3 cell_dim are always float32 (the cell state before and after clipping, and its tanh);
    - softmax: logits, their exponentials and their gradient, that is 3 float32 values for each of
      2 n positions and each word of the softmax; a large full softmax is computed in chunks.

    Args:
        model: Configuration of the model.
        n_streams: Number of batch rows per process and accumulation step.
        n_steps: Number of time steps in the segment.
        shared: Whether both directions process the same words.
        loss: Softmax options.
        value_bytes: Number of bytes per activation value.
    """
    n = n_streams * n_steps
    distinct = distinct_words(n) if shared else 2 * distinct_words(n)
    encoder = value_bytes * distinct * _encoder_values(model.encoder, model.text.max_characters)
    lstm = 2 * n * model.lstm.n_layers * _lstm_bytes(model.lstm, value_bytes)
    logits = 2 * n * _softmax_words(loss, model.n_softmax_words)
    if loss.softmax == "full":
        logits = min(logits, CHUNK_VALUES)
    return int(encoder + lstm + 3 * FLOAT * logits)


def distinct_words(n: int) -> int:
    """Estimate the number of distinct words among n tokens (Heaps' law, fitted to WikiText-2)."""
    return min(n, math.ceil(4.4 * math.pow(n, 0.7)))


def _encoder_values(encoder: EncoderConfig, n_columns: int) -> float:
    """Return the number of activations per word that the token encoder saves for backward."""
    if not encoder.n_characters:
        return encoder.width
    convolutions = [count * (n_columns - width + 1) for width, count in encoder.filters]
    highway = (2 + 4 * encoder.n_highway) * encoder.n_filters
    characters = n_columns * encoder.character_dim
    return characters + sum(convolutions) + max(convolutions) + highway + encoder.width


def _lstm_bytes(lstm: LSTMConfig, value_bytes: int) -> float:
    """Return the number of bytes that an LSTM layer saves per position for the backward pass."""
    return value_bytes * (5 * lstm.cell_dim + 4.5 * lstm.projection_dim) + FLOAT * 3 * lstm.cell_dim


def _softmax_words(loss: LossConfig, n_words: int) -> float:
    """Return the average number of logits computed per prediction."""
    if loss.softmax == "sampled":
        return min(n_words, loss.n_samples + 1)
    if loss.softmax == "full":
        return n_words
    head = min(n_words, loss.cutoffs[0] if loss.cutoffs else n_words)
    # About a tenth of the tokens are words of the tail clusters.
    return head + 0.1 * (n_words - head)


def fitting_batch(batch: int, needed: int, fixed: int, available: int) -> int:
    """Return the largest batch size of the form 2**n or 3 * 2**n that fits into memory.

    `batch` did not fit; it needs `needed` bytes, `fixed` of which do not depend on its size.
    Returns 0 if no smaller size fits.
    """
    row = max(1.0, (needed - fixed) / batch)
    most = min(batch - 1, int((available - fixed) // row))
    if most < 1:
        return 0
    power = 1 << (most.bit_length() - 1)
    return power + power // 2 if power + power // 2 <= most else power


def available_memory(device: torch.device) -> int | None:
    """Return the memory in bytes available to this process on a device; None if unknown."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        # Memory cached by PyTorch is available to this process, but not counted as free.
        return free + torch.cuda.memory_reserved(device)
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return int(fields["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in fields else None
