"""Speed of `elmo serve`, and its behavior under load, at SIGTERM and with hostile requests.

    python benchmarks/serve.py latency throughput
    python benchmarks/serve.py overload --seconds 60
    python benchmarks/serve.py sigterm hostile

The server is a process on this machine, and the clients are in this process. All sentences are
random and distinct, with the words and lengths of `sentences.txt` and of the sentences of the demo.
Variants are measured in turn.
"""

import argparse
import asyncio
import random
import statistics
import sys
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from machine import describe
from serve_load import Answer, Client, MeasuredServer, measured_server, post

from elmo.config.serve import ServeConfig
from elmo.demo.sense_neighbors import load_occurrences
from elmo.embed.embedder import ELMo
from elmo.embed.sentence_groups import count_positions
from elmo.inference.word_cache import WordCache

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from hostile_requests import hostile_requests, problem, send

LIMITS = ServeConfig()
N_CLIENTS = 32
# Connections of the overload, more than requests fit into the queue.
N_OPEN_CONNECTIONS = 400
ROUND_SECONDS = 5.0
Words = list[str]


class SentenceSource:
    """Random distinct sentences."""

    def __init__(self, elmo: ELMo) -> None:
        lines = (Path(__file__).parent / "sentences.txt").read_text(encoding="utf-8").splitlines()
        texts = [*lines, *(occurrence.sentence for occurrence in load_occurrences())]
        sentences = [elmo.tokenizer.words(text) for text in texts if text.strip()]
        self._words = [word for words in sentences for word in words]
        self._lengths = [len(words) for words in sentences]
        self._random = random.Random(1)

    def take(self, n: int) -> list[Words]:
        """Return sentences."""
        lengths = self._random.choices(self._lengths, k=n)
        return [self._random.choices(self._words, k=length) for length in lengths]


class InProcess:
    """`encode` in this process, with the batch limits of the server."""

    def __init__(self, elmo: ELMo, precision: str) -> None:
        self._run = elmo.encoding_run(precision=precision, cache=WordCache())

    def encode(self, sentences: list[Words]) -> None:
        """Encode sentences in one batch."""
        self._run.encode(sentences)

    def words_per_second(self, sentences: list[Words]) -> float:
        """Return the rate for sentences in batches of the server's size."""
        n_words, started = 0, time.perf_counter()
        batch: list[Words] = []
        for words in sentences:
            if batch and count_positions([*batch, words]) > LIMITS.batch_words:
                self.encode(batch)
                batch = []
            batch.append(words)
            n_words += len(words)
        self.encode(batch)
        return n_words / (time.perf_counter() - started)


def median_and_range(values: Sequence[float], unit: str) -> str:
    """Return the median, minimum and maximum as text."""
    return f"{statistics.median(values):,.2f} {unit} ({min(values):,.2f} to {max(values):,.2f})"


def percentile(values: Sequence[float], share: float) -> float:
    """Return a percentile of values; NaN without any."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


# ------------------------------------------------------------------------------------- latency


def latency(server: MeasuredServer, local: InProcess, source: SentenceSource) -> None:
    """Print the time of one sentence over HTTP and in process."""

    async def measure() -> None:
        client = await Client.connect(server.port)
        formats = {"JSON": "application/json", "safetensors": "application/octet-stream"}
        seconds: dict[str, list[float]] = {name: [] for name in ("in process", *formats)}
        for _ in range(400):
            (words,) = source.take(1)
            started = time.perf_counter()
            local.encode([words])
            seconds["in process"].append(time.perf_counter() - started)
            for name, accept in formats.items():
                answer = await client.ask(post("/embed", {"sentences": [words]}, accept))
                assert answer.status == 200
                seconds[name].append(answer.seconds)
        client.close()
        for name, values in seconds.items():
            # Other programs on the machine affect the lowest tenth least.
            shown = [
                f"p{100 * share:.0f} {1000 * percentile(values, share):.2f} ms "
                f"({1000 * (percentile(values, share) - percentile(base, share)):+.2f})"
                for base in [seconds["in process"]]
                for share in (0.1, 0.5, 0.99)
            ]
            print(f"one sentence, {name}: {', '.join(shown)}")

    asyncio.run(measure())


# ---------------------------------------------------------------------------------- throughput


def throughput(server: MeasuredServer, local: InProcess, source: SentenceSource) -> None:
    """Print the rate over HTTP with 32 clients as a share of the rate in process."""
    for n_sentences in (1, 8, 32):
        http, in_process, shares = [], [], []
        for number in range(6):
            n = int(ROUND_SECONDS * 600)
            in_process.append(local.words_per_second(source.take(n)))
            http.append(http_words_per_second(server, source.take(n), n_sentences))
            if number:  # the first round fills the caches
                shares.append(100 * http[-1] / in_process[-1])
        print(
            f"{N_CLIENTS} clients, {n_sentences} sentences per request: "
            f"{median_and_range(http[1:], 'words/s')}, in process "
            f"{median_and_range(in_process[1:], 'words/s')}, share {median_and_range(shares, '%')}"
        )


def http_words_per_second(
    server: MeasuredServer, sentences: list[Words], n_sentences: int
) -> float:
    """Return the rate of 32 clients, each of which sends one request after the other."""
    requests = [
        post("/embed", {"sentences": sentences[first : first + n_sentences]})
        for first in range(0, len(sentences), n_sentences)
    ]

    async def run() -> float:
        clients = [await Client.connect(server.port) for _ in range(N_CLIENTS)]
        waiting = iter(requests)

        async def work(client: Client) -> None:
            for request in waiting:
                answer = await client.ask(request)
                assert answer.status == 200, answer.status
            client.close()

        started = time.perf_counter()
        await asyncio.gather(*map(work, clients))
        return time.perf_counter() - started

    return sum(map(len, sentences)) / asyncio.run(run())


# ------------------------------------------------------------------------------------ overload


def overload(server: MeasuredServer, source: SentenceSource, seconds: float) -> None:
    """Print what happens to requests at twice the capacity."""
    n_sentences = 8
    sentences = source.take(int(ROUND_SECONDS * 600))
    http_words_per_second(server, sentences, n_sentences)
    rate = http_words_per_second(server, sentences, n_sentences)
    n_words = sum(map(len, sentences)) / (len(sentences) / n_sentences)
    per_second = 2 * rate / n_words
    # Answers are pooled, because one process cannot read 100 MB/s and measure milliseconds.
    bodies = [
        post("/embed", {"sentences": source.take(n_sentences), "pooling": "mean"})
        for _ in range(500)
    ]
    print(f"capacity {rate:,.0f} words/s; offered {per_second:,.0f} requests/s for {seconds:g} s")

    async def run() -> tuple[list[Answer], Counter[str]]:
        answers: list[Answer] = []
        others: Counter[str] = Counter()
        # Each is used in turn, because the server closes connections that are idle.
        free = deque([await Client.connect(server.port) for _ in range(N_OPEN_CONNECTIONS)])
        pending: set[asyncio.Task[None]] = set()

        async def ask(client: Client, request: bytes) -> None:
            try:
                answers.append(await client.ask(request))
                free.append(client)
            except (ConnectionError, asyncio.IncompleteReadError) as error:
                others[type(error).__name__] += 1

        started, n_sent = time.perf_counter(), 0
        while (elapsed := time.perf_counter() - started) < seconds:
            while n_sent < elapsed * per_second:
                n_sent += 1
                if not free:
                    others["not sent: no free connection"] += 1
                    continue
                task = asyncio.create_task(ask(free.popleft(), bodies[n_sent % len(bodies)]))
                pending.add(task)
                task.add_done_callback(pending.discard)
            await asyncio.sleep(0.002)
        while pending:
            await asyncio.wait(pending)
        return answers, others

    answers, others = asyncio.run(run())
    accepted = [answer.seconds for answer in answers if answer.status == 200]
    rejected = [1000 * answer.seconds for answer in answers if answer.status == 429]
    statuses = Counter(answer.status for answer in answers)
    accepted_rate = len(accepted) * (n_words + 2 * n_sentences) / seconds
    bound = most_positions() / accepted_rate
    print(f"statuses {dict(statuses)}; lost or not sent: {dict(others) or 0}")
    print(
        f"accepted: p50 {percentile(accepted, 0.5):.2f} s, p99 {percentile(accepted, 0.99):.2f} s, "
        f"longest {max(accepted):.2f} s; queue and four batches at {accepted_rate:,.0f} "
        f"positions/s: {bound:.2f} s"
    )
    print(
        f"positions answered while an accepted request was in progress: at most "
        f"{most_positions_passed(server):,}; queue and four batches: {most_positions():,}"
    )
    print(
        f"rejected: p50 {percentile(rejected, 0.5):.1f} ms, p90 "
        f"{percentile(rejected, 0.9):.1f} ms, p99 {percentile(rejected, 0.99):.1f} "
        f"ms, longest {max(rejected, default=0):.1f} ms"
    )


def most_positions() -> int:
    """Return the number of positions that may be computed while a request is in progress."""
    return LIMITS.queue_words + 4 * LIMITS.batch_words


def most_positions_passed(server: MeasuredServer) -> int:
    """Return the most positions that were answered while an accepted request was in progress.

    Unlike times, it does not depend on the other programs on the machine.
    """
    ends, sizes, starts = [], [0], []
    for record in server.records():
        if record["status"] == 200 and record["route"] == "/embed":
            words, sentences, seconds = (record[name] for name in ("words", "sentences", "seconds"))
            assert isinstance(words, int)
            assert isinstance(sentences, int)
            assert isinstance(seconds, float)
            ends.append(datetime.fromisoformat(str(record["time"])).timestamp())
            starts.append(ends[-1] - seconds)
            sizes.append(sizes[-1] + words + 2 * sentences)
    # The log is in the order of the answers.
    return max(
        sizes[number + 1] - sizes[bisect_left(ends, start)] for number, start in enumerate(starts)
    )


# ------------------------------------------------------------------------------------- sigterm


def sigterm(source: SentenceSource, arguments: Sequence[str], rounds: int = 5) -> None:
    """Print the number of accepted requests that are lost when the server is terminated."""
    lost, answered, rejected = 0, 0, 0
    for number in range(rounds):
        with measured_server(*arguments) as server:
            statuses, cut_off = asyncio.run(_load_until_stopped(server, source, 2 + 0.3 * number))
            records = Counter(
                record["status"] for record in server.records() if record["route"] == "/embed"
            )
        # Each request that the server accepted and answered has reached its client.
        lost += cut_off + records[200] - statuses[200] + records[499] + records[500]
        answered += statuses[200]
        rejected += statuses[503]
        assert server.process.returncode == 0
    print(
        f"SIGTERM under load, {rounds} times: {answered} accepted requests answered, {lost} lost, "
        f"{rejected} rejected with 503"
    )


async def _load_until_stopped(
    server: MeasuredServer, source: SentenceSource, seconds: float
) -> tuple[Counter[int], int]:
    """Return the statuses of answers, and the number of answers that were cut off."""
    statuses: Counter[int] = Counter()
    cut_off = 0

    async def work(client: Client) -> None:
        nonlocal cut_off
        with suppress(ConnectionError):
            while True:
                try:
                    answer = await client.ask(post("/embed", {"sentences": source.take(8)}))
                except asyncio.IncompleteReadError as error:
                    cut_off += bool(error.partial)
                    return
                statuses[answer.status] += 1
                if answer.status != 200:
                    return

    clients = [await Client.connect(server.port) for _ in range(N_CLIENTS)]
    tasks = [asyncio.create_task(work(client)) for client in clients]
    await asyncio.sleep(seconds)
    stopped = asyncio.create_task(asyncio.to_thread(server.stop))
    await asyncio.gather(*tasks)
    await stopped
    for client in clients:
        client.close()
    return statuses, cut_off


# ------------------------------------------------------------------------------------- hostile


def hostile(server: MeasuredServer, n: int) -> None:
    """Print what hostile requests do to the server.

    The same number of other ones comes first, twice, so that the caches have their size.
    """
    memory = []
    problems: Counter[str] = Counter()
    for seed in (1, 2, 3):
        requests = list(hostile_requests(n, seed))
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda request: send(server.port, request), requests))
        for request, answer in zip(requests, answers, strict=True):
            if found := problem(request, answer):
                problems[found] += 1
        time.sleep(3)  # time limits of unfinished requests
        memory.append(server.memory_mb)
    status = server.process.poll()
    print(
        f"three times {n} hostile requests: "
        f"{'still running' if status is None else f'exit {status}'}, problems "
        f"{dict(problems) or 0}, memory after each "
        f"{', '.join(f'{value:.0f}' for value in memory)} MB"
    )


def main() -> None:
    """Run the named measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = ("latency", "throughput", "overload", "sigterm", "hostile")
    parser.add_argument("names", nargs="+", choices=names)
    parser.add_argument("--model", default="small-en")
    parser.add_argument("--precision", default="int8")
    parser.add_argument("--seconds", type=float, default=60.0, help="duration of the overload")
    parser.add_argument("--n", type=int, default=5000, help="number of hostile requests")
    options = parser.parse_args()
    print(describe())
    elmo = ELMo.from_pretrained(options.model)
    source, local = SentenceSource(elmo), InProcess(elmo, options.precision)
    arguments = ["--model", f"model={options.model}", "--precision", options.precision]
    measures: dict[str, Callable[[MeasuredServer], None]] = {
        "latency": lambda server: latency(server, local, source),
        "throughput": lambda server: throughput(server, local, source),
        "overload": lambda server: overload(server, source, options.seconds),
        "hostile": lambda server: hostile(server, options.n),
    }
    for name in options.names:
        if name == "sigterm":
            sigterm(source, arguments)
            continue
        with measured_server(*arguments) as server:
            measures[name](server)


if __name__ == "__main__":
    main()
