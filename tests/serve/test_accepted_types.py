"""Tests of the choice between a safetensors file and JSON."""

import pytest

from elmo.serve.accepted_types import is_preferred
from elmo.serve.long_answer import JSON
from elmo.serve.vector_formats import SAFETENSORS


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("application/octet-stream", True),
        ("Application/Octet-Stream", True),
        ("text/html, application/octet-stream", True),
        ("application/octet-stream;q=0.5", True),
        ("application/octet-stream, application/json", True),
        ("*/*, application/octet-stream", True),
        ("application/json;q=0.8, application/octet-stream;q=0.9", True),
        ("", False),
        ("*/*", False),
        ("application/*", False),
        ("application/json", False),
        ("application/json, application/octet-stream", False),
        ("application/octet-stream;q=0.5, application/json", False),
        ("application/octet-stream; q=0.5, */*", False),
        ("application/octet-stream;q=0", False),
        ("application/octet-stream;q=high, */*;q=0.1", False),
        ("text/html," * 100 + "application/octet-stream", False),  # ignored, as it is too far
    ],
)
def test_type_must_be_named_and_preferred(accept, expected):
    assert is_preferred(accept, SAFETENSORS, JSON) is expected
