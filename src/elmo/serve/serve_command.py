"""The `serve` command: runs the HTTP server until SIGTERM or Ctrl-C."""

import logging
import os
import sys
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec

from elmo.config.serve import ServeConfig
from elmo.errors import MissingExtra
from elmo.kernels.device import default_device

logger = logging.getLogger(__name__)

# Seconds to finish a batch in progress before an error is reported.
ERROR_SECONDS = 30.0
PACKAGES = ("httptools", "orjson", "prometheus_client", "starlette", "uvicorn")


@dataclass(frozen=True)
class ServeResult:
    """Counts of a server that has stopped.

    Attributes:
        n_requests: Number of answered requests.
        n_unfinished: Number of accepted requests that were not finished within the time limit.
    """

    n_requests: int
    n_unfinished: int

    def __str__(self) -> str:
        """Return nothing: the output of a server is its access log."""
        return ""


def serve(config: ServeConfig) -> ServeResult:
    """Serve the models and tasks of a config until SIGTERM or Ctrl-C."""
    if any(find_spec(name) is None for name in PACKAGES):
        raise MissingExtra("elmo serve", "serve")
    from elmo.serve.access_control import read_token
    from elmo.serve.application import create_app
    from elmo.serve.http_server import HttpServer, open_listener
    from elmo.serve.loaded_model import LoadedModel
    from elmo.serve.loaded_task import LoadedTask
    from elmo.serve.model_table import ModelTable
    from elmo.serve.server_state import ServerState

    token = read_token(config.token_file)
    device = config.device or default_device()
    table = ModelTable(
        {
            name: partial(LoadedModel.load, name, source, device, config.precision)
            for name, source in config.models().items()
        },
        {
            name: partial(LoadedTask.load, name, folder, device)
            for name, folder in config.tasks().items()
        },
        lazy=config.lazy,
    )
    state = ServerState(config, table, device=device)
    app = create_app(state, token=token, write_log=_write_line if config.access_log else None)
    with open_listener(config) as listener:
        server = HttpServer(state, app)
        address, port = listener.getsockname()[:2]
        shown = f"[{address}]" if ":" in address else address
        sys.stderr.write(f"elmo serve: http://{shown}:{port}\n")
        if token is None and not config.is_local:
            logger.warning(
                "Everyone who can reach %s can send requests. Set --token-file or "
                "ELMO_SERVE_TOKEN to require a token.",
                shown,
            )
        server.run_until_stopped(listener)
    if server.load_error is not None:
        server.has_computed(ERROR_SECONDS)
        raise server.load_error
    if not server.has_computed():
        _end_process()
    return ServeResult(server.server_state.total_requests, server.n_unfinished)


def _end_process() -> None:
    """End the process while threads compute or load, without a result.

    At its end, the interpreter would wait for some of them, and stop others within native code,
    which aborts the process (before Python 3.14).
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _write_line(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()
