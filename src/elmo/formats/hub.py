"""Model folders on a hub: one repository is one folder, fetched into the hub's own cache.

All talk with the hub goes through `huggingface_hub` (extra `hub`), which also minds HF_ENDPOINT,
HF_HUB_OFFLINE and HF_TOKEN. What is inside a folder is for the other readers to say.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from elmo.errors import FormatError, MissingExtra, OutputError

if TYPE_CHECKING:
    from huggingface_hub.errors import HfHubHTTPError

OWN_FILES = ("config.json", "model.safetensors", "vocab.txt", "characters.json", "words.json")
MODEL_FILES = (
    *OWN_FILES,
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
    "*/cnn_*.json",
)
_LOG_IN = "run hf auth login or set HF_TOKEN"
_NO_ID = "it is no hub id, which looks like owner/name"


def download(repository: str) -> Path:
    """Fetch a repository into the hub's cache and give its folder there.

    Only the files of a model are fetched, from the main branch. Where the hub cannot be asked, the
    cache alone decides.

    Args:
        repository: hub id, owner/name.
    """
    try:
        import huggingface_hub
    except ImportError:
        missing = MissingExtra("downloading it from a hub", "hub")
        raise FormatError(f"there is no file or folder {repository}, and {missing}") from None

    if "/" not in repository:
        raise FormatError(f"there is no file or folder {repository}, and {_NO_ID}")

    def fetch(*, from_cache: bool) -> Path:
        return Path(
            huggingface_hub.snapshot_download(
                repository,
                allow_patterns=list(MODEL_FILES),
                ignore_patterns=["*/*"],  # a star of the list above would reach into subfolders
                local_files_only=from_cache,
            )
        )

    # Anything may come out of the layers below (httpx, xet, file system); one kind leaves here.
    try:
        try:
            folder = fetch(from_cache=False)
        except Exception as error:
            # A refused connection makes snapshot_download look into the cache; one that breaks
            # off, a proxy that fails or a login page in between does not.
            if not _is_unreachable(error):
                raise
            folder = fetch(from_cache=True)
    except Exception as error:
        raise FormatError(_why_no_download(error, repository)) from error
    if not folder.is_dir():
        raise FormatError(f"the repository {repository} on the hub holds no file of a model")
    return folder


def upload(folder: Path, repository: str, *, private: bool = False) -> str:
    """Put a model folder on the hub and give the address of the commit.

    The repository is made where there is none. Of an older model there, the files that the new
    one lacks are removed in the same commit, so that the two never mix.

    Args:
        folder: all its files are uploaded.
        repository: hub id, owner/name.
        private: whether only its owner may see it; an existing public one is refused.
    """
    try:
        import huggingface_hub
    except ImportError:
        raise MissingExtra("uploading to a hub", "hub") from None

    if "/" not in repository:
        raise OutputError(f"cannot upload to {repository}: {_NO_ID}")
    if not folder.is_dir():
        raise OutputError(f"cannot upload {folder}: there is no such folder")
    if not any(path.is_file() for path in folder.iterdir()):
        raise OutputError(f"cannot upload {folder}: it holds no files")
    api = huggingface_hub.HfApi()
    try:
        api.create_repo(repository, private=private, exist_ok=True)
        is_exposed = private and not api.model_info(repository).private
        if not is_exposed:
            commit = api.upload_folder(
                repo_id=repository,
                folder_path=folder,
                commit_message="Upload ELMo model",
                delete_patterns=list(OWN_FILES),
            )
            return str(commit.commit_url)
    except Exception as error:
        raise OutputError(f"cannot upload to {repository}: {_why_no_upload(error)}") from error
    raise OutputError(
        f"cannot upload to {repository}: it should be private, but exists already and is public; "
        "change that on its page or take another name"
    )


def _why_no_download(error: Exception, repository: str) -> str:
    from huggingface_hub import errors

    nowhere = f"there is no file or folder {repository}"
    if isinstance(error, errors.HFValidationError):
        return f"{nowhere}, and {_NO_ID}"
    answer = _answer(error)
    if answer is None:
        reason = _why_no_answer(error)
        # Older versions of the library do not tell a part from the whole.
        if isinstance(error, getattr(errors, "IncompleteSnapshotError", ())):
            return f"only a part of {repository} is in the hub's cache, and {reason}"
        if isinstance(error, errors.LocalEntryNotFoundError):
            return f"{nowhere}, {repository} is not in the hub's cache, and {reason}"
        return f"cannot download {repository}: {reason}"
    if isinstance(answer, errors.RevisionNotFoundError):
        return f"the repository {repository} on the hub has no branch main"
    if isinstance(answer, errors.GatedRepoError):
        return f"{repository} is gated: ask for access on its page on the hub, then {_LOG_IN}"
    # To a stranger the hub gives the same answer for what is private and what does not exist.
    if _is_unauthorised(answer) and not _has_token(answer):
        return (
            f"{nowhere}, and the hub shows no repository of that name without a login: "
            f"check the spelling, or if it is private, {_LOG_IN}"
        )
    if isinstance(answer, errors.RepositoryNotFoundError) and not _is_unauthorised(answer):
        return (
            f"{nowhere}, and no repository of that name which you may read is on the hub: "
            "check the spelling, or if it is private, the rights of your token"
        )
    return f"cannot download {repository}: {_why_refused(answer)}"


def _why_no_upload(error: Exception) -> str:
    from huggingface_hub.errors import HFValidationError

    if isinstance(error, HFValidationError):
        return _NO_ID
    answer = _answer(error)
    if answer is None:
        return _why_no_answer(error)
    # Of a faulty file the library tells more than the hub's answer: which one it is.
    if error is not answer and isinstance(error, ValueError):
        return _one_line(error)
    return _why_refused(answer)


def _why_refused(answer: "HfHubHTTPError") -> str:
    """Say why the hub answered with an error, as the end of a sentence."""
    if _is_unauthorised(answer):
        if _has_token(answer):
            return "the hub does not accept your token: run hf auth login again or set HF_TOKEN"
        return f"you are not logged in to the hub: {_LOG_IN}"
    status = answer.response.status_code
    said = _one_line(answer.server_message or answer)
    if status in (403, 404):
        return f"the hub refuses it ({status}: {said}): check the name and the rights of your token"
    if status == 429 or status >= 500:
        return f"the hub is in trouble or busy ({status}: {said}): try again later"
    return f"the hub refuses it ({status}: {said})"


def _why_no_answer(error: Exception) -> str:
    """Say why no answer of the hub was to be had, as the end of a sentence."""
    from huggingface_hub.errors import OfflineModeIsEnabled

    for cause in _causes(error):
        if isinstance(cause, OfflineModeIsEnabled):
            return "offline mode is on: unset HF_HUB_OFFLINE to ask the hub"
        if _is_unreachable(cause):
            return f"the hub cannot be reached ({_one_line(cause)}): check the connection"
        if isinstance(cause, OSError) and cause.errno is not None:
            return _one_line(cause)
    return _one_line(error) or type(error).__name__


def _answer(error: Exception) -> "HfHubHTTPError | None":
    """Find the hub's own answer among the causes of an error."""
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
    # By name, for huggingface_hub has changed its HTTP library from version to version.
    library = type(error).__module__.partition(".")[0]
    return library in ("httpx", "httpx2") and not isinstance(error, HfHubHTTPError)


def _is_unauthorised(answer: "HfHubHTTPError") -> bool:
    return answer.response.status_code == 401


def _has_token(answer: "HfHubHTTPError") -> bool:
    return "authorization" in answer.response.request.headers


def _one_line(text: object) -> str:
    line = " ".join(str(text).split())
    return line if len(line) <= 200 else line[:200] + "..."
