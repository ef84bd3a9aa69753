"""Builds a task model and its token indexer from a config."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from elmo.embed.embedder import ELMo
from elmo.kernels.torch_kernels import Kernels
from elmo.model.network import ELMoNetwork
from elmo.tasks.core.encoder import TaskEncoder
from elmo.tasks.core.frozen_layers import ComputedLayers, LayerSource, chosen_layers
from elmo.tasks.core.input_features import InputFeatures, TokenIndexer
from elmo.tasks.core.loaded_elmo import LoadedELMo, elmo_of
from elmo.tasks.core.task import Answer, Output, Target, TrainedTask
from elmo.tasks.core.task_model import TaskModel
from elmo.tasks.files.word_vectors import WordVectors
from elmo.tasks.registry.task_config import TaskConfig
from elmo.text.line_splitter import SplitFunction, line_splitter
from elmo.text.tokenizers_by_name import warn_about_words


@dataclass(frozen=True)
class BuiltModel:
    """A task model on the CPU, and what prepares its input, with ELMo and vectors if used."""

    model: TaskModel
    indexer: TokenIndexer
    elmo: LoadedELMo | None
    word_vectors: WordVectors | None


def task_tokenizer(config: TaskConfig, elmo: ELMo | None) -> str | None:
    """Return the name of the tokenizer for raw text; None if text is split at white space.

    It is the tokenizer set in the config or, by default, that of the ELMo model.
    """
    if config.examples.tokenizer is not None or elmo is None:
        return config.examples.tokenizer
    return elmo.config.text.tokenizer


def warn_about_tokenizer(config: TaskConfig, elmo: ELMo | None) -> None:
    """Warn if the config sets another tokenizer than that of the ELMo model."""
    tokenizer = config.examples.tokenizer
    if tokenizer is not None and elmo is not None and not config.examples.pretokenized:
        remedy = "Omit --tokenizer, or add --pretokenized if the text is already split into words"
        warn_about_words(tokenizer, elmo.config.text.tokenizer, f"{remedy} of that tokenizer")


def splitter(
    config: TaskConfig, elmo: ELMo | None, *, pretokenized: bool | None = None
) -> SplitFunction:
    """Return the function that splits a text into words.

    `pretokenized` words are separated by spaces. Default: as in the files of examples.
    """
    if pretokenized is None:
        pretokenized = config.examples.pretokenized
    tokenizer = task_tokenizer(config, elmo)
    if config.examples.tokenizer is not None:
        return line_splitter(tokenizer, pretokenized=pretokenized)
    # Load the tokenizer on first use: lists of words do not require its package.
    loaded: list[SplitFunction] = []

    def split(text: str) -> list[str]:
        if not loaded:
            loaded.append(line_splitter(tokenizer, pretokenized=pretokenized))
        return loaded[0](text)

    return split


def build(
    config: TaskConfig,
    task: TrainedTask[Target, Answer, Output],
    labels: Sequence[str],
    loaded: LoadedELMo | None,
    *,
    layers: LayerSource | None = None,
    word_vectors: WordVectors | None = None,
) -> BuiltModel:
    """Return a model with initial weights, which are determined by the seed of the run.

    Without `layers`, a frozen ELMo is run on each batch.
    """
    options = config.task_options
    elmo = elmo_of(loaded)
    chosen: list[int] = []
    network: ELMoNetwork | None = None
    if elmo is not None:
        chosen = chosen_layers(elmo, config.elmo.layers)
        if config.elmo.use == "tuned":
            network = elmo.network
            network.requires_grad_(False)
            network.bilm.requires_grad_(True)
            layers = None
        else:
            layers = layers or ComputedLayers(elmo, config.elmo.layers)
    sizes = {"n_layers": len(chosen), "elmo_dim": 0 if elmo is None else elmo.config.dim}
    # Loading a model must not change the caller's random state.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.run.seed)
        features = InputFeatures(
            elmo=config.elmo,
            words=config.word_features,
            network=network,
            chosen=chosen,
            word_vectors=None if word_vectors is None else _with_unknown(word_vectors.vectors),
            frozen_word_vectors=word_vectors.other_vectors
            if word_vectors is not None and word_vectors.others
            else None,
            n_indicators=task.n_indicators,
            kernels=Kernels(config.run.kernel),
            **sizes,
        )
        encoder = TaskEncoder(
            config=config.encoder, elmo=config.elmo, input_dim=features.dim, **sizes
        )
        head = task.head(encoder.dim, labels, config.encoder, options)
    model = TaskModel(
        features=features, encoder=encoder, head=head, mix_penalty=config.elmo.mix_penalty
    )
    indexer = TokenIndexer(
        layers=layers,
        mapper=None if network is None or elmo is None else elmo.mapper,
        word_vector_rows=None if word_vectors is None else _rows(word_vectors),
        has_characters=config.word_features.characters == "bytes",
        ngrams=task.char_ngrams(options),
    )
    return BuiltModel(model, indexer, loaded, word_vectors)


def _with_unknown(vectors: Tensor) -> Tensor:
    """Prepend a zero row for unknown words."""
    return torch.cat([torch.zeros_like(vectors[:1]), vectors])


def _rows(word_vectors: WordVectors) -> dict[str, int]:
    """Return the embedding row of each word, starting at 1; row 0 is for unknown words."""
    return {word: row for row, word in enumerate([*word_vectors.words, *word_vectors.others], 1)}


def layers_folder(config: TaskConfig) -> Path:
    """Return the folder for precomputed layers."""
    return Path(config.cache) if config.cache else Path(config.out) / "layers"
