"""Traces of recurrent language models over characters, bytes or words."""

from collections.abc import Sequence
from functools import partial
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from elmo.errors import InputError
from elmo.kernels.exact_float32 import exact_float32
from elmo.lab.recurrent_folder import RecurrentModel
from elmo.lab.recurrent_layer import RecurrentState
from elmo.lab.recurrent_network import NetworkOutput, RecurrentNetwork
from elmo.lab.symbols import BENCHMARK_UNKNOWN, OpenIds, Symbols
from elmo.lab.text_bytes import utf8_bytes
from elmo.lab.units.gates import call_gates
from elmo.lab.units.predictions import Predictions
from elmo.lab.units.sampled_text import reading_runs, sample_note, sample_windows
from elmo.lab.units.traces import Guess, Kind, Sentences, TextSample, Track, UnitTraces
from elmo.text.characters import END_TOKEN
from elmo.text.tokenizer import replace_surrogates
from elmo.text.tokenizers_by_name import get_tokenizer
from elmo.text.vocabulary import UNKNOWN

# Symbols that are read at a time, to bound the memory.
STEPS = 1024


@torch.no_grad()
def symbol_traces(
    model: RecurrentModel,
    text: str | Sentences,
    *,
    kinds: Sequence[Kind],
    max_positions: int,
    n_guesses: int,
) -> UnitTraces:
    """Read a text with a recurrent language model; see `read_traces`."""
    pieces, read_ids = text_pieces(text, model.symbols)
    if not len(pieces):
        raise InputError("The text is empty.")
    unit = model.symbols.unit
    windows = sample_windows(len(pieces), max_positions)
    values: dict[Track, list[NDArray[np.float32]]] = {}
    surprisal: list[NDArray[np.float32]] = []
    guesses: list[tuple[Guess, ...]] = []
    with exact_float32():
        for run in reading_runs(windows):
            run_values, predictions = _read_run(model, read_ids, run, kinds, n_guesses)
            for window in windows:
                if window.start not in run:
                    continue
                part = slice(window.start - run.start, window.stop - run.start)
                for track, x in run_values.items():
                    values.setdefault(track, []).append(x[part])
                if n_guesses:
                    surprisal.append(predictions.surprisal[part])
                    guesses += predictions.guesses[part]
    note = sample_note(windows, len(pieces), unit)
    read = [position for window in windows for position in window]
    ids = model.symbols.close(read_ids.ids)
    return UnitTraces(
        pieces=tuple(pieces[position] for position in read),
        unit=unit,
        values={track: np.concatenate(parts) for track, parts in values.items()},
        surprisal=np.concatenate(surprisal) if n_guesses else None,
        guesses=tuple(guesses) if n_guesses else None,
        note=note,
        sample=TextSample(windows, pieces) if note else None,
        unknown=frozenset(
            row
            for row, position in enumerate(read)
            if ids[position] == model.symbols.unknown
            and pieces[position] not in (UNKNOWN, BENCHMARK_UNKNOWN)
        ),
    )


def _read_run(
    model: RecurrentModel, text: OpenIds, run: range, kinds: Sequence[Kind], n_guesses: int
) -> tuple[dict[Track, NDArray[np.float32]], Predictions]:
    """Read a part of a text from a zero state; return values (positions, units) and predictions."""
    network, symbols = model.network, model.symbols
    vectors = network.vectors_with(text.new_words)
    read = text.ids[run.start : run.stop]
    # The first symbol of a text is predicted after a line break.
    has_line_break = run.start == 0 and symbols.end is not None
    if has_line_break:
        read = np.concatenate([[symbols.end], read])
    state = network.zero_state(1)
    has_gates = set(kinds) != {"hidden"}
    # Only the reference kernel records Mogrifier gates, and it is slow.
    is_recorded = network.config.network.mogrifier_rounds > 0
    recorded: dict[Track, list[Tensor]] = {}
    predictions = Predictions(partial(_piece, symbols), n_guesses)
    for first in range(0, len(read), STEPS):
        part = torch.from_numpy(read[first : first + STEPS].astype(np.int64))
        index = part.to(vectors.device).unsqueeze(1)
        output = network(vectors, index, state, record=has_gates and is_recorded)
        gates: Sequence[dict[str, Tensor]] = output.gates
        if has_gates and not is_recorded:
            gates = _gates(network, functional.embedding(index, vectors), state, output)
        state = output.state
        for track, x in _layer_values(output.outputs, gates):
            if track.kind in kinds:
                recorded.setdefault(track, []).append(x[:, 0].float().cpu())
        targets = symbols.close(read[first + 1 : first + STEPS + 1])
        if n_guesses and len(targets):
            hidden = output.hidden[: len(targets), 0]
            predictions.add(network.log_probabilities(hidden, vectors), targets)
    if not has_line_break:
        predictions.skip_first()
    n_before = int(has_line_break)
    values = {track: torch.cat(parts).numpy()[n_before:] for track, parts in recorded.items()}
    return values, predictions


def _piece(symbols: Symbols, number: int) -> str:
    """Return the text of a symbol; the end of a line of words is a line break."""
    return "\n" if number == symbols.end else symbols.name(number)


def _gates(
    network: RecurrentNetwork, x: Tensor, state: RecurrentState, output: NetworkOutput
) -> list[dict[str, Tensor]]:
    """Return the gates of each layer of a segment, given its input and the state before it."""
    gates: list[dict[str, Tensor]] = []
    inputs = (x, *output.outputs[:-1])
    for number, layer in enumerate(network.recurrent_layers()):
        cell = state.c[number] if state.c else None
        call = layer.call(inputs[number], state.h[number], cell)
        gates.append(call_gates(call, output.outputs[number]))
    return gates


def _layer_values(
    outputs: Sequence[Tensor], gates: Sequence[dict[str, Tensor]]
) -> list[tuple[Track, Tensor]]:
    """Return the values of a segment by track, hidden states first."""
    values = [(Track(layer, "forward", "hidden"), x) for layer, x in enumerate(outputs)]
    return values + [
        (Track(layer, "forward", cast(Kind, name)), x)
        for layer, named in enumerate(gates)
        for name, x in named.items()
    ]


def text_pieces(text: str | Sentences, symbols: Symbols) -> tuple[Sequence[str], OpenIds]:
    """Return the pieces of a text with their ids.

    Args:
        text: The text, or the words of each line.
        symbols: Symbols of the model.
    """
    if symbols.unit == "words":
        words = _words(text, symbols.tokenizer)
        # One piece at a time: a word can contain spaces.
        return words, symbols.word_ids(END_TOKEN if word == "\n" else word for word in words)
    if not isinstance(text, str):
        raise InputError(f"A model over {symbols.unit} reads a text, not lists of words.")
    pieces = replace_surrogates(text) if symbols.unit == "characters" else _byte_pieces(text)
    return pieces, symbols.open_ids(text)


def _words(text: str | Sentences, tokenizer: str) -> list[str]:
    """Return the words, with a line break after each line but the last one."""
    tokenize = get_tokenizer(tokenizer).words
    lines = replace_surrogates(text).split("\n") if isinstance(text, str) else [*text, ()]
    pieces: list[str] = []
    for number, line in enumerate(lines):
        if number:
            pieces.append("\n")
        pieces += tokenize(line) if isinstance(line, str) else line
    return pieces


def _byte_pieces(text: str) -> list[str]:
    """Return one piece per byte: characters at their first bytes, and "" at the others.

    A byte that is not UTF-8 is written with a backslash.
    """
    if text.isascii():
        return list(text)
    pieces: list[str] = []
    for character in text:
        data = utf8_bytes(character)
        if len(data) == 1:
            pieces.append(data.decode("ascii", "backslashreplace"))
        else:
            pieces += [replace_surrogates(character)] + [""] * (len(data) - 1)
    return pieces
