"""A function for `datasets.map` that adds ELMo vectors to a column."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import torch
from datasets.formatting.formatting import LazyRow
from numpy.typing import NDArray

from elmo.config import Layers, Pooling
from elmo.errors import InputError, did_you_mean
from elmo.integrations.missing_vectors import MissingVectors
from elmo.integrations.shared_elmo import check_model_name, file_versions, shared_elmo
from elmo.text.text_values import is_missing

# A text or its words. It is missing in rows without text.
Text = str | Sequence[str]
Vectors = NDArray[np.float32]
# The columns of several rows of a data set.
Columns = Mapping[str, Sequence[Text | None]]


@dataclass(frozen=True)
class ElmoEncoder:
    """Computes the vectors of one column, for `dataset.map(ElmoEncoder(), batched=True)`.

    Pickles contain the settings, and the sizes and times of the files of a local model: the cache
    of `datasets` is used again in other processes as long as the model is the same.

    Attributes:
        model: Name of a bundled or downloaded model, path, or hub id.
        column: Column of texts or of lists of words.
        output: Name of the new column.
        layers: "average", "mix" (the trained layer mix), "top", "all" or a layer number.
        pooling: "mean", "max" or "first-last" for one vector per text; None for word vectors.
        precision: Precision of the computation, such as "int8"; `ELMo.encode` lists them.
        device: Device of the model. Default: a GPU if available; with `with_rank=True`, each
            process uses its own GPU.
    """

    model: str | Path = "small-en"
    column: str = "text"
    output: str = "elmo"
    layers: Layers = "average"
    pooling: Pooling | None = "mean"
    precision: str | None = None
    device: str | None = None

    def __post_init__(self) -> None:
        """Check the name of the model."""
        check_model_name(self.model)

    def __getstate__(self) -> dict[str, object]:
        """Return the settings, and what identifies the files of the model."""
        settings = {field.name: getattr(self, field.name) for field in fields(self)}
        return settings | {"files": file_versions(self.model)}

    def __setstate__(self, state: dict[str, object]) -> None:
        """Restore the settings."""
        for field in fields(self):
            object.__setattr__(self, field.name, state[field.name])

    def __call__(
        self, rows: Columns, rank: int | None = None
    ) -> dict[str, list[Vectors | None] | MissingVectors]:
        """Return the new column of several rows.

        Args:
            rows: The columns of the rows.
            rank: Number of the process, with `with_rank=True`.

        Returns:
            The new column; it is None in rows without text (None or NaN).
        """
        if self.column not in rows:
            raise InputError(
                f"The data set has no column {self.column!r} (found {', '.join(rows)})."
                f"{did_you_mean(self.column, rows)}"
            )
        texts = rows[self.column]
        if isinstance(rows, LazyRow) or isinstance(texts, str):
            raise InputError("ElmoEncoder computes several rows at once. Pass batched=True to map.")
        values = [None if is_missing(text) else text for text in texts]
        present = [text for text in values if text is not None]
        if not present:
            n_axes = 1 + (self.pooling is None) + (self.layers == "all")
            return {self.output: MissingVectors(len(values), n_axes)}
        vectors = iter(self._vectors(present, rank))
        return {self.output: [None if text is None else next(vectors) for text in values]}

    def _vectors(self, texts: list[Text], rank: int | None) -> Iterable[Vectors]:
        elmo = shared_elmo(self.model, self._device(rank))
        return elmo.encode(
            texts, layers=self.layers, pooling=self.pooling, precision=self.precision
        )

    def _device(self, rank: int | None) -> str | None:
        """Return the device of a process; None for the default."""
        n_gpus = torch.cuda.device_count()
        if self.device is not None or rank is None or not n_gpus:
            return self.device
        return f"cuda:{rank % n_gpus}"
