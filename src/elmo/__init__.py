"""ELMo in PyTorch: contextual word vectors.

Public names are imported on first use, so that neither `import elmo` nor `elmo --help` imports
torch.
"""

from typing import TYPE_CHECKING

from elmo.lazy import fetch

if TYPE_CHECKING:
    from elmo.config import ConvertConfig, DemoConfig, EmbedConfig, InfoConfig, ModelConfig
    from elmo.embed.embedder import ELMo
    from elmo.embed.embeddings import open_embeddings
    from elmo.errors import (
        ConfigError,
        ElmoError,
        FormatError,
        InputError,
        MissingExtra,
        OutputError,
    )
    from elmo.inference.word_cache import WordCache
    from elmo.model.lstm import LSTMState
    from elmo.model.network import ELMoOutput

__version__ = "0.1.0"

__all__ = [
    "ConfigError",
    "ConvertConfig",
    "DemoConfig",
    "ELMo",
    "ELMoOutput",
    "ElmoError",
    "EmbedConfig",
    "FormatError",
    "InfoConfig",
    "InputError",
    "LSTMState",
    "MissingExtra",
    "ModelConfig",
    "OutputError",
    "WordCache",
    "open_embeddings",
]

_HOMES = {
    **dict.fromkeys([name for name in __all__ if name.endswith("Config")], "elmo.config"),
    **dict.fromkeys([name for name in __all__ if name.endswith("Error")], "elmo.errors"),
    "MissingExtra": "elmo.errors",
    "ELMo": "elmo.embed.embedder",
    "ELMoOutput": "elmo.model.network",
    "LSTMState": "elmo.model.lstm",
    "WordCache": "elmo.inference.word_cache",
    "open_embeddings": "elmo.embed.embeddings",
}


def __getattr__(name: str) -> object:
    return fetch(name, _HOMES, __name__)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
