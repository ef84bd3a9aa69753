"""Every dial as a frozen dataclass: the shape of a model, and the arguments of each verb.

The docstring under a field is its help text; YAML, JSON and command-line flags are these same
fields. Nothing here imports torch, so the command line can print help at once.
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
    "QuestionAnsweringConfig",
    "TaskEncoderConfig",
    "CoreferenceConfig",
    "ConvertConfig",
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
    "LossConfig",
    "LookupConfig",
    "MixConfig",
    "ModelConfig",
    "OptimizerConfig",
    "Pooling",
    "PrepareConfig",
    "PretrainConfig",
    "ReaderName",
    "ReadingConfig",
    "RegularizationConfig",
    "RunConfig",
    "State",
    "Storage",
    "StreamConfig",
    "TaskConfig",
    "TaskELMoConfig",
    "TaskEvaluateConfig",
    "TaskName",
    "TaskPredictConfig",
    "TextConfig",
    "TuneConfig",
    "VocabConfig",
    "WordFeaturesConfig",
]
