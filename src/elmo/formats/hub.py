"""Uploads and downloads of models on a Hugging Face hub, one model folder per repository.

ELMo models and task models consist of different files, which the callers name.

All requests go through `huggingface_hub` (extra `hub`), which also reads HF_ENDPOINT,
HF_HUB_OFFLINE and HF_TOKEN and caches downloads. This module does not interpret the files; the
format readers do.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from elmo.errors import FormatError, MissingExtra, OutputError, shortened

if TYPE_CHECKING:
    from huggingface_hub.errors import HfHubHTTPError

MODEL_FOLDER_FILES = (
    "config.json",
    "model.safetensors",
    "vocab.txt",
    "characters.json",
    "words.json",
)
MODEL_FILES = (
    *MODEL_FOLDER_FILES,
    "README.md",
    # bilm-tf and AllenNLP
    "*options*.json",
    "*.[hH][dD][fF]5",
    "*.[hH]5",
    "vocab.txt.gz",
    "checkpoint",
    "*.index",
    "*.data-*",
    "model.tar.gz",
    "best.th",
    "weights.th",
    # ELMoForManyLangs
    "encoder.pkl",
    "token_embedder.pkl",
    "char.dic",
    "word.dic",
    "cnn_*.json",
)
_HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")
_HOW_TO_LOG_IN = "Run hf auth login or set HF_TOKEN."
_NOT_A_HUB_ID = "a hub id has the form owner/name"


def is_hub_id(source: str) -> bool:
    """Whether a name has the form owner/name, which relative paths can have too."""
    return _HUB_ID.fullmatch(source) is not None


def download(
    repository: str, files: Sequence[str] = MODEL_FILES, *, has_subfolders: bool = False
) -> Path:
    """Download the repository owner/name into the hub's cache and return its folder there.

    Only files on the main branch are downloaded. If the hub cannot be reached, a copy in the cache
    is used.

    Args:
        repository: Hub id, "owner/name".
        files: Patterns of the files to download. Default: those of ELMo models.
        has_subfolders: Whether the patterns also match files in subfolders.
    """
    try:
        import huggingface_hub
    except ImportError:
        missing_extra = MissingExtra("downloading it from a hub", "hub")
        raise FormatError(f"No file or folder {repository} exists, and {missing_extra}") from None

    if "/" not in repository:
        raise FormatError(f"No file or folder {repository} exists; {_NOT_A_HUB_ID}.")

    def fetch(*, from_cache: bool) -> Path:
        return Path(
            huggingface_hub.snapshot_download(
                repository,
                allow_patterns=list(files),
                ignore_patterns=None if has_subfolders else ["*/*"],
                local_files_only=from_cache,
            )
        )

    # httpx, xet and the file system raise many exception types: convert all to FormatError.
    try:
        try:
            folder = fetch(from_cache=False)
        except Exception as error:
            # snapshot_download falls back to its cache only if the connection cannot be opened,
            # not after an interrupted connection, a proxy error or a login page.
            if not _is_unreachable(error):
                raise
            folder = fetch(from_cache=True)
    except Exception as error:
        raise FormatError(_download_error(error, repository)) from error
    if not folder.is_dir():
        raise FormatError(f"The repository {repository} on the hub contains no model files.")
    return folder


def upload(
    folder: Path,
    repository: str,
    *,
    private: bool = False,
    replaced: Sequence[str] = MODEL_FOLDER_FILES,
    message: str = "Upload ELMo model",
) -> str:
    """Upload a model folder to the repository owner/name and return the URL of the commit.

    The repository is created if it does not exist.

    Args:
        folder: Model folder.
        repository: Hub id, "owner/name".
        private: Whether a new repository is private; an existing public one is then an error.
        replaced: Patterns of the files of a previous model. Those that the new model does not have
            are deleted in the same commit, so that the two are never mixed.
        message: Message of the commit.
    """
    try:
        import huggingface_hub
    except ImportError:
        raise MissingExtra("uploading to a hub", "hub") from None

    if "/" not in repository:
        raise OutputError(f"Cannot upload to {repository}: {_NOT_A_HUB_ID}.")
    if not folder.is_dir():
        raise OutputError(f"Cannot upload {folder}: the folder does not exist.")
    if not any(path.is_file() for path in folder.iterdir()):
        raise OutputError(f"Cannot upload {folder}: the folder contains no files.")
    api = huggingface_hub.HfApi()
    try:
        api.create_repo(repository, private=private, exist_ok=True)
        is_exposed = private and not api.model_info(repository).private
        if not is_exposed:
            commit = api.upload_folder(
                repo_id=repository,
                folder_path=folder,
                commit_message=message,
                delete_patterns=list(replaced),
            )
            return str(commit.commit_url)
    except Exception as error:
        raise OutputError(f"Cannot upload to {repository}: {_upload_error(error)}") from error
    raise OutputError(
        f"Cannot upload to {repository}: private=True was given, but the repository already exists "
        "and is public. Make it private on its page or choose another name."
    )


def _download_error(error: Exception, repository: str) -> str:
    from huggingface_hub import errors

    not_local = f"No file or folder {repository} exists"
    if isinstance(error, errors.HFValidationError):
        return f"{not_local}; {_NOT_A_HUB_ID}."
    http_error = _http_error(error)
    if http_error is None:
        reason = _connection_error(error)
        # Older versions of the library do not distinguish incomplete from missing.
        if isinstance(error, getattr(errors, "IncompleteSnapshotError", ())):
            return f"The hub's cache contains only part of {repository}, and {reason}"
        if isinstance(error, errors.LocalEntryNotFoundError):
            return f"{not_local}, it is not in the hub's cache, and {reason}"
        return f"Cannot download {repository}: {reason}"
    if isinstance(http_error, errors.RevisionNotFoundError):
        return f"The repository {repository} on the hub has no branch main."
    if isinstance(http_error, errors.GatedRepoError):
        return f"{repository} is gated. Request access on its hub page first. {_HOW_TO_LOG_IN}"
    # Without a login the hub answers the same for private and for missing repositories.
    if _is_unauthorized(http_error) and not _has_token(http_error):
        return (
            f"{not_local}, and the hub has no public repository of that name. Check the "
            f"spelling. If the repository is private: {_HOW_TO_LOG_IN}"
        )
    if isinstance(http_error, errors.RepositoryNotFoundError) and not _is_unauthorized(http_error):
        return (
            f"{not_local}, and the hub has no repository of that name that you can read. Check "
            "the spelling or, if it is private, the permissions of your token."
        )
    return f"Cannot download {repository}: {_response_error(http_error)}"


def _upload_error(error: Exception) -> str:
    from huggingface_hub.errors import HFValidationError

    if isinstance(error, HFValidationError):
        return f"{_NOT_A_HUB_ID}."
    http_error = _http_error(error)
    if http_error is None:
        return _connection_error(error)
    # For an invalid file the library's error is better than the response: it names the file.
    if error is not http_error and isinstance(error, ValueError):
        return shortened(error)
    return _response_error(http_error)


def _response_error(http_error: "HfHubHTTPError") -> str:
    """Return the reason for an HTTP error from the hub, as the last part of an error message."""
    if _is_unauthorized(http_error):
        if _has_token(http_error):
            return f"the hub rejected your token. {_HOW_TO_LOG_IN}"
        return f"you are not logged in to the hub. {_HOW_TO_LOG_IN}"
    status = http_error.response.status_code
    server_message = shortened(http_error.server_message or http_error)
    if status in (403, 404):
        return (
            f"the hub denied access ({status}: {server_message}). Check the name and the "
            "permissions of your token."
        )
    if status == 429 or status >= 500:
        return f"the hub is busy or unavailable ({status}: {server_message}). Try again later."
    return f"the hub rejected the request ({status}: {server_message})."


def _connection_error(error: Exception) -> str:
    """Return why there was no response from the hub, as the last part of an error message."""
    from huggingface_hub.errors import OfflineModeIsEnabled

    for cause in _causes(error):
        if isinstance(cause, OfflineModeIsEnabled):
            return "offline mode is on. Unset HF_HUB_OFFLINE to use the hub."
        if _is_unreachable(cause):
            return f"the hub cannot be reached ({shortened(cause)}). Check the connection."
        if isinstance(cause, OSError) and cause.errno is not None:
            return shortened(cause)
    return shortened(error) or type(error).__name__


def _http_error(error: Exception) -> "HfHubHTTPError | None":
    """Return the hub's HTTP error from the exception chain, if there is one."""
    from huggingface_hub.errors import HfHubHTTPError

    return next((cause for cause in _causes(error) if isinstance(cause, HfHubHTTPError)), None)


def _causes(error: BaseException) -> Iterator[BaseException]:
    current: BaseException | None = error
    seen: set[int] = set()
    while current is not None and id(current) not in seen:
        yield current
        seen.add(id(current))
        current = current.__cause__ or current.__context__


def _is_unreachable(error: BaseException) -> bool:
    from huggingface_hub.errors import HfHubHTTPError

    if isinstance(error, json.JSONDecodeError):
        return True
    # Compared by name because versions of huggingface_hub use different HTTP libraries.
    library = type(error).__module__.partition(".")[0]
    return library in ("httpx", "httpx2") and not isinstance(error, HfHubHTTPError)


def _is_unauthorized(http_error: "HfHubHTTPError") -> bool:
    return http_error.response.status_code == 401


def _has_token(http_error: "HfHubHTTPError") -> bool:
    return "authorization" in http_error.response.request.headers
