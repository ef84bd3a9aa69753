"""Paths that describe the server: /info, /health, /ready and /metrics."""

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response
from starlette.types import ASGIApp

from elmo import __version__
from elmo.formats.attribution import LANGUAGE, includes_english
from elmo.serve.api_call import ApiCall
from elmo.serve.endpoint import Endpoint
from elmo.serve.model_table import ModelTable
from elmo.serve.routes.field_schemas import object_of
from elmo.serve.routes.json_response import json_response

LIMITS = (
    "max_sentences",
    "max_words",
    "max_sentence_words",
    "max_word_characters",
    "max_body_mb",
    "timeout",
)


async def health(call: ApiCall) -> ASGIApp:
    """Return that the process answers."""
    return json_response({"status": "ok"})


async def ready(call: ApiCall) -> ASGIApp:
    """Return whether requests are accepted and everything that must be loaded is loaded."""
    if call.state.is_stopping:
        return json_response({"status": "shutting down"}, 503)
    if not call.state.table.is_ready:
        return json_response({"status": "loading"}, 503)
    return json_response({"status": "ready"})


async def metrics(call: ApiCall) -> ASGIApp:
    """Return the metrics for Prometheus."""
    return Response(call.state.metrics.text(), media_type=CONTENT_TYPE_LATEST)


async def info(call: ApiCall) -> ASGIApp:
    """Return the version, the models, the tasks and the limits."""
    table = call.state.table
    limits = {name: getattr(call.config, name) for name in LIMITS}
    tasks = {
        name: {"state": entry.state, **_task_facts(table, name)}
        for name, entry in table.tasks.items()
    }
    models = {
        name: {"state": entry.state, **_model_facts(table, name)}
        for name, entry in table.models.items()
    }
    return json_response(
        {
            "version": __version__,
            "default_model": table.default_model,
            "models": models,
            "tasks": tasks,
            "limits": limits,
        }
    )


def _model_facts(table: ModelTable, name: str) -> dict[str, object]:
    model = table.models[name].value()
    if model is None:
        return {}
    config = model.elmo.config
    return {
        "dimension": config.dim,
        "layers": config.n_layers,
        "tokenizer": config.text.tokenizer or "whitespace",
        "language": model.elmo.attribution.get(LANGUAGE),
        "has_softmax": config.n_softmax_words > 0,
        "has_neighbors": includes_english(model.elmo.attribution),
        "precision": model.precision or "default",
    }


def _task_facts(table: ModelTable, name: str) -> dict[str, object]:
    task = table.tasks[name].value()
    return {} if task is None else {"task": task.task_name, "texts": task.n_inputs}


STATUS = {"status": {"type": "string"}}
HEALTH = Endpoint(
    "/health", health, "Whether the process answers", answer=object_of(STATUS), is_limited=False
)
READY = Endpoint(
    "/ready",
    ready,
    "Whether requests are accepted; status 503 if not",
    answer=object_of(STATUS),
    statuses={503: "Models are loading, or the server is shutting down."},
    is_limited=False,
)
METRICS = Endpoint(
    "/metrics", metrics, "Metrics for Prometheus", answer="text/plain", is_limited=False
)
INFO = Endpoint(
    "/info",
    info,
    "Version, models, tasks and limits",
    answer=object_of(
        {
            "version": {"type": "string"},
            "default_model": {"type": "string"},
            "models": {"type": "object"},
            "tasks": {"type": "object"},
            "limits": {"type": "object"},
        }
    ),
    is_limited=False,
)
