"""Arguments of the commands that use a model: embed, info, convert, evaluate, demo."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from elmo.errors import ConfigError

Layers = str | int
Pooling = Literal["mean", "max", "first-last"]
State = Literal["reset", "carry"]
Storage = Literal["float32", "float16", "int8"]


@dataclass(frozen=True)
class EmbedConfig:
    """Write the vector of every word of a text.

    The output is one file, or a directory of shards for large texts.

    Examples:
      elmo embed sentences.txt vectors.h5
      elmo embed - vectors.parquet --model my-elmo --raw < article.txt
      elmo embed in.txt out.h5 --model M --layers all --state carry --batch-size 64
      elmo embed 'texts/*.txt.gz' vectors --workers 4
    """

    GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {
        "Model": ("model", "options", "vocab"),
        "Vectors": ("layers", "state", "raw"),
        "Speed": ("batch_size", "device", "precision"),
        "File output": ("forget_sentences",),
        "Sharded output": ("format", "storage", "shard_words", "workers", "engine"),
    }

    input: str
    """UTF-8 text with one sentence per line, or - for standard input. With sharded output also a
    directory or a quoted glob; .gz .bz2 .xz .zst are decompressed."""
    out: str
    """Output file; the extension selects the format: .h5 .hdf5 .parquet .npz. Without an extension:
    a directory of shards. Rerun the same command to resume."""
    model: str = "small-en"
    """Bundled model name, model folder, hub id, or a file of an earlier ELMo program."""
    layers: str = "average"
    """Layers to write: average, mix, top, all, or a layer number."""
    state: State = "reset"
    """reset: start each sentence from a zero LSTM state. carry: keep the state from batch to batch,
    as bilm-tf and AllenNLP do."""
    batch_size: int | None = None
    """Sentences per batch. Default: chosen per device; 64 with --state carry."""
    raw: bool = False
    """Tokenize each line with the model's tokenizer instead of splitting at spaces, and store the
    words."""
    forget_sentences: bool = False
    """HDF5: do not store sentence_to_index, which contains the whole text."""
    device: str | None = None
    """Device, such as cpu or cuda. Default: cuda if available."""
    precision: str | None = None
    """Arithmetic precision: auto, float32, bfloat16, float16 (GPU) or int8 (CPU). Default: dtype of
    the weights."""
    options: str | None = None
    """Path of options.json. Default: next to the weights."""
    vocab: str | None = None
    """Path of the vocabulary file. Default: next to the weights."""
    format: Literal["parquet", "hdf5", "safetensors"] | None = None
    """Format of the shards. Default: parquet."""
    storage: Literal["float16", "float32"] | None = None
    """Number format of the stored vectors. Default: float16."""
    shard_words: int | None = None
    """Approximate number of words per shard. Default: 262144."""
    workers: int | None = None
    """Number of worker processes. Default: 1."""
    engine: Literal["local", "ray"] | None = None
    """Where workers run: local processes, or actors of a Ray cluster (extra: scale). Default:
    local."""

    def __post_init__(self) -> None:
        """Validate the counts."""
        for name in ("shard_words", "workers"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1 (got {value}).")


@dataclass(frozen=True)
class InfoConfig:
    """Describe a model: format, geometry and vocabulary.

    Examples:
      elmo info elmo_2x4096_512_2048cnn_2xhighway_weights.hdf5
      elmo info my-elmo --json
    """

    model: str
    """Bundled model name, model folder, hub id, or a file of an earlier ELMo program."""
    options: str | None = None
    """Path of options.json. Default: next to the weights."""


@dataclass(frozen=True)
class ConvertConfig:
    """Convert a model to another format.

    Examples:
      elmo convert 144.zip my-elmo
      elmo convert my-elmo smaller --storage int8
      elmo convert my-elmo old-style --to allennlp
      elmo convert my-elmo for-others --to onnx --storage int8
    """

    model: str
    """Bundled model name, model folder, hub id, or a file of an earlier ELMo program."""
    out: str
    """Folder to write."""
    to: Literal["native", "allennlp", "onnx"] = "native"
    """native: safetensors and JSON. allennlp: options.json and weights.hdf5 (byte-character models
    only). onnx: a graph for programs without PyTorch (extra: export)."""
    storage: Storage = "float32"
    """Number format of the stored weights (native and onnx). int8 takes a quarter of float32, with
    one scale per row; an int8 ONNX graph also computes in int8."""
    options: str | None = None
    """Path of options.json. Default: next to the weights."""
    vocab: str | None = None
    """Path of the vocabulary file. Default: next to the weights."""
    softmax: str | None = None
    """HDF5 file with the softmax of the language model."""
    token_embeddings: str | None = None
    """HDF5 file with precomputed token embeddings of the vocabulary."""
    tokenizer: str | None = None
    """Tokenizer to record in the model: whitespace or english."""


@dataclass(frozen=True)
class EvaluateConfig:
    """Measure the perplexity of a model on a text.

    Each direction predicts every word and sentence end with the full softmax.

    Examples:
      elmo evaluate --model my-elmo test.txt
      elmo evaluate --model my-elmo corpus --split test --state carry --batch-size 1
    """

    GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {
        "Model": ("model", "options", "vocab", "softmax"),
        "Text": ("split", "raw", "keep_blank_lines", "drop_tail"),
        "Computation": ("state", "batch_size", "unroll", "device"),
    }

    text: tuple[str, ...]
    """Text files with one sentence per line, or a prepared corpus; - for standard input."""
    model: str
    """Bundled model name, model folder, hub id, or a file of an earlier ELMo program."""
    state: State = "reset"
    """reset: start each sentence from a zero LSTM state. carry: keep the state within each batch
    row, as bilm-tf does."""
    batch_size: int = 64
    """Batch rows. With --state carry the result depends on it."""
    unroll: int = 20
    """Time steps per segment. Affects speed and memory only."""
    split: str = "test"
    """Split of a prepared corpus to evaluate on."""
    raw: bool = False
    """Tokenize each line with the model's tokenizer instead of splitting at spaces."""
    keep_blank_lines: bool = False
    """Count a blank line as an empty sentence."""
    drop_tail: bool = False
    """Skip the last, incomplete batch, as bilm-tf does."""
    device: str | None = None
    """Device, such as cpu or cuda. Default: cuda if available."""
    options: str | None = None
    """Path of options.json. Default: next to the weights."""
    vocab: str | None = None
    """Path of the vocabulary file. Default: next to the weights."""
    softmax: str | None = None
    """HDF5 file with the softmax, if it is stored separately."""


@dataclass(frozen=True)
class DemoConfig:
    """Show what ELMo does in under three minutes.

    The bundled English model separates the senses of ambiguous words. Then a tiny model is
    pre-trained on a small text, fine-tuned on another and used.

    Examples:
      elmo demo
      elmo demo --out tiny-elmo
    """

    out: str | None = None
    """Folder for the pre-trained tiny model. Default: do not keep it."""
