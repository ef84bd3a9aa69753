"""Arguments of `ELMo.encode`: their types, and checks that apply to every call."""

from collections.abc import Iterator
from typing import Literal, Protocol, Required, TypedDict, get_args

import numpy as np
import torch

from elmo.config import Layers, Pooling, State
from elmo.embed.layer_selection import POOLINGS
from elmo.errors import ConfigError, shortened
from elmo.inference.word_cache import WordCache
from elmo.text.token_batches import Sentence


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


class AnyResult(EncodeOptions, total=False):
    """Options of a call the type of whose result is only known when it runs."""

    pooling: Pooling | None
    convert_to_tensor: bool


class Sentences(Protocol):
    """A list, tuple, set or other container of sentences, but not a string.

    A string is an iterable of strings too, but its `__contains__` takes only strings.
    """

    def __iter__(self) -> Iterator[str | Sentence]: ...

    def __contains__(self, value: object, /) -> bool: ...


def check_encode_arguments(
    *,
    state: object,
    pooling: object,
    precision: object,
    show_progress_bar: object,
    convert_to_tensor: object,
) -> None:
    """Raise `ConfigError` if an argument is invalid. `EncodingRun` checks the others."""
    if not isinstance(state, str) or state not in get_args(State):
        expected = ", ".join(get_args(State))
        raise ConfigError(f"Unknown state {_shown(state)}. Expected one of: {expected}.")
    if pooling is not None and not (isinstance(pooling, str) and pooling in POOLINGS):
        expected = ", ".join(POOLINGS)
        raise ConfigError(
            f"Unknown pooling {_shown(pooling)}. Expected one of: {expected}, or None."
        )
    if precision is not None and not isinstance(precision, str | torch.dtype):
        raise ConfigError(
            "precision must be a torch dtype, its name, 'int8', 'int8x3' or 'auto' (got "
            f"{_shown(precision)})."
        )
    for name, value in (
        ("show_progress_bar", show_progress_bar),
        ("convert_to_tensor", convert_to_tensor),
    ):
        if not isinstance(value, bool | np.bool_):
            raise ConfigError(f"{name} must be True or False (got {_shown(value)}).")


def _shown(value: object) -> str:
    return shortened(repr(value), 60)
