"""Records in the folder of an embedding job: its plan, finished shards and manifest."""

from dataclasses import dataclass, field

from elmo.embed.job_texts import InputText, ShardTask

EXTENSIONS = {"parquet": ".parquet", "hdf5": ".h5", "safetensors": ".safetensors"}


@dataclass(frozen=True)
class JobSettings:
    """Settings that, together with the texts, determine the content of the shards.

    Attributes:
        model: Fingerprint of the model.
        layers: Layers to store.
        precision: Precision of the computation; never "auto".
        device: Device type, such as "cpu" or "cuda".
        batch_size: Requested number of sentences per batch; None for the default on the device.
        pretokenized: Whether the lines are split at spaces instead of by the model's tokenizer.
        format: File format of the shards.
        storage: Dtype of the stored vectors.
        shard_words: Approximate number of words per shard.
        pooling: Pooling of the word vectors; None for one vector per word.
        sentences: Whether each line is a sentence ("line") or is split into sentences ("split").
        input_format: Format of the input files, if it was given.
        text_column: Column that contains the text.
        id_column: Column that identifies a record; None for no ids.
        columns: Further columns carried to the output, separated by commas.
    """

    model: str
    layers: str
    precision: str
    device: str
    batch_size: int | None
    pretokenized: bool
    format: str
    storage: str
    shard_words: int
    # The defaults are the values of jobs from versions without these settings.
    pooling: str | None = None
    sentences: str = "line"
    input_format: str | None = None
    text_column: str = "text"
    id_column: str | None = None
    columns: str | None = None


@dataclass(frozen=True)
class JobPlan:
    """Job plan, written before the first shard.

    Attributes:
        version: Version of the folder layout.
        settings: Settings that determine the vectors.
        source: Model name or path given by the user.
        n_layers: Number of stored layers; 0 if the vectors have no layer axis.
        dim: Dimension of the vectors.
        n_threads: Number of threads per worker; fixed for the whole job because it affects
            rounding.
        texts: Input files.
        tasks: One task per shard.
        has_rows: Whether the tasks refer to `rows.jsonl`, to which the texts were converted,
            instead of to the lines of the texts.
        line_is_integer: Whether the value `line` is an integer in Parquet. In jobs of earlier
            versions it is a string; all shards of a job have the same type.
    """

    version: int
    settings: JobSettings
    source: str
    n_layers: int
    dim: int
    n_threads: int
    texts: tuple[InputText, ...]
    tasks: tuple[ShardTask, ...]
    has_rows: bool = False
    line_is_integer: bool = False

    def shard(self, number: int) -> str:
        """Return the file name of the shard with the given number."""
        return f"{number:05d}{EXTENSIONS[self.settings.format]}"


@dataclass(frozen=True)
class ShardRecord:
    """Record of a finished shard.

    Sentences are counted across all texts. `n_empty` sentences have no words; None in records of
    earlier versions.
    """

    number: int
    first_sentence: int
    n_sentences: int
    n_words: int
    n_bytes: int
    sha256: str
    n_empty: int | None = None


@dataclass(frozen=True)
class FinishedShard(ShardRecord):
    """Record of a finished shard, including its file name."""

    name: str = field(kw_only=True)


@dataclass(frozen=True)
class JobManifest:
    """Summary of a finished job.

    `n_layers` is 0 if the vectors have no layer axis. `model` is the name or path given by the
    user.
    """

    version: int
    n_sentences: int
    n_words: int
    n_bytes: int
    n_layers: int
    dim: int
    model: str
    settings: JobSettings
    texts: tuple[InputText, ...]
    shards: tuple[FinishedShard, ...]
