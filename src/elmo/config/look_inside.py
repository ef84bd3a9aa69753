"""Config classes of the commands that look inside recurrent networks."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from elmo.config.bounds import require_at_least_one
from elmo.errors import ConfigError

ValueKind = Literal["hidden", "cell", "input", "forget", "output", "candidate", "reset", "update"]


@dataclass(frozen=True)
class ExploreConfig:
    """Show the hidden units of a network over a text, as a page.

    The page is one HTML file without network access. It colors the text by one unit, lists the
    units, and finds units for a selected part of the text.

    Examples:
      elmo explore run text.txt --out page.html
      elmo explore run text.txt --out page.html --compare other-run
      elmo explore small-en sentences.txt --out page.html --kinds '[hidden, cell]'
    """

    GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {
        "Size of the page": ("kinds", "all_units", "units", "max_positions", "guesses"),
    }

    model: str
    """Folder written by `elmo lm train`, an ELMo model (name of a bundled or downloaded model,
    model folder, or hub id), or a task model, of which the ELMo is read."""
    text: str
    """Text file, or - for standard input."""
    out: str
    """HTML file to write."""
    compare: str | None = None
    """A second model, which is shown next to the first."""
    kinds: tuple[ValueKind, ...] = ()
    """Values to store: hidden, cell, or the gates input, forget, output, candidate (LSTM), reset,
    update (GRU). Default: all that the network has."""
    all_units: bool = False
    """Store all units. Default: those with the largest variance, as many as fit into 6 MB."""
    units: tuple[int, ...] = ()
    """Numbers of units that are stored in any case."""
    max_positions: int = 10_000
    """Maximum number of characters, bytes or words. The rest of the text is not shown."""
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
