"""Config classes of the commands that look inside recurrent networks."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from elmo.config.bounds import require_at_least_one
from elmo.errors import ConfigError

ValueKind = Literal["hidden", "cell", "input", "forget", "output", "candidate", "reset", "update"]

# Networks of a task model.
NetworkName = Literal["elmo", "encoder"]

FIGURE_FORMATS = (".png", ".svg", ".json")


@dataclass(frozen=True)
class ExploreConfig:
    """Show the hidden units of a network over a text, as a page.

    The page is one HTML file without network access. It colors the text by one unit, lists the
    units, and finds units for a selected part of the text.

    Examples:
      elmo explore run text.txt --out page.html
      elmo explore run text.txt --out page.html --compare other-run
      elmo explore run text.txt --out page.html --saturation gates.png
      elmo explore small-en sentences.txt --out page.html --kinds '[hidden, cell]'
      elmo explore task-run reviews.txt --out page.html --network encoder
    """

    GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {
        "Size of the page": ("kinds", "all_units", "units", "max_positions", "guesses"),
    }

    model: str
    """Folder written by `elmo lm train`, an ELMo model (name of a bundled or downloaded model,
    model folder, or hub id), or a folder written by `elmo task fit`."""
    text: str
    """Text file, or - for standard input."""
    out: str
    """HTML file to write."""
    network: NetworkName = "elmo"
    """Network of a task model: its ELMo, or encoder, the BiLSTM that is trained with the task."""
    pretokenized: bool = False
    """The words of the text are separated by spaces, with one sentence per line. Default: split by
    the model's tokenizer."""
    compare: str | None = None
    """A second model, which is shown next to the first."""
    compare_network: NetworkName | None = None
    """Network of the second model. Default: that of the first."""
    saturation: str | None = None
    """Also draw how often each gate is nearly closed or nearly open, and the time scales of the
    units, to this PNG or SVG file (needs matplotlib), or write the numbers to this JSON file."""
    kinds: tuple[ValueKind, ...] = ()
    """Values to store: hidden, cell, or the gates input, forget, output, candidate (LSTM), reset,
    update (GRU). Default: all that the network has."""
    all_units: bool = False
    """Store all units. Default: those with the largest variance, as many as fit into 6 MB."""
    units: tuple[int, ...] = ()
    """Numbers of units that are stored in any case."""
    max_positions: int = 10_000
    """Maximum number of characters, bytes or words. Of a longer text, evenly spaced parts are
    shown."""
    guesses: int = 5
    """Number of most likely next characters or words at each position. 0: none, and no
    surprisal."""
    device: str | None = None
    """Device, such as cpu or cuda. Default: cuda if available."""

    def __post_init__(self) -> None:
        """Validate counts and the text of a comparison."""
        require_at_least_one(self, "max_positions")
        if self.guesses < 0:
            raise ConfigError(f"guesses must be 0 or more (got {self.guesses}).")
        if self.compare is not None and self.text == "-":
            raise ConfigError("compare needs a text file: standard input can be read only once.")
        if self.compare is None and self.compare_network is not None:
            raise ConfigError("compare_network is the network of a second model: add --compare.")
        if self.saturation is not None and not self.saturation.lower().endswith(FIGURE_FORMATS):
            raise ConfigError(
                f"saturation must be a file with .png, .svg or .json (got {self.saturation!r})."
            )


@dataclass(frozen=True)
class FindUnitsConfig:
    """Find hidden units that follow a property of the text.

    Units are chosen on the first half of the text and scored on the second. Beside them are the
    best score for shifted labels, which is what chance reaches, and the best unit of a network with
    random weights.

    Properties of words, such as part of speech, are read from a CoNLL-U file as TEXT.

    Examples:
      elmo find-units run linux.c --builtin comment,string,if --page units.html
      elmo find-units run shakespeare.txt --pattern '^[A-Z]+:' --ablate
      elmo find-units small-en dev.conllu --builtin upos=NOUN,Number=Plur,Tense=Past,negation
      elmo find-units task-run words.txt --pretokenized --labels numbers.txt --network encoder
    """

    GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {
        "Properties": ("builtin", "pattern", "labels"),
    }

    model: str
    """Folder written by `elmo lm train`; name, folder or hub id of an ELMo model; or a folder
    written by `elmo task fit`."""
    text: str
    """Text file, - for standard input, or a CoNLL-U file (.conllu)."""
    network: NetworkName = "elmo"
    """Network of a task model: its ELMo, or encoder, the BiLSTM that is trained with the task."""
    pretokenized: bool = False
    """The words of the text are separated by spaces, with one sentence per line. Default: split by
    the model's tokenizer."""
    builtin: str | None = None
    """Names of built-in properties, separated by commas: quotes, single-quotes, brackets,
    bracket-depth, block-depth, if, comment, string, python-comment, python-string, line-position,
    indentation, word-position, word-start, capital, digit, punctuation, whitespace, end-of-line.
    With a CoNLL-U file: upos=NOUN, xpos=NNS, deprel=nsubj, any feature such as Number=Plur, or
    negation. Default: all that occur in the text; with a CoNLL-U file the most common ones."""
    pattern: str | None = None
    """Regular expression: the property is to be in a match, or in its first group."""
    labels: str | None = None
    """File with one number per character, byte or word of the text, separated by white space.
    Positions with - instead of a number are ignored."""
    page: str | None = None
    """Also write a page as `elmo explore` does, with the units that were found. The table has links
    to them."""
    kinds: tuple[ValueKind, ...] = ("hidden", "cell")
    """Kinds of values to search: hidden, cell, input, forget, output, candidate, reset, update."""
    n: int = 5
    """Number of units per property."""
    max_positions: int = 20_000
    """Maximum number of characters, bytes or words to read. Of a longer text, evenly spaced parts
    are read."""
    shifts: int = 20
    """Number of shifted copies of the labels."""
    random: bool = True
    """Also search in a network with random weights."""
    ablate: bool = False
    """Measure the change in bits per symbol if the best unit of each property is set to 0 or to its
    mean. An ELMo model needs a softmax; the loss is that of the unit's direction."""
    seed: int = 1
    """Seed of the shifts and of the random network."""
    device: str | None = None
    """Device, such as cpu or cuda. Default: cuda if available."""

    def __post_init__(self) -> None:
        """Validate numbers and conflicting options."""
        require_at_least_one(self, "n", "max_positions", "shifts")
        if self.seed < 0:
            raise ConfigError(f"seed must be 0 or more (got {self.seed}).")
        if self.page is not None and self.text == "-":
            raise ConfigError("page needs a text file: standard input can be read only once.")


@dataclass(frozen=True)
class GradientsConfig:
    """Measure how far the gradients of an RNN reach back in time.

    The page compares the trained model with its initial weights, and with other cells, forget
    biases and recurrent weights in networks of the same size. For an ELMo model, both directions
    are measured, and other forget biases. --json prints all numbers.

    Examples:
      elmo gradients run shakespeare.txt --out page.html
      elmo gradients lstm-run shakespeare.txt --compare rnn-run --out page.html --png gradients.png
      elmo gradients char-small shakespeare.txt --out page.html
      elmo gradients small-en sentences.txt --out page.html
    """

    model: str
    """Folder written by `elmo lm train`; a preset or YAML config file of this command, whose
    network is measured without training; or an ELMo model with a softmax (name, folder, file or hub
    id)."""
    text: tuple[str, ...]
    """Text files or globs, or - for standard input. Several files are joined in the given order."""
    out: str
    """HTML file of the page."""
    png: str | None = None
    """Also draw the curves to this PNG file. Needs matplotlib."""
    compare: tuple[str, ...] = ()
    """Other trained models, such as a folder of one with another cell."""
    steps: int = 200
    """Maximum number of steps back."""
    windows: int = 32
    """Number of windows of the text. The loss at the end of each window is differentiated, and the
    norms are averaged."""
    clip_norm: float = 1.0
    """Maximum gradient norm of all weights, whose effect is measured. 0: no clipping."""
    seed: int = 1
    """Seed of the initial weights."""

    def __post_init__(self) -> None:
        """Validate numbers."""
        require_at_least_one(self, "steps", "windows")
        if self.png is not None and not self.png.lower().endswith(".png"):
            raise ConfigError(f"png must be a file with .png (got {self.png!r}).")
        if not 0.0 <= self.clip_norm < math.inf:
            raise ConfigError(f"clip_norm must be 0 or more (got {self.clip_norm}).")
        if self.seed < 0:
            raise ConfigError(f"seed must be 0 or more (got {self.seed}).")
