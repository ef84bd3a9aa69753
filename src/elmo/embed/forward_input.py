"""Checks of the arguments of `ELMo.forward`."""

import torch
from torch import Tensor

from elmo.config import EncoderConfig
from elmo.errors import InputError
from elmo.model.lstm import LSTMState
from elmo.text.token_batches import TokenMapper


def with_word_column(ids: Tensor, encoder: EncoderConfig, mapper: TokenMapper) -> Tensor:
    """Check the shape of the ids, and add a word id column if it is optional and missing."""
    if not isinstance(ids, Tensor):
        raise InputError(
            f"character_ids has type {type(ids).__name__}, expected a tensor. Call "
            "elmo(elmo.character_ids(sentences)), or elmo.encode(sentences) for the vectors of "
            "text."
        )
    n_columns = len(mapper.boundaries()[0])
    is_integer = not (ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool)
    if ids.dim() != 3 or not is_integer or ids.shape[1] < 2:
        raise InputError(
            f"character_ids has shape {tuple(ids.shape)} and dtype {ids.dtype}, expected "
            f"integers of shape (batch, words + 2, {n_columns}). Create the ids with this "
            "model's character_ids()."
        )
    cached = encoder.n_words and encoder.word_role == "cache"
    if cached and ids.shape[2] == n_columns - 1:
        return torch.cat([ids, torch.zeros_like(ids[:, :, :1])], dim=2)
    if ids.shape[2] != n_columns:
        raise InputError(
            f"character_ids has {ids.shape[2]} columns per token, expected {n_columns}. Create "
            "the ids with this model's character_ids()."
        )
    return ids


def token_mask(mask: Tensor | None, ids: Tensor) -> Tensor:
    """Return the mask (batch, time) as booleans, by default True where a row of ids is not 0."""
    if mask is None:
        return (ids != 0).any(dim=2)
    if not isinstance(mask, Tensor):
        raise InputError(f"mask has type {type(mask).__name__}, expected a tensor.")
    if mask.shape != ids.shape[:2]:
        raise InputError(
            f"mask has shape {tuple(mask.shape)}, expected {tuple(ids.shape[:2])} to match "
            "character_ids."
        )
    return mask.bool()


def check_state(state: LSTMState | None, batch: int) -> None:
    """Raise `InputError` if the state is not that of an earlier output for the same batch size."""
    if state is None:
        return
    if not isinstance(state, LSTMState):
        raise InputError(
            f"state has type {type(state).__name__}, expected the state of an earlier output."
        )
    if state.batch != batch:
        raise InputError(
            f"state has {state.batch} rows, but the batch has {batch}. Use "
            f"state.rows({batch}), which drops rows or adds rows of zeros."
        )


def check_values(ids: Tensor, mask: Tensor, encoder: EncoderConfig) -> None:
    """Raise `InputError` if the mask has gaps or an id is outside its table."""
    if bool((mask[:, 1:] & ~mask[:, :-1]).any()):
        raise InputError(
            "mask has gaps: in each row, all True positions must come before the padding."
        )
    n_words = 1 if encoder.n_words else 0
    characters, words = ids[:, :, : ids.shape[2] - n_words], ids[:, :, ids.shape[2] - n_words :]
    for part, limit in ((characters, encoder.n_characters), (words, encoder.n_words)):
        if part.numel() and (int(part.min()) < 0 or int(part.max()) >= limit):
            raise InputError(
                f"character_ids has values from {int(part.min())} to {int(part.max())}, "
                f"expected 0 to {limit - 1}. Create the ids with this model's character_ids()."
            )
