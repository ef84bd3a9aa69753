"""Traces of recurrent language models over characters, bytes or words."""

from collections.abc import Sequence
from functools import partial
from typing import cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from elmo.errors import InputError
from elmo.kernels.exact_float32 import exact_float32
from elmo.lab.recurrent_folder import RecurrentModel
from elmo.lab.recurrent_layer import RecurrentState
from elmo.lab.recurrent_network import NetworkOutput, RecurrentNetwork
from elmo.lab.symbols import Ids, Symbols
from elmo.lab.text_bytes import utf8_bytes
from elmo.lab.units.gates import call_gates
from elmo.lab.units.predictions import Predictions
from elmo.lab.units.traces import Kind, Sentences, Track, UnitTraces
from elmo.text.tokenizer import replace_surrogates
from elmo.text.tokenizers_by_name import get_tokenizer

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
    pieces, ids, is_cut = text_pieces(text, model.symbols, max_positions)
    if not pieces:
        raise InputError("The text is empty.")
    network, symbols = model.network, model.symbols
    vectors = network.input_vectors()
    # The first symbol is predicted after a line break.
    n_before = int(symbols.end is not None)
    read = np.concatenate([[symbols.end], ids]) if n_before else ids
    state = network.zero_state(1)
    has_gates = set(kinds) != {"hidden"}
    # Only the reference kernel records Mogrifier gates, and it is slow.
    is_recorded = network.config.network.mogrifier_rounds > 0
    recorded: dict[Track, list[Tensor]] = {}
    predictions = Predictions(partial(_piece, symbols), n_guesses)
    with exact_float32():
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
            targets = read[first + 1 : first + STEPS + 1]
            if n_guesses and len(targets):
                hidden = output.hidden[: len(targets), 0]
                predictions.add(network.log_probabilities(hidden, vectors), targets)
    values = {track: torch.cat(parts).numpy()[n_before:] for track, parts in recorded.items()}
    if not n_before:
        predictions.skip_first()
    return UnitTraces(
        pieces=pieces,
        unit=symbols.unit,
        values=values,
        surprisal=predictions.surprisal if n_guesses else None,
        guesses=predictions.guesses if n_guesses else None,
        note=f"The first {len(pieces):,} {symbols.unit} of the text." if is_cut else "",
    )


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


def text_pieces(
    text: str | Sentences, symbols: Symbols, max_positions: int
) -> tuple[tuple[str, ...], Ids, bool]:
    """Return the pieces of a text with their ids, and whether it was cut.

    Args:
        text: The text, or the words of each line.
        symbols: Symbols of the model.
        max_positions: Maximum number of pieces.
    """
    if symbols.unit == "words":
        pieces = _words(text, symbols.tokenizer, max_positions)
    elif not isinstance(text, str):
        raise InputError(f"A model over {symbols.unit} reads a text, not lists of words.")
    elif symbols.unit == "characters":
        pieces = list(replace_surrogates(text[: max_positions + 1]))
    else:
        pieces = _byte_pieces(text[: max_positions + 1])
    kept = pieces[:max_positions]
    return tuple(kept), _ids(kept, text, symbols), len(pieces) > max_positions


def _ids(pieces: Sequence[str], text: str | Sentences, symbols: Symbols) -> Ids:
    if symbols.unit == "words":
        # One piece at a time: a word can contain spaces.
        end = symbols.end
        assert end is not None
        names = {name: number for number, name in enumerate(symbols.names)}
        ids = [end if piece == "\n" else names.get(piece, 0) for piece in pieces]
        return np.array(ids, dtype=np.int32)
    assert isinstance(text, str)
    return symbols.encode(text[: len(pieces)])[: len(pieces)]


def _words(text: str | Sentences, tokenizer: str, max_positions: int) -> list[str]:
    """Return at least the first `max_positions` words and line breaks, and one more if any."""
    tokenize = get_tokenizer(tokenizer).words
    lines = replace_surrogates(text).split("\n") if isinstance(text, str) else [*text, ()]
    pieces: list[str] = []
    for number, line in enumerate(lines):
        if number:
            pieces.append("\n")
        pieces += tokenize(line) if isinstance(line, str) else line
        if len(pieces) > max_positions:
            break
    return pieces


def _byte_pieces(text: str) -> list[str]:
    """Return one piece per byte: characters at their first bytes, and "" at the others.

    A byte that is not UTF-8 is written with a backslash.
    """
    pieces: list[str] = []
    for character in text:
        data = utf8_bytes(character)
        if len(data) == 1:
            pieces.append(data.decode("ascii", "backslashreplace"))
        else:
            pieces += [replace_surrogates(character)] + [""] * (len(data) - 1)
    return pieces
