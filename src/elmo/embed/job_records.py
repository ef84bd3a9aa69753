"""Records in the folder of an embedding job: its plan, finished shards and manifest."""

from dataclasses import dataclass, field

from elmo.embed.job_texts import InputText, ShardTask

EXTENSIONS = {"parquet": ".parquet", "hdf5": ".h5", "safetensors": ".safetensors"}


@dataclass(frozen=True)
class JobSettings:
    """Settings that, together with the texts, determine the content of the shards.

    They have the meaning of the options of `elmo embed`, except that `model` is the fingerprint of
    the model, `precision` is never "auto", and `device` is a type such as "cpu" or "cuda".
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
    """Job plan, written before the first shard, with one task per shard.

    `source` is the model name or path given by the user. `n_layers` is 0 if the vectors have no
    layer axis. The number of threads per worker is fixed, because it affects rounding. With
    `has_rows`, the tasks refer to `rows.jsonl`, to which the texts were converted, instead of to
    the lines of the texts. `line_is_integer` is the type of the value `line` in Parquet; it is a
    string in jobs of earlier versions, and the same in all shards of a job.
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
