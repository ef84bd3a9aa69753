"""The verb `demo`: the main job from end to end on a tiny model, in seconds.

No trained model is bundled yet, so the demo builds an untrained one and says so: what it shows is
that everything runs and is exact, not what the vectors are worth.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmo.config import (
    DemoConfig,
    EmbedConfig,
    EncoderConfig,
    LSTMConfig,
    ModelConfig,
    TextConfig,
)
from elmo.embed.embed_file import embed
from elmo.embed.embedder import ELMo
from elmo.formats.pretrained import Pretrained
from elmo.model.initialise import initialise
from elmo.model.network import ELMoNetwork

TEXT = (
    "The ferry left the bank of the river before the sun was up.",
    "My sister works at a bank, and her desk looks out on the street.",
    "They sat on the bank, ate apples and watched the boats go by.",
    "The bank would not lend him a penny, so he sold his bicycle.",
    "A heron stood near the bank and waited for the fish.",
)
GEOMETRY = ModelConfig(
    TextConfig(tokenizer="english"),
    EncoderConfig(character_dim=16, filters=((1, 16), (2, 16), (3, 32), (4, 64)), n_highway=1),
    LSTMConfig(cell_dim=256, projection_dim=64),
)


@dataclass(frozen=True)
class DemoResult:
    """What `demo` saw.

    Attributes:
        words: the first sentence, split.
        similarity: cosine of "bank" in the first and second sentence, for each layer.
        largest_difference: between a sentence alone and among others, over all its numbers.
        reloaded_equal: whether the saved and loaded model gives the same bytes.
        summary: what `embed` said of the file it wrote.
        folder: where the model was left, if it was.
    """

    words: tuple[str, ...]
    similarity: tuple[float, ...]
    largest_difference: float
    reloaded_equal: bool
    summary: str
    folder: str | None

    def __str__(self) -> str:
        """Tell the story."""
        layers = ", ".join(
            f"layer {number}: {value:.3f}" for number, value in enumerate(self.similarity)
        )
        lines = [
            "This model is tiny and UNTRAINED (random weights): it shows that all parts run.",
            "",
            f"1. Raw text is split by the model's own tokeniser: {' '.join(self.words)}",
            "2. The same word in two sentences, a river bank and a money bank, by cosine:",
            f"   {layers}",
            "   (layer 0 sees the letters alone; the layers above it see the sentence)",
            "3. A sentence alone and the same sentence in a batch differ by at most "
            f"{self.largest_difference:.0e}.",
            "4. Saved, loaded again, encoded again: "
            + ("the same bytes." if self.reloaded_equal else "NOT the same bytes!"),
            f"5. A file of vectors: {self.summary}",
        ]
        if self.folder is not None:
            lines.append(f"6. The model is in {self.folder}; elmo info {self.folder} describes it.")
        return "\n".join(lines)


def demo(config: DemoConfig) -> DemoResult:
    """Show the main job on a tiny model: embed, compare contexts, save, load again."""
    model = tiny_model()
    layers = model.encode(TEXT, layers="all")
    banks = [
        vectors[:, model.tokenizer.words(sentence).index("bank")]
        for sentence, vectors in zip(TEXT, layers, strict=True)
    ]
    alone = model.encode([TEXT[0]], layers="all")[0]
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(config.output or Path(folder) / "tiny-elmo")
        model.save_pretrained(kept)
        again = ELMo.from_pretrained(kept).encode(TEXT, layers="all")
        lines = Path(folder) / "sentences.txt"
        lines.write_text("".join(f"{sentence}\n" for sentence in TEXT), encoding="utf-8")
        vectors = Path(folder) / "vectors.h5"
        result = embed(EmbedConfig(str(lines), str(vectors), model=str(kept), raw=True))
        summary = str(result).replace(str(vectors), vectors.name)
    return DemoResult(
        words=tuple(model.tokenizer.words(TEXT[0])),
        similarity=tuple(_cosine(first, second) for first, second in zip(*banks[:2], strict=True)),
        largest_difference=float(np.abs(alone - layers[0]).max()),
        reloaded_equal=all(
            np.array_equal(one, other) for one, other in zip(layers, again, strict=True)
        ),
        summary=summary,
        folder=config.output,
    )


def tiny_model() -> ELMo:
    """Build the demo's model: the same random weights each time."""
    network = ELMoNetwork(config=GEOMETRY)
    initialise(network, seed=1)
    return ELMo(Pretrained(GEOMETRY, network.state_dict(), "demo model, tiny and untrained"))


def _cosine(first: NDArray[np.float32], second: NDArray[np.float32]) -> float:
    return float(first @ second / (np.linalg.norm(first) * np.linalg.norm(second)))
