"""What the log and the metrics record about a request; none of it is text of the request."""

from dataclasses import dataclass, field
from itertools import count
from uuid import uuid4

from starlette.types import Scope

from elmo.serve.client_network import client_network

_KEY = "elmo-facts"
# A random number for each request would be a system call, which gives way to the worker.
_PREFIX = uuid4().hex[:12]
_NUMBERS = count(1)


@dataclass
class RequestFacts:
    """Facts about a request, which are filled in while it is processed.

    Attributes:
        host: Address of the client.
        network: What limits count as one host.
        id: Unique id, which the answer has in the header X-Request-Id.
        route: Pattern of the path; "other" for an unknown path.
        subject: Name of the model or task.
        n_sentences: Number of sentences or other items.
        n_words: Number of words.
        queue_seconds: Time between acceptance and computation.
    """

    host: str
    id: str = field(default_factory=lambda: f"{_PREFIX}-{next(_NUMBERS)}")
    route: str = "other"
    subject: str | None = None
    n_sentences: int | None = None
    n_words: int | None = None
    queue_seconds: float | None = None
    network: str = field(init=False)

    def __post_init__(self) -> None:
        """Derive the network from the address."""
        self.network = client_network(self.host)

    def attach(self, scope: Scope) -> None:
        """Make the facts available to the handlers of a request."""
        scope[_KEY] = self


def request_facts(scope: Scope) -> RequestFacts:
    """Return the facts about a request."""
    facts: RequestFacts = scope[_KEY]
    return facts
