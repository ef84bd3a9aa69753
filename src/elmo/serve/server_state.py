"""What all requests of a server share."""

import math

from elmo.config.serve import ServeConfig
from elmo.serve.batch_worker import BatchWorker
from elmo.serve.example_words import ExampleWords
from elmo.serve.fair_limit import FairLimit
from elmo.serve.fair_queue import FairQueue
from elmo.serve.held_memory import HeldMemory
from elmo.serve.long_answer import AnswerTurns
from elmo.serve.model_table import ModelTable
from elmo.serve.request_sentences import CHARACTERS_PER_WORD
from elmo.serve.server_metrics import ServerMetrics
from elmo.serve.split_texts import TURN_CHARACTERS

# On a CPU, two batches are computed at the same time if the queue has half of one for the second.
# With 32 clients, three batches, or smaller ones, gave no more words per second.
N_BATCHES_OF_CPU, MUCH_DIVISOR = 2, 2


class ServerState:
    """The models, the queue with its worker, and the limits of a server.

    Attributes:
        is_stopping: Whether new requests are rejected because the server is shutting down.
        n_active: Number of requests in progress.
        computed: Requests in progress that need computation, by host.
        text_queue: Texts to split into words, which `text_worker` takes.
        example_words: Words of the example sentences by model and layers, on first use.
        turns: Turns of long answers.
    """

    def __init__(self, config: ServeConfig, table: ModelTable, *, device: str = "cpu") -> None:
        """Create the queue and the worker, which is not started yet.

        Args:
            config: The limits.
            table: The models and tasks.
            device: Device of the models.
        """
        self.config, self.table = config, table
        self.metrics = ServerMetrics()
        self.queue = FairQueue(
            max_words=config.queue_words,
            max_requests=config.queue_requests,
            much_words=config.batch_words // MUCH_DIVISOR,
        )
        self.worker = BatchWorker(
            self.queue,
            batch_words=config.batch_words,
            n_threads=N_BATCHES_OF_CPU if device == "cpu" else 1,
            report=self.metrics.add_batch,
        )
        self.memory = HeldMemory(config.max_held_mb * 2**20)
        self.text_queue = FairQueue(
            max_words=CHARACTERS_PER_WORD * config.queue_words,
            max_requests=config.queue_requests,
            slice_words=TURN_CHARACTERS,
        )
        # A batch is a turn of one request, which thus fails alone.
        self.text_worker = BatchWorker(self.text_queue, batch_words=TURN_CHARACTERS)
        self.example_words: dict[tuple[str, str], ExampleWords] = {}
        self.turns = AnswerTurns()
        self.is_stopping = False
        self.n_active = 0
        self.computed = FairLimit(config.queue_requests)
        self.metrics.watch(
            "elmo_queued_words", "Positions in the queue.", lambda: self.queue.n_words
        )
        self.metrics.watch(
            "elmo_queued_requests", "Requests in the queue.", lambda: self.queue.n_requests
        )
        self.metrics.watch("elmo_active_requests", "Requests in progress.", lambda: self.n_active)
        self.metrics.watch(
            "elmo_held_bytes", "Memory of bodies and answers.", lambda: self.memory.n_bytes
        )
        self.metrics.watch_caches(
            lambda: {
                name: model.cache
                for name, entry in table.models.items()
                if (model := entry.value()) is not None and model.cache is not None
            }
        )

    def is_full(self, host: str) -> bool:
        """Return whether new requests of a host are rejected if they need computation."""
        return self.queue.is_full(host) or not self.computed.has_room(host)

    def retry_after(self) -> str:
        """Return the header Retry-After: seconds until the queue is empty, at least 1."""
        return str(max(1, math.ceil(self.worker.seconds_of_work)))
