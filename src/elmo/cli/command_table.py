"""Table of the commands of `elmo`."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from elmo.config import (
    ConvertConfig,
    DemoConfig,
    DownloadConfig,
    EmbedConfig,
    EvaluateConfig,
    FinetuneConfig,
    InfoConfig,
    PrepareConfig,
    PretrainConfig,
    TaskEvaluateConfig,
    TaskPredictConfig,
    VocabConfig,
)
from elmo.config.language_model_commands import (
    LMCompareConfig,
    LMEvaluateConfig,
    LMInfoConfig,
    LMSampleConfig,
    LMTrainConfig,
)
from elmo.config.look_inside import ExploreConfig, FindUnitsConfig, GradientsConfig
from elmo.config.serialization import Preset, presets
from elmo.config.serve import ServeConfig
from elmo.tasks.registry.task_config import TaskConfig
from elmo.tasks.registry.task_flags import HIDDEN
from elmo.tasks.registry.task_presets import task_presets
from elmo.tasks.registry.task_rows import synonyms

FindPresets = Callable[[], Mapping[str, Preset]]


class Command(NamedTuple):
    """Definition of a command.

    Attributes:
        config: Config dataclass whose fields are the arguments.
        function: Module and name of the function, separated by a colon.
        positional: Fields that are positional arguments. If `out` is one of them, it can also be
            given as `--out`.
        file: Metavar of `--config`; empty if the command takes no config file.
        has_many_files: Whether `--config` can be repeated. The function then takes a dictionary
            with one config per preset or file; without any, its key is "".
        presets: For each type of preset, a function that returns the presets by name.
        synonyms: Names that users may try instead of a preset, with the preset to suggest.
        is_native: Whether the command will probably need the native kernels.
        shows_threads: Whether to print a reduced number of threads. It does not matter for commands
            that only read and write files.
        example: Example of a command with the required output; {} is replaced by its input.
        hidden: Options without a flag, because they have no effect on the command.
    """

    config: type
    function: str
    positional: tuple[str, ...] = ()
    file: str = ""
    has_many_files: bool = False
    presets: Mapping[str, FindPresets] = MappingProxyType({})
    synonyms: Mapping[str, str] = MappingProxyType({})
    is_native: bool = False
    shows_threads: bool = True
    example: str = ""
    hidden: tuple[str, ...] = ()


# Ordered as a new user would need them.
COMMANDS = {
    "demo": Command(DemoConfig, "elmo.demo:demo"),
    "embed": Command(
        EmbedConfig,
        "elmo.embed.embed_file:embed",
        ("input", "out"),
        is_native=True,
        example="elmo embed {} vectors.h5",
    ),
    "download": Command(
        DownloadConfig, "elmo.formats.download_model:download", ("name",), shows_threads=False
    ),
    "info": Command(InfoConfig, "elmo.cli.info_command:info", ("model",), shows_threads=False),
    "convert": Command(
        ConvertConfig,
        "elmo.formats.info_and_convert:convert",
        ("model", "out"),
        shows_threads=False,
        example="elmo convert {} my-elmo",
    ),
    "serve": Command(ServeConfig, "elmo.serve.serve_command:serve", is_native=True),
    "task fit": Command(
        TaskConfig,
        "elmo.tasks.training.fit:fit",
        ("config",),
        file="preset|file",
        presets={"task": task_presets, "data set": partial(presets, "tasks")},
        synonyms=synonyms(),
        hidden=HIDDEN,
    ),
    "task evaluate": Command(
        TaskEvaluateConfig, "elmo.tasks.prediction.predict:evaluate", ("model", "input")
    ),
    "task predict": Command(
        TaskPredictConfig, "elmo.tasks.prediction.predict:predict", ("model", "input", "out")
    ),
    "lm train": Command(
        LMTrainConfig,
        "elmo.lab.train_lm:train_lm",
        ("text",),
        file="preset|file",
        presets={"preset": partial(presets, "language_models")},
        hidden=HIDDEN,
    ),
    "lm sample": Command(LMSampleConfig, "elmo.lab.sample_lm:sample_lm", ("model",)),
    "lm evaluate": Command(LMEvaluateConfig, "elmo.lab.evaluate_lm:evaluate_lm", ("model", "text")),
    "lm info": Command(LMInfoConfig, "elmo.lab.lm_info:lm_info", ("model",), shows_threads=False),
    "lm compare": Command(
        LMCompareConfig,
        "elmo.lab.compare_lm:compare_lm",
        ("text",),
        file="preset|file",
        has_many_files=True,
        presets={"preset": partial(presets, "language_models")},
        # The grid sets cell, depth and width.
        hidden=(*HIDDEN, "cell", "n_layers", "hidden_dim", "dry_run"),
    ),
    "explore": Command(
        ExploreConfig,
        "elmo.lab.explorer.explore_command:explore_text",
        ("model", "text", "out"),
        example="elmo explore {} text.txt --out page.html",
    ),
    "gradients": Command(
        GradientsConfig,
        "elmo.lab.gradients.gradients_command:gradients",
        ("model", "text"),
        example="elmo gradients {} text.txt --out page.html",
    ),
    "find-units": Command(
        FindUnitsConfig,
        "elmo.lab.explorer.find_units_command:find_units_command",
        ("model", "text"),
    ),
    "vocab": Command(VocabConfig, "elmo.corpus.vocab_file:vocab", ("input",), shows_threads=False),
    "prepare": Command(
        PrepareConfig, "elmo.corpus.prepare_corpus:prepare", ("input",), shows_threads=False
    ),
    "pretrain": Command(
        PretrainConfig,
        "elmo.train.pretrain_model:pretrain",
        file="preset|file",
        presets={"preset": presets},
    ),
    "finetune": Command(FinetuneConfig, "elmo.train.finetune_model:finetune", file="file"),
    "evaluate": Command(EvaluateConfig, "elmo.evaluate.evaluate_model:evaluate", ("text",)),
}

GROUPS = {
    "task": "Train and use models for supervised tasks.",
    "lm": "Train and use recurrent language models.",
}
