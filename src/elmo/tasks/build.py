"""Dials and words to a model that can be trained, and to what turns words into its numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from elmo.config import TaskConfig
from elmo.embed.embedder import ELMo
from elmo.model.network import ELMoNetwork
from elmo.tasks.encoder import TaskEncoder
from elmo.tasks.frozen_layers import ComputedLayers, LayerSource, chosen_layers
from elmo.tasks.input_features import InputFeatures, TokenIndexer
from elmo.tasks.readers.raw_text import SplitFunction
from elmo.tasks.task_model import TaskModel
from elmo.tasks.task_types.task import Task
from elmo.tasks.word_vectors import WordVectors
from elmo.text.tokenizer import WhitespaceTokenizer, get_tokenizer


@dataclass(frozen=True)
class Built:
    """A model and what belongs to it.

    Attributes:
        model: on the host.
        indexer: makes its batches.
        elmo: whose layers it reads, frozen or as a part of it; None without.
        static: of its words; None without.
    """

    model: TaskModel
    indexer: TokenIndexer
    elmo: ELMo | None
    static: WordVectors | None


def load_elmo(config: TaskConfig) -> ELMo | None:
    """Read the ELMo that a config names."""
    if config.elmo.model is None:
        return None
    return ELMo.from_pretrained(config.elmo.model)


def splitter(config: TaskConfig, elmo: ELMo | None) -> SplitFunction:
    """Give what splits raw text: the tokeniser that is named, else the ELMo's, else white space."""
    if config.examples.tokenizer is not None:
        return get_tokenizer(config.examples.tokenizer).words
    # Asked for when a raw text comes: split words need no tokeniser, nor its package.
    return WhitespaceTokenizer().words if elmo is None else lambda text: elmo.tokenizer.words(text)


def build(
    config: TaskConfig,
    kind: Task,
    labels: Sequence[str],
    elmo: ELMo | None,
    *,
    layers: LayerSource | None = None,
    static: WordVectors | None = None,
) -> Built:
    """Make a model with its first weights, which the seed of the run decides.

    Args:
        config: its dials.
        kind: of task.
        labels: what is chosen from.
        elmo: whose layers it reads.
        layers: of a frozen ELMo, where they are known beforehand; computed where None.
        static: vectors of words.
    """
    chosen: list[int] = []
    network: ELMoNetwork | None = None
    if elmo is not None:
        chosen = chosen_layers(elmo, config.elmo.layers)
        if config.elmo.use == "tuned":
            network = elmo.network
            network.requires_grad_(False)
            network.bilm.requires_grad_(True)
            network.bilm.use_kernel(config.run.kernel)
            layers = None
        else:
            layers = layers or ComputedLayers(elmo, config.elmo.layers)
    sizes = {"n_layers": len(chosen), "elmo_dim": 0 if elmo is None else elmo.config.dim}
    # Whoever loads a model finds the numbers they draw as they were.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.run.seed)
        features = InputFeatures(
            elmo=config.elmo,
            words=config.word_features,
            network=network,
            chosen=chosen,
            word_vectors=None if static is None else _with_unknown(static.vectors),
            frozen_word_vectors=static.other_vectors
            if static is not None and static.others
            else None,
            n_indicators=kind.n_indicators,
            **sizes,
        )
        encoder = TaskEncoder(
            config=config.encoder, elmo=config.elmo, input_dim=features.dim, **sizes
        )
        head = kind.head(encoder.dim, labels, config.encoder)
    model = TaskModel(
        features=features, encoder=encoder, head=head, mix_penalty=config.elmo.mix_penalty
    )
    indexer = TokenIndexer(
        layers=layers,
        mapper=None if network is None or elmo is None else elmo.mapper,
        word_vector_rows=None if static is None else _rows(static),
        has_characters=config.word_features.characters == "bytes",
        max_ngram=config.encoder.char_ngrams,
        ngram_buckets=config.encoder.ngram_buckets,
    )
    return Built(model, indexer, elmo, static)


def _with_unknown(vectors: Tensor) -> Tensor:
    return torch.cat([torch.zeros_like(vectors[:1]), vectors])


def _rows(static: WordVectors) -> dict[str, int]:
    return {word: row for row, word in enumerate([*static.words, *static.others], 1)}


def layers_folder(config: TaskConfig) -> Path:
    """Give where layers are kept that are computed once."""
    return Path(config.cache) if config.cache else Path(config.out) / "layers"
