"""The `info` command: describes a task model, a prepared corpus, vectors, or an ELMo model."""

from pathlib import Path

from elmo.config import InfoConfig
from elmo.config.serialization import to_dict
from elmo.corpus.corpus_info import corpus_info
from elmo.corpus.shards import is_corpus
from elmo.embed.vectors_info import is_vectors, vectors_info
from elmo.errors import ConfigError, ElmoError
from elmo.formats.attribution import LICENSE
from elmo.formats.info_and_convert import InfoResult
from elmo.formats.info_and_convert import info as model_info
from elmo.formats.load import read
from elmo.formats.model_packages import is_model_name
from elmo.tasks.fitted.fitted_task import TUNED, is_task_folder, model_folder, read_record
from elmo.tasks.fitted.task_description import describe_target, describe_training


def info(config: InfoConfig) -> InfoResult:
    """Describe an ELMo model in any format, a task model, a prepared corpus, or vectors."""
    path = Path(config.model)
    if is_task_folder(path):
        _reject_options(config, "task model")
        return task_info(path)
    if is_corpus(path):
        _reject_options(config, "prepared corpus")
        rows, header = corpus_info(path)
        return InfoResult(rows, (), header)
    if is_vectors(path):
        _reject_options(config, "vectors")
        return vectors_info(path)
    return model_info(config)


def _reject_options(config: InfoConfig, description: str) -> None:
    if config.options is not None:
        raise ConfigError(
            f"--options does not apply to the {description} {config.model}. Remove it."
        )


def task_info(folder: Path) -> InfoResult:
    """Describe the task model in a model folder or a training folder."""
    folder = model_folder(folder)
    record = read_record(folder)
    config, facts, elmo = record.config, record.facts, record.config.elmo
    rows: dict[str, str | int] = {"format": "elmo-torch task model", **describe_target(record)}
    if elmo.model is None:
        rows["ELMo"] = "none"
    else:
        model = f"fine-tuned, in {folder / TUNED}" if elmo.use == "tuned" else "frozen"
        rows["ELMo"] = f"{elmo.model} ({model}), layers {elmo.layers}"
        source = str(folder / TUNED) if elmo.use == "tuned" else elmo.model
        if elmo_license := _license(source):
            rows["ELMo_license"] = elmo_license
    rows |= describe_training(record)
    rows["size"] = f"{_size(folder) / 1e6:,.1f} MB"
    training: dict[str, object] = {
        name: facts[name] for name in ("program", "steps") if name in facts
    }
    return InfoResult(rows, (), to_dict(config), training)


def _license(source: str) -> str | None:
    """Return the license of an ELMo model; None if it is unknown or the model is not on disk."""
    is_local = Path(source).exists() or is_model_name(source)
    try:
        return read(source).attribution.get(LICENSE) if is_local else None
    except ElmoError:  # the model was moved or deleted
        return None


def _size(folder: Path) -> int:
    """Return the total size of the files in a folder in bytes."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
