"""Config class of the HTTP server."""

import re
from dataclasses import dataclass
from typing import ClassVar

from elmo.config.bounds import require_at_least_one
from elmo.errors import ConfigError

# Positions of a sentence besides its words: those of the boundary tokens.
N_BOUNDARIES = 2
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True)
class ServeConfig:
    """Serve word vectors, scores, substitutes and task models over HTTP.

    The server listens on this machine only. To let others connect, set --host and a token.

    Examples:
      elmo serve
      elmo serve --model small-en --model mine=my-elmo --precision int8
      elmo serve --task sentiment=runs/sst --port 8080
      ELMO_SERVE_TOKEN=secret elmo serve --host 0.0.0.0
    """

    GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {
        "Models": ("model", "task", "lazy", "device", "precision"),
        "Network": ("host", "port", "shutdown_timeout", "access_log"),
        "Access": ("token_file", "allowed_host", "trusted_proxy", "cors_origin"),
        "Limits of a request": (
            "max_sentences",
            "max_words",
            "max_sentence_words",
            "max_word_characters",
            "max_body_mb",
            "timeout",
        ),
        "Limits of the server": ("batch_words", "queue_words", "queue_requests", "max_held_mb"),
    }

    model: tuple[str, ...] = ("small-en",)
    """NAME or NAME=SOURCE: a model and the name by which requests select it. The source is the name
    of a bundled or downloaded model, a model folder, or a hub id. The first one is the default of
    requests."""
    task: tuple[str, ...] = ()
    """NAME=FOLDER: a task model written by `elmo task fit`, served at /tasks/NAME."""
    lazy: bool = False
    """Load each model and task on first use instead of at the start."""
    device: str | None = None
    """Device, such as cpu or cuda. Default: cuda if available."""
    precision: str | None = None
    """Computation precision of the models: auto, float32, bfloat16, float16 (GPU only), int8 (CPU
    only) or int8x3 (CPU with AMX). Default: the dtype of the weights."""
    host: str = "127.0.0.1"
    """Address to listen on. 0.0.0.0 accepts connections from other machines."""
    port: int = 8000
    """Port to listen on. 0: any free port."""
    shutdown_timeout: float = 30.0
    """Seconds that accepted requests get to finish after SIGTERM or Ctrl-C."""
    access_log: bool = True
    """Write one JSON object per request to standard output. It contains no text of requests."""
    token_file: str | None = None
    """File with the token that requests must send as `Authorization: Bearer TOKEN`. Default: the
    environment variable ELMO_SERVE_TOKEN; without both, no token is needed."""
    allowed_host: tuple[str, ...] = ()
    """Name of this server in the header Host. Default: localhost, 127.0.0.1 and ::1 if it listens
    on this machine only, otherwise any name."""
    trusted_proxy: tuple[str, ...] = ()
    """Address of a proxy whose header X-Forwarded-For names the client."""
    cors_origin: tuple[str, ...] = ()
    """Origin of web pages that may send requests, such as https://example.org. Default: none."""
    max_sentences: int = 1024
    """Maximum number of sentences or other items."""
    max_words: int = 16_384
    """Maximum number of words."""
    max_sentence_words: int = 1024
    """Maximum number of words per sentence."""
    max_word_characters: int = 1000
    """Maximum number of characters per word."""
    max_body_mb: int = 2
    """Maximum size of the body, in MiB."""
    timeout: float = 30.0
    """Seconds until a request is answered with 504."""
    batch_words: int = 4096
    """Maximum number of positions per batch: words and two boundary tokens per sentence."""
    queue_words: int = 32_768
    """Maximum number of positions in the queue. Requests above it are answered with 429."""
    queue_requests: int = 512
    """Maximum number of requests in progress. Requests above it are answered with 429."""
    max_held_mb: int = 1024
    """Memory for bodies and answers of requests in progress, in MiB. Requests above it are answered
    with 429."""

    def __post_init__(self) -> None:
        """Validate names and limits."""
        self.models()
        self.tasks()
        require_at_least_one(
            self,
            "max_sentences",
            "max_words",
            "max_sentence_words",
            "max_word_characters",
            "max_body_mb",
            "batch_words",
            "queue_words",
            "queue_requests",
            "max_held_mb",
        )
        for name in ("timeout", "shutdown_timeout"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ConfigError(f"{name} must be above 0 (got {getattr(self, name)}).")
        if not 0 <= self.port < 2**16:
            raise ConfigError(f"port must be between 0 and 65535 (got {self.port}).")
        if self.max_sentence_words + N_BOUNDARIES > self.batch_words:
            raise ConfigError(
                f"--max-sentence-words ({self.max_sentence_words}) and {N_BOUNDARIES} boundary "
                f"tokens must fit into --batch-words ({self.batch_words})."
            )
        if self.max_words + N_BOUNDARIES * self.max_sentences > self.queue_words:
            raise ConfigError(
                f"--max-words ({self.max_words}) and {N_BOUNDARIES} boundary tokens for each of "
                f"--max-sentences ({self.max_sentences}) must fit into --queue-words "
                f"({self.queue_words})."
            )

    def models(self) -> dict[str, str]:
        """Return the source of each model by name."""
        if not self.model:
            raise ConfigError("--model is missing: the server needs at least one model.")
        return _named("--model", self.model)

    def tasks(self) -> dict[str, str]:
        """Return the folder of each task model by name."""
        for value in self.task:
            if "=" not in value:
                raise ConfigError(f"--task must be NAME=FOLDER (got {value!r}).")
        return _named("--task", self.task)

    @property
    def max_values(self) -> int:
        """Maximum number of JSON values in a body: more than its words and sentences need."""
        return 2 * (self.max_words + self.max_sentences)

    @property
    def is_local(self) -> bool:
        """Whether the server only listens on this machine."""
        return self.host in _LOOPBACK

    @property
    def host_names(self) -> tuple[str, ...]:
        """Accepted values of the header Host, without port; empty for any."""
        return self.allowed_host or (_LOOPBACK if self.is_local else ())


def _named(flag: str, values: tuple[str, ...]) -> dict[str, str]:
    """Return the sources by name, from values of the form NAME or NAME=SOURCE."""
    sources: dict[str, str] = {}
    for value in values:
        name, equals, source = value.partition("=")
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"{flag} {value}: {name!r} is not a name of up to 64 characters A-Z, a-z, 0-9, "
                f"dots, hyphens and underscores. Use {flag} NAME={source or value}."
            )
        if equals and not source:
            raise ConfigError(f"{flag} {value}: the source after the equals sign is missing.")
        if name in sources:
            raise ConfigError(f"{flag}: the name {name} is used twice.")
        sources[name] = source or name
    return sources
