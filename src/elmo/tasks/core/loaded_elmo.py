"""The ELMo model of a task, which a run loads once."""

from functools import cached_property

from elmo.config import TaskELMoConfig
from elmo.embed.embedder import ELMo
from elmo.embed.fingerprint import fingerprint


class LoadedELMo:
    """An ELMo model whose weights do not change, and its fingerprint."""

    def __init__(self, elmo: ELMo) -> None:
        self.elmo = elmo

    @cached_property
    def fingerprint(self) -> str:
        """The fingerprint, computed on first use: hashing all weights takes a while."""
        return fingerprint(self.elmo.to_pretrained())


def load_elmo(config: TaskELMoConfig) -> LoadedELMo | None:
    """Load the ELMo model named in a config; return None if ELMo is not used."""
    return None if config.model is None else LoadedELMo(ELMo.from_pretrained(config.model))


def elmo_of(loaded: LoadedELMo | None) -> ELMo | None:
    """Return the model itself; None if ELMo is not used."""
    return None if loaded is None else loaded.elmo
