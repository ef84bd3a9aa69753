"""Config classes for supervised tasks (commands task fit, task evaluate and task predict)."""

from dataclasses import dataclass
from typing import Literal

from elmo.config.bounds import require_at_least_one
from elmo.errors import ConfigError

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
class TaskOptions:
    """Base class of the options of one task, which are defined in its package."""


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
    reader: str = "auto"
    """File format. auto: chosen by the task, the file name and the first lines."""
    text_column: str | None = None
    """Tables and JSON Lines: name of the column or field that contains the text. Default: text; for
    tagging, words or tokens. Sentence pairs and question answering: two names separated by a comma
    (default: the names in the known data sets; question,context)."""
    label_column: str | None = None
    """Where to find the label. Tables and JSON Lines: column or field name. Default: label; for
    tagging, tags; for question answering, answer or answers. CoNLL-U: upos or xpos. Other CoNLL
    formats: column number, counted from 0 (default: the last column)."""
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
        if self.max_word_vectors < 0:
            raise ConfigError(f"max_word_vectors must be 0 or more (got {self.max_word_vectors}).")
        require_at_least_one(self, "character_dim", "indicator_dim")
        widths = [width for width, _ in self.character_filters]
        counts = [count for _, count in self.character_filters]
        if not widths or min(widths) < 1 or max(widths) > MAX_WORD_CHARACTERS or min(counts) < 1:
            raise ConfigError(
                f"character_filters must be pairs of a width, at most {MAX_WORD_CHARACTERS}, and a "
                f"positive count (got {self.character_filters})."
            )


@dataclass(frozen=True)
class TaskEncoderConfig:
    """The BiLSTM encoder of the task model."""

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

    def __post_init__(self) -> None:
        if self.hidden < 0:
            raise ConfigError(f"hidden must be 0 or more (got {self.hidden}).")
        require_at_least_one(self, "depth")
        for name in ("input_dropout", "dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(
                    f"{name} must be at least 0 and below 1 (got {getattr(self, name)})."
                )


@dataclass(frozen=True)
class TaskEvaluateConfig:
    """Evaluate a trained task model on labeled examples.

    Examples:
      elmo task evaluate ner test.txt
    """

    model: str
    """Folder written by `elmo task fit`, or hub id."""
    input: str
    """Labeled examples, in the same format as the training set."""
    reader: str | None = None
    """File format, if it differs from that of the training set (for example gap for
    coreference)."""
    text_column: str | None = None
    """Column of the text, if it differs from that of the training set."""
    label_column: str | None = None
    """Column of the label, if it differs from that of the training set."""
    empty: Literal["error", "keep", "skip"] | None = None
    """What to do with texts that have no words: raise an error, keep them as examples, or skip
    them. Default: the value set in training."""
    encoding: str | None = None
    """Character encoding of the file. Default: UTF-8, or UTF-16 if there is a byte order mark."""
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
    """Folder written by `elmo task fit`, or hub id."""
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
    encoding: str | None = None
    """Character encoding of the input. Default: UTF-8, or UTF-16 if there is a byte order mark."""
    device: str | None = None
    """Device, such as cpu or cuda. Default: cuda if available."""
