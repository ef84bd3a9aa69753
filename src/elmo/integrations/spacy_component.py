"""The spaCy component `elmo`, which adds ELMo vectors to documents."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.tokens import Doc
from spacy.util import minibatch
from thinc.util import get_torch_default_device

from elmo.config import Layers
from elmo.errors import ConfigError
from elmo.integrations.shared_elmo import check_model_name, shared_elmo
from elmo.integrations.spacy_hooks import add_hooks
from elmo.integrations.spacy_layers import store_layers
from elmo.integrations.spacy_vectors import FloatArray, doc_sentences, token_rows

# Settings that are saved with a component.
DEFAULTS = {"model": "small-en", "layers": "average", "keep_layers": True}


class ElmoComponent(Pipe):
    """Sets `doc.tensor`, `doc._.elmo`, and hooks for vectors and similarity.

    The name of the model and what `doc` contains are saved with the component. The weights are not:
    all components of a process share the model. Settings that were given are not replaced by saved
    ones, so that the config of a pipeline can be overridden when it is loaded.
    """

    def __init__(
        self,
        name: str = "elmo",
        *,
        model: str | None = None,
        layers: Layers | None = None,
        keep_layers: bool | None = None,
        precision: str | None = None,
        device: str | None = None,
    ) -> None:
        """Store the settings; the model is loaded with the first document.

        Args:
            name: Name of the component in the pipeline.
            model: Name of a bundled or downloaded model, path, or hub id. Default: small-en.
            layers: Layers of `doc.tensor`: "average" (default), "mix", "top" or a layer number.
            keep_layers: Whether to store all layers in `doc._.elmo`. Default: yes.
            precision: Precision of the computation, such as "int8"; `ELMo.encode` lists them.
            device: Device of the model. Default: the GPU that spaCy uses, else the CPU.
        """
        self.name = name
        self._given = {"model": model, "layers": layers, "keep_layers": keep_layers}
        self.precision = precision
        self.device = device
        self._set({})

    def _set(self, saved: Mapping[str, object]) -> None:
        """Use the given settings, else saved ones, else the defaults."""
        given = {name: value for name, value in self._given.items() if value is not None}
        settings: dict[str, Any] = {**DEFAULTS, **saved, **given}
        check_model_name(settings["model"])
        if settings["layers"] == "all":
            raise ConfigError(
                'layers "all" gives several vectors per token, but doc.tensor has one. Choose '
                '"average", "mix", "top" or a layer number; doc._.elmo contains all layers.'
            )
        self.model: str = settings["model"]
        self.layers: Layers = settings["layers"]
        self.keep_layers: bool = settings["keep_layers"]

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Return the settings, with the name of the model instead of its weights."""
        settings = {name: getattr(self, name) for name in DEFAULTS}
        return json.dumps(settings).encode()

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> Self:
        """Read settings that were not given when the component was created."""
        saved = json.loads(data)
        self._set({name: saved[name] for name in DEFAULTS if name in saved})
        return self

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the settings to a file."""
        Path(path).write_bytes(self.to_bytes())

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> Self:
        """Read settings that were not given when the component was created."""
        return self.from_bytes(Path(path).read_bytes())

    def __call__(self, doc: Doc) -> Doc:
        """Add vectors to one document."""
        self._annotate([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Add vectors to a stream of documents; all sentences of a batch are computed together."""
        handle_error = self.get_error_handler()
        for docs in minibatch(stream, size=batch_size):  # type: ignore[no-untyped-call]
            try:
                self._annotate(docs)
                yield from docs
            except Exception as error:
                handle_error(self.name, self, docs, error)

    def _annotate(self, docs: Sequence[Doc]) -> None:
        elmo = shared_elmo(self.model, self.device or str(get_torch_default_device()))
        elmo.encoding_run(layers=self.layers)  # checks the layers
        sentences = doc_sentences(docs)
        words = [sentence.words for sentence in sentences]

        def vectors(layers: Layers) -> list[FloatArray]:
            rows = elmo.encode(words, layers=layers, precision=self.precision)
            n_layers = (elmo.config.n_layers,) if layers == "all" else ()
            return token_rows(docs, sentences, rows, (*n_layers, elmo.config.dim))

        all_layers = vectors("all") if self.keep_layers else [None] * len(docs)
        if not self.keep_layers or self.layers == "mix":
            tensors = vectors(self.layers)
        else:
            tensors = [_select(rows, self.layers) for rows in all_layers if rows is not None]
        for doc, tensor, rows in zip(docs, tensors, all_layers, strict=True):
            doc.tensor = tensor  # type: ignore[assignment]  # spaCy declares float64
            store_layers(doc, rows)
            add_hooks(doc)


def _select(layers: FloatArray, chosen: Layers) -> FloatArray:
    """Return the average or one of the layers, (tokens, dim), from all layers."""
    if chosen == "average":
        average: FloatArray = layers.mean(axis=0)
        return average
    # A copy, because components of spaCy can change the tensor of a document.
    return np.array(layers[-1 if chosen == "top" else int(chosen)])


@Language.factory("elmo", assigns=["doc.tensor", "doc._.elmo"])
def create_elmo(
    nlp: Language,
    name: str,
    model: str | None = None,
    layers: Layers | None = None,
    keep_layers: bool | None = None,
    precision: str | None = None,
    device: str | None = None,
) -> ElmoComponent:
    """Return the component for `nlp.add_pipe("elmo", config={...})`."""
    return ElmoComponent(
        name,
        model=model,
        layers=layers,
        keep_layers=keep_layers,
        precision=precision,
        device=device,
    )
