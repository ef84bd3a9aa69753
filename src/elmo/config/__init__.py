"""Config dataclasses for the model architecture and for the arguments of each command.

YAML files, JSON files and command-line flags use the field names, and the docstring below a field
is its help text. Nothing here imports torch, so that `elmo --help` is fast.
"""

from elmo.config.commands import (
    ConvertConfig,
    DemoConfig,
    EmbedConfig,
    EvaluateConfig,
    InfoConfig,
    Layers,
    Pooling,
    State,
    Storage,
)
from elmo.config.corpus import CorpusConfig, PrepareConfig, ReadingConfig, VocabConfig
from elmo.config.model import (
    EncoderConfig,
    LayerNorm,
    LSTMConfig,
    MixConfig,
    ModelConfig,
    TextConfig,
)
from elmo.config.tasks import (
    CoreferenceConfig,
    ExamplesConfig,
    LookupConfig,
    QuestionAnsweringConfig,
    ReaderName,
    TaskConfig,
    TaskELMoConfig,
    TaskEncoderConfig,
    TaskEvaluateConfig,
    TaskName,
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
    "CoreferenceConfig",
    "CorpusConfig",
    "DemoConfig",
    "EmbedConfig",
    "EncoderConfig",
    "EvaluateConfig",
    "ExamplesConfig",
    "FinetuneConfig",
    "InfoConfig",
    "InputConfig",
    "LSTMConfig",
    "LayerNorm",
    "Layers",
    "LookupConfig",
    "LossConfig",
    "MixConfig",
    "ModelConfig",
    "OptimizerConfig",
    "Pooling",
    "PrepareConfig",
    "PretrainConfig",
    "QuestionAnsweringConfig",
    "ReaderName",
    "ReadingConfig",
    "RegularizationConfig",
    "RunConfig",
    "State",
    "Storage",
    "StreamConfig",
    "TaskConfig",
    "TaskELMoConfig",
    "TaskEncoderConfig",
    "TaskEvaluateConfig",
    "TaskName",
    "TaskPredictConfig",
    "TextConfig",
    "TuneConfig",
    "VocabConfig",
    "WordFeaturesConfig",
]
