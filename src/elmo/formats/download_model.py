"""The `download` command, which downloads a published model by name."""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from elmo.config import DownloadConfig
from elmo.errors import ConfigError, OutputError, did_you_mean, interruption_note
from elmo.files import LOCK, atomic_path, locked
from elmo.formats import bundled
from elmo.formats.http_download import MEGABYTE, download_file
from elmo.formats.model_cache import FORMAT, RECORD, download_record, model_folder_of, model_path
from elmo.formats.model_packages import (
    PROJECT_MODELS,
    missing_models,
    missing_package_message,
    package_names,
)
from elmo.formats.published_models import MODELS, PublishedModel


@dataclass(frozen=True)
class DownloadResult:
    """Result of downloading a model, whose path is for `--model` and `from_pretrained`.

    `is_new` is False if the model was there already. `has_checksums` is whether the files were
    compared with published checksums.
    """

    name: str
    path: str
    is_new: bool
    language: str
    license: str
    page: str
    n_bytes: int
    sha256: dict[str, str]
    has_checksums: bool

    def __str__(self) -> str:
        action = "downloaded" if self.is_new else "already downloaded"
        in_cache = Path(self.path) == model_path(model_folder_of(self.name), self.name)
        source = self.name if in_cache else self.path
        lines = [
            f"{self.name}: {action} to {self.path} ({self.n_bytes / MEGABYTE:,.1f} MB)",
            f"language: {self.language}; license: {self.license}; see {self.page}",
            f'Use it with --model {source} or ELMo.from_pretrained("{source}").',
        ]
        if not self.has_checksums:
            lines.append("note: Not verified, because the publisher states no checksums. SHA-256:")
            lines += [f"  {digest}  {name}" for name, digest in self.sha256.items()]
        return "\n".join(lines)


@dataclass(frozen=True)
class PublishedList:
    """Models that can be downloaded, one record per model."""

    models: tuple[dict[str, object], ...]

    def to_dict(self) -> dict[str, object]:
        """Return the list as JSON-compatible data."""
        return {"models": list(self.models)}

    def __str__(self) -> str:
        header = ("name", "language", "MB", "license", "training text")
        rows = [
            (
                model["name"],
                model["language"],
                str(model["megabytes"] or "?"),
                model["license"],
                model["text"],
            )
            for model in self.models
        ]
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        lines = [
            "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in (header, *rows)
        ]
        notes = (
            "",
            f"Installed: {', '.join([*bundled.installed(), *package_names()]) or 'none'}.",
            *map(missing_package_message, missing_models()),
            "The addresses were not checked; --json prints them. A license that is not stated has "
            "to be requested from the publisher.",
        )
        return "\n".join([*lines, *notes])


@dataclass(frozen=True)
class NothingToDownload:
    """Result of downloading a bundled or packaged model."""

    name: str

    def __str__(self) -> str:
        return f"{self.name} is installed with a package; there is nothing to download."


def download(config: DownloadConfig) -> DownloadResult | PublishedList | NothingToDownload:
    """Download a published model to the cache or a folder, or list the models."""
    if config.list:
        return PublishedList(tuple(map(_description, MODELS.values())))
    if config.name is None:
        raise ConfigError("Specify the name of a model, or --list to list all models.")
    if config.name in bundled.NAMES or config.name in package_names():
        return NothingToDownload(config.name)
    if config.name in PROJECT_MODELS:
        raise ConfigError(missing_package_message(config.name))
    if config.name not in MODELS:
        names = [*bundled.NAMES, *package_names(), *PROJECT_MODELS, *MODELS]
        raise ConfigError(
            f"There is no published model {config.name}.{did_you_mean(config.name, names)} Run "
            "elmo download --list for all names."
        )
    model = MODELS[config.name]
    folder = model_folder_of(model.name) if config.out is None else Path(config.out).expanduser()
    if download_record(folder).get("name") == model.name:
        return _result(model, folder, is_new=False)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OutputError(
            f"Cannot write {folder}: it exists already. Specify a new folder (--out)."
        )
    note = "The files received so far are kept. Run the same command again to resume."
    with interruption_note(lambda: note):
        _download(model, folder)
    return _result(model, folder, is_new=True)


def _download(model: PublishedModel, folder: Path) -> None:
    """Download all files to a hidden folder, which is renamed when they are complete."""
    partial = folder.with_name(f".{folder.name}.{model.name}.partial")
    with locked(partial, f"Another process is downloading {model.name} to {folder}."):
        try:
            _download_files(model, partial)
        finally:
            # Without any received file there is nothing to resume.
            if os.listdir(partial) == [LOCK]:
                shutil.rmtree(partial, ignore_errors=True)
        try:
            (partial / LOCK).unlink()
            partial.rename(folder)
        except OSError as error:
            raise OutputError(f"Cannot write {folder}: {error.strerror}.") from None


def _download_files(model: PublishedModel, folder: Path) -> None:
    digests: dict[str, str] = {}
    for file in model.files:
        path = folder / file.name
        # A file with its final name was checked by an earlier attempt, and is in the record.
        known = _recorded_digests(folder)
        digests[file.name] = (
            known[file.name]
            if path.is_file() and file.name in known
            else download_file(file.url, path, file.checksum)
        )
        _write_record(model, folder, digests)


def _recorded_digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file in the record of a download; empty if there is none."""
    digests = download_record(folder).get("sha256")
    if not isinstance(digests, dict):
        return {}
    return {name: str(digest) for name, digest in digests.items()}


def _write_record(model: PublishedModel, folder: Path, digests: dict[str, str]) -> None:
    description = {"format": FORMAT, **_description(model), "sha256": digests}
    with atomic_path(folder / RECORD) as path:
        path.write_text(json.dumps(description, indent=1, ensure_ascii=False), encoding="utf-8")


def _description(model: PublishedModel) -> dict[str, object]:
    return {
        "name": model.name,
        "language": model.language,
        "text": model.text,
        "license": model.license,
        "megabytes": model.megabytes,
        "page": model.page,
        "urls": [file.url for file in model.files],
        "is_listed": model.is_listed,
    }


def _result(model: PublishedModel, folder: Path, *, is_new: bool) -> DownloadResult:
    return DownloadResult(
        name=model.name,
        path=str(model_path(folder, model.name)),
        is_new=is_new,
        language=model.language,
        license=model.license,
        page=model.page,
        n_bytes=sum((folder / file.name).stat().st_size for file in model.files),
        sha256=_recorded_digests(folder),
        has_checksums=all(file.checksum for file in model.files),
    )
