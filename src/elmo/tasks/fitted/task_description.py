"""Descriptions of fitted tasks, for `elmo info` and model cards."""

from elmo.tasks.core.label_report import NO_NAME
from elmo.tasks.fitted.fitted_task import ModelRecord
from elmo.tasks.tagging.spans import NONE, span_labels

# Maximum number of labels that are listed.
MAX_LABELS = 20


def describe_target(record: ModelRecord) -> dict[str, str | int]:
    """Return the task and its labels."""
    labels = record.labels
    rows: dict[str, str | int] = {"task": record.config.task}
    scheme = record.task_settings.get("scheme")
    has_spans = scheme not in (None, NONE)
    names = labels
    if has_spans:
        names = [name or NO_NAME for name in sorted(span_labels(labels))]
    if names:
        more = f" and {len(names) - MAX_LABELS} more" if len(names) > MAX_LABELS else ""
        row = "types" if has_spans else "labels"
        rows[row] = f"{len(names):,}: {', '.join(names[:MAX_LABELS])}{more}"
    if scheme:
        rows["tag_scheme"] = str(scheme)
    return rows


def describe_training(record: ModelRecord) -> dict[str, str | int]:
    """Return the other inputs, the layer mixes and the scores on the development set."""
    config, facts = record.config, record.facts
    rows: dict[str, str | int] = {}
    if config.examples.tokenizer is not None:
        rows["tokenizer"] = config.examples.tokenizer
    if config.word_features.word_vectors is not None:
        rows["word_vectors"] = config.word_features.word_vectors
    for placement, mix in (facts.get("mixes") or {}).items():
        shares = " ".join(f"{share:.3f}" for share in mix["shares"])
        rows[f"mix_at_{placement}"] = f"{shares}, gamma {mix['gamma']:.3f}"
    for name, value in (facts.get("development") or {}).items():
        rows[f"development_{name}"] = f"{value:.4f}"
    return rows
