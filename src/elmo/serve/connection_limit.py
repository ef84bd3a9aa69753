"""The limit on connections of the server."""

from elmo.serve.fair_limit import EXTRA_PART, FairLimit

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

MAX_CONNECTIONS = 1024
# Files that the process opens besides its connections.
OTHER_FILES = 128


def connection_limit() -> FairLimit:
    """Return the limit. It is lower if the process may not open enough files.

    Raises the soft limit on open files. Without this, one host could use up the files before the
    fair limit is reached.
    """
    n_connections = MAX_CONNECTIONS
    if resource is not None:
        n_files = n_connections + n_connections // EXTRA_PART + OTHER_FILES
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if 0 <= soft < n_files:
            soft = n_files if hard < 0 else min(n_files, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            rest = max(soft - OTHER_FILES, soft // 2)
            n_connections = min(n_connections, rest * EXTRA_PART // (EXTRA_PART + 1))
    return FairLimit(n_connections)
