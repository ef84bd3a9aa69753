"""Config classes for the commands embed, download, info, convert, evaluate and demo."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from elmo.config.bounds import require_at_least_one
from elmo.config.corpus import InputFormat
from elmo.errors import ConfigError

Layers = str | int
Pooling = Literal["mean", "max", "first-last"]
State = Literal["reset", "carry"]
Storage = Literal["float32", "float16", "int8"]


@dataclass(frozen=True)
class EmbedConfig:
    """Compute word vectors for a text and write them to disk.

    The output is a single file or, for large texts, a directory of shards.

    Examples:
      elmo embed sentences.txt vectors.h5
      elmo embed - vectors.parquet --model my-elmo < article.txt
      elmo embed in.txt out.h5 --model weights.hdf5 --options options.json --layers all
      elmo embed in.txt out.h5 --model M --layers all --state carry --batch-size 64
      elmo embed 'texts/*.txt.gz' vectors --workers 4
      elmo embed reviews.csv vectors.parquet --text-column review --id-column id --columns stars
    """

    GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {
        "Model": ("model", "options", "vocab"),
        "Text": ("pretokenized", "sentences"),
        "Input files": ("input_format", "text_column", "id_column", "columns"),
        "Vectors": ("layers", "pooling", "state"),
        "Speed": ("batch_size", "device", "precision"),
        "File output": ("forget_sentences",),
        "Sharded output": ("format", "storage", "shard_words", "workers", "engine"),
    }

    input: str
    """UTF-8 text with one sentence per line, JSON lines, CSV, TSV or Parquet, or - for standard
    input. Sharded output also accepts a directory or a quoted glob. Files ending in .gz, .bz2, .xz
    or .zst are decompressed."""
    out: str
    """Output file. The extension selects the format: .h5, .hdf5, .parquet or .npz. Without an
    extension, a directory of shards is written; rerun the same command to resume."""
    model: str = "small-en"
    """Name of a bundled or downloaded model, model folder, hub id, or a model file from another
    ELMo implementation (bilm-tf, AllenNLP, ELMoForManyLangs)."""
    layers: str = "average"
    """Layers to write: average, mix, top, all, or a layer number."""
    state: State = "reset"
    """reset: start each sentence from a zero LSTM state. carry: carry the state over from batch to
    batch, as bilm-tf and AllenNLP do."""
    batch_size: int | None = None
    """Number of sentences per batch. Default: chosen per device; 64 with --state carry."""
    pretokenized: bool = False
    """The words of the text are separated by spaces, for small-ko its morphemes. Default: split
    each line with the model's tokenizer."""
    sentences: Literal["line", "split"] | None = None
    """line: each line or record is one sentence. split: it is split into sentences, each of which
    keeps the number of its line or record (line) in the output. Default: line, with a warning if
    most lines are paragraphs."""
    input_format: InputFormat | None = None
    """Format of the input files. Default: recognize Parquet and JSON lines by content, CSV and TSV
    by extension (.csv, .tsv)."""
    text_column: str | None = None
    """Name of the column or JSON field that contains the text. Default: text."""
    id_column: str | None = None
    """Name of the column or JSON field that identifies a record; written to the output as id."""
    columns: str | None = None
    """Names of further columns or JSON fields to carry to the output, separated by commas."""
    pooling: Pooling | None = None
    """Write one vector per sentence: mean or max over its words, or first-last. Default: one vector
    per word."""
    forget_sentences: bool = False
    """HDF5 only: omit sentence_to_index, which maps each line to its key. The words are always
    stored."""
    device: str | None = None
    """Device, such as cpu or cuda. Default: cuda if available."""
    precision: str | None = None
    """Computation precision: auto, float32, bfloat16, float16 (GPU only), int8 (CPU only) or int8x3
    (CPU with AMX: faster than float32, almost as precise). Default: the dtype of the weights."""
    options: str | None = None
    """Path to options.json. Default: next to the weights file."""
    vocab: str | None = None
    """Path to the vocabulary file. Default: next to the weights file."""
    format: Literal["parquet", "hdf5", "safetensors"] | None = None
    """File format of the shards. Default: parquet."""
    storage: Literal["float16", "float32"] | None = None
    """Number format of the stored vectors. Default: float16."""
    shard_words: int | None = None
    """Approximate number of words per shard. Default: chosen by the size of the model and the
    device, so that a shard takes less than a minute."""
    workers: int | None = None
    """Number of worker processes. Default: 1."""
    engine: Literal["local", "ray"] | None = None
    """Where workers run: local processes, or actors on a Ray cluster (requires the "scale" extra).
    Default: local."""

    def __post_init__(self) -> None:
        require_at_least_one(self, "shard_words", "workers")
        if self.options is not None and self.model == EmbedConfig.model:
            raise ConfigError(
                f"--options needs --model WEIGHTS, the weights file of these options. The default "
                f"model, {self.model}, has its own options."
            )


@dataclass(frozen=True)
class DownloadConfig:
    """Download a published model by name.

    An interrupted download is resumed by the same command. Downloaded models are found by name,
    for example with --model ai2-small.

    Examples:
      elmo download --list
      elmo download ai2-small
      elmo download manylangs-ko --out korean-elmo
    """

    name: str | None = None
    """Name of the model, see --list."""
    out: str | None = None
    """New folder for the files. Default: a folder in the cache (ELMO_HOME, or elmo-torch in
    XDG_CACHE_HOME or ~/.cache), where --model finds the model by name."""
    list: bool = False
    """List names, languages, sizes and licenses of all models instead."""


@dataclass(frozen=True)
class InfoConfig:
    """Describe a model, a prepared corpus or vectors.

    Examples:
      elmo info elmo_2x4096_512_2048cnn_2xhighway_weights.hdf5
      elmo info my-elmo --json
      elmo info ner
      elmo info corpus
      elmo info vectors.h5
    """

    model: str
    """Name of a bundled or downloaded model, model folder, hub id, a model file from another ELMo
    implementation (bilm-tf, AllenNLP, ELMoForManyLangs), a folder written by `elmo task fit`,
    `elmo lm train` or `elmo prepare`, or a file or folder written by `elmo embed`."""
    options: str | None = None
    """Path to options.json. Default: next to the weights file."""


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
    """Name of a bundled or downloaded model, model folder, hub id, or a model file from another
    ELMo implementation (bilm-tf, AllenNLP, ELMoForManyLangs)."""
    out: str
    """Output folder."""
    to: Literal["native", "allennlp", "onnx"] = "native"
    """Target format. native: safetensors and JSON. allennlp: options.json and weights.hdf5, only
    for models with byte input. onnx: a graph that runs without PyTorch (requires the "export"
    extra)."""
    storage: Storage = "float32"
    """Number format of the stored weights (native and onnx only). int8 takes a quarter of the space
    of float32 and has one scale per row; an int8 ONNX graph also computes in int8."""
    options: str | None = None
    """Path to options.json. Default: next to the weights file."""
    vocab: str | None = None
    """Path to the vocabulary file. Default: next to the weights file."""
    softmax: str | None = None
    """HDF5 file with the softmax weights of the language model."""
    token_embeddings: str | None = None
    """HDF5 file with precomputed token embeddings for the vocabulary."""
    tokenizer: str | None = None
    """Tokenizer to store in the model: whitespace, english, characters, characters-and-spaces,
    korean, or spacy:NAME, such as spacy:blank-en."""


@dataclass(frozen=True)
class EvaluateConfig:
    """Measure the perplexity of a model on a text.

    The forward and backward language models each predict every word and end-of-sentence token,
    using the full softmax. Bits per character are the total bits divided by the number of
    characters of the original text, including spaces and line ends.

    Examples:
      elmo evaluate --model my-elmo test.txt
      elmo evaluate --model my-elmo corpus --split test --state carry --batch-size 1
    """

    GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {
        "Model": ("model", "options", "vocab", "softmax"),
        "Text": (
            "split",
            "pretokenized",
            "sentences",
            "keep_blank_lines",
            "input_format",
            "text_column",
            "drop_tail",
        ),
        "Comparison": ("common_vocab",),
        "Computation": ("state", "batch_size", "unroll", "device"),
    }

    text: tuple[str, ...]
    """Text files with one sentence per line, - for standard input, or a prepared corpus. The
    formats of elmo prepare are read."""
    model: str
    """Name of a bundled or downloaded model, model folder, hub id, or a model file from another
    ELMo implementation (bilm-tf, AllenNLP, ELMoForManyLangs)."""
    state: State = "reset"
    """reset: start each sentence from a zero LSTM state. carry: carry the state over from sentence
    to sentence within each batch row, as bilm-tf does."""
    batch_size: int = 64
    """Number of batch rows. With --state carry, the result depends on it."""
    unroll: int = 20
    """Number of time steps per segment. Only affects speed and memory."""
    common_vocab: str | None = None
    """Vocabulary file, to compare models with different vocabularies. All other words count as
    <UNK>, whose probability is then the sum of theirs."""
    split: str | None = None
    """Split of a prepared corpus to evaluate on. Default: test, or valid if there is no test
    split."""
    pretokenized: bool = False
    """The words of the text are separated by spaces, for small-ko its morphemes. Default: split
    each line with the model's tokenizer."""
    sentences: Literal["line", "split"] | None = None
    """line: each line is a sentence. split: each line is split into sentences. Default: as in the
    training of the model, or line if the model does not record it."""
    keep_blank_lines: bool = False
    """Treat blank lines as empty sentences. Default: skip blank lines."""
    input_format: InputFormat | None = None
    """Format of the text files. Default: recognize Parquet and JSON lines by content, CSV and TSV
    by extension (.csv, .tsv)."""
    text_column: str = "text"
    """Name of the column or JSON field that contains the text."""
    drop_tail: bool = False
    """Skip the last, incomplete batch, as bilm-tf does."""
    device: str | None = None
    """Device, such as cpu or cuda. Default: cuda if available."""
    options: str | None = None
    """Path to options.json. Default: next to the weights file."""
    vocab: str | None = None
    """Path to the vocabulary file. Default: next to the weights file."""
    softmax: str | None = None
    """HDF5 file with the softmax weights, if they are stored separately."""


@dataclass(frozen=True)
class DemoConfig:
    """Demonstrate ELMo in under two minutes.

    First, the bundled English model distinguishes the senses of ambiguous words. Then a tiny model
    is pre-trained on a small text, fine-tuned on another one, and used to compute vectors. Training
    is skipped if its packages (extra train) are not installed.

    Examples:
      elmo demo
      elmo demo --out tiny-elmo
    """

    out: str | None = None
    """Folder in which to save the tiny pre-trained model. Default: the model is not saved."""
