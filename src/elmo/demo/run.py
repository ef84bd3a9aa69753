"""The verb `demo`: a trained model at work, then ELMo's three steps, on a CPU, in three minutes.

The texts of the three steps come with the program and are tiny, and so is the model made of them:
they show how things are done and that each step does its work, not how good ELMo's vectors are.
"""

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
from elmo.evaluate.perplexity import Perplexity
from elmo.train.finetune_model import finetune
from elmo.train.pretrain_model import pretrain

# Sentences of the two texts, and how often each is read.
N_TOWN, N_KITCHEN, EPOCHS = 3000, 800, 2.0

LEFT_OUT = f"{MODEL} is not in this installation: nothing to tell senses apart with."

RIVER = [
    "Emma rested on the bank of the river among the reeds.",
    "The raft drifted to the sandy bank of the lake at dawn.",
    "A swan slept on the steep bank and looked at the stream.",
]
MONEY = [
    "Felix took the wages to the bank on Mill Lane after lunch.",
    "The manager of the bank refused the loan on Monday.",
    "Clara asked the bank for a mortgage last week.",
]


@dataclass(frozen=True)
class DemoResult:
    """What `demo` saw.

    Attributes:
        senses: what the bundled model made of words with two senses, where it is installed.
        before: words of the vocabulary, the perplexity of a blind guess.
        trained: after pre-training, on held-out text of the same kind.
        foreign: the pre-trained model on another kind of text.
        tuned: the same text after fine-tuning.
        same_sense: mean cosine of "bank" in two sentences of one sense, for each layer.
        other_sense: mean cosine of "bank" in two sentences of different senses, for each layer.
        summary: what `embed` said of the file it wrote.
        folder: where the model was left, if it was.
    """

    senses: SensesResult | None
    before: int
    trained: Perplexity
    foreign: Perplexity
    tuned: Perplexity
    same_sense: tuple[float, ...]
    other_sense: tuple[float, ...]
    summary: str
    folder: str | None

    def __str__(self) -> str:
        """Tell the story."""
        senses = LEFT_OUT if self.senses is None else f"{MODEL}: {self.senses.summary}."
        lines = [
            "",
            "What happened:",
            "",
            f"1. {senses}",
            "",
            "And on tiny texts with a tiny model, which shows the way and not the quality:",
            "",
            f"2. Pre-trained on sentences about a town. Perplexity: a blind guess {self.before:,}, "
            f"after training {self.trained.mean:.1f}.",
            "3. Fine-tuned on sentences about a kitchen. Perplexity there: "
            f"{self.foreign.mean:,.1f} before, {self.tuned.mean:.1f} after.",
            f"4. Embedded a file: {self.summary}",
            '5. "bank" in six sentences, three of rivers and three of money, by mean cosine:',
            f"   {'layer':>8}{'same sense':>14}{'other sense':>14}",
            *(
                f"   {number:>8}{same:>14.3f}{other:>14.3f}"
                for number, (same, other) in enumerate(
                    zip(self.same_sense, self.other_sense, strict=True)
                )
            ),
            "   Layer 0 sees the letters alone: all are equal. The layers above see the sentence.",
        ]
        if self.folder is not None:
            lines.append(f"6. The model is in {self.folder}; elmo info {self.folder} describes it.")
        return "\n".join(lines)


def demo(config: DemoConfig) -> DemoResult:
    """Show what ELMo does: senses told apart, then its three steps on small texts."""
    _say(f"1. Senses: {MODEL}, a bundled model, compares a word with itself in other sentences")
    senses = bundled_senses()
    _say(LEFT_OUT if senses is None else str(senses))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        _say("2. Pre-train: prepare a small text and train a tiny model on it")
        corpus = _corpus(folder, "town", town(N_TOWN, seed=1))
        run = load_config(
            PretrainConfig,
            "tiny",
            {"data": [str(corpus)], "out": str(folder / "pretrained"), "epochs": EPOCHS},
            presets(),
        )
        trained = pretrain(run)
        _say("3. Fine-tune: go on with it on another text")
        other = _corpus(folder, "kitchen", kitchen(N_KITCHEN, seed=2))
        tuned = finetune(
            load_config(
                FinetuneConfig,
                None,
                {
                    "model": str(folder / "pretrained"),
                    "data": [str(other)],
                    "out": str(folder / "tuned"),
                    "batch_size": 32,
                    "learning_rate": 3e-3,
                    "warmup_steps": 20,
                    "epochs": EPOCHS,
                    "reset": 0.5,
                },
            )
        )
        assert trained.best is not None
        assert tuned.before is not None
        assert tuned.best is not None
        _say("4. Use: embed sentences, and compare a word in different ones")
        model = ELMo.from_pretrained(folder / "pretrained")
        kept = Path(config.out or folder / "tiny-elmo")
        model.save_pretrained(kept)
        return DemoResult(
            senses=senses,
            before=model.config.n_softmax_words,
            trained=trained.best,
            foreign=tuned.before,
            tuned=tuned.best,
            same_sense=_cosines(model, [RIVER, MONEY]),
            other_sense=_cosines(model, [RIVER, MONEY], across=True),
            summary=_embed(kept, folder),
            folder=config.out,
        )


def _say(text: str) -> None:
    sys.stderr.write(f"\n{text}\n")


def _corpus(folder: Path, name: str, sentences: Iterable[str]) -> Path:
    text = folder / f"{name}.txt"
    text.write_text("".join(f"{sentence}\n" for sentence in sentences), encoding="utf-8")
    reading = ReadingConfig(tokenizer="english")
    corpus = CorpusConfig(reading, held_out=0.05, workers=1)
    _say(str(prepare(PrepareConfig((str(text),), str(folder / name), corpus=corpus))))
    return folder / name


def _embed(model: Path, folder: Path) -> str:
    """Write the vectors of the sentences to a file, and say what was written."""
    lines, vectors = folder / "sentences.txt", folder / "vectors.h5"
    lines.write_text("".join(f"{line}\n" for line in RIVER + MONEY), encoding="utf-8")
    result = embed(EmbedConfig(str(lines), str(vectors), model=str(model), raw=True))
    return str(result).replace(str(vectors), vectors.name)


def _cosines(model: ELMo, senses: list[list[str]], across: bool = False) -> tuple[float, ...]:
    """Compare "bank" in sentences of one sense, or of two; a mean for each layer."""
    banks = [
        [
            model.encode(line, layers="all")[:, model.tokenizer.words(line).index("bank")]
            for line in lines
        ]
        for lines in senses
    ]
    if across:
        pairs = list(itertools.product(*banks))
    else:
        pairs = [pair for lines in banks for pair in itertools.combinations(lines, 2)]
    return tuple(np.mean([_cosine(one, other) for one, other in pairs], axis=0).tolist())


def _cosine(one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
    """Compare the vectors of each layer, (layers, dim), to (layers,)."""
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return np.asarray((one * other).sum(axis=1) / lengths, dtype=np.float32)
