"""The dials of supervised tasks on top of ELMo."""

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

# Letters of a word that are read, two marks included; more say little.
MAX_WORD_CHARACTERS = 25


@dataclass(frozen=True)
class ExamplesConfig:
    """Where examples come from."""

    train: str | None = None
    """Examples to learn from."""
    dev: str | None = None
    """Examples a model is chosen by; a part of the training examples where none are named."""
    test: str | None = None
    """Examples to report on; scored once, after training."""
    reader: ReaderName = "auto"
    """What the files are; found out from their names and first lines where nothing is said."""
    text: str = "text"
    """Tables, JSON lines and pairs: column of the text; two with a comma between them."""
    label: str | None = None
    """Where the answer stands: a column's name in tables and JSON lines (label), upos or xpos in
    CoNLL-U, a column's number in CoNLL columns (the last)."""
    scheme: Literal["auto", "IOB1", "IOB2", "BIOES", "BILOU", "none"] = "auto"
    """Tagging and roles: scheme of the tags, none where they mark no spans; found out from them
    where nothing is said."""
    phrases: bool = False
    """Trees: learn from all phrases, not from sentences alone."""
    empty: Literal["error", "keep", "skip"] = "error"
    """Texts without a word: an error, an example like others, or left out."""
    encoding: str | None = None
    """Encoding of the files; UTF-8, or UTF-16 with its mark, where none is named."""
    tokenizer: str | None = None
    """Splits raw text; the one of the ELMo model where none is named."""
    dev_share: float = 0.1
    """Share of the training examples a model is chosen by, where no dev is named."""
    fraction: float = 1.0
    """Share of the training examples that is used, for curves of sample efficiency. An epoch has as
    many steps as one of all examples, so that a share is learned from as long."""

    def __post_init__(self) -> None:
        """Refuse shares that are none."""
        if not 0 < self.dev_share < 1:
            raise ConfigError(f"dev_share is {self.dev_share}; a share between 0 and 1 is meant")
        if not 0 < self.fraction <= 1:
            raise ConfigError(f"fraction is {self.fraction}; a share above 0, 1 at most, is meant")


@dataclass(frozen=True)
class TaskELMoConfig:
    """What ELMo gives to the model."""

    model: str | None = "small-en"
    """Name, folder or hub id; none for a model without ELMo."""
    use: Literal["frozen", "tuned"] = "frozen"
    """frozen: vectors are computed once and kept on the disk; tuned: the network learns too."""
    placement: Literal["input", "output", "both"] = "input"
    """Where its vectors come in: before the model's own LSTM, after it, or both."""
    layers: str = "all"
    """Layers that are mixed: all, the top one, or some by their numbers, such as 1 or 1,2."""
    gamma: bool = True
    """Whether the mix has a scale that is learned."""
    mix_penalty: float = 0.001
    """The paper's lambda: penalty on the squares of the weights of the mix."""
    mix_learning_rate: float = 0.01
    """Highest learning rate of the weights of the mix: a few numbers that have far to go, where
    those of a matrix move by hundredths."""
    elmo_dropout: float = 0.5
    """Dropout of the mixed vectors."""
    elmo_learning_rate: float = 1e-4
    """tuned: highest learning rate of the network itself."""
    unfreeze_every: int = 0
    """tuned: epochs after which the next layer from the top begins to learn; 0 lets all learn."""

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        numbers = self.layers.split(",")
        are_some = all(map(str.isdecimal, numbers)) and len(set(map(int, numbers))) == len(numbers)
        if self.layers not in ("all", "top") and not are_some:
            raise ConfigError(
                f"layers is {self.layers!r}; expected all, top, or numbers of layers such as 1,2"
            )
        if self.mix_penalty < 0:
            raise ConfigError(f"mix_penalty is {self.mix_penalty}; it must be 0 or more")
        if not 0 <= self.elmo_dropout < 1:
            raise ConfigError(f"elmo_dropout is {self.elmo_dropout}; a share below 1 is meant")
        for name in ("elmo_learning_rate", "mix_learning_rate"):
            if not 0 < getattr(self, name) <= 1e6:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be above 0")
        if self.unfreeze_every < 0:
            raise ConfigError(f"unfreeze_every is {self.unfreeze_every}; it must be 0 or more")
        if self.unfreeze_every and self.use == "frozen":
            raise ConfigError(
                f"unfreeze_every is {self.unfreeze_every}, but a frozen ELMo does not learn: "
                "say use: tuned"
            )
        if self.use == "tuned" and self.model is None:
            raise ConfigError("use is tuned, but there is no ELMo (model: none) that could learn")


@dataclass(frozen=True)
class WordFeaturesConfig:
    """What else a word is known by."""

    word_vectors: str | None = None
    """File of word vectors, as word2vec and GloVe write them; a binary one ends in .bin."""
    tune_word_vectors: bool = True
    """Whether static vectors learn too: those of words of the examples."""
    max_word_vectors: int = 400_000
    """Further words of that file which the model keeps for texts to come, the first in it; in
    float16, 2 bytes a number: 240 MB for all of GloVe's 400,000 words of width 300."""
    characters: Literal["bytes", "none"] = "bytes"
    """Characters of a word, which a small CNN of the model's own reads."""
    character_dim: int = 16
    """Width of a character vector."""
    character_filters: tuple[tuple[int, int], ...] = ((1, 16), (2, 32), (3, 64))
    """Convolutions over characters as [width, count] pairs."""
    indicator_dim: int = 16
    """Width of the vector of a mark, for tasks that mark words: pairs and answers mark those that
    both texts have, roles the predicate, clusters who speaks."""

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if self.max_word_vectors < 0:
            raise ConfigError(f"max_word_vectors is {self.max_word_vectors}; it must be 0 or more")
        if self.character_dim < 1:
            raise ConfigError(f"character_dim is {self.character_dim}; it must be at least 1")
        if self.indicator_dim < 1:
            raise ConfigError(f"indicator_dim is {self.indicator_dim}; it must be at least 1")
        widths = [width for width, _ in self.character_filters]
        counts = [count for _, count in self.character_filters]
        if not widths or min(widths) < 1 or max(widths) > MAX_WORD_CHARACTERS or min(counts) < 1:
            raise ConfigError(
                f"character_filters is {self.character_filters}; expected pairs of a width, "
                f"{MAX_WORD_CHARACTERS} at most, and a count"
            )


@dataclass(frozen=True)
class TaskEncoderConfig:
    """The model's own layers."""

    hidden: int = 256
    """Width of each direction of the LSTM; 0 for none at all."""
    depth: int = 1
    """Layers of the LSTM."""
    highway: bool = False
    """Whether what a layer above the first reads may pass by it, by a gate that learns: for deep
    ones."""
    input_dropout: float = 0.3
    """Dropout of what goes into the LSTM."""
    dropout: float = 0.5
    """Dropout of what comes out of it."""
    crf: bool = True
    """Tagging and roles: whether the tags of a text are found together, by a conditional random
    field; each by itself, by a softmax, where not."""
    char_ngrams: int = 0
    """Classification: characters of the longest n-grams of a text that vote beside the LSTM, by a
    linear map that learns by itself; 0 for none."""
    ngram_buckets: int = 262_144
    """Rows of the table that n-grams are hashed into, 4 bytes a label each; where there are more
    n-grams, some share a row."""

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if not 0 <= self.char_ngrams <= 8:
            raise ConfigError(f"char_ngrams is {self.char_ngrams}; 0 to 8 characters are meant")
        if not 1 <= self.ngram_buckets <= 2**24:
            raise ConfigError(
                f"ngram_buckets is {self.ngram_buckets}; 1 to 16,777,216 rows are meant"
            )
        if self.hidden < 0 or self.depth < 1:
            raise ConfigError("hidden must be 0 or more, depth at least 1")
        for name in ("input_dropout", "dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; a share below 1 is meant")


@dataclass(frozen=True)
class QuestionAnsweringConfig:
    """Answers to questions."""

    max_answer_words: int = 30
    """Words of an answer at most."""
    window: int = 400
    """Words of a passage that are read at a time; a longer one is cut into windows."""
    overlap: int = 100
    """Words that a window shares with the one before."""
    f1_unit: Literal["words", "characters"] = "words"
    """What F1 counts: words, as SQuAD does, or characters, as KorQuAD does."""

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if self.max_answer_words < 1:
            raise ConfigError(f"max_answer_words is {self.max_answer_words}; it must be at least 1")
        if not 0 <= self.overlap < self.window:
            raise ConfigError(
                f"overlap is {self.overlap} and window {self.window}; windows must go on"
            )


@dataclass(frozen=True)
class CoreferenceConfig:
    """Coreference."""

    max_mention_words: int = 20
    """Words of a mention at most."""
    top_span_ratio: float = 0.3
    """Spans that are compared with each other, by words of the document: the likeliest mentions."""
    max_antecedents: int = 150
    """Mentions before a mention that it may be linked to, the nearest."""
    scorer_dim: int = 150
    """Width of the layers that score mentions and links."""
    max_sentence_words: int = 150
    """Words of a sentence that are read together; a longer one is cut."""
    max_document_words: int = 4000
    """Words of a document that are read at a time; a longer one is cut between two sentences, and
    nothing is linked across the cut."""

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        for name in ("max_mention_words", "max_antecedents", "scorer_dim", "max_sentence_words"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.max_document_words < self.max_sentence_words:
            raise ConfigError(
                f"max_document_words is {self.max_document_words} and max_sentence_words "
                f"{self.max_sentence_words}; a document must hold a sentence"
            )
        if self.top_span_ratio <= 0:
            raise ConfigError(f"top_span_ratio is {self.top_span_ratio}; it must be above 0")


@dataclass(frozen=True)
class LookupConfig:
    """Tasks that remember and do not learn."""

    wordnet: str | None = None
    """Senses: WordNet's index.sense; wordnet-3.0/index.sense beside the folder to learn from where
    none is named."""
    n_nearest: int = 3
    """Nearest: occurrences that are answered."""
    max_per_word: int = 1000
    """Nearest: occurrences of a word that are kept at most, the first; each takes 2 bytes x width,
    1 kB with the bundled models."""

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        for name in ("n_nearest", "max_per_word"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be at least 1")


@dataclass(frozen=True)
class TaskConfig:
    """Train a model for a task on top of ELMo.

    Started again with the same folder, it goes on from its last checkpoint.

    Examples:
      elmo task fit conll2003 --train train.txt --dev valid.txt --test test.txt --out ner
      elmo task fit my-task.yaml --out topics --seeds 5
    """

    out: str
    """Folder to write."""
    task: TaskName = "classification"
    """What is to be found: one label for a text, a tag for each of its words, one label for a pair
    of texts, the answer to a question in a passage, predicates and their arguments, clusters of
    mentions; the senses of words, or their nearest occurrences in a text."""
    metric: Literal["accuracy", "macro_f1"] = "accuracy"
    """Classification and pairs: score that a model is chosen by."""
    seeds: int = 1
    """Runs with different seeds; their mean and deviation are reported."""
    parallel_seeds: int = 1
    """Seeds that are trained at the same time, on the same device, each in a process of its own;
    what a run says is in output.txt in its folder."""
    batch_size: int = 32
    """Examples of a step."""
    batch_words: int = 16_384
    """Words that are computed together, padding included: a step with more is taken in parts. It
    bounds memory and changes nothing else; a single text is never cut by it, nor a sentence of a
    document."""
    cache: str | None = None
    """Folder for vectors that are computed once; `layers` in the output folder where none is."""
    examples: ExamplesConfig = field(default_factory=ExamplesConfig)
    """Examples."""
    elmo: TaskELMoConfig = field(default_factory=TaskELMoConfig)
    """ELMo."""
    word_features: WordFeaturesConfig = field(default_factory=WordFeaturesConfig)
    """Words."""
    encoder: TaskEncoderConfig = field(default_factory=TaskEncoderConfig)
    """The model's own layers."""
    question_answering: QuestionAnsweringConfig = field(default_factory=QuestionAnsweringConfig)
    """Answers to questions."""
    coreference: CoreferenceConfig = field(default_factory=CoreferenceConfig)
    """Coreference."""
    lookup: LookupConfig = field(default_factory=LookupConfig)
    """Tasks that remember and do not learn."""
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
    """The optimiser."""
    run: RunConfig = field(default_factory=lambda: RunConfig(epochs=20, patience=5))
    """The run."""

    def __post_init__(self) -> None:
        """Refuse what tasks do not have."""
        for name in ("seeds", "parallel_seeds", "batch_size", "batch_words"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.encoder.char_ngrams and self.task != "classification":
            raise ConfigError(
                f"char_ngrams is {self.encoder.char_ngrams}, but in {self.task} no n-grams vote"
            )
        if self.metric != "accuracy" and self.task not in ("classification", "sentence_pairs"):
            raise ConfigError(f"metric is {self.metric}, but {self.task} has a score of its own")
        for part, tasks in (
            (self.question_answering, ("question_answering",)),
            (self.coreference, ("coreference",)),
            (self.lookup, ("word_senses", "nearest_occurrences")),
        ):
            said = [f.name for f in fields(part) if getattr(part, f.name) != f.default]
            if said and self.task not in tasks:
                raise ConfigError(
                    f"{said[0]} is {getattr(part, said[0])}, which means nothing in {self.task}: "
                    f"it is of {' and '.join(tasks)}"
                )
        if self.seeds > 1 and self.task in ("word_senses", "nearest_occurrences"):
            raise ConfigError(f"{self.task}: nothing is left to chance, so that one seed will do")
        run = self.run
        if run.devices * run.num_nodes > 1 or run.accumulate > 1 or run.strategy != "auto":
            raise ConfigError("a task is trained on one device, each step as a whole")
        has_input = self.elmo.model is not None and self.elmo.placement != "output"
        if (
            not has_input
            and self.word_features.word_vectors is None
            and self.word_features.characters == "none"
        ):
            raise ConfigError(
                "the model has no input: neither ELMo, nor static vectors, nor letters"
            )


@dataclass(frozen=True)
class TaskEvaluateConfig:
    """Measure a trained task model on a file.

    Examples:
      elmo task evaluate ner test.txt
    """

    model: str
    """Folder of a model that `elmo task fit` wrote."""
    input: str
    """Examples with their answers, in a file like those the model was trained on."""
    reader: ReaderName | None = None
    """What the file is, where it is not like those, such as gap for a model of coreference."""
    device: str | None = None
    """cpu, cuda, ...; a GPU where there is one."""
    as_json: bool = False
    """Print JSON."""


@dataclass(frozen=True)
class TaskPredictConfig:
    """Answer with a trained task model.

    Examples:
      elmo task predict ner sentences.txt answers.jsonl
      echo "He lives in Seoul ." | elmo task predict ner - - --to conll
    """

    model: str
    """Folder of a model that `elmo task fit` wrote."""
    input: str
    """One text a line, a whole document for coreference; for pairs and answers (question, passage)
    two with a tab between them; - is standard input."""
    output: str = "-"
    """File to write; - is standard output."""
    to: Literal["auto", "jsonl", "conll"] = "auto"
    """What is written: JSON lines, or a word and its tag a line; by the ending of the output, JSON
    lines where that says nothing."""
    raw: bool | None = None
    """Whether texts are split by the model's tokeniser, not at white space; as the texts were that
    the model was trained on where nothing is said."""
    device: str | None = None
    """cpu, cuda, ...; a GPU where there is one."""
