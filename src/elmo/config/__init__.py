"""Config dataclasses for the model architecture and for the arguments of each command.

YAML files, JSON files and command-line flags use the field names, and the docstring below a field
is its help text. Nothing here imports torch, so that `elmo --help` is fast.
"""

from elmo.config.commands import (
    ConvertConfig,
    DemoConfig,
    DownloadConfig,
    EmbedConfig,
    EvaluateConfig,
    InfoConfig,
    Layers,
    Pooling,
    State,
    Storage,
)
from elmo.config.corpus import (
    CorpusConfig,
    InputFormat,
    PrepareConfig,
    ReadingConfig,
    VocabConfig,
)
from elmo.config.model import (
    EncoderConfig,
    LayerNorm,
    LSTMConfig,
    MixConfig,
    ModelConfig,
    TextConfig,
)
from elmo.config.tasks import (
    ExamplesConfig,
    TaskELMoConfig,
    TaskEncoderConfig,
    TaskEvaluateConfig,
    TaskOptions,
    TaskPredictConfig,
    WordFeaturesConfig,
)
from elmo.config.training import (
    FinetuneConfig,
    InputConfig,
    LossConfig,
    OptimizerConfig,
    PretrainConfig,
    RegularizationConfig,
    RunConfig,
    StreamConfig,
    TuneConfig,
)

__all__ = [
    "ConvertConfig",
    "CorpusConfig",
    "DemoConfig",
    "DownloadConfig",
    "EmbedConfig",
    "EncoderConfig",
    "EvaluateConfig",
    "ExamplesConfig",
    "FinetuneConfig",
    "InfoConfig",
    "InputConfig",
    "InputFormat",
    "LSTMConfig",
    "LayerNorm",
    "Layers",
    "LossConfig",
    "MixConfig",
    "ModelConfig",
    "OptimizerConfig",
    "Pooling",
    "PrepareConfig",
    "PretrainConfig",
    "ReadingConfig",
    "RegularizationConfig",
    "RunConfig",
    "State",
    "Storage",
    "StreamConfig",
    "TaskELMoConfig",
    "TaskEncoderConfig",
    "TaskEvaluateConfig",
    "TaskOptions",
    "TaskPredictConfig",
    "TextConfig",
    "TuneConfig",
    "VocabConfig",
    "WordFeaturesConfig",
]
