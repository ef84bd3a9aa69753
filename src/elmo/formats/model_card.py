"""Model cards (README.md) and model descriptions for `elmo info`."""

from collections.abc import Mapping

from elmo.config import ModelConfig, Storage
from elmo.formats.attribution import card_header
from elmo.formats.pretrained import Pretrained
from elmo.formats.training_record import with_labels
from elmo.progress import format_count

_STORAGE_TEXTS = {
    "int8": "as int8 with one float16 scale per matrix row, and one-dimensional tensors as float16",
    "float16": "as float16",
}
_GRAPH_STORAGE_TEXTS = {
    "float32": "Weights are float32.",
    "float16": "Weights are stored as float16; all computation is in float32.",
    "int8": "Matrices are stored and multiplied as int8, with one scale per matrix row and one per "
    "word; everything else is float32.",
}


def model_card(model: Pretrained, storage: Storage = "float32") -> str:
    """Return the text of the README.md for a model folder."""
    config = model.config
    lines = [
        "---",
        "library_name: elmo-torch",
        *card_header(model.attribution),
        "tags: [elmo, word-embeddings, contextual-embeddings]",
        "---",
        "",
        "# ELMo model",
        "",
        "Contextual word vectors from each layer of a bidirectional language model.",
        "",
        "```python",
        "from elmo import ELMo",
        "",
        'elmo = ELMo.from_pretrained("path/to/this/folder")',
        'vectors = elmo.encode([["He", "sat", "on", "the", "river", "bank", "."]])[0]',
        "```",
        "",
        "| | |",
        "| --- | --- |",
        *_table_rows(describe(model)),
    ]
    if model.training:
        lines += ["", "## Training", "", "| | |", "| --- | --- |"]
        lines += [f"| {name} | {value} |" for name, value in with_labels(model.training).items()]
    if model.notes:
        lines += ["", "Corrections and assumptions made when the model was read:", ""]
        lines += [f"- {note}" for note in model.notes]
    if config.n_softmax_words:
        lines += ["", "The folder also contains the softmax of the language model."]
    if storage in _STORAGE_TEXTS:
        lines += [
            "",
            f"The weights are stored {_STORAGE_TEXTS[storage]}; they are loaded as float32.",
        ]
    return "\n".join(lines) + "\n"


def onnx_card(model: Pretrained, storage: Storage) -> str:
    """Return the text of the README.md for an ONNX export folder."""
    config = model.config
    omitted = ("mixes", "softmax")
    rows = {name: value for name, value in describe(model).items() if name not in omitted}
    lines = [
        "---",
        "library_name: onnx",
        *card_header(model.attribution),
        "tags: [elmo, word-embeddings, contextual-embeddings]",
        "---",
        "",
        "# ELMo model, as an ONNX graph",
        "",
        "Contextual word vectors from each layer of a bidirectional language model.",
        "",
        "| | |",
        "| --- | --- |",
        "| input | `character_ids`, int64, (batch, time, columns): one row of ids per token, "
        "including the boundary tokens at both ends of a sentence; 0 at padding on the right |",
        f"| output | `layers`, float32, ({config.n_layers}, batch, time, {config.dim}): layer 0 is "
        "independent of context, the others depend on the sentence; 0 at padding |",
        *_table_rows(rows),
        "",
        f"{_GRAPH_STORAGE_TEXTS[storage]} Batch size and length are dynamic; every sentence starts "
        "from the zero state. `config.json` (`model.text`) defines how words are converted to ids, "
        "together with `characters.json` and `words.json` if the model has dictionaries. The "
        "export page of the elmo-torch documentation shows the code.",
    ]
    return "\n".join(lines) + "\n"


def _table_rows(rows: Mapping[str, str | int]) -> list[str]:
    """Return the Markdown table rows of a description."""
    return [f"| {label(name)} | {format_value(value)} |" for name, value in rows.items()]


def format_value(value: object) -> str:
    """Return a value of a description as text; integers have thousands separators."""
    return f"{value:,}" if isinstance(value, int) else str(value)


def label(key: str) -> str:
    """Return the label of a key of `describe`, for people."""
    labels = {"parameters": "biLM parameters", "character_cnn": "character CNN", "lstm": "LSTM"}
    return labels.get(key, key.replace("_", " "))


def describe(model: Pretrained) -> dict[str, str | int]:
    """Return format, architecture, size and attribution of a model; `label` labels a key."""
    config = model.config
    encoder, lstm = config.encoder, config.lstm
    clips = [
        "none" if clip is None else f"{clip:g}" for clip in (lstm.cell_clip, lstm.projection_clip)
    ]
    rows: dict[str, str | int] = {
        "format": model.origin,
        "parameters": model.n_parameters,
        "vector_dimension": config.dim,
        "layers": config.n_layers,
        "tokenizer": config.text.tokenizer or "none recorded (whitespace)",
        "characters": _characters(config),
    }
    if encoder.n_characters:
        filters = " ".join(f"{width}x{count}" for width, count in encoder.filters)
        rows["character_cnn"] = (
            f"dimension {encoder.character_dim}, filters {filters}, {encoder.activation}, "
            f"{encoder.n_highway} highway"
        )
    if encoder.n_words:
        role = "used with characters" if encoder.word_role == "join" else "precomputed"
        role = role if encoder.n_characters else "the only input"
        rows["word_embeddings"] = (
            f"{format_count(encoder.n_words - 1, 'word')}, dimension {encoder.word_dim}, {role}"
        )
    rows["lstm"] = (
        f"{format_count(lstm.n_layers, 'layer')}, cell {lstm.cell_dim}, "
        f"projection {lstm.projection_dim}, clips {clips[0]} and {clips[1]}, "
        f"{'with' if lstm.residual else 'without'} residual"
    )
    rows["mixes"] = config.mix.n_mixes
    n_words = config.n_softmax_words
    rows["softmax"] = format_count(n_words, "word") if n_words else "none"
    rows |= model.attribution
    return rows


def _characters(config: ModelConfig) -> str:
    n_symbols = config.encoder.n_characters - 1
    descriptions = {
        "bytes": "UTF-8 bytes",
        "codepoints": f"code points, dictionary of {n_symbols:,}",
        "jamo": f"code points with Hangul as jamo, dictionary of {n_symbols:,}",
        "dictionary": f"dictionary of {n_symbols:,} code points",
    }
    scheme = config.text.characters
    if scheme == "none":
        return "none (word ids)"
    return f"{descriptions[scheme]}, {config.text.max_characters} per word"
