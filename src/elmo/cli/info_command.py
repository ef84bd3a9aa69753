"""The `info` command: describes a model of any kind, a prepared corpus, or vectors."""

from pathlib import Path

from elmo.config import InfoConfig
from elmo.config.language_model_commands import LMInfoConfig
from elmo.errors import ConfigError
from elmo.formats.info_and_convert import InfoResult
from elmo.lab.lm_info import lm_info
from elmo.lab.recurrent_folder import is_model_folder
from elmo.tasks.prediction.task_info import info as task_or_elmo_info


def info(config: InfoConfig) -> InfoResult:
    """Describe an ELMo model, a task model, a language model, a prepared corpus, or vectors."""
    if not is_model_folder(Path(config.model)):
        return task_or_elmo_info(config)
    if config.options is not None:
        raise ConfigError(
            f"--options does not apply to the language model {config.model}. Remove it."
        )
    return lm_info(LMInfoConfig(config.model))
