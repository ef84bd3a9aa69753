"""Tests of the limit on connections and open files."""

import pytest

from elmo.serve import connection_limit as module
from elmo.serve.connection_limit import MAX_CONNECTIONS, OTHER_FILES, connection_limit

resource = pytest.importorskip("resource")
NEEDED = MAX_CONNECTIONS * 5 // 4 + OTHER_FILES


class FakeResource:
    RLIMIT_NOFILE, RLIM_INFINITY = resource.RLIMIT_NOFILE, -1

    def __init__(self, soft, hard):
        self.limits = soft, hard

    def getrlimit(self, number):
        assert number == self.RLIMIT_NOFILE
        return self.limits

    def setrlimit(self, number, limits):
        assert number == self.RLIMIT_NOFILE
        self.limits = limits


@pytest.mark.parametrize(
    ("soft", "hard", "raised", "n_connections"),
    [
        (256, 2**20, NEEDED, MAX_CONNECTIONS),
        (1024, -1, NEEDED, MAX_CONNECTIONS),
        (1024, 1024, 1024, (1024 - OTHER_FILES) * 4 // 5),
        (100, 100, 100, 40),
        (2**20, 2**20, 2**20, MAX_CONNECTIONS),
        (-1, -1, -1, MAX_CONNECTIONS),
    ],
)
def test_limit_on_open_files_is_raised(monkeypatch, soft, hard, raised, n_connections):
    fake = FakeResource(soft, hard)
    monkeypatch.setattr(module, "resource", fake)
    assert connection_limit().limit == n_connections
    assert fake.limits == (raised, hard)


def test_systems_without_limits_on_files_have_the_full_limit(monkeypatch):
    monkeypatch.setattr(module, "resource", None)
    assert connection_limit().limit == MAX_CONNECTIONS
