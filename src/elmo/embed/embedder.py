"""`ELMo`, the public module: the network with its tokeniser and character mapper."""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from elmo.config import LayerNorm, Layers, ModelConfig, Pooling, State, Storage
from elmo.embed.encoding import EncodingRun
from elmo.embed.layer_selection import POOLINGS, pool
from elmo.embed.word_cache import WordCache
from elmo.errors import ConfigError, InputError
from elmo.formats import hub, model_folder
from elmo.formats.load import read
from elmo.formats.mixes import with_mixes
from elmo.formats.pretrained import Pretrained
from elmo.kernels.device import move
from elmo.model.bilm import distinct_rows
from elmo.model.lstm import LSTMState
from elmo.model.network import ELMoNetwork, ELMoOutput
from elmo.progress import Progress
from elmo.text.token_batches import Sentence, token_mapper
from elmo.text.tokenizer import (
    Token,
    Tokenizer,
    WhitespaceTokenizer,
    get_tokenizer,
    require_known,
)


class ELMo(nn.Module):
    """Vectors for words in context (Peters et al., 2018).

    A plain `nn.Module`: put it into a model, train its mixes, or unfreeze it whole. `encode` takes
    strings or lists of words; `forward` takes the ids that `character_ids` makes of them.
    """

    def __init__(
        self,
        pretrained: Pretrained,
        *,
        dropout: float = 0.0,
        requires_grad: bool = False,
        keep_sentence_boundaries: bool = False,
        scalar_mix_parameters: Sequence[float] | None = None,
    ) -> None:
        """Build the network around weights that were read; see `from_pretrained`."""
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
        require_known(self._tokenizer_name)
        self.mapper = token_mapper(config, pretrained.characters, pretrained.words)
        fixed = None if scalar_mix_parameters is None else [float(v) for v in scalar_mix_parameters]
        with torch.device("meta"):
            self.network = ELMoNetwork(
                config=config,
                dropout=dropout,
                keep_boundaries=keep_sentence_boundaries,
                fixed_mix=fixed,
            )
        self.network.load_state_dict(pretrained.weights, assign=True)
        for part in (self.network.bilm, self.network.softmax):
            if part is not None:
                part.requires_grad_(requires_grad)

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
    ) -> "ELMo":
        """Load a model of any known format, found out by looking inside.

        Args:
            source: a bundled name, a folder, a hub id, or any older program's file or folder.
            options: options.json; with `weights` the classic pair.
            weights: weights.hdf5.
            vocab: vocabulary file, where it does not lie beside the weights.
            softmax: HDF5 file with the softmax of the language model.
            token_embeddings: HDF5 file with the vectors of the vocabulary, computed beforehand;
                words outside it are spelled out.
            tokenizer: how `encode` splits strings, recorded when the model is saved; None takes
                what the model records, or white space.
            num_output_representations: independent mixes of the layers; those the model came with
                are the first of them.
            dropout: applied to each representation in training.
            requires_grad: train the whole network, not the mixes alone.
            do_layer_norm: normalise layers before mixing, as AllenNLP does (True), or as
                "bilm-tf" does; False leaves a mix as it was trained, "none" never normalises.
            keep_sentence_boundaries: `forward` leaves the sentence marks in.
            scalar_mix_parameters: fixed weights of the layers before the softmax.
            use_top_only: scale the top layer alone, without weights; False leaves a mix as it was
                trained.
        """
        found = read(
            source,
            options=options,
            weights=weights,
            vocab=vocab,
            softmax=softmax,
            token_embeddings=token_embeddings,
        )
        if tokenizer is not None:
            found = found.with_tokenizer(tokenizer)
        found = with_mixes(
            found,
            n_mixes=num_output_representations,
            layer_norm=do_layer_norm,
            top_only=use_top_only,
            fixed=scalar_mix_parameters,
        )
        return cls(
            found,
            dropout=dropout,
            requires_grad=requires_grad,
            keep_sentence_boundaries=keep_sentence_boundaries,
            scalar_mix_parameters=scalar_mix_parameters,
        )

    def to_pretrained(self) -> Pretrained:
        """Give the model as plain data, as it is now."""
        return Pretrained(
            self.config,
            {name: value.detach().cpu() for name, value in self.network.state_dict().items()},
            self.origin,
            self.vocabulary,
            self._characters,
            self._words,
            self.notes,
            self._options,
            training=self.training_record,
        )

    def save_pretrained(self, folder: str | Path, dtype: Storage = "float32") -> None:
        """Write a model folder that `from_pretrained` reads: all of it, or nothing.

        Args:
            folder: made where it does not exist; an older model in it is replaced.
            dtype: how the weights are stored, "float32", "float16" or "int8" (a quarter of the
                size, with one scale a row); read, they are float32 again.
        """
        model_folder.write(self.to_pretrained(), Path(folder), dtype)

    def push_to_hub(self, repository: str, *, private: bool = False) -> str:
        """Upload the model folder to a hub and give its address.

        Args:
            repository: hub id, owner/name.
            private: make a new repository private.
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
        """The model's tokeniser, built when it is first asked for: split words need none."""
        return get_tokenizer(self._tokenizer_name)

    def tokenize(self, text: str) -> list[Token]:
        """Split a text by the model's tokeniser into words with their start and end."""
        return self.tokenizer.tokens(text)

    def character_ids(self, sentences: str | Iterable[str | Sentence]) -> Tensor:
        """Give the ids `forward` takes, (batch, words + 2, chars), sentence marks in.

        A string is one sentence, as in `encode`. Where the model has a word table, its word id is
        one more column at the end.
        """
        if isinstance(sentences, str):
            sentences = [sentences]
        ids = torch.from_numpy(self.mapper.batch(self._split(sentences)))
        return ids.to(next(self.parameters()).device)

    def _split(self, sentences: Iterable[str | Sentence]) -> list[Sentence]:
        split: list[Sentence] = []
        for number, sentence in enumerate(_iterate(sentences, "sentences", "sentences")):
            if isinstance(sentence, str):
                split.append(self.tokenizer.words(sentence))
                continue
            words = list(_iterate(sentence, f"sentence {number}", "words"))
            # One question for all of a sentence: one a word takes longer than a GPU has.
            if set(map(type, words)) - {str}:
                _check_strings(words, number)
            split.append(words)
        return split

    # ------------------------------------------------------------------------ vectors out

    def forward(
        self,
        character_ids: Tensor,
        mask: Tensor | None = None,
        state: LSTMState | None = None,
    ) -> ELMoOutput:
        """Run the network on ids, with gradients where they are asked for.

        Args:
            character_ids: (batch, words + 2, chars), from `character_ids`.
            mask: true at real positions, on the left, (batch, words + 2); found from the ids where
                None.
            state: state to start from, of an earlier result; zeros where None.

        Returns:
            Representations, layers, mask and state.
        """
        ids = self._with_word_column(character_ids)
        if mask is None:
            mask = (ids != 0).any(dim=2)
        elif mask.shape != ids.shape[:2]:
            raise InputError(f"mask has shape {tuple(mask.shape)}, the ids {tuple(ids.shape[:2])}")
        mask = mask.bool()
        if state is not None and state.batch != ids.shape[0]:
            raise InputError(
                f"state has {state.batch} rows, the batch {ids.shape[0]}: "
                f"state.rows({ids.shape[0]}) gives the first rows, new ones being zero"
            )
        lengths = None
        # Values on the host can be checked, and lengths save the work on padding; a GPU would
        # have to be waited for.
        if ids.device.type == "cpu" and not torch.compiler.is_compiling():
            self._check_values(ids, mask)
            lengths = mask.sum(dim=1).tolist()
        rows, index = distinct_rows(ids)
        output: ELMoOutput = self.network(rows, index, mask, state, lengths)
        return output

    def _check_values(self, ids: Tensor, mask: Tensor) -> None:
        if bool((mask[:, 1:] & ~mask[:, :-1]).any()):
            raise InputError("mask has gaps: real positions stand together on the left of a row")
        encoder = self.config.encoder
        n_words = 1 if encoder.n_words else 0
        characters, words = ids[:, :, : ids.shape[2] - n_words], ids[:, :, ids.shape[2] - n_words :]
        for part, limit in ((characters, encoder.n_characters), (words, encoder.n_words)):
            if part.numel() and (int(part.min()) < 0 or int(part.max()) >= limit):
                raise InputError(
                    f"character_ids holds values from {int(part.min())} to {int(part.max())}, this "
                    f"model takes 0 to {limit - 1} there: make them with its own character_ids"
                )

    def _with_word_column(self, ids: Tensor) -> Tensor:
        """Check the shape; characters alone are enough where words are a cache."""
        n_columns = len(self.mapper.boundaries()[0])
        encoder = self.config.encoder
        if ids.dim() != 3 or ids.is_floating_point() or ids.shape[1] < 2:
            raise InputError(
                f"character_ids has shape {tuple(ids.shape)} and type {ids.dtype}; expected whole "
                f"numbers (batch, words + 2, {n_columns})"
            )
        cached = encoder.n_words and encoder.word_role == "cache"
        if cached and ids.shape[2] == n_columns - 1:
            return torch.cat([ids, torch.zeros_like(ids[:, :, :1])], dim=2)
        if ids.shape[2] != n_columns:
            raise InputError(
                f"character_ids has {ids.shape[2]} columns a token, this model takes {n_columns}: "
                "make them with this model's character_ids"
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
        """Give the vectors of words, or one vector a sentence.

        Args:
            sentences: one string (one sentence), or a list of sentences, each a string or a list of
                words.
            layers: "average", "mix" (trained), "top", "all" or a layer number.
            pooling: None for word vectors; "mean", "max" or "first-last" for one a sentence.
            state: "reset" starts every sentence from zero, so that its vectors depend on nothing
                else; "carry" takes batches in order and carries the state of each row on, as the
                older programs do, within this call.
            batch_size: sentences computed together; None for what suits the device, and 32 where
                the state is carried.
            device: moves the model there first.
            precision: the arithmetic: a type such as torch.bfloat16 or its name; "int8" (a CPU alone,
                some fidelity lost); "auto", bfloat16 where the device multiplies it fast, else
                float32; that of the weights where None. Halves that a CPU does not multiply are
                float32 there until they are given back.
            show_progress_bar: show progress on standard error.
            convert_to_tensor: give tensors on the device, in the arithmetic's type.
            cache: keeps the vectors of words before their context from call to call, so that
                the character CNN sees each word once.

        Returns:
            For one string its (words, dim) array, with "all" (layers, words, dim); for a list, a
            list in the same order. With pooling (dim,) and (sentences, dim).
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
            raise ConfigError(f"state is {state!r}; expected reset or carry")
        if pooling is not None and pooling not in POOLINGS:
            raise ConfigError(f"pooling is {pooling!r}; expected {', '.join(POOLINGS)} or None")
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
            none = torch.zeros(0, *shape[:-1], self.config.dim)
            pooled = [pool(torch.as_tensor(item), pooling) for item in vectors]
            stacked = torch.stack(pooled) if pooled else none
            return stacked if convert_to_tensor else stacked.numpy()
        return vectors

    def encoding_run(
        self,
        *,
        layers: Layers = "average",
        batch_size: int | None = None,
        precision: torch.dtype | str | None = None,
        keep_on_device: bool = False,
        host: torch.dtype = torch.float32,
        cache: WordCache | None = None,
    ) -> EncodingRun:
        """Give what `encode` runs on, for callers who bring their own batches or state."""
        return EncodingRun(
            self.network,
            self.mapper,
            layers=layers,
            batch_size=batch_size,
            precision=precision,
            keep_on_device=keep_on_device,
            host=host,
            cache=cache,
        )

    def mix_penalty(self) -> Tensor:
        """Sum of squared mix weights, to be scaled by the paper's λ and added to a loss."""
        return self.network.mix_penalty()


def _check_strings(words: list[Any], number: int) -> None:
    """Refuse what is neither a string nor a kind of string."""
    for word in words:
        if not isinstance(word, str):
            raise InputError(
                f"sentence {number} holds {word!r}, which is {type(word).__name__}; words are "
                "strings"
            )


def _iterate(value: Iterable[Any], name: str, items: str) -> Iterator[Any]:
    # Asked by trying: an array without dimensions has the method, and refuses.
    try:
        return iter(value)
    except TypeError:
        raise InputError(
            f"{name} is {type(value).__name__}; expected a string or a list of {items}"
        ) from None
