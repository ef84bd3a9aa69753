"""Write the tables of published models in docs/models.md.

python docs/make_models_page.py
"""

import re
from collections.abc import Iterable
from pathlib import Path

from elmo.formats.published_models import MODELS, PublishedModel

PAGE = Path(__file__).with_name("models.md")
TABLE = re.compile(r"(<!-- table: ([\w ]+) -->\n).*?(<!-- end -->)", re.S)


def page() -> str:
    """Return the text of the page with current tables."""
    many = [model for model in MODELS.values() if model.name.startswith("manylangs-")]
    others = [model for model in MODELS.values() if model not in many]
    tables = {
        "published": [
            "| name | language | training text | size | license | address |",
            "| --- | --- | --- | --- | --- | --- |",
            *map(_row, others),
        ],
        "many languages": [
            "| name | language | file | name | language | file |",
            "| --- | --- | --- | --- | --- | --- |",
            *_two_columns(many),
        ],
    }
    return TABLE.sub(
        lambda match: match[1] + "\n".join(["", *tables[match[2]], "", match[3]]),
        PAGE.read_text(encoding="utf-8"),
    )


def _row(model: PublishedModel) -> str:
    size = f"{model.megabytes} MB" if model.megabytes else "–"
    mark = "" if model.is_listed else "¹"
    links = [f"[{_kind(file.name)}]({file.url})" for file in model.files]
    address = f"{', '.join(links)}{mark}; [page]({model.page})"
    cells = (f"`{model.name}`", model.language, model.text, size, model.license, address)
    return f"| {' | '.join(cells)} |"


def _kind(name: str) -> str:
    ending = name.rsplit(".", 1)[1]
    return {"json": "options", "hdf5": "weights"}.get(ending, "archive")


def _two_columns(models: list[PublishedModel]) -> Iterable[str]:
    cells = [
        f"`{model.name}` | {model.language} | [{model.files[0].name}]({model.files[0].url})"
        for model in models
    ]
    half = (len(cells) + 1) // 2
    for left, right in zip(cells[:half], cells[half:], strict=True):
        yield f"| {left} | {right} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
