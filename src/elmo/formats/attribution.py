"""Attribution of a model: language, license, publisher's page and the model it is derived from.

Licenses such as CC BY-SA hold for copies and fine-tuned models too, so the attribution is stored in
every model folder that is written.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import yaml

from elmo.formats.model_cache import download_record
from elmo.formats.model_packages import name_of

LANGUAGE = "language"
LICENSE = "license"
PAGE = "page"
DERIVED_FROM = "derived_from"
KEYS = (LANGUAGE, LICENSE, PAGE, DERIVED_FROM)
NOT_STATED = "not stated"
# Codes of languages, as the headers of model cards contain them.
_LANGUAGE_CODES = re.compile(r"[a-z]{2,3}(, [a-z]{2,3})*")


def stored_attribution(value: object) -> dict[str, str]:
    """Return the known keys of `attribution` in a config.json; none if the value is invalid."""
    if not isinstance(value, dict):
        return {}
    return {key: str(value[key]) for key in KEYS if value.get(key)}


def card_attribution(card: str) -> dict[str, str]:
    """Return the language and license in the YAML header of a model card, as far as it has them."""
    try:
        _, header, _ = card.split("---\n", 2)
        fields: object = yaml.safe_load(header)
    except (ValueError, yaml.YAMLError):
        return {}
    if not isinstance(fields, dict):
        return {}
    texts = {}
    for name in (LANGUAGE, LICENSE):
        value = fields.get(name)
        if value:
            texts[name] = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return texts


def includes_english(attribution: Mapping[str, str]) -> bool:
    """Whether English is among the languages of a model, which are codes or names.

    A model whose language is not known may be English: a model of one's own, for example.
    """
    language = attribution.get(LANGUAGE, "en")
    return re.search(r"\b(en|english)\b", language, re.IGNORECASE) is not None


def card_header(attribution: Mapping[str, str]) -> list[str]:
    """Return the lines with language and license for the YAML header of a model card.

    Values that are not codes, such as names of languages, are omitted: hubs reject them.
    """
    lines = []
    language = attribution.get(LANGUAGE, "")
    if _LANGUAGE_CODES.fullmatch(language):
        lines.append(f"language: [{language}]" if "," in language else f"language: {language}")
    license_id = attribution.get(LICENSE, NOT_STATED).lower()
    if re.fullmatch(r"[a-z][\w.-]*", license_id):
        lines.append(f"license: {license_id}")
    return lines


def published_attribution(path: Path) -> dict[str, str]:
    """Return the attribution of a bundled, packaged or downloaded model, given its path.

    For other folders it is that of the model card, if there is one.
    """
    record = download_record(path)
    if record:
        known = {key: str(record[key]) for key in (LANGUAGE, LICENSE, PAGE) if record.get(key)}
        return known | {DERIVED_FROM: str(record.get("name", path.name))}
    installed_name = name_of(path)
    if installed_name is not None:
        return {DERIVED_FROM: installed_name}
    try:
        return card_attribution((path / "README.md").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
