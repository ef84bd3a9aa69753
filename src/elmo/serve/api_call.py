"""One call of an endpoint: reading of its fields, its model, and its computation."""

import asyncio
from collections.abc import Awaitable, Sequence
from concurrent.futures import Future
from typing import TypeVar

from starlette.requests import ClientDisconnect, Request

from elmo.config.serve import N_BOUNDARIES
from elmo.errors import ConfigError, ElmoError, InputError, MissingExtra, shortened
from elmo.serve.api_error import ApiError, invalid
from elmo.serve.fair_queue import FairQueue, QueueClosed, QueueFull
from elmo.serve.held_memory import MemoryReservation
from elmo.serve.loaded_model import LoadedModel
from elmo.serve.loaded_task import LoadedTask
from elmo.serve.model_table import LoadFailed, TableEntry
from elmo.serve.queued_request import Item, Operation, QueuedRequest, Result
from elmo.serve.request_body import read_json
from elmo.serve.request_facts import RequestFacts, request_facts
from elmo.serve.request_fields import RequestFields
from elmo.serve.request_sentences import (
    CHARACTERS_PER_WORD,
    RequestSentence,
    SentenceSplitter,
    Text,
    n_characters,
    read_sentences,
)
from elmo.serve.server_state import ServerState
from elmo.serve.split_texts import SplitTexts
from elmo.text.tokenizer import WhitespaceTokenizer

Value = TypeVar("Value")
Loaded = TypeVar("Loaded", LoadedModel, LoadedTask)

BYTES_PER_VALUE = 4


class ApiCall:
    """A call of an endpoint by a client."""

    def __init__(
        self,
        request: Request,
        state: ServerState,
        held: MemoryReservation,
        allowed: Sequence[str] = (),
    ) -> None:
        """Describe the call.

        Args:
            request: The request.
            state: What all requests share.
            held: Memory that is held until the answer is sent.
            allowed: Names of the fields that the endpoint has.
        """
        self.request, self.state, self._held, self._allowed = request, state, held, allowed
        self.config = state.config
        self.facts: RequestFacts = request_facts(request.scope)

    async def fields(self) -> RequestFields:
        """Read the body."""
        data = await read_json(self.request, self.config, self._held)
        return RequestFields(data, self._allowed)

    async def model(self, fields: RequestFields) -> LoadedModel:
        """Return the model named in the field `model`, or the default one; wait while it loads."""
        table = self.state.table
        name = fields.string("model")
        entry = table.models.get(table.default_model if name is None else name)
        if entry is None:
            known = ", ".join(table.models)
            raise ApiError(
                404, f"There is no model {shortened(repr(name), 80)}. Available: {known}."
            )
        return await self._loaded(entry)

    async def task(self, name: str) -> LoadedTask:
        """Return a task by its name; wait while it loads."""
        entry = self.state.table.tasks.get(name)
        if entry is None:
            known = ", ".join(self.state.table.tasks) or "none"
            raise ApiError(404, f"There is no such task. Available: {known}.")
        return await self._loaded(entry)

    async def sentences(
        self, fields: RequestFields, model: LoadedModel, name: str = "sentences"
    ) -> list[RequestSentence]:
        """Return the sentences in a field, split into words."""
        texts = read_sentences(fields.required(name), name, self.config)
        return await self.split(texts, model, name)

    async def split(
        self, texts: Sequence[Text], model: LoadedModel, place: str
    ) -> list[RequestSentence]:
        """Split texts into words."""
        try:
            # Empty texts need no tokenizer.
            tokenizer = model.elmo.tokenizer if any(map(n_characters, texts)) else None
        except MissingExtra as error:
            raise invalid(f"The tokenizer of {model.name} is not installed. {error}") from None
        name = model.elmo.config.text.tokenizer or WhitespaceTokenizer.name
        splitter = SentenceSplitter(place, tokenizer, self.config)
        sentences = await self.split_items(SplitTexts(name, n_characters, splitter), texts)
        self.facts.n_sentences = len(sentences)
        self.facts.n_words = sum(len(sentence.words) for sentence in sentences)
        return sentences

    async def split_items(
        self, operation: SplitTexts[Item, Result], items: Sequence[Item]
    ) -> list[Result]:
        """Split items into words, long ones in the thread for texts."""
        total = sum(map(operation.n_characters, items))
        limit = CHARACTERS_PER_WORD * self.config.max_words
        if total > limit:
            raise invalid(
                f"The texts have {total} characters, more than {limit}. Send several requests."
            )
        if operation.is_short(total):
            return operation.run(items)
        queued = QueuedRequest(operation, items, self.facts.network)
        return await self._through(self.state.text_queue, queued)

    def check_layers(self, model: LoadedModel, layers: str) -> int:
        """Check that a model has the layers, and return how many arrays they are."""
        try:
            model.run(layers)
        except ConfigError as error:
            raise invalid(str(error)) from None
        return model.elmo.config.n_layers if layers == "all" else 1

    def check_softmax(self, model: LoadedModel) -> None:
        """Check that a model has probabilities of words."""
        try:
            _ = model.scorer
        except ElmoError as error:
            raise invalid(str(error)) from None

    async def compute(
        self, operation: Operation[Item, Result], items: Sequence[Item], n_values: int = 0
    ) -> list[Result]:
        """Wait for the results of an operation.

        Args:
            operation: The operation.
            items: Its items.
            n_values: Number of float32 values of all results, which are held until they are sent.
        """
        if not items:
            return []
        queued = QueuedRequest(operation, items, self.facts.network)
        self._held.add(sum(map(operation.n_result_bytes, items)))
        if queued.n_words > self.config.queue_words:
            limit = self.config.queue_words // operation.position_cost
            n_positions = sum(map(operation.n_positions, items))
            raise invalid(
                f"The request has {n_positions} positions, more than {limit}, the limit of this "
                f"path. Positions are words and {N_BOUNDARIES} boundary tokens per sentence. Send "
                "several requests."
            )
        self._held.add(n_values * BYTES_PER_VALUE)
        try:
            return await self._through(self.state.queue, queued)
        except InputError as error:
            raise invalid(str(error)) from None
        finally:
            if queued.started_at is not None:
                self.facts.queue_seconds = queued.started_at - queued.queued_at

    async def _through(self, queue: FairQueue, queued: QueuedRequest[Item, Result]) -> list[Result]:
        """Put a request into a queue and wait for its results."""
        try:
            queue.put(queued)
        except QueueFull:
            raise full(self.state) from None
        except QueueClosed:
            raise stopping() from None
        return await self._unless_gone(queued.future)

    async def _loaded(self, entry: TableEntry[Loaded]) -> Loaded:
        self.facts.subject = entry.name
        loaded = entry.value()
        if loaded is not None:
            return loaded
        try:
            return await self._unless_gone(entry.request())
        except LoadFailed as error:
            raise ApiError(503, f"{error} Ask its operator.", {"retry-after": "60"}) from None

    async def _unless_gone(self, future: Future[Value]) -> Value:
        """Wait for a future; cancel it when the client closes the connection."""
        result: Awaitable[Value] = asyncio.wrap_future(future)
        waiting = asyncio.ensure_future(result)
        gone = asyncio.ensure_future(self._disconnection())
        try:
            await asyncio.wait({waiting, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                raise ClientDisconnect
            return waiting.result()
        finally:
            # Does nothing if it is done.
            waiting.cancel()
            gone.cancel()

    async def _disconnection(self) -> None:
        while (await self.request.receive())["type"] != "http.disconnect":
            pass


def full(state: ServerState) -> ApiError:
    """Return the error of a server that has too many requests."""
    return ApiError(429, "The server has too many requests.", {"retry-after": state.retry_after()})


def stopping() -> ApiError:
    """Return the error of a server that is shutting down."""
    return ApiError(503, "The server is shutting down.", {"retry-after": "1"})
