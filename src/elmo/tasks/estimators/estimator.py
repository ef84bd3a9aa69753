"""Base class of the estimators, which follow the interface of scikit-learn."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Generic, Self

from elmo.config.tasks import OPTION_SYNONYMS
from elmo.errors import ConfigError, did_you_mean
from elmo.kernels.device import default_device
from elmo.tasks.core.task import Answer
from elmo.tasks.estimators.not_fitted import not_fitted_error
from elmo.tasks.fitted.load_fitted import Fitted, load_fitted_task
from elmo.tasks.fitted.task_hub import upload_task
from elmo.tasks.registry.task_config import TaskConfig
from elmo.tasks.registry.task_flags import all_leaves, task_leaves
from elmo.tasks.registry.task_rows import task_row

if TYPE_CHECKING:
    from sklearn.utils import Tags

# Options of `elmo task fit` for files, multiple seeds and devices, which do not apply to
# estimators.
FILE_OPTIONS = frozenset(
    {
        *("task", "train", "dev", "test", "reader", "text_column", "label_column", "phrases"),
        *("encoding", "seeds", "parallel_seeds", "dry_run"),
        *("devices", "num_nodes", "accumulate"),
    }
)
# Settings that are named in an error message.
MAIN_SETTINGS = ("model", "epochs", "batch_size", "learning_rate", "hidden", "dropout", "seed")


def check_settings(task: str, settings: Mapping[str, object]) -> None:
    """Raise an error if a setting does not exist or does not apply to the estimators of a task."""
    known = _default_settings(task).keys()
    if unknown := sorted(settings.keys() - known):
        if unknown[0] in {leaf.name for leaf in all_leaves()} - FILE_OPTIONS - {"out"}:
            raise ConfigError(f"The setting {unknown[0]} does not apply to {task}.")
        synonym = OPTION_SYNONYMS.get(unknown[0])
        suggestion = f" Did you mean {synonym}?" if synonym else did_you_mean(unknown[0], known)
        raise ConfigError(
            f"Unknown setting: {', '.join(unknown)}.{suggestion} Common settings are "
            f"{', '.join(MAIN_SETTINGS)}; `elmo task fit --help` lists all of them."
        )


@cache
def _default_settings(task: str) -> dict[str, object]:
    """Return the settings of the estimators of a task and their defaults."""
    return _settings(TaskConfig(out="", task=task))


def _settings(config: TaskConfig) -> dict[str, object]:
    """Return the settings in a config that apply to its task."""
    settings = {leaf.name: leaf.default for leaf in task_leaves(config)}
    if not task_row(config.task).is_lookup:
        settings["empty"] = config.examples.empty  # about texts, also if no file has empty ones
    return {name: settings[name] for name in settings if name not in FILE_OPTIONS | {"out"}}


class Estimator(Generic[Answer]):
    """Fits, applies, scores and saves a task."""

    task: ClassVar[str]
    # Names of the arguments of the constructor that are not options of `elmo task fit`.
    _own_settings: ClassVar[tuple[str, ...]] = ("verbose",)
    _is_classifier: ClassVar[bool] = False

    def __init__(self, *, verbose: int = 0, **settings: object) -> None:
        """Store the settings of the estimator.

        Args:
            verbose: 0: `fit` prints only warnings. 1: it shows its progress.
            **settings: Options of `elmo task fit`, such as model="small-ko", epochs=5, seed=1 or
                batch_size=64. The docstring of `Classifier` lists the most important ones, and
                `get_params` returns all of them.
        """
        self.verbose = verbose
        self.settings: dict[str, object] = {}
        self._fitted: Fitted | None = None
        self.set_params(**settings)

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """Return all settings and their values, as scikit-learn requires."""
        own = {name: getattr(self, name) for name in self._own_settings}
        return {**own, **_default_settings(self.task), **self.settings}

    def set_params(self, **settings: object) -> Self:
        """Change settings; except for `empty`, they take effect at the next `fit`."""
        own = {name: settings.pop(name) for name in self._own_settings if name in settings}
        check_settings(self.task, settings)
        for name, value in own.items():
            setattr(self, name, value)
        self.settings |= settings
        return self

    def __repr__(self) -> str:
        """Return the class name and the settings that differ from their defaults."""
        defaults = {**_default_settings(self.task), "out": None, "verbose": 0}
        changed = {n: value for n, value in self.get_params().items() if value != defaults[n]}
        arguments = ", ".join(f"{name}={value!r}" for name, value in changed.items())
        return f"{type(self).__name__}({arguments})"

    def __sklearn_tags__(self) -> "Tags":
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier" if self._is_classifier else None,
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags() if self._is_classifier else None,
            input_tags=InputTags(two_d_array=False, string=True),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return self._fitted is not None

    @property
    def fitted(self) -> Fitted:
        """The fitted task; raises an error before `fit` or `load`."""
        if self._fitted is None:
            raise not_fitted_error(
                f"This {type(self).__name__} is not fitted. Call fit or load first."
            )
        return self._fitted

    def save(self, folder: str | Path) -> None:
        """Write the model folder."""
        self.fitted.save(Path(folder))

    def push_to_hub(self, repository: str, *, private: bool = False) -> str:
        """Upload the model with a model card to the Hugging Face Hub and return its URL.

        An ELMo model that is fine-tuned, or that others cannot load by its name, is uploaded too.

        Args:
            repository: Hub id, "owner/name".
            private: Whether the repository is private if it is newly created.
        """
        return upload_task(self.fitted, repository, private=private)

    @classmethod
    def load(cls, folder: str | Path, device: str | None = None) -> Self:
        """Load a model written by `save` or `elmo task fit`, or from a hub.

        Args:
            folder: Model folder, training folder that contains one, or hub id.
            device: Device to load the model on. Default: a GPU if available.
        """
        fitted = load_fitted_task(folder, device or default_device())
        if fitted.config.task != cls.task:
            raise ConfigError(
                f"{folder} contains a model for {fitted.config.task}, not for {cls.task}."
            )
        defaults = _default_settings(cls.task)
        settings = {n: v for n, v in _settings(fitted.config).items() if v != defaults[n]}
        loaded = cls().set_params(**settings)
        loaded._fitted = fitted
        return loaded
