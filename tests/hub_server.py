"""A minimal in-memory hub server for tests, with the endpoints that `huggingface_hub` uses.

It supports models, one branch and commits, but no xet storage, pull requests or CDN.
"""

import base64
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import unquote, urlsplit

from local_server import LocalServer

Files = dict[str, bytes]

# Tokens of the server in tests.
WRITE_TOKEN, READ_TOKEN = "hf_write", "hf_read"

_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


@dataclass
class Commit:
    """Files in a repository at one commit."""

    oid: str
    message: str
    files: Files


@dataclass
class Repository:
    """A repository and its history, oldest commit first.

    Attributes:
        name: Hub id (owner/name).
        is_private: Whether reading requires a valid token.
        is_gated: Whether all downloads are denied.
        branch: Name of the only branch.
        commits: All commits; there is at least one.
    """

    name: str
    is_private: bool = False
    is_gated: bool = False
    branch: str = "main"
    commits: list[Commit] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Create an initial commit, as the real hub does."""
        self.commit("initial commit", {})

    @property
    def files(self) -> Files:
        """Files in the newest commit."""
        return self.commits[-1].files

    def commit(self, message: str, files: Files) -> Commit:
        """Add a commit with exactly these files."""
        content = repr((self.name, len(self.commits), sorted(files.items())))
        commit = Commit(hashlib.sha1(content.encode()).hexdigest(), message, files)
        self.commits.append(commit)
        return commit

    def commit_at(self, revision: str) -> Commit | None:
        """Return the commit for a revision, or None if it does not exist."""
        if revision == self.branch:
            return self.commits[-1]
        return next((commit for commit in self.commits if commit.oid == revision), None)


class HTTPError(Exception):
    """An error response."""

    def __init__(self, status: int, message: str, code: str | None = None) -> None:
        """Create an error with an HTTP status, a message and the hub's error code."""
        super().__init__(message)
        self.status, self.message, self.code = status, message, code


class HubServer(LocalServer):
    """A hub that runs inside a `with` block.

    Attributes:
        repositories: Repositories by name.
        write_token: Token that can read and write everything; None allows everyone.
        read_token: Token that can read everything.
        large_endings: Extensions of the files that are uploaded through Git LFS.
        fault: Simulated fault: a status code or bytes to send as every response, or 0 to close the
            connection without a response.
        requests: Method and path of all requests, in order.
    """

    def __init__(
        self,
        *,
        write_token: str | None = None,
        read_token: str | None = None,
        large_endings: tuple[str, ...] = (".safetensors", ".hdf5"),
    ) -> None:
        """Bind a free port. Requests are served only inside the `with` block."""
        self.repositories: dict[str, Repository] = {}
        self.large_files: dict[str, bytes] = {}
        self.write_token, self.read_token = write_token, read_token
        self.large_endings = large_endings
        self.fault: int | bytes | None = None
        self.requests: list[str] = []
        hub = self

        class BoundHandler(_Handler):
            def setup(self) -> None:
                self.hub = hub
                super().setup()

        self.bind(BoundHandler)

    def add(self, name: str, files: Files, *, is_private: bool = False) -> Repository:
        """Add a repository as if it had been uploaded before."""
        repository = self.repositories[name] = Repository(name, is_private)
        repository.commit("files", dict(files))
        return repository


class _Handler(BaseHTTPRequestHandler):
    # HTTP/1.0, so that every connection is closed after its response.
    protocol_version = "HTTP/1.0"
    hub: HubServer

    def log_message(self, format: str, *arguments: object) -> None:
        """Suppress request logging to stderr."""

    def do_GET(self) -> None:
        self._serve()

    do_HEAD = do_POST = do_PUT = do_GET

    def _serve(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.requests.append(f"{self.command} {path}")
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Transfer-Encoding") == "chunked":
            self.body = self._read_chunks()
        fault = self.hub.fault
        if fault == 0:
            return
        try:
            if isinstance(fault, int):
                raise HTTPError(fault, "the test server is set to fail")
            if isinstance(fault, bytes):
                self._send(200, fault, {"Content-Type": "text/html"})
            else:
                self._route(path)
        except HTTPError as error:
            headers = {"X-Error-Message": error.message}
            if error.code is not None:
                headers["X-Error-Code"] = error.code
            self._send_json({"error": error.message}, error.status, headers)

    def _read_chunks(self) -> bytes:
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _route(self, path: str) -> None:
        for method, pattern, handler in _ROUTES:
            match = re.fullmatch(pattern, path)
            if match and self.command in method:
                handler(self, **match.groupdict())
                return
        raise HTTPError(404, f"the test server does not support {self.command} {path}")

    def _send(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _send_json(
        self, value: object, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        content = json.dumps(value).encode()
        self._send(status, content, {"Content-Type": "application/json", **(headers or {})})

    # Permissions. Without a token the status is 401 for private and for missing repositories.

    def _token(self) -> str | None:
        header = self.headers.get("Authorization")
        known = [token for token in (self.hub.write_token, self.hub.read_token) if token]
        if header is None:
            return None
        if header.removeprefix("Bearer ") not in known:
            raise HTTPError(401, "Invalid credentials in Authorization header")
        return header.removeprefix("Bearer ")

    def _check_may_write(self) -> None:
        token = self._token()
        if self.hub.write_token is None:
            return
        if token is None:
            raise HTTPError(401, "Invalid username or password.")
        if token != self.hub.write_token:
            raise HTTPError(403, "You don't have the rights to do this")

    def _repository(self, name: str) -> Repository:
        token = self._token()
        repository = self.hub.repositories.get(name)
        if repository is not None and (token is not None or not repository.is_private):
            return repository
        if token is None:
            raise HTTPError(401, "Invalid username or password.")
        raise HTTPError(404, "Repository not found", "RepoNotFound")

    def _find_commit(self, name: str, revision: str) -> Commit:
        commit = self._repository(name).commit_at(revision)
        if commit is None:
            raise HTTPError(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return commit

    def _is_large(self, path: str, content: bytes) -> bool:
        return path.endswith(self.hub.large_endings) and bool(content)

    # Endpoints

    def answer_create(self) -> None:
        self._check_may_write()
        request = json.loads(self.body)
        name = f"{request['organization']}/{request['name']}"
        url = {"url": f"{self.hub.endpoint}/{name}"}
        if name in self.hub.repositories:
            self._send_json({"error": "You already created this model repo", **url}, 409)
            return
        # Older clients send `private`.
        is_private = request.get("visibility") == "private" or request.get("private", False)
        self.hub.repositories[name] = Repository(name, is_private)
        self._send_json(url)

    def answer_card_check(self) -> None:
        if "broken: [" in json.loads(self.body)["content"]:
            self._send_json({"errors": [{"message": "the metadata is not valid YAML"}]}, 400)
            return
        self._send_json({"errors": [], "warnings": []})

    def answer_info(self, name: str, revision: str | None = None) -> None:
        commit = self._find_commit(name, revision or "main")
        self._send_json(
            {
                "id": name,
                "sha": commit.oid,
                "private": self.hub.repositories[name].is_private,
                "siblings": [{"rfilename": path} for path in commit.files],
            }
        )

    def answer_tree(self, name: str, revision: str) -> None:
        entries = []
        for path, content in self._find_commit(name, revision).files.items():
            entry: dict[str, Any] = {"type": "file", "path": path, "size": len(content)}
            entry["oid"] = self._oid(path, content)
            if self._is_large(path, content):
                entry["lfs"] = {"oid": entry["oid"], "size": entry["size"], "pointerSize": 134}
            entries.append(entry)
        self._send_json(entries)

    def answer_file(self, name: str, revision: str, path: str) -> None:
        commit = self._find_commit(name, revision)
        headers = {"X-Repo-Commit": commit.oid, "Accept-Ranges": "bytes"}
        if self.hub.repositories[name].is_gated:
            raise HTTPError(403, f"Access to model {name} is restricted", "GatedRepo")
        if path not in commit.files:
            raise HTTPError(404, "Entry not found", "EntryNotFound")
        content = commit.files[path]
        headers["ETag"] = f'"{self._oid(path, content)}"'
        byte_range = _RANGE.fullmatch(self.headers.get("Range", ""))
        if byte_range is None:
            self._send(200, content, headers)
            return
        start = int(byte_range[1])
        part = content[start : int(byte_range[2]) + 1 if byte_range[2] else None]
        headers["Content-Range"] = f"bytes {start}-{start + len(part) - 1}/{len(content)}"
        self._send(206, part, headers)

    def answer_preupload(self, name: str, revision: str) -> None:
        self._check_may_write()
        existing = self._find_commit(name, revision).files
        entries = []
        for file in json.loads(self.body)["files"]:
            path = file["path"]
            mode = "lfs" if path.endswith(self.hub.large_endings) else "regular"
            entry = {"path": path, "uploadMode": mode, "shouldIgnore": False}
            if path in existing:
                entry["oid"] = self._oid(path, existing[path])
            entries.append(entry)
        self._send_json({"files": entries})

    def answer_large_batch(self, name: str) -> None:
        self._check_may_write()
        self._repository(name)
        objects = []
        for file in json.loads(self.body)["objects"]:
            entry = {"oid": file["oid"], "size": file["size"]}
            if file["oid"] not in self.hub.large_files:
                url = f"{self.hub.endpoint}/large/{file['oid']}"
                entry["actions"] = {"upload": {"href": url}}
            objects.append(entry)
        self._send_json({"transfer": "basic", "objects": objects})

    def answer_large_file(self, oid: str) -> None:
        if _sha256(self.body) != oid:
            raise HTTPError(400, "the content does not match its hash")
        self.hub.large_files[oid] = self.body
        self._send(200, b"", {})

    def answer_commit(self, name: str, revision: str) -> None:
        self._check_may_write()
        files = dict(self._find_commit(name, revision).files)
        message = ""
        for line in self.body.splitlines():
            operation = json.loads(line)
            value = operation["value"]
            match operation["key"]:
                case "header":
                    message = value["summary"]
                case "file":
                    files[value["path"]] = base64.b64decode(value["content"])
                case "lfsFile":
                    files[value["path"]] = self.hub.large_files[value["oid"]]
                case "deletedFile":
                    del files[value["path"]]
                case other:
                    raise HTTPError(400, f"the test server does not support the operation {other}")
        commit = self.hub.repositories[name].commit(message, files)
        url = f"{self.hub.endpoint}/{name}/commit/{commit.oid}"
        self._send_json({"success": True, "commitOid": commit.oid, "commitUrl": url})

    def _oid(self, path: str, content: bytes) -> str:
        if self._is_large(path, content):
            return _sha256(content)
        return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


_MODEL = r"/api/models/(?P<name>[^/]+/[^/]+)"
_ROUTES: list[tuple[str, str, Callable[..., None]]] = [
    ("POST", r"/api/repos/create", _Handler.answer_create),
    ("POST", r"/api/validate-yaml", _Handler.answer_card_check),
    ("GET", _MODEL, _Handler.answer_info),
    ("GET", _MODEL + r"/revision/(?P<revision>.+)", _Handler.answer_info),
    ("GET", _MODEL + r"/tree/(?P<revision>[^/]+)", _Handler.answer_tree),
    ("POST", _MODEL + r"/preupload/(?P<revision>.+)", _Handler.answer_preupload),
    ("POST", _MODEL + r"/commit/(?P<revision>.+)", _Handler.answer_commit),
    (
        "POST",
        r"/(?P<name>[^/]+/[^/]+)\.git/info/lfs/objects/batch",
        _Handler.answer_large_batch,
    ),
    ("PUT", r"/large/(?P<oid>\w+)", _Handler.answer_large_file),
    (
        "GET HEAD",
        r"/(?P<name>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<path>.+)",
        _Handler.answer_file,
    ),
]
