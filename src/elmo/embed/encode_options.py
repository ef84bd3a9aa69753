"""Arguments of `ELMo.encode`: their types, and checks that apply to every call."""

from typing import Literal, Required, TypedDict, get_args

import numpy as np
import torch

from elmo.config import Layers, Pooling, State
from elmo.embed.layer_selection import POOLINGS
from elmo.errors import ConfigError, shortened
from elmo.inference.word_cache import WordCache


class EncodeOptions(TypedDict, total=False):
    """Arguments of `encode` that do not affect the type of its result."""

    layers: Layers
    state: State
    batch_size: int | None
    device: str | torch.device | None
    precision: torch.dtype | str | None
    show_progress_bar: bool
    cache: WordCache | None


class ToArray(EncodeOptions, total=False):
    """Options of a call that returns one NumPy array."""

    pooling: Pooling | None
    convert_to_tensor: Literal[False]


class ToTensor(EncodeOptions, total=False):
    """Options of a call that returns one tensor."""

    pooling: Pooling | None
    convert_to_tensor: Required[Literal[True]]


class WordsToArray(EncodeOptions, total=False):
    """Options of a call that returns a NumPy array per sentence."""

    pooling: None
    convert_to_tensor: Literal[False]


class WordsToTensor(EncodeOptions, total=False):
    """Options of a call that returns a tensor per sentence."""

    pooling: None
    convert_to_tensor: Required[Literal[True]]


class PooledToArray(EncodeOptions, total=False):
    """Options of a call that returns a NumPy array with one row per sentence."""

    pooling: Required[Pooling]
    convert_to_tensor: Literal[False]


class PooledToTensor(EncodeOptions, total=False):
    """Options of a call that returns a tensor with one row per sentence."""

    pooling: Required[Pooling]
    convert_to_tensor: Required[Literal[True]]


def check_encode_arguments(
    state: object, pooling: object, show_progress_bar: object, convert_to_tensor: object
) -> None:
    """Raise `ConfigError` if an argument is invalid. `EncodingRun` checks the others."""
    if state not in get_args(State):
        raise ConfigError(
            f"Unknown state {state!r}. Expected one of: {', '.join(get_args(State))}."
        )
    if pooling is not None and pooling not in POOLINGS:
        raise ConfigError(
            f"Unknown pooling {pooling!r}. Expected one of: {', '.join(POOLINGS)}, or None."
        )
    for name, value in (
        ("show_progress_bar", show_progress_bar),
        ("convert_to_tensor", convert_to_tensor),
    ):
        if not isinstance(value, bool | np.bool_):
            raise ConfigError(f"{name} must be True or False (got {shortened(repr(value), 60)}).")
