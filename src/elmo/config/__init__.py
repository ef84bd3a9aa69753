"""Every dial as a frozen dataclass: the shape of a model, and the arguments of each verb.

The docstring under a field is its help text; YAML, JSON and command-line flags are these same
fields. Nothing here imports torch, so the command line can print help at once.
"""

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
    AnswersConfig,
    BodyConfig,
    ClustersConfig,
    ExamplesConfig,
    MemoryConfig,
    ReaderKind,
    TaskConfig,
    TaskELMoConfig,
    TaskEvaluateConfig,
    TaskKind,
    TaskPredictConfig,
    WordsConfig,
)
from elmo.config.training import (
    FinetuneConfig,
    InputConfig,
    LossConfig,
    OptimizerConfig,
    PretrainConfig,
    RegularConfig,
    RunConfig,
    StreamConfig,
    TuneConfig,
)
from elmo.config.verbs import (
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

__all__ = [
    "AnswersConfig",
    "BodyConfig",
    "ClustersConfig",
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
    "MemoryConfig",
    "MixConfig",
    "ModelConfig",
    "OptimizerConfig",
    "Pooling",
    "PrepareConfig",
    "PretrainConfig",
    "ReaderKind",
    "ReadingConfig",
    "RegularConfig",
    "RunConfig",
    "State",
    "Storage",
    "StreamConfig",
    "TaskConfig",
    "TaskELMoConfig",
    "TaskEvaluateConfig",
    "TaskKind",
    "TaskPredictConfig",
    "TextConfig",
    "TuneConfig",
    "VocabConfig",
    "WordsConfig",
]
