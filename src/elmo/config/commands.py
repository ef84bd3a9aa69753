"""The arguments of the verbs that use a model: embed, info, convert, evaluate, demo."""

from dataclasses import dataclass
from typing import Literal

from elmo.errors import ConfigError

Layers = str | int
Pooling = Literal["mean", "max", "first-last"]
State = Literal["reset", "carry"]
Storage = Literal["float32", "float16", "int8"]


@dataclass(frozen=True)
class EmbedConfig:
    """Embed texts, one sentence a line, and write every word's vector.

    Examples:
      elmo embed sentences.txt vectors.h5
      elmo embed - vectors.parquet --model my-elmo --raw < article.txt
      elmo embed in.txt out.h5 --model M --layers all --state carry --batch-size 64
      elmo embed 'texts/*.txt.gz' vectors --workers 4
    """

    input: str
    """Text file in UTF-8, one sentence a line; - is standard input. For a folder of shards also a
    folder or a quoted glob; .gz .bz2 .xz .zst are unpacked."""
    out: str
    """File to write; its ending is the format: .h5 .hdf5 .parquet .npz. Without an ending a folder
    of shards, which goes on where it was interrupted when the same is said again."""
    model: str = "small-en"
    """Model: a bundled name, a folder, a hub id or any older program's file."""
    layers: str = "average"
    """average, mix, top, all or a layer number."""
    state: State = "reset"
    """reset: every sentence from the zero state; carry: as the older programs, batch by batch."""
    batch_size: int | None = None
    """Sentences computed together; what suits the device, and 64 where the state is carried."""
    raw: bool = False
    """Split lines with the model's own tokeniser, and store the words."""
    forget_sentences: bool = False
    """HDF5: leave out sentence_to_index, which holds the whole text."""
    device: str | None = None
    """Device such as cpu or cuda; the GPU where there is one."""
    precision: str | None = None
    """Arithmetic: auto, float32, bfloat16, float16 (fast on a GPU) or int8 (CPU); the weights'
    where none is named."""
    options: str | None = None
    """options.json, where it does not lie beside the weights."""
    vocab: str | None = None
    """Vocabulary file, where it does not lie beside the weights."""
    format: Literal["parquet", "hdf5", "safetensors"] | None = None
    """Shards: their format; parquet where none is said."""
    storage: Literal["float16", "float32"] | None = None
    """Shards: type of the numbers; float16 where none is said."""
    shard_words: int | None = None
    """Shards: words of each, about; 262,144 where none is said."""
    workers: int | None = None
    """Shards: processes that work side by side; one where none is said."""
    engine: Literal["local", "ray"] | None = None
    """Shards: local: processes of this machine; ray: actors of a Ray cluster (extra scale)."""

    def __post_init__(self) -> None:
        """Refuse what nothing can be done with."""
        for name in ("shard_words", "workers"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} is {value}; it must be at least 1")


@dataclass(frozen=True)
class InfoConfig:
    """Say what a model file or folder is: format, geometry, vocabulary, what was mended.

    Examples:
      elmo info elmo_2x4096_512_2048cnn_2xhighway_weights.hdf5
      elmo info my-elmo --json
    """

    model: str
    """Model: a bundled name, a folder, a hub id or any older program's file."""
    options: str | None = None
    """options.json, where it does not lie beside the weights."""
    json: bool = False
    """Print JSON."""


@dataclass(frozen=True)
class ConvertConfig:
    """Turn any readable model into our folder, AllenNLP's files or an ONNX graph.

    Examples:
      elmo convert 144.zip my-elmo
      elmo convert my-elmo smaller --dtype int8
      elmo convert my-elmo old-style --to allennlp
      elmo convert my-elmo for-others --to onnx --dtype int8
    """

    model: str
    """Model: a bundled name, a folder, a hub id or any older program's file."""
    output: str
    """Folder to write."""
    to: Literal["native", "allennlp", "onnx"] = "native"
    """native: safetensors and JSON; allennlp: options.json and weights.hdf5, of a byte-character
    model; onnx: a graph for programs without PyTorch (extra export)."""
    dtype: Storage = "float32"
    """How native and onnx store weights: int8 takes a quarter of float32, with one scale a row; an
    ONNX graph then multiplies in int8 too."""
    options: str | None = None
    """options.json, where it does not lie beside the weights."""
    vocab: str | None = None
    """Vocabulary file, where it does not lie beside the weights."""
    softmax: str | None = None
    """HDF5 file with the softmax of the language model."""
    token_embeddings: str | None = None
    """HDF5 file with the vectors of the vocabulary, computed beforehand."""
    tokenizer: str | None = None
    """Tokeniser to record in the model: whitespace or english."""


@dataclass(frozen=True)
class EvaluateConfig:
    """Measure a language model on a text: perplexity of each direction under the full softmax.

    Examples:
      elmo evaluate --model my-elmo test.txt
      elmo evaluate --model my-elmo corpus --split test --state carry --batch-size 1
    """

    text: tuple[str, ...]
    """Text files, one sentence a line, or a prepared corpus; - is standard input."""
    model: str
    """Model: a bundled name, a folder, a hub id or any older program's file."""
    state: State = "reset"
    """reset: every sentence from the zero state; carry: row by row, as the older programs."""
    batch_size: int = 64
    """Rows read side by side; with carried state the result depends on it."""
    unroll: int = 20
    """Steps computed together; changes nothing but speed and memory."""
    split: str = "test"
    """Part of a prepared corpus."""
    raw: bool = False
    """Split lines with the model's own tokeniser, not at white space."""
    keep_blank_lines: bool = False
    """Count a blank line as a sentence without words."""
    drop_tail: bool = False
    """Leave out the batch in which the text ends, as bilm-tf does."""
    device: str | None = None
    """Device such as cpu or cuda; the GPU where there is one."""
    options: str | None = None
    """options.json, where it does not lie beside the weights."""
    vocab: str | None = None
    """Vocabulary file, where it does not lie beside the weights."""
    softmax: str | None = None
    """HDF5 file with the softmax of the model, where it lies apart."""
    json: bool = False
    """Print JSON."""


@dataclass(frozen=True)
class DemoConfig:
    """Show what ELMo does, in under three minutes.

    The bundled English model tells the senses of a word apart; then a tiny model is pre-trained on
    a small text, fine-tuned on another and used.

    Examples:
      elmo demo
      elmo demo --output tiny-elmo
    """

    output: str | None = None
    """Folder to leave the pre-trained tiny model in; nothing is left where none is named."""
