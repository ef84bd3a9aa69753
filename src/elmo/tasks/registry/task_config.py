"""Options of `elmo task fit`: those of all tasks, and those of the chosen one."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from elmo.config.bounds import require_at_least_one
from elmo.config.tasks import (
    ExamplesConfig,
    TaskELMoConfig,
    TaskEncoderConfig,
    TaskOptions,
    WordFeaturesConfig,
)
from elmo.config.training import OptimizerConfig, RunConfig
from elmo.errors import ConfigError
from elmo.tasks.registry.task_rows import AUTO, reader_row, task_row


@dataclass(frozen=True)
class TaskConfig:
    """Train a model for a supervised task on top of ELMo.

    Rerun with the same --out to resume from the last checkpoint.

    Examples:
      elmo task fit classification --train my.csv --text-column review --label-column stars --out m
      elmo task fit conll2003 --train train.txt --dev valid.txt --test test.txt --out ner
      elmo task fit my-task.yaml --out topics --seeds 5
    """

    out: str
    """Output folder."""
    task: str = "classification"
    """Task to train a model for."""
    seeds: int = 1
    """Number of runs with different random seeds. The mean and standard deviation are reported."""
    parallel_seeds: int = 1
    """Number of seeds to train in parallel on one device. Each runs in its own process and prints
    to output.txt in its own folder."""
    batch_size: int | None = None
    """Number of examples per training step. Default: 32, or fewer for a training set of less than
    800 examples, so that an epoch has 25 steps."""
    batch_words: int = 16_384
    """Maximum number of words, including padding, per micro-batch. Larger batches are split to
    limit memory use; results do not change."""
    cache: str | None = None
    """Folder for cached ELMo vectors. Default: a folder named layers in the output folder."""
    examples: ExamplesConfig = field(default_factory=ExamplesConfig)
    """Examples."""
    elmo: TaskELMoConfig = field(default_factory=TaskELMoConfig)
    """ELMo."""
    word_features: WordFeaturesConfig = field(default_factory=WordFeaturesConfig)
    """Word features."""
    encoder: TaskEncoderConfig = field(default_factory=TaskEncoderConfig)
    """Task encoder."""
    options: TaskOptions | None = None
    """Options of the task. Default: the default of each option."""
    optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(
            optimizer="adamw",
            learning_rate=1e-3,
            warmup_steps=None,
            schedule="cosine",
            weight_decay=0.01,
            clip_norm=5.0,
        )
    )
    """Optimizer."""
    run: RunConfig = field(default_factory=lambda: RunConfig(epochs=20, patience=5))
    """Run."""

    def __post_init__(self) -> None:
        """Validate the options and set the default options of the task."""
        require_at_least_one(self, "seeds", "parallel_seeds", "batch_size", "batch_words")
        row = task_row(self.task)
        if self.options is None:
            # The class is frozen, and the default depends on the task.
            object.__setattr__(self, "options", row.options())
        elif not isinstance(self.options, row.options):
            raise ConfigError(
                f"The options of {self.task} are of the type {row.options.__name__} "
                f"(got {type(self.options).__name__})."
            )
        if self.examples.reader != AUTO:
            reader_row(self.examples.reader)  # raises an error if it does not exist
        if self.seeds > 1 and row.is_lookup:
            raise ConfigError(f"{self.task} is deterministic. Use seeds: 1 (got {self.seeds}).")
        run = self.run
        if run.devices * run.num_nodes > 1 or run.accumulate > 1:
            raise ConfigError(
                "A task is trained on one device without gradient accumulation: devices, "
                "num_nodes and accumulate must be 1."
            )
        has_elmo_input = self.elmo.model is not None and self.elmo.placement != "output"
        features = self.word_features
        if not has_elmo_input and features.word_vectors is None and features.characters == "none":
            raise ConfigError(
                "The task model has no input. Set at least one of model (with placement: input or "
                "both), word_vectors and characters."
            )

    @property
    def task_options(self) -> TaskOptions:
        """The options of the task."""
        assert self.options is not None
        return self.options

    @classmethod
    def section_types(cls, data: Mapping[str, object]) -> dict[str, type]:
        """Return the class of the section `options`, which depends on the task."""
        return {"options": task_row(str(data.get("task", cls.task))).options}
