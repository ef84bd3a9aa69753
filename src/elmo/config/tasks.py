"""Options of supervised tasks on top of ELMo."""

from dataclasses import dataclass, field, fields
from typing import Literal

from elmo.config.training import OptimizerConfig, RunConfig
from elmo.errors import ConfigError

TaskName = Literal[
    "classification",
    "tagging",
    "sentence_pairs",
    "question_answering",
    "semantic_roles",
    "coreference",
    "word_senses",
    "nearest_occurrences",
]
ReaderName = Literal[
    "auto",
    "conll",
    "conll2005",
    "conll2012",
    "conllu",
    "coreference",
    "gap",
    "jsonl",
    "klp",
    "occurrences",
    "sentence_pairs",
    "parallel",
    "propbank",
    "word_senses",
    "squad",
    "sst2",
    "sst5",
    "table",
]

# Characters of a word that the task's own CNN reads, including the begin and end markers.
MAX_WORD_CHARACTERS = 25


@dataclass(frozen=True)
class ExamplesConfig:
    """Where examples come from."""

    train: str | None = None
    """Training set: a file or folder."""
    dev: str | None = None
    """Development set, for model selection. Default: a part of the training set."""
    test: str | None = None
    """Test set, scored once after training."""
    reader: ReaderName = "auto"
    """Format of the files. auto: detected from names and first lines."""
    text: str = "text"
    """Column or field of the text in tables and JSON lines; for sentence pairs two names separated
    by a comma."""
    label: str | None = None
    """Where the label is: a column name in tables and JSON lines (default: label), upos or xpos in
    CoNLL-U, a column number in CoNLL files (default: the last)."""
    scheme: Literal["auto", "IOB1", "IOB2", "BIOES", "BILOU", "none"] = "auto"
    """Tagging and semantic roles: tag scheme; none if tags do not mark spans. auto: detected."""
    phrases: bool = False
    """Sentiment trees: train on all phrases instead of whole sentences only."""
    empty: Literal["error", "keep", "skip"] = "error"
    """Texts without words: raise an error, keep them as examples, or skip them."""
    encoding: str | None = None
    """Encoding of the files. Default: UTF-8, or UTF-16 with a byte order mark."""
    tokenizer: str | None = None
    """Tokenizer for raw text. Default: that of the ELMo model."""
    dev_share: float = 0.1
    """Fraction of the training set used as development set, if none is given."""
    fraction: float = 1.0
    """Fraction of the training set to use, for sample-efficiency curves. An epoch keeps the number
    of steps of the full training set."""

    def __post_init__(self) -> None:
        """Validate the fractions."""
        if not 0 < self.dev_share < 1:
            raise ConfigError(f"dev_share must be between 0 and 1 (got {self.dev_share}).")
        if not 0 < self.fraction <= 1:
            raise ConfigError(f"fraction must be above 0 and at most 1 (got {self.fraction}).")


@dataclass(frozen=True)
class TaskELMoConfig:
    """The ELMo model and how its layers enter the task model."""

    model: str | None = "small-en"
    """Bundled model name, model folder or hub id; none for a task model without ELMo."""
    use: Literal["frozen", "tuned"] = "frozen"
    """frozen: compute ELMo vectors once and cache them on disk. tuned: train ELMo with the task."""
    placement: Literal["input", "output", "both"] = "input"
    """Where ELMo vectors enter: at the input of the task encoder, at its output, or both."""
    layers: str = "all"
    """Layers to mix: all, top, or layer numbers such as 1 or 1,2."""
    gamma: bool = True
    """Learn a scale factor for the layer mix."""
    mix_penalty: float = 0.001
    """L2 penalty on the weights of the layer mix (lambda in the ELMo paper)."""
    mix_learning_rate: float = 0.01
    """Peak learning rate of the layer-mix weights."""
    elmo_dropout: float = 0.5
    """Dropout on the mixed ELMo vectors."""
    elmo_learning_rate: float = 1e-4
    """tuned: peak learning rate of the ELMo weights."""
    unfreeze_every: int = 0
    """tuned: unfreeze one more layer, from the top, every N epochs; 0 trains all layers from the
    start."""

    def __post_init__(self) -> None:
        """Validate layers, rates and conflicting options."""
        numbers = self.layers.split(",")
        are_layers = all(map(str.isdecimal, numbers)) and len(set(map(int, numbers))) == len(
            numbers
        )
        if self.layers not in ("all", "top") and not are_layers:
            raise ConfigError(
                f"layers must be all, top, or distinct layer numbers such as 1,2 "
                f"(got {self.layers!r})."
            )
        if self.mix_penalty < 0:
            raise ConfigError(f"mix_penalty must be 0 or more (got {self.mix_penalty}).")
        if not 0 <= self.elmo_dropout < 1:
            raise ConfigError(
                f"elmo_dropout must be at least 0 and below 1 (got {self.elmo_dropout})."
            )
        for name in ("elmo_learning_rate", "mix_learning_rate"):
            if not 0 < getattr(self, name) <= 1e6:
                raise ConfigError(
                    f"{name} must be above 0 and at most 1e6 (got {getattr(self, name)})."
                )
        if self.unfreeze_every < 0:
            raise ConfigError(f"unfreeze_every must be 0 or more (got {self.unfreeze_every}).")
        if self.unfreeze_every and self.use == "frozen":
            raise ConfigError(
                f"unfreeze_every ({self.unfreeze_every}) requires use: tuned; a frozen ELMo is not "
                "trained."
            )
        if self.use == "tuned" and self.model is None:
            raise ConfigError("use: tuned requires an ELMo model, but model is none.")


@dataclass(frozen=True)
class WordFeaturesConfig:
    """Word features besides ELMo: static word vectors, characters, indicators."""

    word_vectors: str | None = None
    """File of static word vectors in word2vec or GloVe format; binary files end in .bin."""
    tune_word_vectors: bool = True
    """Train the static vectors of the words of the examples."""
    max_word_vectors: int = 400_000
    """Additional static vectors stored with the model for words outside the examples, in file
    order. All 400,000 GloVe vectors of dimension 300 take 240 MB in float16."""
    characters: Literal["bytes", "none"] = "bytes"
    """Character input of the task's own small CNN."""
    character_dim: int = 16
    """Dimension of a character embedding."""
    character_filters: tuple[tuple[int, int], ...] = ((1, 16), (2, 32), (3, 64))
    """Convolutions over characters as [width, count] pairs."""
    indicator_dim: int = 16
    """Dimension of indicator embeddings: words shared by both texts (sentence pairs, question
    answering), the predicate (semantic roles), the speaker (coreference)."""

    def __post_init__(self) -> None:
        """Validate sizes and filters."""
        if self.max_word_vectors < 0:
            raise ConfigError(f"max_word_vectors must be 0 or more (got {self.max_word_vectors}).")
        for name in ("character_dim", "indicator_dim"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1 (got {getattr(self, name)}).")
        widths = [width for width, _ in self.character_filters]
        counts = [count for _, count in self.character_filters]
        if not widths or min(widths) < 1 or max(widths) > MAX_WORD_CHARACTERS or min(counts) < 1:
            raise ConfigError(
                f"character_filters must be pairs of a width, at most {MAX_WORD_CHARACTERS}, and a "
                f"positive count (got {self.character_filters})."
            )


@dataclass(frozen=True)
class TaskEncoderConfig:
    """The BiLSTM encoder of the task model and its character n-gram features."""

    hidden: int = 256
    """Hidden size of the BiLSTM per direction; 0 for no BiLSTM."""
    depth: int = 1
    """Number of BiLSTM layers."""
    highway: bool = False
    """Add highway connections between LSTM layers."""
    input_dropout: float = 0.3
    """Dropout on the input of the BiLSTM."""
    dropout: float = 0.5
    """Dropout on the output of the BiLSTM."""
    crf: bool = True
    """Tagging and semantic roles: decode tags with a conditional random field instead of a softmax
    per word."""
    char_ngrams: int = 0
    """Classification: maximum length of the character n-grams of a linear classifier that is
    averaged with the BiLSTM; 0 for none."""
    ngram_buckets: int = 262_144
    """Hash buckets for character n-grams, 4 bytes per label each."""

    def __post_init__(self) -> None:
        """Validate sizes and dropout rates."""
        if not 0 <= self.char_ngrams <= 8:
            raise ConfigError(f"char_ngrams must be from 0 to 8 (got {self.char_ngrams}).")
        if not 1 <= self.ngram_buckets <= 2**24:
            raise ConfigError(
                f"ngram_buckets must be from 1 to 16,777,216 (got {self.ngram_buckets})."
            )
        if self.hidden < 0:
            raise ConfigError(f"hidden must be 0 or more (got {self.hidden}).")
        if self.depth < 1:
            raise ConfigError(f"depth must be at least 1 (got {self.depth}).")
        for name in ("input_dropout", "dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(
                    f"{name} must be at least 0 and below 1 (got {getattr(self, name)})."
                )


@dataclass(frozen=True)
class QuestionAnsweringConfig:
    """Question answering."""

    max_answer_words: int = 30
    """Maximum length of an answer in words."""
    window: int = 400
    """Words of a passage read at a time; longer passages are split into windows."""
    overlap: int = 100
    """Words shared by consecutive windows."""
    f1_unit: Literal["words", "characters"] = "words"
    """Unit of the F1 score: words, as in SQuAD, or characters, as in KorQuAD."""

    def __post_init__(self) -> None:
        """Validate lengths."""
        if self.max_answer_words < 1:
            raise ConfigError(f"max_answer_words must be at least 1 (got {self.max_answer_words}).")
        if not 0 <= self.overlap < self.window:
            raise ConfigError(
                f"overlap ({self.overlap}) must be 0 or more and smaller than window "
                f"({self.window})."
            )


@dataclass(frozen=True)
class CoreferenceConfig:
    """Coreference resolution."""

    max_mention_words: int = 20
    """Maximum length of a mention in words."""
    top_span_ratio: float = 0.3
    """Candidate mentions kept for linking, per word of the document."""
    max_antecedents: int = 150
    """Nearest preceding mentions that a mention can be linked to."""
    scorer_dim: int = 150
    """Hidden size of the mention and link scorers."""
    max_sentence_words: int = 150
    """Maximum sentence length in words; longer sentences are split."""
    max_document_words: int = 4000
    """Maximum document length in words; longer documents are split between sentences, without links
    across the split."""

    def __post_init__(self) -> None:
        """Validate lengths and sizes."""
        for name in ("max_mention_words", "max_antecedents", "scorer_dim", "max_sentence_words"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1 (got {getattr(self, name)}).")
        if self.max_document_words < self.max_sentence_words:
            raise ConfigError(
                f"max_document_words ({self.max_document_words}) must be at least "
                f"max_sentence_words ({self.max_sentence_words})."
            )
        if self.top_span_ratio <= 0:
            raise ConfigError(f"top_span_ratio must be above 0 (got {self.top_span_ratio}).")


@dataclass(frozen=True)
class LookupConfig:
    """Lookup tasks: word senses and nearest occurrences."""

    wordnet: str | None = None
    """Word senses: path of WordNet's index.sense. Default: wordnet-3.0/index.sense next to the
    training folder."""
    n_nearest: int = 3
    """Nearest occurrences: number of occurrences to return."""
    max_per_word: int = 1000
    """Nearest occurrences: maximum number of stored occurrences per word; 1 kB each with the
    bundled models."""

    def __post_init__(self) -> None:
        """Validate the counts."""
        for name in ("n_nearest", "max_per_word"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1 (got {getattr(self, name)}).")


@dataclass(frozen=True)
class TaskConfig:
    """Train a model for a supervised task on top of ELMo.

    Rerun with the same --out to resume from the last checkpoint.

    Examples:
      elmo task fit conll2003 --train train.txt --dev valid.txt --test test.txt --out ner
      elmo task fit my-task.yaml --out topics --seeds 5
    """

    out: str
    """Folder to write."""
    task: TaskName = "classification"
    """Task."""
    metric: Literal["accuracy", "macro_f1"] = "accuracy"
    """Classification and sentence pairs: metric for model selection."""
    seeds: int = 1
    """Number of runs with different seeds; mean and standard deviation are reported."""
    parallel_seeds: int = 1
    """Seeds trained at the same time on one device, each in its own process that prints to
    output.txt in its folder."""
    batch_size: int = 32
    """Examples per step."""
    batch_words: int = 16_384
    """Maximum number of words, including padding, computed at once. Larger batches are split to
    bound memory; results do not change."""
    cache: str | None = None
    """Folder for cached ELMo vectors. Default: layers in the output folder."""
    examples: ExamplesConfig = field(default_factory=ExamplesConfig)
    """Examples."""
    elmo: TaskELMoConfig = field(default_factory=TaskELMoConfig)
    """ELMo."""
    word_features: WordFeaturesConfig = field(default_factory=WordFeaturesConfig)
    """Word features."""
    encoder: TaskEncoderConfig = field(default_factory=TaskEncoderConfig)
    """Task encoder."""
    question_answering: QuestionAnsweringConfig = field(default_factory=QuestionAnsweringConfig)
    """Question answering."""
    coreference: CoreferenceConfig = field(default_factory=CoreferenceConfig)
    """Coreference resolution."""
    lookup: LookupConfig = field(default_factory=LookupConfig)
    """Word senses and nearest occurrences."""
    optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(
            optimizer="adamw",
            learning_rate=1e-3,
            warmup_steps=50,
            schedule="cosine",
            weight_decay=0.01,
            clip_norm=5.0,
        )
    )
    """Optimizer."""
    run: RunConfig = field(default_factory=lambda: RunConfig(epochs=20, patience=5))
    """Run."""

    def __post_init__(self) -> None:
        """Validate counts, and that every option applies to the task."""
        for name in ("seeds", "parallel_seeds", "batch_size", "batch_words"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1 (got {getattr(self, name)}).")
        if self.encoder.char_ngrams and self.task != "classification":
            raise ConfigError(
                f"char_ngrams ({self.encoder.char_ngrams}) is only supported for classification, "
                f"not for {self.task}."
            )
        if self.metric != "accuracy" and self.task not in ("classification", "sentence_pairs"):
            raise ConfigError(
                f"metric ({self.metric}) is only supported for classification and sentence_pairs; "
                f"{self.task} has its own metric."
            )
        for section, tasks in (
            (self.question_answering, ("question_answering",)),
            (self.coreference, ("coreference",)),
            (self.lookup, ("word_senses", "nearest_occurrences")),
        ):
            changed = [f.name for f in fields(section) if getattr(section, f.name) != f.default]
            if changed and self.task not in tasks:
                raise ConfigError(
                    f"{changed[0]} ({getattr(section, changed[0])}) is only supported for "
                    f"{' and '.join(tasks)}, not for {self.task}."
                )
        if self.seeds > 1 and self.task in ("word_senses", "nearest_occurrences"):
            raise ConfigError(f"{self.task} is deterministic. Use seeds: 1 (got {self.seeds}).")
        run = self.run
        if run.devices * run.num_nodes > 1 or run.accumulate > 1 or run.strategy != "auto":
            raise ConfigError(
                "A task is trained on one device without gradient accumulation: devices, "
                "num_nodes and accumulate must be 1, and strategy auto."
            )
        has_elmo_input = self.elmo.model is not None and self.elmo.placement != "output"
        features = self.word_features
        if not has_elmo_input and features.word_vectors is None and features.characters == "none":
            raise ConfigError(
                "The task model has no input. Set one of model (ELMo at the input), word_vectors "
                "and characters."
            )


@dataclass(frozen=True)
class TaskEvaluateConfig:
    """Score a fitted task model on a file.

    Examples:
      elmo task evaluate ner test.txt
    """

    model: str
    """Folder written by `elmo task fit`."""
    input: str
    """Labeled examples, in the format of the training set."""
    reader: ReaderName | None = None
    """Format of the file, if it differs from the training set, such as gap for coreference."""
    device: str | None = None
    """Device, such as cpu or cuda. Default: cuda if available."""


@dataclass(frozen=True)
class TaskPredictConfig:
    """Predict with a fitted task model, one result per input line.

    Examples:
      elmo task predict ner sentences.txt answers.jsonl
      echo "He lives in Seoul ." | elmo task predict ner - - --to conll
    """

    model: str
    """Folder written by `elmo task fit`."""
    input: str
    """One text per line; a whole document for coreference; two texts separated by a tab for
    sentence pairs and question answering (question, passage). - for standard input."""
    out: str = "-"
    """File to write. Default: standard output."""
    to: Literal["auto", "jsonl", "conll"] = "auto"
    """jsonl: JSON lines. conll: one word and its tag per line. auto: by the extension of the
    output, else jsonl."""
    raw: bool | None = None
    """Tokenize texts with the model's tokenizer instead of splitting at spaces. Default: as in
    training."""
    device: str | None = None
    """Device, such as cpu or cuda. Default: cuda if available."""
