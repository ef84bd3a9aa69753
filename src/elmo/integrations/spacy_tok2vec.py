"""The spaCy architecture `elmo.Tok2Vec.v1`, with which `spacy train` uses ELMo."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import cast

import torch
from spacy.tokens import Doc
from spacy.util import registry
from thinc.api import Model, PyTorchShim, Shim
from thinc.types import ArgsKwargs, Floats2d
from thinc.util import get_torch_default_device, torch2xp, xp2torch
from torch import Tensor, nn

from elmo.config import Layers
from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError
from elmo.integrations.shared_elmo import limit_threads, shared_elmo
from elmo.integrations.spacy_vectors import doc_sentences, token_rows

# The types of a layer in Thinc: the vectors of documents, and the function that receives their
# gradients.
DocVectors = list[Floats2d]
Backprop = Callable[[DocVectors], list[Doc]]


def elmo_tok2vec(
    model: str = "small-en", layers: Layers = "average", trainable: bool = False
) -> Model[list[Doc], DocVectors]:
    """Return a layer that computes one vector per token, for components of spaCy.

    Args:
        model: Name of a bundled or downloaded model, path, or hub id.
        layers: "average", "mix", "top" or a layer number.
        trainable: Whether to train the ELMo model and its layer mix, and to save its weights with
            the pipeline. A frozen model is saved as its name.
    """
    if not trainable:
        elmo = _shared(model)
        elmo.encoding_run(layers=layers)  # checks the layers
        if layers == "all":
            raise ConfigError('layers "all" gives several vectors per token. Choose one layer.')
        forward = partial(_frozen_forward, name=model, layers=layers)
        return Model("elmo", forward, dims={"nO": elmo.config.dim})
    if layers not in ("average", "mix"):
        raise ConfigError(
            f"layers is {layers!r}, but a trainable model learns the mix of its layers. Omit "
            "layers, or set trainable to false."
        )
    tuned = TrainableElmo(ELMo.from_pretrained(model, requires_grad=True))
    shims: list[Shim] = [PyTorchShim(tuned)]
    return Model("elmo", _trainable_forward, dims={"nO": tuned.elmo.config.dim}, shims=shims)


registry.architectures.register("elmo.Tok2Vec.v1", func=elmo_tok2vec)


def _shared(name: str) -> ELMo:
    return shared_elmo(name, str(get_torch_default_device()))


def _frozen_forward(
    model: Model[list[Doc], DocVectors],
    docs: Sequence[Doc],
    is_train: bool,
    *,
    name: str,
    layers: Layers,
) -> tuple[DocVectors, Backprop]:
    elmo = _shared(name)
    sentences = doc_sentences(docs)
    vectors = elmo.encode([sentence.words for sentence in sentences], layers=layers)
    rows = token_rows(docs, sentences, vectors, (elmo.config.dim,))
    return [model.ops.asarray2f(cast(Floats2d, values)) for values in rows], _no_gradient


def _no_gradient(gradients: DocVectors) -> list[Doc]:
    return []


def _trainable_forward(
    model: Model[list[Doc], DocVectors], docs: Sequence[Doc], is_train: bool
) -> tuple[DocVectors, Backprop]:
    starts = [0]
    for doc in docs:
        starts.append(starts[-1] + len(doc))
    sentences = doc_sentences(docs)
    if not sentences:
        zeros = [model.ops.alloc2f(len(doc), model.get_dim("nO")) for doc in docs]
        return zeros, _no_gradient
    rows = [starts[sentence.doc] + token for sentence in sentences for token in sentence.tokens]
    words = [sentence.words for sentence in sentences]
    limit_threads()
    arguments = ArgsKwargs((words, rows, starts[-1]), {})
    output, torch_backprop = model.shims[0](arguments, is_train)
    values = cast(Floats2d, torch2xp(output, ops=model.ops))
    parts = [values[start:end] for start, end in pairwise(starts)]

    def backprop(gradients: DocVectors) -> list[Doc]:
        gradient = xp2torch(model.ops.xp.vstack(gradients), device=output.device)
        torch_backprop(ArgsKwargs(((output,),), {"grad_tensors": (gradient,)}))
        return []

    return parts, backprop


class TrainableElmo(nn.Module):
    """An ELMo model whose output has one row per token of several documents."""

    def __init__(self, elmo: ELMo) -> None:
        super().__init__()
        self.elmo = elmo

    def forward(self, sentences: list[list[str]], rows: list[int], n_tokens: int) -> Tensor:
        """Return the mixed vectors, (tokens, dim), zero for tokens that are not in a sentence.

        Args:
            sentences: The words of sentences.
            rows: Row of each word in the result, for all words of all sentences in order.
            n_tokens: Number of rows of the result.
        """
        output = self.elmo(self.elmo.character_ids(sentences))
        vectors = output.representations[0][output.mask]
        result: Tensor = vectors.new_zeros(n_tokens, vectors.shape[-1])
        return result.index_copy(0, torch.tensor(rows, device=vectors.device), vectors)
