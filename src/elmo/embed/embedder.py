"""The public `ELMo` class, which combines a network with its tokenizer and character mapper."""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Unpack, overload

import torch
from torch import Tensor, nn

from elmo.config import LayerNorm, Layers, ModelConfig, Pooling, State, Storage
from elmo.embed import encode_options as types
from elmo.embed.encoding import EncodingRun
from elmo.embed.forward_input import check_state, check_values, token_mask, with_word_column
from elmo.embed.host_arrays import Array
from elmo.embed.kept_softmax import KeptSoftmax, fill_missing_softmax, load_network
from elmo.embed.sentence_groups import Vectors
from elmo.formats import hub, model_folder
from elmo.formats.attribution import LANGUAGE
from elmo.formats.load import read
from elmo.formats.mixes import with_mixes
from elmo.formats.pretrained import Pretrained
from elmo.inference.engine_slot import EngineSlot
from elmo.inference.word_cache import WordCache
from elmo.kernels.device import available_device, move
from elmo.model.bilm import distinct_rows
from elmo.model.losses import Softmax
from elmo.model.lstm import LSTMState
from elmo.model.network import ELMoOutput
from elmo.progress import Progress
from elmo.text.korean import KoreanTokenizer, warn_if_decomposed
from elmo.text.scripts import ScriptCheck
from elmo.text.text_values import check_string, iterate_sentences, sentence_words
from elmo.text.token_batches import Sentence, token_mapper
from elmo.text.tokenizer import Token, Tokenizer, WhitespaceTokenizer
from elmo.text.tokenizers_by_name import get_tokenizer, require_known, warn_about_words


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
        self.config: ModelConfig = pretrained.config
        self.origin, self.notes = pretrained.origin, pretrained.notes
        self.vocabulary, self._options = pretrained.vocabulary, pretrained.options
        self._characters, self._words = pretrained.characters, pretrained.words
        self.training_record, self.attribution = pretrained.training, pretrained.attribution
        self.script_check = ScriptCheck(self.attribution.get(LANGUAGE))
        require_known(self._tokenizer_name)
        self.mapper = token_mapper(self.config, pretrained.characters, pretrained.words)
        kept = {} if include_softmax else pretrained.weights
        self._engines, self._softmax = EngineSlot(), KeptSoftmax(kept)
        self.network = load_network(
            pretrained,
            self._softmax,
            requires_grad=requires_grad,
            dropout=dropout,
            keep_boundaries=keep_sentence_boundaries,
            fixed_mix=scalar_mix_parameters,
        )
        # Checkpoints load whether or not they contain the softmax. The hooks belong to the network,
        # which fine-tuned task models use without this class.
        hook = fill_missing_softmax if include_softmax else self._softmax.load_from
        self.network.register_load_state_dict_pre_hook(hook)  # type: ignore[no-untyped-call]

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
            require_known(tokenizer)
            if tokenizer != WhitespaceTokenizer.name:  # that of text that is already tokenized
                warn_about_words(
                    tokenizer, pretrained.config.text.tokenizer, "Omit the argument tokenizer"
                )
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
        ids = torch.from_numpy(self.mapper.batch(self._split(sentences)))
        return ids.to(next(self.parameters()).device)

    def _split(self, sentences: str | Iterable[str | Sentence]) -> list[Sentence]:
        split: list[Sentence] = []
        sentences = [sentences] if isinstance(sentences, str) else sentences
        for number, sentence in enumerate(iterate_sentences(sentences)):
            if isinstance(sentence, str):
                split.append(self.tokenizer.words(sentence))
            else:
                split.append(sentence_words(sentence, number))
                if self._tokenizer_name == KoreanTokenizer.name:
                    warn_if_decomposed(" ".join(split[-1]))
        self.script_check.check(split)
        return split

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
        ids = with_word_column(character_ids, self.config.encoder, self.mapper)
        mask = token_mask(mask, ids)
        check_state(state, ids.shape[0])
        lengths = None
        # On a CPU the values are checked, and the lengths avoid computing padding. On a GPU this
        # would force a synchronization.
        if ids.device.type == "cpu" and not torch.compiler.is_compiling():
            check_values(ids, mask, self.config.encoder)
            lengths = mask.sum(dim=1).tolist()
        rows, index = distinct_rows(ids)
        n_positions = 0 if lengths is None else sum(lengths)
        kernels = self._engines.kernels(self.network.bilm.named_parameters(), n_positions)
        output: ELMoOutput = self.network(rows, index, mask, state, lengths, kernels=kernels)
        return output

    def refresh(self) -> None:
        """Make the next call use the current weights, and clear word caches on their next use.

        On a CPU the model computes with packed copies of its weights, which follow all changes that
        PyTorch records, and steps of fused optimizers. Call this method after a change that neither
        covers: a write through `weight.data`, NumPy or another alias of the memory, or training of
        `network` with a fused optimizer if the weights are frozen before the next call of the
        model. Only long calls detect such changes by themselves; docs/troubleshooting.md has the
        numbers.
        """
        self._engines.drop()

    def requires_grad_(self, requires_grad: bool = True) -> "ELMo":
        """Set whether all weights are trained; the next call uses the current weights.

        Afterwards it is unknown whether a fused optimizer changed frozen weights in the meantime.
        """
        self._engines.drop()
        super().requires_grad_(requires_grad)
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "ELMo":
        """Free the packed copies when the model is moved or converted, by `to` or `half`."""
        self._engines.drop()
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    @overload
    def encode(self, sentences: str, **options: Unpack[types.ToArray]) -> Array: ...
    @overload
    def encode(self, sentences: str, **options: Unpack[types.ToTensor]) -> Tensor: ...
    @overload
    def encode(
        self,
        sentences: types.Sentences | Iterator[str | Sentence],
        **options: Unpack[types.WordsToArray],
    ) -> list[Array]: ...
    @overload
    def encode(
        self,
        sentences: types.Sentences | Iterator[str | Sentence],
        **options: Unpack[types.WordsToTensor],
    ) -> list[Tensor]: ...
    @overload
    def encode(
        self,
        sentences: types.Sentences | Iterator[str | Sentence],
        **options: Unpack[types.PooledToArray],
    ) -> Array: ...
    @overload
    def encode(
        self,
        sentences: types.Sentences | Iterator[str | Sentence],
        **options: Unpack[types.PooledToTensor],
    ) -> Tensor: ...
    # For arguments of a less specific type, such as `str | list[str]` or `bool`.
    @overload
    def encode(
        self, sentences: str | Iterable[str | Sentence], **options: Unpack[types.AnyResult]
    ) -> Array | Tensor | list[Array] | list[Tensor]: ...
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
    ) -> Vectors | Sequence[Vectors]:
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
                loss of accuracy); "int8x3" (only on CPUs with AMX, almost as precise as float32);
                or "auto", which is bfloat16 if the device is fast at it and float32 otherwise.
                Default: the dtype of the weights. On a CPU without fast half precision, float16
                and bfloat16 are computed in float32 and converted at the end.
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
        # The model is moved only after everything else has been checked.
        types.check_encode_arguments(
            state=state,
            pooling=pooling,
            precision=precision,
            show_progress_bar=show_progress_bar,
            convert_to_tensor=convert_to_tensor,
        )
        run = self.encoding_run(
            layers=layers,
            pooling=pooling,
            batch_size=batch_size,
            precision=precision,
            keep_on_device=convert_to_tensor,
            cache=cache,
            device=None if device is None else available_device(device),
        )
        words = self._split(sentences)
        if device is not None:
            move(self, run.device)
        with Progress("encode", len(words), "sentences", bool(show_progress_bar)) as progress:
            vectors = run.encode(words, state, progress.advance)
        if isinstance(sentences, str):
            return vectors[0]
        if pooling is None:
            return vectors
        shape = (self.config.n_layers, self.config.dim) if layers == "all" else (self.config.dim,)
        pooled = [torch.as_tensor(item) for item in vectors]
        result = torch.stack(pooled) if pooled else torch.zeros(0, *shape)
        return result if convert_to_tensor else result.numpy()

    def encoding_run(
        self,
        *,
        layers: Layers = "average",
        pooling: Pooling | None = None,
        batch_size: int | None = None,
        precision: torch.dtype | str | None = None,
        keep_on_device: bool = False,
        host_dtype: torch.dtype = torch.float32,
        cache: WordCache | None = None,
        device: torch.device | None = None,
        boundaries: bool = False,
    ) -> EncodingRun:
        """Return an `EncodingRun`, for callers that manage batches or states themselves.

        `EncodingRun` documents the arguments.
        """
        return EncodingRun(
            self.network,
            self.mapper,
            layers=layers,
            pooling=pooling,
            batch_size=batch_size,
            precision=precision,
            keep_on_device=keep_on_device,
            host_dtype=host_dtype,
            cache=cache,
            engines=self._engines,
            device=device,
            boundaries=boundaries,
        )

    def softmax(self) -> Softmax | None:
        """Return the softmax of the language model, or None if the model has none.

        It shares the weights of this model. Unless they were loaded with `include_softmax`, they
        are on the CPU.
        """
        return self._softmax.module(self.config) or self.network.softmax

    def mix_penalty(self) -> Tensor:
        """Return the sum of the squared mix weights, for use as an L2 penalty in a loss."""
        return self.network.mix_penalty()
