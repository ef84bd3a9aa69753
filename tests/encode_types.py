"""Types of the results of `encode`, checked by mypy in `make check`, not run."""

from collections.abc import Iterable, Sequence
from typing import assert_type

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from elmo.config import Pooling
from elmo.embed.embedder import ELMo

Array = NDArray[np.float32]
AnyResult = Array | Tensor | list[Array] | list[Tensor]


def one_sentence(elmo: ELMo) -> None:
    """A string is one sentence."""
    assert_type(elmo.encode("a"), Array)
    assert_type(elmo.encode("a", pooling="mean", layers=1, state="carry"), Array)
    assert_type(elmo.encode("a", convert_to_tensor=True, cache=None), Tensor)


def several_sentences(elmo: ELMo) -> None:
    """Without pooling there is one array per sentence, with pooling one row."""
    assert_type(elmo.encode(["a"]), list[Array])
    assert_type(elmo.encode([["a"]], convert_to_tensor=True, batch_size=3), list[Tensor])
    assert_type(elmo.encode(["a"], pooling="max"), Array)
    assert_type(elmo.encode(["a"], pooling="max", convert_to_tensor=True), Tensor)


def other_containers(elmo: ELMo, texts: Sequence[str]) -> None:
    """Tuples, sets and iterators are several sentences, too."""
    assert_type(elmo.encode(("a", ["b"])), list[Array])
    assert_type(elmo.encode({"a"}, convert_to_tensor=True), list[Tensor])
    assert_type(elmo.encode(text for text in texts), list[Array])
    assert_type(elmo.encode(texts, pooling="mean"), Array)


def types_known_at_run_time(
    elmo: ELMo, text: str | list[str], texts: Iterable[str], flag: bool, pooling: Pooling | None
) -> None:
    """A value that may be a string or a list, or an option that is a variable, gives a union."""
    assert_type(elmo.encode(text), Array | list[Array])
    assert_type(elmo.encode(texts), AnyResult)
    assert_type(elmo.encode("a", convert_to_tensor=flag), AnyResult)
    assert_type(elmo.encode(["a"], pooling=pooling), Array | list[Array])
    assert_type(elmo.encode(text, pooling=pooling, convert_to_tensor=flag), AnyResult)


def invalid_arguments(elmo: ELMo) -> None:
    """Unknown names and wrong types are errors."""
    elmo.encode("a", batch_size="x")  # type: ignore[call-overload]
    elmo.encode(["a"], pooling="sum")  # type: ignore[call-overload]
    elmo.encode(["a"], unknown=1)  # type: ignore[call-overload]
