"""Config classes of the commands that look inside recurrent networks."""

from dataclasses import dataclass
from typing import ClassVar

from elmo.config.bounds import require_at_least_one
from elmo.errors import ConfigError


@dataclass(frozen=True)
class FindUnitsConfig:
    """Find hidden units that follow a property of the text.

    Units are chosen on the first half of the text and scored on the second. Beside them are the
    best score for shifted labels, which is what chance reaches, and the best unit of a network with
    random weights.

    Properties of words, such as part of speech, are read from a CoNLL-U file as TEXT.

    Examples:
      elmo find-units run linux.c --builtin comment,string,if
      elmo find-units run shakespeare.txt --pattern '^[A-Z]+:' --ablate
      elmo find-units small-en dev.conllu --builtin upos=NOUN,Number=Plur,Tense=Past,negation
    """

    GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {
        "Properties": ("builtin", "pattern", "labels"),
    }

    model: str
    """Folder written by `elmo lm train`; name, folder or hub id of an ELMo model; or a task model,
    of which the ELMo is read."""
    text: str
    """Text file, - for standard input, or a CoNLL-U file (.conllu)."""
    builtin: str | None = None
    """Names of built-in properties, separated by commas: quotes, single-quotes, brackets,
    bracket-depth, block-depth, if, comment, string, python-comment, python-string, line-position,
    indentation, word-position, word-start, capital, digit, punctuation, whitespace, end-of-line.
    With a CoNLL-U file: upos=NOUN, xpos=NNS, deprel=nsubj, any feature such as Number=Plur, or
    negation. Default: all that occur in the text; with a CoNLL-U file the most common ones."""
    pattern: str | None = None
    """Regular expression: the property is to be in a match, or in its first group."""
    labels: str | None = None
    """File with one number per character, byte or word of the text, separated by white space."""
    kinds: str = "hidden,cell"
    """Kinds of values to search, separated by commas: hidden, cell, input, forget, output,
    candidate, reset, update."""
    n: int = 5
    """Number of units per property."""
    max_positions: int = 20_000
    """Maximum number of characters, bytes or words to read, from the beginning of the text."""
    shifts: int = 20
    """Number of shifted copies of the labels."""
    random: bool = True
    """Also search in a network with random weights."""
    ablate: bool = False
    """Measure the change in bits per symbol if the best unit of each property is set to 0 or to its
    mean. Only for models of `elmo lm train`."""
    seed: int = 1
    """Seed of the shifts and of the random network."""
    device: str | None = None
    """Device, such as cpu or cuda. Default: cuda if available."""

    def __post_init__(self) -> None:
        """Validate numbers and conflicting options."""
        require_at_least_one(self, "n", "max_positions", "shifts")
        if self.seed < 0:
            raise ConfigError(f"seed must be 0 or more (got {self.seed}).")
