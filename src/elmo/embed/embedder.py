"""The public `ELMo` class, which combines a network with its tokenizer and character mapper."""

import dataclasses
import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from elmo.config import LayerNorm, Layers, ModelConfig, Pooling, State, Storage
from elmo.embed.encoding import EncodingRun
from elmo.embed.kept_softmax import KeptSoftmax, fill_missing_softmax
from elmo.embed.layer_selection import POOLINGS, pool
from elmo.errors import ConfigError, InputError
from elmo.formats import hub, model_folder
from elmo.formats.load import read
from elmo.formats.mixes import with_mixes
from elmo.formats.pretrained import Pretrained
from elmo.inference.engine_slot import EngineSlot
from elmo.inference.word_cache import WordCache
from elmo.kernels.device import move
from elmo.model.bilm import distinct_rows
from elmo.model.lstm import LSTMState
from elmo.model.network import ELMoNetwork, ELMoOutput
from elmo.progress import Progress
from elmo.text.korean import KoreanTokenizer, warn_if_decomposed
from elmo.text.text_values import check_string, iterate_sentences, sentence_words
from elmo.text.token_batches import Sentence, token_mapper
from elmo.text.tokenizer import (
    Token,
    Tokenizer,
    WhitespaceTokenizer,
    get_tokenizer,
    require_known,
)


class ELMo(nn.Module):
    """ELMo contextual word vectors (Peters et al., 2018).

    This is an ordinary `nn.Module`: use it as a layer in a larger model, train only its layer
    mixes, or fine-tune all weights. `encode` takes strings or lists of words; `forward` takes ids
    from `character_ids`.
    """

    def __init__(
        self,
        pretrained: Pretrained,
        *,
        dropout: float = 0.0,
        requires_grad: bool = False,
        keep_sentence_boundaries: bool = False,
        scalar_mix_parameters: Sequence[float] | None = None,
        include_softmax: bool = False,
    ) -> None:
        """Build the network from loaded weights; `from_pretrained` documents the arguments."""
        super().__init__()
        config = pretrained.config
        self.config: ModelConfig = config
        self.origin = pretrained.origin
        self.notes = pretrained.notes
        self.vocabulary = pretrained.vocabulary
        self._characters = pretrained.characters
        self._words = pretrained.words
        self._options = pretrained.options
        self.training_record = pretrained.training
        self.attribution = pretrained.attribution
        require_known(self._tokenizer_name)
        self.mapper = token_mapper(config, pretrained.characters, pretrained.words)
        fixed = None if scalar_mix_parameters is None else [float(v) for v in scalar_mix_parameters]
        self._engines = EngineSlot()
        self._softmax = KeptSoftmax({} if include_softmax else pretrained.weights)
        if self._softmax.weights:
            config = dataclasses.replace(config, n_softmax_words=0, softmax_cutoffs=())
        with torch.device("meta"):
            self.network = ELMoNetwork(
                config=config,
                dropout=dropout,
                keep_boundaries=keep_sentence_boundaries,
                fixed_mix=fixed,
            )
        weights = {
            name: value
            for name, value in pretrained.weights.items()
            if name not in self._softmax.weights
        }
        self.network.load_state_dict(weights, assign=True)
        for part in (self.network.bilm, self.network.softmax):
            if part is not None:
                part.requires_grad_(requires_grad)
        # Checkpoints load whether or not they contain the softmax. The hooks belong to the network,
        # which fine-tuned task models use without this class.
        hook = fill_missing_softmax if include_softmax else self._softmax.load_from
        self.network.register_load_state_dict_pre_hook(hook)  # type: ignore[no-untyped-call]

    # ------------------------------------------------------------------------ load and save

    @classmethod
    def from_pretrained(
        cls,
        source: str | Path | None = None,
        *,
        options: str | Path | None = None,
        weights: str | Path | None = None,
        vocab: str | Path | None = None,
        softmax: str | Path | None = None,
        token_embeddings: str | Path | None = None,
        tokenizer: str | None = None,
        num_output_representations: int = 1,
        dropout: float = 0.0,
        requires_grad: bool = False,
        do_layer_norm: bool | LayerNorm = False,
        keep_sentence_boundaries: bool = False,
        scalar_mix_parameters: Sequence[float] | None = None,
        use_top_only: bool = False,
        include_softmax: bool = False,
    ) -> "ELMo":
        """Load a model; its format is detected automatically.

        Args:
            source: Name of a bundled model, model folder, hub id, or a file or folder written by
                another ELMo implementation (bilm-tf, AllenNLP, ELMoForManyLangs).
            options: Path of options.json, used together with `weights`.
            weights: Path of weights.hdf5, used together with `options`.
            vocab: Vocabulary file, if it is not next to the weights.
            softmax: HDF5 file with the softmax weights of the language model.
            token_embeddings: HDF5 file with precomputed vectors for the words in the vocabulary;
                the character CNN is used for all other words.
            tokenizer: Name of the tokenizer that `encode` applies to strings, such as "english" or
                "spacy:blank-en"; it is saved with the model. None uses the tokenizer saved in the
                model, or whitespace splitting if there is none.
            num_output_representations: Number of independent layer mixes; mixes saved in the model
                come first.
            dropout: Dropout rate applied to each representation during training.
            requires_grad: Whether to train the whole network instead of only the layer mixes.
            do_layer_norm: Layer normalization before mixing: True as in AllenNLP, "bilm-tf" as in
                bilm-tf, "none" to disable it. False uses the setting saved with the mix.
            keep_sentence_boundaries: Whether the output of `forward` includes the boundary tokens.
            scalar_mix_parameters: Fixed mix weights, one per layer; a softmax normalizes them.
            use_top_only: Whether to use only the scaled top layer, without mix weights. False uses
                the setting saved with the mix.
            include_softmax: Whether `state_dict()` and `parameters()` include the softmax of the
                language model. Vectors do not depend on it, and `save_pretrained` saves it anyway.
        """
        pretrained = read(
            source,
            options=options,
            weights=weights,
            vocab=vocab,
            softmax=softmax,
            token_embeddings=token_embeddings,
        )
        if tokenizer is not None:
            pretrained = pretrained.with_tokenizer(tokenizer)
        pretrained = with_mixes(
            pretrained,
            n_mixes=num_output_representations,
            layer_norm=do_layer_norm,
            top_only=use_top_only,
            fixed=scalar_mix_parameters,
        )
        return cls(
            pretrained,
            dropout=dropout,
            requires_grad=requires_grad,
            keep_sentence_boundaries=keep_sentence_boundaries,
            scalar_mix_parameters=scalar_mix_parameters,
            include_softmax=include_softmax,
        )

    def to_pretrained(self) -> Pretrained:
        """Return the current config, weights and vocabularies as a `Pretrained` object."""
        weights = {name: value.detach().cpu() for name, value in self.network.state_dict().items()}
        dtype = next(self.network.bilm.parameters()).dtype
        weights |= {name: value.to(dtype) for name, value in self._softmax.weights.items()}
        return Pretrained(
            self.config,
            weights,
            self.origin,
            self.vocabulary,
            self._characters,
            self._words,
            self.notes,
            self._options,
            training=self.training_record,
            attribution=self.attribution,
        )

    def save_pretrained(self, folder: str | Path, storage: Storage = "float32") -> None:
        """Save the model to a folder atomically, for loading with `from_pretrained`.

        Args:
            folder: Folder to write; it is created if needed, and an existing model is replaced.
            storage: Storage format of the weights: "float32", "float16" or "int8" (a quarter of the
                size, with one scale per row). Weights are always converted to float32 on loading.
        """
        model_folder.write(self.to_pretrained(), Path(folder), storage)

    def push_to_hub(self, repository: str, *, private: bool = False) -> str:
        """Upload the model folder to the Hugging Face Hub and return its URL.

        Args:
            repository: Hub id, "owner/name".
            private: Whether the repository is private if it is newly created.
        """
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            return hub.upload(Path(folder), repository, private=private)

    # ------------------------------------------------------------------------ text in

    @property
    def _tokenizer_name(self) -> str:
        return self.config.text.tokenizer or WhitespaceTokenizer.name

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer, created on first use; it is not needed for lists of words."""
        return get_tokenizer(self._tokenizer_name)

    def tokenize(self, text: str) -> list[Token]:
        """Split a text with the model's tokenizer into tokens with start and end offsets."""
        check_string(text, "tokenize")
        return self.tokenizer.tokens(text)

    def character_ids(self, sentences: str | Iterable[str | Sentence]) -> Tensor:
        """Return the input ids for `forward`, of shape (batch, words + 2, chars).

        The two additional positions are boundary tokens. As in `encode`, a string is one sentence.
        If the model has a word vocabulary, the last column contains the word ids.
        """
        if isinstance(sentences, str):
            sentences = [sentences]
        ids = torch.from_numpy(self.mapper.batch(self._split(sentences)))
        return ids.to(next(self.parameters()).device)

    def _split(self, sentences: Iterable[str | Sentence]) -> list[Sentence]:
        split: list[Sentence] = []
        for number, sentence in enumerate(iterate_sentences(sentences)):
            if isinstance(sentence, str):
                split.append(self.tokenizer.words(sentence))
            else:
                split.append(sentence_words(sentence, number))
                if self._tokenizer_name == KoreanTokenizer.name:
                    warn_if_decomposed(" ".join(split[-1]))
        return split

    # ------------------------------------------------------------------------ vectors out

    def forward(
        self,
        character_ids: Tensor,
        mask: Tensor | None = None,
        state: LSTMState | None = None,
    ) -> ELMoOutput:
        """Run the network on character ids.

        Args:
            character_ids: Ids of shape (batch, words + 2, chars), as returned by `character_ids`.
            mask: Mask of shape (batch, words + 2), True for tokens and False for padding, which
                must be on the right. None derives the mask from the ids.
            state: Initial LSTM state, taken from an earlier output; None for the zero state.

        Returns:
            The representations, the layer outputs, the mask and the final LSTM state.

        Raises:
            InputError: The shapes or values of the ids, the mask or the state are invalid.
        """
        ids = self._with_word_column(character_ids)
        if mask is None:
            mask = (ids != 0).any(dim=2)
        elif not isinstance(mask, Tensor):
            raise InputError(f"mask has type {type(mask).__name__}, expected a tensor.")
        elif mask.shape != ids.shape[:2]:
            raise InputError(
                f"mask has shape {tuple(mask.shape)}, expected {tuple(ids.shape[:2])} to match "
                "character_ids."
            )
        mask = mask.bool()
        if state is not None and not isinstance(state, LSTMState):
            raise InputError(
                f"state has type {type(state).__name__}, expected the state of an earlier output."
            )
        if state is not None and state.batch != ids.shape[0]:
            raise InputError(
                f"state has {state.batch} rows, but the batch has {ids.shape[0]}. Use "
                f"state.rows({ids.shape[0]}), which drops rows or adds rows of zeros."
            )
        lengths = None
        # On a CPU the values are checked, and the lengths avoid computing padding. On a GPU this
        # would force a synchronization.
        if ids.device.type == "cpu" and not torch.compiler.is_compiling():
            self._check_values(ids, mask)
            lengths = mask.sum(dim=1).tolist()
        rows, index = distinct_rows(ids)
        n_positions = 0 if lengths is None else sum(lengths)
        kernels = self._engines.kernels(self.network.bilm.parameters(), n_positions)
        output: ELMoOutput = self.network(rows, index, mask, state, lengths, kernels=kernels)
        return output

    def refresh(self) -> None:
        """Make the next call use the current weights, and clear word caches on their next use.

        On a CPU the model computes with packed copies of its weights. They are updated when a
        weight is changed by an optimizer, `load_state_dict`, `to`, assignment or any operation in
        place, and calls of at least 1024 words compare all weights. Call this method after writing
        to weights through `weight.data`, NumPy or another alias of their memory, which PyTorch does
        not record.
        """
        self._engines.drop()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "ELMo":
        """Free the packed copies when the model is moved or converted, by `to` or `half`."""
        self._engines.drop()
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def _check_values(self, ids: Tensor, mask: Tensor) -> None:
        if bool((mask[:, 1:] & ~mask[:, :-1]).any()):
            raise InputError(
                "mask has gaps: in each row, all True positions must come before the padding."
            )
        encoder = self.config.encoder
        n_words = 1 if encoder.n_words else 0
        characters, words = ids[:, :, : ids.shape[2] - n_words], ids[:, :, ids.shape[2] - n_words :]
        for part, limit in ((characters, encoder.n_characters), (words, encoder.n_words)):
            if part.numel() and (int(part.min()) < 0 or int(part.max()) >= limit):
                raise InputError(
                    f"character_ids has values from {int(part.min())} to {int(part.max())}, "
                    f"expected 0 to {limit - 1}. Create the ids with this model's character_ids()."
                )

    def _with_word_column(self, ids: Tensor) -> Tensor:
        """Check the shape of the ids, and add a word id column if it is optional and missing."""
        if not isinstance(ids, Tensor):
            raise InputError(
                f"character_ids has type {type(ids).__name__}, expected a tensor. Call "
                "elmo(elmo.character_ids(sentences)), or elmo.encode(sentences) for the vectors of "
                "text."
            )
        n_columns = len(self.mapper.boundaries()[0])
        encoder = self.config.encoder
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

    def encode(
        self,
        sentences: str | Iterable[str | Sentence],
        *,
        layers: Layers = "average",
        pooling: Pooling | None = None,
        state: State = "reset",
        batch_size: int | None = None,
        device: str | torch.device | None = None,
        precision: torch.dtype | str | None = None,
        show_progress_bar: bool = False,
        convert_to_tensor: bool = False,
        cache: WordCache | None = None,
    ) -> Any:
        """Encode sentences as word vectors, or as one vector per sentence.

        Args:
            sentences: One sentence as a string, or a list of sentences, each a string or a list of
                words.
            layers: "average", "mix" (the trained layer mix), "top", "all" or a layer number.
            pooling: None for word vectors; "mean", "max" or "first-last" for one vector per
                sentence.
            state: "reset" starts every sentence from the zero state, so that its vectors do not
                depend on other sentences. "carry" processes the batches in order, and each batch
                row starts from the LSTM state of that row in the previous batch of this call, as in
                bilm-tf and AllenNLP.
            batch_size: Number of sentences per batch. Default: chosen per device; 32 with
                state="carry".
            device: Device to which the model is moved first.
            precision: A dtype such as torch.bfloat16 or its name; "int8" (only on CPUs, with some
                loss of accuracy); or "auto", which is bfloat16 if the device is fast at it and
                float32 otherwise. Default: the dtype of the weights. On a CPU without fast half
                precision, float16 and bfloat16 are computed in float32 and converted at the end.
            show_progress_bar: Whether to show progress on standard error.
            convert_to_tensor: Whether to return tensors on the device, in the precision of the
                computation, instead of NumPy arrays.
            cache: Cache of context-independent word vectors that is reused between calls, so that
                the character CNN computes each word only once.

        Returns:
            For a string, an array of shape (words, dim), or (layers, words, dim) with layers="all";
            for a list, a list of such arrays in the same order. With pooling, an array of shape
            (dim,) for a string or (sentences, dim) for a list.

        Raises:
            ConfigError: An argument is invalid.
            InputError: A sentence is invalid or too long for the memory of the device.
        """
        if isinstance(sentences, str):
            results = self.encode(
                [sentences],
                layers=layers,
                pooling=pooling,
                state=state,
                device=device,
                precision=precision,
                convert_to_tensor=convert_to_tensor,
                cache=cache,
            )
            return results[0]
        if state not in ("reset", "carry"):
            raise ConfigError(f"Unknown state {state!r}. Expected one of: reset, carry.")
        if pooling is not None and pooling not in POOLINGS:
            raise ConfigError(
                f"Unknown pooling {pooling!r}. Expected one of: {', '.join(POOLINGS)}, or None."
            )
        if device is not None:
            move(self, device)
        run = self.encoding_run(
            layers=layers,
            batch_size=batch_size,
            precision=precision,
            keep_on_device=convert_to_tensor,
            cache=cache,
        )
        words = self._split(sentences)
        with Progress("encode", len(words), "sentences", show_progress_bar) as progress:
            vectors = run.encode(words, state, progress.advance)
        if pooling is not None:
            shape = (self.config.n_layers, 0) if layers == "all" else (0,)
            empty = torch.zeros(0, *shape[:-1], self.config.dim)
            pooled = [pool(torch.as_tensor(item), pooling) for item in vectors]
            stacked = torch.stack(pooled) if pooled else empty
            return stacked if convert_to_tensor else stacked.numpy()
        return vectors

    def encoding_run(
        self,
        *,
        layers: Layers = "average",
        batch_size: int | None = None,
        precision: torch.dtype | str | None = None,
        keep_on_device: bool = False,
        host_dtype: torch.dtype = torch.float32,
        cache: WordCache | None = None,
    ) -> EncodingRun:
        """Return an `EncodingRun`, for callers that manage batches or states themselves.

        `EncodingRun` documents the arguments.
        """
        return EncodingRun(
            self.network,
            self.mapper,
            layers=layers,
            batch_size=batch_size,
            precision=precision,
            keep_on_device=keep_on_device,
            host_dtype=host_dtype,
            cache=cache,
            engines=self._engines,
        )

    def mix_penalty(self) -> Tensor:
        """Return the sum of the squared mix weights, for use as an L2 penalty in a loss."""
        return self.network.mix_penalty()
