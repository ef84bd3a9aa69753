"""An operation for tests that records its batches and can be held."""

import threading
from dataclasses import dataclass, field

from elmo.errors import InputError
from elmo.serve.queued_request import Operation


@dataclass(eq=False)
class FakeOperation(Operation):
    """Doubles numbers. A number is also its cost; "bad" and "broken" items fail."""

    name = "fake"
    batches: list = field(default_factory=list)
    gate: threading.Event | None = None
    """If set, a batch waits for this event."""
    running: threading.Event = field(default_factory=threading.Event)
    """Set when a batch begins."""

    @property
    def subject(self):
        return "model"

    def n_positions(self, item):
        return item if isinstance(item, int) else 1

    def run(self, items):
        self.batches.append(list(items))
        self.running.set()
        if self.gate is not None:
            assert self.gate.wait(10)
        if "bad" in items:
            raise InputError("The item is bad.")
        if "broken" in items:
            raise ZeroDivisionError
        return [2 * item for item in items]
