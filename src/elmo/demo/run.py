"""The `demo` command: word senses with a bundled model, then pre-train, fine-tune and embed.

It runs on a CPU in two minutes. The texts and the model of the last three steps are tiny: they show
how each step is done and that it works, not how good the vectors of ELMo are. If the packages for
training are not installed, the last step uses the bundled model.
"""

import dataclasses
import itertools
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmo.config import (
    CorpusConfig,
    DemoConfig,
    EmbedConfig,
    FinetuneConfig,
    PrepareConfig,
    PretrainConfig,
    ReadingConfig,
)
from elmo.config.serialization import load_config, presets
from elmo.corpus.prepare_corpus import prepare
from elmo.demo.toy_corpus import kitchen, town
from elmo.demo.word_senses_demo import MODEL, SensesResult, bundled_senses
from elmo.embed.embed_file import embed
from elmo.embed.embedder import ELMo
from elmo.errors import MissingExtra, interruption_note
from elmo.evaluate.perplexity import Perplexity
from elmo.progress import duration
from elmo.train.finetune_model import finetune
from elmo.train.pretrain_model import pretrain

# Number of sentences of the two texts, and epochs on each.
N_TOWN, N_KITCHEN, EPOCHS = 3000, 800, 2.0

# Name of the training folder of the tiny model.
PRETRAINED = "pretrained"

FINETUNING_STEP = f"Step 3 of 4: fine-tune the model on {N_KITCHEN:,} sentences about a kitchen"
NO_MODEL = "Skipped: there is no model."
MODEL_MISSING = f"Skipped: the bundled model {MODEL} is not installed."

RIVER = [
    "Emma rested on the bank of the river among the reeds.",
    "The raft drifted to the sandy bank of the lake at dawn.",
    "A swan slept on the steep bank and looked at the stream.",
]
MONEY = [
    "Felix took the wages to the bank on Mill Road after lunch.",
    "The manager of the bank rejected the loan on Monday.",
    "Clara asked the bank for a mortgage last week.",
]


@dataclass(frozen=True)
class TinyTraining:
    """Results of pre-training and fine-tuning a tiny model.

    The vocabulary size `n_words` is the perplexity of a uniform guess. `trained` is the perplexity
    on held-out text of the topic, `foreign` that on another topic, and `tuned` that after
    fine-tuning.
    """

    n_words: int
    trained: Perplexity
    foreign: Perplexity
    tuned: Perplexity

    def __str__(self) -> str:
        return "\n".join(
            [
                "2. Pre-training on sentences about a town",
                f"   Perplexity {self.trained.mean:.1f} on held-out sentences. A uniform guess has "
                f"{self.n_words:,}.",
                "",
                "3. Fine-tuning on sentences about a kitchen",
                f"   Perplexity {self.foreign.mean:,.1f} before and {self.tuned.mean:.1f} after.",
            ]
        )


@dataclass(frozen=True)
class BankVectors:
    """Mean cosines of "bank" in sentences about rivers and about money, for each layer."""

    model: str
    same_sense: tuple[float, ...]
    other_sense: tuple[float, ...]
    summary: str

    def __str__(self) -> str:
        rows = enumerate(zip(self.same_sense, self.other_sense, strict=True))
        lines = [
            f"Embedded {self.summary}",
            "",
            'Mean cosine between vectors of "bank" in sentences about rivers and about money:',
            "",
            f"{'layer':>8}{'same sense':>14}{'other sense':>14}",
            *(f"{number:>8}{same:>14.3f}{other:>14.3f}" for number, (same, other) in rows),
            "",
            "Layer 0 reads only the characters of the word, so its vectors are all the same.",
            "The layers above read the whole sentence, so their vectors depend on the context.",
        ]
        return "\n".join(lines)

    @property
    def comparison(self) -> str:
        """One-line comparison of the two senses in the last layer."""
        return (
            f'Mean cosine of "bank" in layer {len(self.same_sense) - 1}: {self.same_sense[-1]:.3f} '
            f"in the same sense, {self.other_sense[-1]:.3f} in different senses."
        )


@dataclass(frozen=True)
class DemoResult:
    """Results of the steps of the demo; None for skipped steps.

    `skipped` is the reason why training was skipped, `folder` that of the saved model, if kept.
    """

    senses: SensesResult | None
    training: TinyTraining | None
    bank: BankVectors | None
    skipped: str = ""
    folder: str | None = None

    def __str__(self) -> str:
        senses = MODEL_MISSING if self.senses is None else self.senses.summary
        parts = ["", "Summary", f"1. Word senses\n   {senses}"]
        if self.training is None:
            parts.append(f"2 and 3. Pre-training and fine-tuning\n   {self.skipped}")
        else:
            parts += [
                "Steps 2 to 4 use tiny texts and a tiny model. They show how ELMo is trained and "
                "used,\nnot how good it is.",
                str(self.training),
            ]
        if self.bank is None:
            parts.append(f"4. Using a model\n   {NO_MODEL}")
        else:
            parts.append(f"4. Using {self.bank.model}\n   {self.bank.comparison}")
        if self.folder is not None:
            parts.append(
                f"The pre-trained model was saved to {self.folder}. To describe it, run:\n"
                f"   elmo info {self.folder}"
            )
        return "\n\n".join(parts)


def demo(config: DemoConfig) -> DemoResult:
    """Distinguish word senses with the bundled model, then train and use a tiny model."""
    _report(f"Step 1 of 4: distinguish word senses with the bundled model {MODEL}")
    senses = bundled_senses()
    _report(MODEL_MISSING if senses is None else str(senses))
    # The checkpoints are in the temporary folder.
    note = "No incomplete files were left."
    with interruption_note(lambda: note), tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        training, skipped = None, ""
        try:
            training = _train(folder)
        except MissingExtra as error:
            skipped = f"Skipped: {error}"
            _report(skipped)
            _report(f"{FINETUNING_STEP}\n\nSkipped for the same reason.")
        name = MODEL if training is None else PRETRAINED
        has_model = training is not None or senses is not None
        _report('Step 4 of 4: embed sentences and compare the vectors of "bank"')
        bank = _bank_vectors(folder, name) if has_model else None
        _report(NO_MODEL if bank is None else str(bank))
        if training is not None and config.out is not None:
            ELMo.from_pretrained(folder / PRETRAINED).save_pretrained(config.out)
    return DemoResult(senses, training, bank, skipped, config.out if training else None)


def _train(folder: Path) -> TinyTraining:
    """Pre-train and fine-tune a tiny model."""
    _report(f"Step 2 of 4: pre-train a tiny model on {N_TOWN:,} sentences about a town")
    corpus = _prepare_corpus(folder, "town", town(N_TOWN, seed=1))
    values = {"data": [str(corpus)], "out": str(folder / PRETRAINED), "epochs": EPOCHS}
    trained = pretrain(load_config(PretrainConfig, "tiny", values, presets()))
    _report(FINETUNING_STEP)
    other_corpus = _prepare_corpus(folder, "kitchen", kitchen(N_KITCHEN, seed=2))
    values = {
        "model": str(folder / PRETRAINED),
        "data": [str(other_corpus)],
        "out": str(folder / "tuned"),
        "batch_size": 32,
        "learning_rate": 3e-3,
        "warmup_steps": 20,
        "epochs": EPOCHS,
        "reset": 0.5,
    }
    tuned = finetune(load_config(FinetuneConfig, None, values))
    assert trained.best is not None
    assert tuned.before is not None
    assert tuned.best is not None
    n_words = ELMo.from_pretrained(folder / PRETRAINED).config.n_softmax_words
    return TinyTraining(n_words, trained.best, tuned.before, tuned.best)


def _bank_vectors(folder: Path, name: str) -> BankVectors:
    """Write vectors of a bundled model, or of that in the folder, and compare "bank"."""
    is_trained = name == PRETRAINED
    model = ELMo.from_pretrained(folder / name if is_trained else name)
    return BankVectors(
        "the pre-trained model" if is_trained else name,
        _mean_cosines(model, [RIVER, MONEY]),
        _mean_cosines(model, [RIVER, MONEY], across=True),
        _embed(str(folder / name) if is_trained else name, folder),
    )


def _report(text: str) -> None:
    sys.stderr.write(f"\n{text}\n")


def _prepare_corpus(folder: Path, name: str, sentences: Iterable[str]) -> Path:
    text = folder / f"{name}.txt"
    text.write_text("".join(f"{sentence}\n" for sentence in sentences), encoding="utf-8")
    reading = ReadingConfig(tokenizer="english")
    corpus = CorpusConfig(reading, held_out=0.15, workers=1)
    result = prepare(PrepareConfig((str(text),), str(folder / name), corpus=corpus))
    _report(str(dataclasses.replace(result, out=name)))
    return folder / name


def _embed(model: str, folder: Path) -> str:
    """Write the vectors of the sentences to a file and return a summary."""
    lines, vectors = folder / "sentences.txt", folder / "vectors.h5"
    lines.write_text("".join(f"{line}\n" for line in RIVER + MONEY), encoding="utf-8")
    result = embed(EmbedConfig(str(lines), str(vectors), model=model))
    time = duration(result.seconds, decimal=True)
    return f"{result.counts()} in {time} ({result.rate():,.0f} words/s)."


def _mean_cosines(model: ELMo, senses: list[list[str]], across: bool = False) -> tuple[float, ...]:
    """Return the mean cosine of "bank" for each layer, in the same sense or across senses."""
    vectors = [
        [
            model.encode(line, layers="all")[:, model.tokenizer.words(line).index("bank")]
            for line in lines
        ]
        for lines in senses
    ]
    if across:
        pairs = list(itertools.product(*vectors))
    else:
        pairs = [pair for lines in vectors for pair in itertools.combinations(lines, 2)]
    return tuple(np.mean([_cosine(x, y) for x, y in pairs], axis=0).tolist())


def _cosine(x: NDArray[np.float32], y: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the cosine of two vectors (layers, dim) for each layer, (layers,)."""
    lengths = np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1)
    return np.asarray((x * y).sum(axis=1) / lengths, dtype=np.float32)
