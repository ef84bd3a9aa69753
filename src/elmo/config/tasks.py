"""Config classes for supervised tasks (commands task fit, task evaluate and task predict)."""

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

# Other names of tasks, with the name of the preset.
TASK_SYNONYMS = {
    **dict.fromkeys(("ner", "pos", "chunking", "tagger", "entities"), "tagging"),
    **dict.fromkeys(("sentiment", "classifier", "textcat", "topics"), "classification"),
    **dict.fromkeys(("nli", "entailment", "paraphrase", "pairs"), "sentence-pairs"),
    **dict.fromkeys(("qa", "question_answer", "reading"), "question-answering"),
    **dict.fromkeys(("coref", "clusters"), "coreference"),
    **dict.fromkeys(("srl", "roles"), "semantic-roles"),
    "senses": "word-senses",
}

# Names of options in other libraries, with the names here.
OPTION_SYNONYMS = {
    **dict.fromkeys(("lr", "learning_rate_init", "eta"), "learning_rate"),
    **dict.fromkeys(("random_state", "random_seed"), "seed"),
    **dict.fromkeys(("hidden_size", "hidden_dim", "hidden_layer_sizes", "units"), "hidden"),
    **dict.fromkeys(("num_layers", "n_layers"), "depth"),
    **dict.fromkeys(("bs", "batchsize"), "batch_size"),
    **dict.fromkeys(("max_iter", "n_epochs", "num_epochs", "max_epochs", "n_iter"), "epochs"),
    **dict.fromkeys(("n_iter_no_change", "early_stopping"), "patience"),
    **dict.fromkeys(("elmo", "pretrained", "model_name"), "model"),
    "device": "accelerator",
}

# Maximum number of characters per word in the task model's own CNN, including the begin and end
# markers.
MAX_WORD_CHARACTERS = 25


@dataclass(frozen=True)
class ExamplesConfig:
    """Data sets and how to read them."""

    train: str | None = None
    """Training set: file or folder."""
    dev: str | None = None
    """Development set for model selection: file or folder. Default: a fraction of the training set
    (--dev-share)."""
    test: str | None = None
    """Test set: file or folder. Scored once, after training."""
    reader: ReaderName = "auto"
    """File format. auto: chosen by the task, the file name and the first lines."""
    text_column: str | None = None
    """Tables and JSON Lines: name of the column or field that contains the text. Default: text; for
    tagging, words or tokens. Sentence pairs and question answering: two names separated by a comma
    (default: the names in the known data sets; question,context)."""
    label_column: str | None = None
    """Where to find the label. Tables and JSON Lines: column or field name. Default: label; for
    tagging, tags; for question answering, answer or answers. CoNLL-U: upos or xpos. Other CoNLL
    formats: column number, counted from 0 (default: the last column)."""
    scheme: Literal["auto", "IOB1", "IOB2", "BIOES", "BILOU", "none"] = "auto"
    """Tagging and semantic roles: tagging scheme. none: tags do not mark spans. auto: detected from
    the data."""
    phrases: bool = False
    """Sentiment treebanks: train on all phrases instead of whole sentences only."""
    empty: Literal["error", "keep", "skip"] = "error"
    """What to do with texts that have no words: raise an error, keep them as examples, or skip
    them."""
    encoding: str | None = None
    """Character encoding of the files. Default: UTF-8, or UTF-16 if there is a byte order mark."""
    tokenizer: str | None = None
    """Tokenizer for raw text. Default: the tokenizer of the ELMo model."""
    pretokenized: bool = False
    """The words of the texts in tables and JSON Lines are separated by spaces, so the tokenizer is
    not applied to these files."""
    dev_share: float = 0.1
    """Fraction of the training set to use as the development set if --dev is not given."""
    fraction: float = 1.0
    """Fraction of the training set to use. The number of steps shrinks with it; below 800 examples
    less so, because batches become smaller. If --dev is not given, the development set shrinks too,
    but not below 200 examples."""
    keep_steps: bool = False
    """With --fraction: keep the number of steps and the development set of the full training set,
    for learning curves."""

    def __post_init__(self) -> None:
        """Validate the fractions."""
        if not 0 < self.dev_share < 1:
            raise ConfigError(f"dev_share must be between 0 and 1 (got {self.dev_share}).")
        if not 0 < self.fraction <= 1:
            raise ConfigError(f"fraction must be above 0 and at most 1 (got {self.fraction}).")


@dataclass(frozen=True)
class TaskELMoConfig:
    """The ELMo model and how the task model uses its layers."""

    model: str | None = "small-en"
    """Bundled model name, model folder or hub id. none: train the task model without ELMo."""
    use: Literal["frozen", "tuned"] = "frozen"
    """frozen: compute the ELMo vectors once and cache them on disk. tuned: train ELMo together with
    the task model."""
    placement: Literal["input", "output", "both"] = "input"
    """Where the ELMo vectors are added: at the input of the task encoder, at its output, or
    both."""
    layers: str = "all"
    """Layers to mix: all, top, or layer numbers such as 1 or 1,2."""
    gamma: bool = True
    """Learn a scale factor (gamma in the ELMo paper) for the layer mix."""
    mix_penalty: float = 0.001
    """L2 penalty on the weights of the layer mix (lambda in the ELMo paper)."""
    mix_learning_rate: float = 0.01
    """Peak learning rate of the layer-mix weights."""
    elmo_dropout: float = 0.5
    """Dropout on the mixed ELMo vectors."""
    elmo_learning_rate: float = 1e-4
    """With --use tuned: peak learning rate of the ELMo weights."""
    unfreeze_every: int = 0
    """With --use tuned: unfreeze one more layer every N epochs, from the top down. 0: train all
    layers from the start."""

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
                f"unfreeze_every ({self.unfreeze_every}) requires use: tuned, because a frozen "
                "ELMo model is not trained."
            )
        if self.use == "tuned" and self.model is None:
            raise ConfigError("use: tuned requires an ELMo model, but model is none.")


@dataclass(frozen=True)
class WordFeaturesConfig:
    """Word features in addition to ELMo: static word vectors, characters, indicators."""

    word_vectors: str | None = None
    """File with static word vectors in word2vec or GloVe format. Binary word2vec files must end in
    .bin."""
    tune_word_vectors: bool = True
    """Fine-tune the static vectors of the words that occur in the examples."""
    max_word_vectors: int = 400_000
    """Maximum number of static vectors to store for words that do not occur in the examples; the
    first ones in the file are used. For example, 400,000 GloVe vectors of dimension 300 take 240 MB
    in float16."""
    characters: Literal["bytes", "none"] = "bytes"
    """Character input of the task model's own character CNN. none: no character CNN."""
    character_dim: int = 16
    """Dimension of the character embeddings."""
    character_filters: tuple[tuple[int, int], ...] = ((1, 16), (2, 32), (3, 64))
    """Convolution filters over characters, as [width, count] pairs."""
    indicator_dim: int = 16
    """Dimension of the indicator embeddings, which mark words shared by both texts (sentence pairs,
    question answering), the predicate (semantic roles) or the speaker (coreference)."""

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
    """Hidden size of the BiLSTM per direction. 0: no BiLSTM."""
    depth: int = 1
    """Number of BiLSTM layers."""
    highway: bool = False
    """Add highway connections between the BiLSTM layers."""
    input_dropout: float = 0.3
    """Dropout on the input of the BiLSTM."""
    dropout: float = 0.5
    """Dropout on the output of the BiLSTM."""
    crf: bool = True
    """Tagging and semantic roles: use a conditional random field instead of a separate softmax for
    each word."""
    char_ngrams: int = 0
    """Classification: maximum length of character n-grams in a linear classifier whose predictions
    are averaged with those of the BiLSTM. 0: no such classifier."""
    ngram_buckets: int = 262_144
    """Number of hash buckets for character n-grams. Each bucket takes 4 bytes per label."""

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
    """Maximum number of words read at a time. Longer passages are split into overlapping
    windows."""
    overlap: int = 100
    """Number of words shared by consecutive windows."""
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
    """Maximum number of candidate mentions, as a fraction of the number of words in the
    document."""
    max_antecedents: int = 150
    """Maximum number of candidate antecedents per mention (the nearest preceding mentions)."""
    scorer_dim: int = 150
    """Hidden size of the networks that score mentions and links."""
    max_sentence_words: int = 150
    """Maximum sentence length in words. Longer sentences are split."""
    max_document_words: int = 4000
    """Maximum document length in words. Longer documents are split at sentence boundaries, and
    mentions are not linked across a split."""

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
    """Lookup tasks, which have no trained task model: word senses and nearest occurrences."""

    wordnet: str | None = None
    """Word senses: path to WordNet's index.sense file. Default: wordnet-3.0/index.sense next to the
    training set."""
    n_nearest: int = 3
    """Nearest occurrences: number of occurrences to return."""
    max_per_word: int = 1000
    """Nearest occurrences: maximum number of occurrences to store per word. With the bundled
    models, each takes 1 kB."""

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
      elmo task fit classification --train my.csv --text-column review --label-column stars --out m
      elmo task fit conll2003 --train train.txt --dev valid.txt --test test.txt --out ner
      elmo task fit my-task.yaml --out topics --seeds 5
    """

    out: str
    """Output folder."""
    task: TaskName = "classification"
    """Task to train a model for."""
    metric: Literal["accuracy", "macro_f1"] = "accuracy"
    """Classification and sentence pairs: metric for model selection."""
    seeds: int = 1
    """Number of runs with different random seeds. The mean and standard deviation are reported."""
    parallel_seeds: int = 1
    """Number of seeds to train in parallel on one device. Each runs in its own process and prints
    to output.txt in its own folder."""
    batch_size: int | None = None
    """Number of examples per training step. Default: 32, or fewer for a training set of less than
    800 examples, so that an epoch has 25 steps."""
    batch_words: int = 16_384
    """Maximum number of words, including padding, per micro-batch. Larger batches are split to
    limit memory use; results do not change."""
    cache: str | None = None
    """Folder for cached ELMo vectors. Default: a folder named layers in the output folder."""
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
            warmup_steps=None,
            schedule="cosine",
            weight_decay=0.01,
            clip_norm=5.0,
        )
    )
    """Optimizer."""
    run: RunConfig = field(default_factory=lambda: RunConfig(epochs=20, patience=5))
    """Run."""

    def __post_init__(self) -> None:
        """Validate counts and check that every option applies to the task."""
        for name in ("seeds", "parallel_seeds", "batch_size", "batch_words"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1 (got {value}).")
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
                "num_nodes and accumulate must be 1, and strategy must be auto."
            )
        has_elmo_input = self.elmo.model is not None and self.elmo.placement != "output"
        features = self.word_features
        if not has_elmo_input and features.word_vectors is None and features.characters == "none":
            raise ConfigError(
                "The task model has no input. Set at least one of model (with placement: input or "
                "both), word_vectors and characters."
            )


@dataclass(frozen=True)
class TaskEvaluateConfig:
    """Evaluate a trained task model on labeled examples.

    Examples:
      elmo task evaluate ner test.txt
    """

    model: str
    """Folder written by `elmo task fit`."""
    input: str
    """Labeled examples, in the same format as the training set."""
    reader: ReaderName | None = None
    """File format, if it differs from that of the training set (for example gap for
    coreference)."""
    text_column: str | None = None
    """Column of the text, if it differs from that of the training set."""
    label_column: str | None = None
    """Column of the label, if it differs from that of the training set."""
    empty: Literal["error", "keep", "skip"] | None = None
    """What to do with texts that have no words: raise an error, keep them as examples, or skip
    them. Default: the value set in training."""
    device: str | None = None
    """Device, such as cpu or cuda. Default: cuda if available."""


@dataclass(frozen=True)
class TaskPredictConfig:
    """Run a trained task model on new text, with one prediction per input line.

    Examples:
      elmo task predict ner sentences.txt answers.jsonl
      elmo task predict sentiment new.csv labels.csv
      echo "He lives in Seoul." | elmo task predict ner - - --to conll
    """

    model: str
    """Folder written by `elmo task fit`."""
    input: str
    """Input file, or - for standard input. One text per line; for coreference, one document per
    line. For sentence pairs and question answering, two texts per line, separated by a tab
    (question first, then passage). Or a table or JSON lines (.csv, .tsv, .jsonl) with the columns
    of the training set. For tagging, also CoNLL columns (.conll, .iob, .bio, .conllu), of which
    only the words are read."""
    out: str = "-"
    """Output file. Default: standard output."""
    text_column: str | None = None
    """Tables and JSON Lines: column of the text, if it differs from that of the training set."""
    id_column: str | None = None
    """Tables and JSON Lines: column that identifies a row; written to the output as id."""
    to: Literal["auto", "jsonl", "conll", "csv", "tsv"] = "auto"
    """Output format. jsonl: JSON Lines. conll: one word and its tag per line. csv, tsv: a table of
    texts, labels and their probabilities, or of questions, passages and answers. auto: determined
    by the extension of the output file, otherwise jsonl."""
    pretokenized: bool = False
    """The words of the text are separated by spaces. Default: split the text with the tokenizer of
    the task, which is that of its ELMo model unless --tokenizer was set in training."""
    device: str | None = None
    """Device, such as cpu or cuda. Default: cuda if available."""
