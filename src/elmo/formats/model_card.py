"""The model card: what a saved model is, for a person who finds the folder."""

from elmo.config import ModelConfig, Storage
from elmo.formats.pretrained import Pretrained
from elmo.formats.training_record import with_labels

_STORED = {
    "int8": "as int8 with one float16 scale for each row of a matrix, and as float16 where they "
    "have one dimension",
    "float16": "as float16",
}
_GRAPH_STORED = {
    "float32": "Weights are float32.",
    "float16": "Weights are stored as float16; all arithmetic is float32.",
    "int8": "Matrices are stored and multiplied as int8, with one scale for each of their rows and "
    "one for each word; the rest is float32.",
}


def model_card(model: Pretrained, dtype: Storage = "float32") -> str:
    """Write a README.md for a model folder.

    Args:
        model: what is in the folder.
        dtype: how its weights are stored; float32 goes without saying.
    """
    config = model.config
    lines = [
        "---",
        "library_name: elmo-torch",
        "tags: [elmo, word-embeddings, contextual-embeddings]",
        "---",
        "",
        "# ELMo model",
        "",
        "Vectors for words in context, one for each layer of a bidirectional language model.",
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
        *(f"| {name} | {value} |" for name, value in describe(model).items()),
    ]
    if model.training:
        lines += ["", "## Training", "", "| | |", "| --- | --- |"]
        lines += [f"| {name} | {value} |" for name, value in with_labels(model.training).items()]
    if model.notes:
        lines += ["", "Mended or assumed when the model was read:", ""]
        lines += [f"- {note}" for note in model.notes]
    if config.n_softmax_words:
        lines += ["", "The softmax of the language model is in the folder too."]
    if dtype in _STORED:
        lines += ["", f"The weights are stored {_STORED[dtype]}; read, they are float32."]
    return "\n".join(lines) + "\n"


def onnx_card(model: Pretrained, dtype: Storage) -> str:
    """Write a README.md for a folder with an ONNX graph.

    Args:
        model: what the graph computes.
        dtype: how it stores weights.
    """
    config = model.config
    left_out = ("mixes", "softmax")
    rows = {name: value for name, value in describe(model).items() if name not in left_out}
    lines = [
        "---",
        "library_name: onnx",
        "tags: [elmo, word-embeddings, contextual-embeddings]",
        "---",
        "",
        "# ELMo model, as an ONNX graph",
        "",
        "Vectors for words in context, one for each layer of a bidirectional language model.",
        "",
        "| | |",
        "| --- | --- |",
        "| input | `character_ids`, int64, (batch, time, columns): a row of ids for each word and "
        "for the marks at both ends of a sentence, 0 at padding on the right |",
        f"| output | `layers`, float32, ({config.n_layers}, batch, time, {config.dim}): layer 0 "
        "sees a word alone, the others its sentence; 0 at padding |",
        *(f"| {name} | {value} |" for name, value in rows.items()),
        "",
        f"{_GRAPH_STORED[dtype]} Any batch and any length; every sentence starts from the zero "
        "state. `config.json` says how words become ids (`model.text`), with `characters.json` and "
        "`words.json` where there are dictionaries; elmo-torch's page on export has the code.",
    ]
    return "\n".join(lines) + "\n"


def describe(model: Pretrained) -> dict[str, str | int]:
    """Say what a model is in a few rows, for people."""
    config = model.config
    encoder, lstm = config.encoder, config.lstm
    clips = [
        "none" if clip is None else f"{clip:g}" for clip in (lstm.cell_clip, lstm.projection_clip)
    ]
    rows: dict[str, str | int] = {
        "format": model.origin,
        "parameters": model.n_parameters,
        "vector width": config.dim,
        "layers": config.n_layers,
        "tokeniser": config.text.tokenizer or "none recorded (white space)",
        "characters": _characters(config),
    }
    if encoder.n_characters:
        filters = " ".join(f"{width}x{count}" for width, count in encoder.filters)
        rows["character CNN"] = (
            f"{encoder.character_dim} wide, filters {filters}, {encoder.activation}, "
            f"{encoder.n_highway} highway"
        )
    if encoder.n_words:
        role = "beside the characters" if encoder.word_role == "join" else "computed beforehand"
        role = role if encoder.n_characters else "the only input"
        rows["word table"] = f"{encoder.n_words - 1} words, {encoder.word_dim} wide, {role}"
    rows["LSTM"] = (
        f"{lstm.n_layers} layers, cell {lstm.cell_dim}, projection {lstm.projection_dim}, clips "
        f"{clips[0]} and {clips[1]}, {'with' if lstm.residual else 'without'} residual"
    )
    rows["mixes"] = config.mix.n_mixes
    rows["softmax"] = f"{config.n_softmax_words} words" if config.n_softmax_words else "none"
    return rows


def _characters(config: ModelConfig) -> str:
    n_symbols = config.encoder.n_characters - 1
    kinds = {
        "bytes": "UTF-8 bytes",
        "codepoints": f"code points, a dictionary of {n_symbols}",
        "jamo": f"code points with Hangul as jamo, a dictionary of {n_symbols}",
        "dictionary": f"a dictionary of {n_symbols} code points",
    }
    scheme = config.text.characters
    if scheme == "none":
        return "none (word ids)"
    return f"{kinds[scheme]}, {config.text.max_characters} a word"
