"""Options of tagging and of semantic role labeling."""

from dataclasses import dataclass
from typing import Literal

from elmo.config.tasks import TaskOptions


@dataclass(frozen=True)
class TaggingOptions(TaskOptions):
    """Tags."""

    scheme: Literal["auto", "IOB1", "IOB2", "BIOES", "BILOU", "none"] = "auto"
    """Tagging scheme. none: tags do not mark spans. auto: detected from the data."""
    crf: bool = True
    """Use a conditional random field instead of a separate softmax for each word."""
