"""What the vectors of a model know, as the table of its card, beside the same model untrained.

    python runs/probe.py MODEL --data FOLDER

FOLDER holds ud-ewt/ (parts of speech), wsd/ (word senses) and lm1b/ (geometry), unpacked. The
figures and what they mean are told in docs/probes.md.
"""

import argparse
import dataclasses
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch

from elmo import ELMo
from elmo.config import ReadingConfig
from elmo.corpus.sentence_reader import read_sentences
from elmo.errors import ConfigError, ElmoError, FormatError
from elmo.evaluate.geometry import geometry
from elmo.evaluate.parts_of_speech import TaggedText, tag_accuracies
from elmo.evaluate.probe_vectors import Encode
from elmo.evaluate.word_senses import SenseData, sense_accuracy
from elmo.kernels.device import default_device
from elmo.model.initialization import initialize
from elmo.model.network import ELMoNetwork

TAG_NAMES = {"xpos": "tags of the Penn Treebank", "upos": "universal tags"}


@dataclass(frozen=True)
class Row:
    """One figure of a model.

    Attributes:
        measure: what is measured, and in what.
        layer: number of the layer, or what stands for it.
        value: as it is printed.
    """

    measure: str
    layer: str
    value: str


@dataclass(frozen=True)
class Table:
    """The figures of several models on the same data.

    Attributes:
        columns: rows of each model, by its name.
        notes: on what they were measured, a sentence each.
    """

    columns: dict[str, list[Row]]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        """Give it in Markdown."""
        lines = [
            f"| measure | layer | {' | '.join(self.columns)} |",
            "| --- | --- |" + " ---: |" * len(self.columns),
        ]
        for rows in zip(*self.columns.values(), strict=True):
            values = " | ".join(row.value for row in rows)
            lines.append(f"| {rows[0].measure} | {rows[0].layer} | {values} |")
        return "\n".join([*lines, "", *(f"- {note}" for note in self.notes)])


@dataclass(frozen=True)
class Place:
    """Where a probe's data lies in a folder, and the archive it comes in."""

    folder: str
    file: str
    archive: str


PLACES = {
    "pos": Place("ud-ewt", "train.conllu", "ud-ewt.tar.xz"),
    "wsd": Place("wsd", "wordnet-3.0/index.sense", "wsd.tar.xz"),
    "geometry": Place("lm1b", "heldout-00010-00011.txt", "lm1b-heldout.tar.xz"),
}


def place_of(data: Path, probe: str) -> Path:
    """Give the folder of a probe's data; where it is not there, say which archive to unpack."""
    place = PLACES[probe]
    if not (data / place.folder / place.file).is_file():
        raise FormatError(
            f"the probe {probe} needs {data / place.folder / place.file}, which is not there: "
            f"unpack {place.archive} in {data}, or leave it out with --probes"
        )
    return data / place.folder


def random_twin(elmo: ELMo, seed: int = 0) -> ELMo:
    """Give a model of the same geometry and text with weights as training begins with."""
    network = ELMoNetwork(config=elmo.config)
    initialize(network, seed)
    return ELMo(dataclasses.replace(elmo.to_pretrained(), weights=network.state_dict()))


def probe(
    models: dict[str, ELMo],
    data: Path,
    *,
    probes: Sequence[str] = tuple(PLACES),
    device: str | torch.device | None = None,
    text: Path | None = None,
    limit: int | None = None,
) -> Table:
    """Measure models on the same data.

    Args:
        models: by the name of their column.
        data: holds the unpacked sets.
        probes: any of pos, wsd and geometry.
        device: of models and probes; a GPU where there is one if None.
        text: of the geometry, a sentence a line, split at white space; None for the one in `data`.
        limit: sentences of each text, at most, to try things, but for the words whose sense is
            asked for; None for all.
    """
    unknown = [name for name in probes if name not in PLACES]
    if unknown:
        raise ConfigError(f"there is no probe {unknown[0]!r}; there are {', '.join(PLACES)}")
    if limit is not None and limit < 1:
        raise ConfigError(f"limit is {limit}; it must be at least 1")
    folders = {name: place_of(data, name) for name in probes if name != "geometry" or text is None}
    device = device or default_device()
    columns: dict[str, list[Row]] = {name: [] for name in models}
    notes: list[str] = []
    for name in probes:
        path = folders.get(name, text)
        assert path is not None
        measure = MEASURES[name](path, device, limit)
        found = {column: measure(_encoder(elmo, device)) for column, elmo in models.items()}
        for column, figures in found.items():
            columns[column] += figures.rows
        notes += next(iter(found.values())).notes
    if limit is not None:
        notes.append(
            "A trial: of EWT's parts, SemCor and the text of the geometry only the first "
            f"{limit:,} sentences were read."
        )
    return Table(columns, tuple(notes))


def _encoder(elmo: ELMo, device: str | torch.device) -> Encode:
    return lambda sentences: elmo.encode(sentences, layers="all", device=device)


# ----------------------------------------------------------------------------- the probes


@dataclass(frozen=True)
class Figures:
    """What one probe found in one model."""

    rows: list[Row]
    notes: tuple[str, ...]


Measure = Callable[[Encode], Figures]


def _by_layer(measure: str, values: Sequence[float], form: str) -> list[Row]:
    return [Row(measure, str(layer), format(value, form)) for layer, value in enumerate(values)]


def parts_of_speech(folder: Path, device: str | torch.device, limit: int | None) -> Measure:
    """Read the tagged text, and give what measures a model on it."""
    text = TaggedText.read(folder, limit)

    def measure(encode: Encode) -> Figures:
        rows: list[Row] = []
        found = tag_accuracies(encode, text, device=device)
        for result in found:
            name = f"parts of speech, {TAG_NAMES[result.tags]}, accuracy"
            numbers = " ".join(map(str, range(len(result.layers))))
            shares = " ".join(f"{share:.2f}" for share in result.mix_shares)
            rows += [
                Row(name, "most frequent tag of the word", f"{result.most_frequent:.1%}"),
                *_by_layer(name, result.layers, ".1%"),
                Row(name, "learned mix", f"{result.mix:.1%}"),
                Row(name.replace("accuracy", "shares of the mix"), numbers, shares),
            ]
        note = (
            f"Parts of speech: UD English EWT, a linear probe trained on {found[0].n_train:,} "
            f"words, measured on {found[0].n_test:,}."
        )
        return Figures(rows, (note,))

    return measure


def word_senses(folder: Path, device: str | torch.device, limit: int | None) -> Measure:
    """Read the sense-tagged texts, and give what measures a model on them."""
    data = SenseData.read(folder, limit)

    def measure(encode: Encode) -> Figures:
        found = sense_accuracy(encode, data)
        name = "word senses, F1"
        rows = [
            Row(name, "WordNet's first sense", f"{found.first_sense:.1%}"),
            *_by_layer(name, found.layers, ".1%"),
        ]
        note = (
            f"Word senses: {found.n_targets:,} words of Raganato et al. (2017), the nearest of "
            f"{found.n_senses:,} senses by {found.n_occurrences:,} occurrences in SemCor 3.0; "
            f"{found.n_unseen:,} words it does not have take the first sense."
        )
        return Figures(rows, (note,))

    return measure


def geometry_of_words(path: Path, device: str | torch.device, limit: int | None) -> Measure:
    """Read the text, a folder's own or a file, and give what measures a model on it."""
    file = path / PLACES["geometry"].file if path.is_dir() else path
    sentences = list(islice(read_sentences([str(file)], ReadingConfig()), limit))

    def measure(encode: Encode) -> Figures:
        found = geometry(encode, sentences)
        layers = found.layers
        rows = [
            *_by_layer("self-similarity", [item.self_similarity for item in layers], ".3f"),
            *_by_layer("anisotropy", [item.anisotropy for item in layers], ".3f"),
            *_by_layer(
                "self-similarity less anisotropy",
                [item.adjusted_self_similarity for item in layers],
                ".3f",
            ),
            *_by_layer("similarity in a sentence", [item.intra_sentence for item in layers], ".3f"),
        ]
        note = (
            f"Geometry: plain cosines, not adjusted but where it says so, of {found.n_words:,} "
            f"words in {found.n_occurrences:,} places of {found.n_sentences:,} sentences."
        )
        return Figures(rows, (note,))

    return measure


MEASURES: dict[str, Callable[[Path, str | torch.device, int | None], Measure]] = {
    "pos": parts_of_speech,
    "wsd": word_senses,
    "geometry": geometry_of_words,
}


def main() -> None:
    """Print the table of a model."""
    parser = argparse.ArgumentParser(description="What the vectors of a model know.")
    parser.add_argument("model", metavar="MODEL", help="folder, name or hub id of a model")
    parser.add_argument("--data", type=Path, required=True, help="folder of the unpacked sets")
    parser.add_argument("--probes", nargs="+", choices=list(PLACES), default=list(PLACES))
    parser.add_argument("--random", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--seed", type=int, default=0, help="of the random model")
    parser.add_argument("--device", help="cpu, cuda, ...; a GPU where there is one")
    parser.add_argument("--text", type=Path, help="another text for the geometry")
    parser.add_argument("--limit", type=int, help="sentences of each text, to try it")
    options = parser.parse_args()
    try:
        elmo = ELMo.from_pretrained(options.model)
        models = {Path(options.model).name: elmo}
        if options.random:
            models["random weights"] = random_twin(elmo, options.seed)
        table = probe(
            models,
            options.data,
            probes=options.probes,
            device=options.device,
            text=options.text,
            limit=options.limit,
        )
    except ElmoError as error:
        sys.exit(f"probe: {error}")
    print(table)


if __name__ == "__main__":
    main()
