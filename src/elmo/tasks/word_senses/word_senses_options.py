"""Options of word sense disambiguation."""

from dataclasses import dataclass

from elmo.config.tasks import TaskOptions


@dataclass(frozen=True)
class WordSensesOptions(TaskOptions):
    """Word senses."""

    wordnet: str | None = None
    """Path to WordNet's index.sense file. Default: wordnet-3.0/index.sense next to the training
    set."""
