"""Print the table of probe results of a model card, with a random baseline.

    python runs/probe.py MODEL --data FOLDER

FOLDER contains ud-ewt/ (parts of speech), wsd/ (word senses) and lm1b/ (geometry), unpacked. The
baseline is the same model with random weights. docs/probes.md explains the metrics.
"""

import argparse
import dataclasses
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
from pos_probe import TaggedText, tag_accuracies
from sense_probe import SenseData, sense_accuracy
from vector_geometry import geometry

from elmo import ELMo
from elmo.config import ReadingConfig
from elmo.corpus.sentence_reader import read_sentences
from elmo.errors import ConfigError, ElmoError, FormatError
from elmo.evaluate.probe_vectors import Encode
from elmo.kernels.device import default_device
from elmo.model.initialization import initialize
from elmo.model.network import ELMoNetwork

TAG_NAMES = {"xpos": "Penn Treebank tags", "upos": "universal tags"}


@dataclass(frozen=True)
class Row:
    """One result of a model.

    Attributes:
        metric: Probe and metric.
        layer: Number of the layer, or a description such as "learned mix".
        value: Formatted value.
    """

    metric: str
    layer: str
    value: str


@dataclass(frozen=True)
class Table:
    """Results of several models on the same data.

    Attributes:
        columns: Rows of each model, by the name of the model.
        notes: One sentence per probe that describes its data.
    """

    columns: dict[str, list[Row]]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        """Return the table in Markdown."""
        lines = [
            f"| metric | layer | {' | '.join(self.columns)} |",
            "| --- | --- |" + " ---: |" * len(self.columns),
        ]
        for rows in zip(*self.columns.values(), strict=True):
            values = " | ".join(row.value for row in rows)
            lines.append(f"| {rows[0].metric} | {rows[0].layer} | {values} |")
        return "\n".join([*lines, "", *(f"- {note}" for note in self.notes)])


@dataclass(frozen=True)
class ProbeData:
    """Location of a probe's data.

    Attributes:
        folder: Its folder in the data folder.
        file: A file in that folder, to check that it exists.
        archive: Archive to unpack.
    """

    folder: str
    file: str
    archive: str


PROBE_DATA = {
    "pos": ProbeData("ud-ewt", "train.conllu", "ud-ewt.tar.xz"),
    "wsd": ProbeData("wsd", "wordnet-3.0/index.sense", "wsd.tar.xz"),
    "geometry": ProbeData("lm1b", "heldout-00010-00011.txt", "lm1b-heldout.tar.xz"),
}


def probe_folder(data: Path, probe: str) -> Path:
    """Return the folder of a probe's data.

    Args:
        data: Folder of the unpacked data sets.
        probe: Name of the probe.

    Raises:
        FormatError: If the data is missing.
    """
    location = PROBE_DATA[probe]
    if not (data / location.folder / location.file).is_file():
        raise FormatError(
            f"The probe {probe} requires {data / location.folder / location.file}, which does not "
            f"exist. Unpack {location.archive} in {data}, or omit the probe with --probes."
        )
    return data / location.folder


def random_twin(elmo: ELMo, seed: int = 0) -> ELMo:
    """Return a model with the same configuration and randomly initialized weights."""
    network = ELMoNetwork(config=elmo.config)
    initialize(network, seed)
    return ELMo(dataclasses.replace(elmo.to_pretrained(), weights=network.state_dict()))


def probe(
    models: dict[str, ELMo],
    data: Path,
    *,
    probes: Sequence[str] = tuple(PROBE_DATA),
    device: str | torch.device | None = None,
    text: Path | None = None,
    limit: int | None = None,
) -> Table:
    """Evaluate models on the same data.

    Args:
        models: Models by column name.
        data: Folder of the unpacked data sets.
        probes: Any of pos, wsd and geometry.
        device: Device of models and probes. Default: cuda if available.
        text: Text of the geometry probe: one sentence per line, words separated by whitespace.
            Default: the file in `data`.
        limit: Maximum number of sentences of each text, for a quick trial; the test set of the word
            senses is always complete. Default: no limit.

    Raises:
        ConfigError: If a probe is unknown or `limit` is less than 1.
        FormatError: If data is missing.
    """
    unknown = [name for name in probes if name not in PROBE_DATA]
    if unknown:
        raise ConfigError(
            f"Unknown probe {unknown[0]!r}. Expected one of: {', '.join(PROBE_DATA)}."
        )
    if limit is not None and limit < 1:
        raise ConfigError(f"limit must be at least 1 (got {limit}).")
    folders = {
        name: probe_folder(data, name) for name in probes if name != "geometry" or text is None
    }
    device = device or default_device()
    columns: dict[str, list[Row]] = {name: [] for name in models}
    notes: list[str] = []
    for name in probes:
        path = folders.get(name, text)
        assert path is not None
        evaluate = PROBES[name](path, device, limit)
        results = {column: evaluate(_encoder(elmo, device)) for column, elmo in models.items()}
        for column, result in results.items():
            columns[column] += result.rows
        notes += next(iter(results.values())).notes
    if limit is not None:
        notes.append(
            f"Trial run: only the first {limit:,} sentences of each part of EWT, of SemCor and of "
            "the geometry text were read."
        )
    return Table(columns, tuple(notes))


def _encoder(elmo: ELMo, device: str | torch.device) -> Encode:
    return lambda sentences: elmo.encode(sentences, layers="all", device=device)


# ----------------------------------------------------------------------------- the probes


@dataclass(frozen=True)
class ProbeResult:
    """Result of one probe and one model.

    Attributes:
        rows: Rows of the table.
        notes: Sentences that describe the data.
    """

    rows: list[Row]
    notes: tuple[str, ...]


Evaluate = Callable[[Encode], ProbeResult]


def _by_layer(metric: str, values: Sequence[float], format_spec: str) -> list[Row]:
    return [
        Row(metric, str(layer), format(value, format_spec)) for layer, value in enumerate(values)
    ]


def parts_of_speech(folder: Path, device: str | torch.device, limit: int | None) -> Evaluate:
    """Read the tagged text, and return a function that evaluates a model on it."""
    text = TaggedText.read(folder, limit)

    def evaluate(encode: Encode) -> ProbeResult:
        rows: list[Row] = []
        results = tag_accuracies(encode, text, device=device)
        for result in results:
            name = f"parts of speech, {TAG_NAMES[result.tags]}, accuracy"
            layers = " ".join(map(str, range(len(result.layers))))
            weights = " ".join(f"{weight:.2f}" for weight in result.mix_shares)
            rows += [
                Row(name, "most frequent tag of the word", f"{result.most_frequent:.1%}"),
                *_by_layer(name, result.layers, ".1%"),
                Row(name, "learned mix", f"{result.mix:.1%}"),
                Row(name.replace("accuracy", "layer weights of the mix"), layers, weights),
            ]
        note = (
            f"Parts of speech: UD English EWT, a linear probe trained on {results[0].n_train:,} "
            f"words and tested on {results[0].n_test:,}."
        )
        return ProbeResult(rows, (note,))

    return evaluate


def word_senses(folder: Path, device: str | torch.device, limit: int | None) -> Evaluate:
    """Read the sense-tagged texts, and return a function that evaluates a model on them."""
    data = SenseData.read(folder, limit)

    def evaluate(encode: Encode) -> ProbeResult:
        result = sense_accuracy(encode, data)
        name = "word senses, F1"
        rows = [
            Row(name, "WordNet's first sense", f"{result.first_sense:.1%}"),
            *_by_layer(name, result.layers, ".1%"),
        ]
        note = (
            f"Word senses: {result.n_targets:,} words of Raganato et al. (2017), nearest of "
            f"{result.n_senses:,} senses with {result.n_occurrences:,} occurrences in SemCor 3.0; "
            f"{result.n_unseen:,} words that are not in SemCor are assigned the first sense."
        )
        return ProbeResult(rows, (note,))

    return evaluate


def geometry_of_words(path: Path, device: str | torch.device, limit: int | None) -> Evaluate:
    """Read a text, and return a function that evaluates a model on it.

    Args:
        path: Text file, or folder of the probe's data.
        device: Not used; all probes have the same parameters.
        limit: Maximum number of sentences.
    """
    file = path / PROBE_DATA["geometry"].file if path.is_dir() else path
    sentences = list(islice(read_sentences([str(file)], ReadingConfig()), limit))

    def evaluate(encode: Encode) -> ProbeResult:
        result = geometry(encode, sentences)
        layers = result.layers
        rows = [
            *_by_layer("self-similarity", [item.self_similarity for item in layers], ".3f"),
            *_by_layer("anisotropy", [item.anisotropy for item in layers], ".3f"),
            *_by_layer(
                "self-similarity minus anisotropy",
                [item.adjusted_self_similarity for item in layers],
                ".3f",
            ),
            *_by_layer(
                "similarity within a sentence", [item.intra_sentence for item in layers], ".3f"
            ),
        ]
        note = (
            "Geometry: cosines, without subtracting the anisotropy unless stated, of "
            f"{result.n_words:,} words with {result.n_occurrences:,} occurrences in "
            f"{result.n_sentences:,} sentences."
        )
        return ProbeResult(rows, (note,))

    return evaluate


PROBES: dict[str, Callable[[Path, str | torch.device, int | None], Evaluate]] = {
    "pos": parts_of_speech,
    "wsd": word_senses,
    "geometry": geometry_of_words,
}


def main() -> None:
    """Print the table of probe results of a model."""
    parser = argparse.ArgumentParser(description="Probe the vectors of a model.")
    parser.add_argument("model", metavar="MODEL", help="Model name, model folder or hub id.")
    parser.add_argument(
        "--data", type=Path, required=True, help="Folder of the unpacked data sets."
    )
    parser.add_argument(
        "--probes",
        nargs="+",
        choices=list(PROBE_DATA),
        default=list(PROBE_DATA),
        help="Probes to run. Default: all.",
    )
    parser.add_argument(
        "--random",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="Compare with random weights.",
    )
    parser.add_argument("--seed", type=int, default=0, help="Seed of the random weights.")
    parser.add_argument("--device", help="Device, such as cpu or cuda. Default: cuda if available.")
    parser.add_argument("--text", type=Path, help="Another text for the geometry probe.")
    parser.add_argument("--limit", type=int, help="Maximum number of sentences of each text.")
    args = parser.parse_args()
    try:
        elmo = ELMo.from_pretrained(args.model)
        models = {Path(args.model).name: elmo}
        if args.random:
            models["random weights"] = random_twin(elmo, args.seed)
        table = probe(
            models,
            args.data,
            probes=args.probes,
            device=args.device,
            text=args.text,
            limit=args.limit,
        )
    except ElmoError as error:
        sys.exit(f"probe: {error}")
    print(table)


if __name__ == "__main__":
    main()
