"""Traces of the BiLSTM of a task model, which reads each line as a sentence."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from elmo.kernels.exact_float32 import exact_float32
from elmo.kernels.recurrent_call import RecurrentCall
from elmo.kernels.recurrent_kernels import run_recurrent
from elmo.lab.units.gates import call_gates
from elmo.lab.units.sampled_text import sample_note
from elmo.lab.units.traces import Direction, Kind, Sentences, TextSample, Track, UnitTraces
from elmo.lab.units.word_lines import line_batches, sample_lines, split_lines
from elmo.tasks.core.input_features import TokenBatch
from elmo.tasks.core.task_model import TaskModel
from elmo.tasks.fitted.build import splitter
from elmo.tasks.fitted.trained_model import TrainedModel

_SUFFIXES: dict[Direction, str] = {"forward": "", "backward": "_reverse"}


@torch.no_grad()
def encoder_traces(
    model: TrainedModel, text: str | Sentences, *, kinds: Sequence[Kind], max_positions: int
) -> UnitTraces:
    """Read a text with the encoder of a task model; see `read_traces`.

    Each line starts from a zero state. Its end is no position, because the encoder does not read
    it. The layers of all LSTMs of the encoder are counted from the input. There are no predictions.
    """
    lines = split_lines(text, splitter(model.config, model.elmo))
    sentences, windows = sample_lines(lines, max_positions, n_ends=0)
    network = model.built.model
    was_training = network.training
    network.eval()
    recorded: dict[Track, list[Tensor]] = {}
    with exact_float32():
        for batch in line_batches(sentences):
            tokens = model.encoder_input([tuple(words) for words in batch])
            for track, values in _values(network, tokens, has_gates=set(kinds) != {"hidden"}):
                if track.kind in kinds:
                    chosen = values.transpose(0, 1)[tokens.mask].float().cpu()
                    recorded.setdefault(track, []).append(chosen)
    network.train(was_training)
    whole = [word for words in lines for word in words]
    note = sample_note(windows, len(whole), "words")
    return UnitTraces(
        pieces=tuple(word for words in sentences for word in words),
        unit="words",
        values={track: torch.cat(parts).numpy() for track, parts in recorded.items()},
        note=note,
        sample=TextSample(windows, whole) if note else None,
        line_ends=frozenset(end - 1 for end in accumulate(map(len, lines))),
    )


def _values(
    network: TaskModel, tokens: TokenBatch, *, has_gates: bool
) -> Iterator[tuple[Track, Tensor]]:
    """Yield the values of all LSTM layers of the encoder, (time, batch, units)."""
    lengths = tokens.mask.sum(dim=1)
    depth = 0
    for lstm, inputs in _lstm_inputs(network, tokens):
        x = inputs.transpose(0, 1)
        for number in range(lstm.num_layers):
            outputs: list[Tensor] = []
            for direction in _SUFFIXES:
                is_backward = direction == "backward"
                call = _call(lstm, number, direction, _reversed(x, lengths) if is_backward else x)
                hidden = run_recurrent(call).output
                values = {"hidden": hidden}
                if has_gates:
                    values |= call_gates(call, hidden)
                for kind, value in values.items():
                    in_order = _reversed(value, lengths) if is_backward else value
                    yield Track(depth, direction, cast(Kind, kind)), in_order
                outputs.append(_reversed(hidden, lengths) if is_backward else hidden)
            x = torch.cat(outputs, dim=-1)
            depth += 1


def _lstm_inputs(network: TaskModel, tokens: TokenBatch) -> list[tuple[nn.LSTM, Tensor]]:
    """Run the encoder and return its LSTMs, lowest first, with their inputs (batch, time, dim)."""
    inputs: list[tuple[nn.LSTM, Tensor]] = []

    def record(lstm: nn.LSTM, args: tuple[PackedSequence], output: object) -> None:
        inputs.append((lstm, tokens.layout.unpack(args[0])))

    lstms = [module for module in network.encoder.modules() if isinstance(module, nn.LSTM)]
    hooks = [lstm.register_forward_hook(record) for lstm in lstms]
    try:
        network.vectors(tokens)
    finally:
        for hook in hooks:
            hook.remove()
    return inputs


def _call(lstm: nn.LSTM, number: int, direction: Direction, x: Tensor) -> RecurrentCall:
    """Return the call that runs a direction of a layer from a zero state."""
    weight_ih, weight_hh, bias_ih, bias_hh = (
        cast(Tensor, getattr(lstm, f"{name}_l{number}{_SUFFIXES[direction]}"))
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    zeros = x.new_zeros(x.shape[1], lstm.hidden_size)
    return RecurrentCall(
        "lstm",
        x,
        h=zeros,
        c=zeros,
        weight_ih=weight_ih,
        weight_hh=weight_hh,
        bias_ih=bias_ih,
        bias_hh=bias_hh,
    )


def _reversed(x: Tensor, lengths: Tensor) -> Tensor:
    """Return (time, batch, dim) with the words of each text in reverse order, before padding."""
    steps = torch.arange(len(x), device=x.device).unsqueeze(1)
    index = torch.where(steps < lengths, lengths - 1 - steps, steps)
    return x.gather(0, index.unsqueeze(2).expand_as(x))
