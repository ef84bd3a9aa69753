"""ELMo as the first module of models of sentence-transformers."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Self

from sentence_transformers.base.modules import InputModule
from torch import Tensor

from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError, InputError
from elmo.integrations.shared_elmo import check_model_name
from elmo.text.token_batches import Sentence
from elmo.text.tokenizer import Tokenizer

# Name of the subfolder with the ELMo model in the folder of the module.
MODEL_FOLDER = "elmo"


class ElmoModule(InputModule):  # type: ignore[misc]
    """Computes word vectors, the mix of the layers of an ELMo model.

    The first modules of a model are `[ElmoModule("small-en"), Pooling(512)]` for one vector per
    text. The mix is the average of the layers until it is trained.
    """

    save_in_root: bool = False
    config_file_name: str = "elmo_module.json"
    config_keys: ClassVar[list[str]] = ["trainable", "max_seq_length"]

    def __init__(
        self,
        model: str | Path = "small-en",
        *,
        trainable: bool = True,
        max_seq_length: int | None = None,
    ) -> None:
        """Load the model.

        Args:
            model: Name of a bundled or downloaded model, path, or hub id.
            trainable: Whether to train the whole model instead of only its layer mix.
            max_seq_length: Maximum number of words of a text; further words are ignored. Default:
                unlimited.
        """
        super().__init__()
        check_model_name(model)
        if max_seq_length is not None and max_seq_length < 1:
            raise ConfigError(f"max_seq_length must be at least 1 (got {max_seq_length}).")
        self.trainable = trainable
        self.max_seq_length = max_seq_length
        self.elmo = ELMo.from_pretrained(model, requires_grad=trainable)

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the ELMo model."""
        return self.elmo.tokenizer

    def get_embedding_dimension(self) -> int:
        """Return the number of dimensions of a word vector."""
        return self.elmo.config.dim

    def preprocess(
        self,
        inputs: Sequence[str | Sentence],
        prompt: str | None = None,
        max_length: int | None = None,
        **kwargs: object,
    ) -> dict[str, Tensor]:
        """Return the character ids of texts, and the mask of their words.

        Args:
            inputs: Texts, or lists of words.
            prompt: Text before each text.
            max_length: Maximum number of words, including the prompt. Default: `max_seq_length`.
            **kwargs: Ignored options of other modules.
        """
        limit = max_length or self.max_seq_length
        words = [self._words(text, prompt or "")[:limit] for text in inputs]
        ids = self.elmo.character_ids(words)
        return {"input_ids": ids, "attention_mask": (ids != 0).any(dim=2)[:, 2:]}

    def _words(self, text: str | Sentence, prompt: str) -> list[str]:
        if isinstance(text, str):
            return self.elmo.tokenizer.words(prompt + text)
        if prompt:
            raise InputError(f"The prompt {prompt!r} cannot be added to a list of words.")
        return list(text)

    def forward(self, features: dict[str, Tensor], **kwargs: object) -> dict[str, Tensor]:
        """Add the word vectors, (batch, words, dim), as `token_embeddings`."""
        output = self.elmo(features["input_ids"])
        return features | {"token_embeddings": output.representations[0]}

    def save(
        self,
        output_path: str,
        *args: object,
        safe_serialization: bool = True,
        **kwargs: object,
    ) -> None:
        """Save the ELMo model and the settings of the module."""
        self.elmo.save_pretrained(Path(output_path) / MODEL_FOLDER)
        self.save_config(output_path)

    @classmethod
    def load(
        cls,
        model_name_or_path: str,
        subfolder: str = "",
        token: bool | str | None = None,
        cache_folder: str | None = None,
        revision: str | None = None,
        local_files_only: bool = False,
        **kwargs: object,
    ) -> Self:
        """Load a module written by `save` from a folder or a hub."""
        options = {
            "token": token,
            "cache_folder": cache_folder,
            "revision": revision,
            "local_files_only": local_files_only,
        }
        config = cls.load_config(model_name_or_path, subfolder=subfolder, **options)
        folder = (Path(subfolder) / MODEL_FOLDER).as_posix()
        return cls(cls.load_dir_path(model_name_or_path, subfolder=folder, **options), **config)
