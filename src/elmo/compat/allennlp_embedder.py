"""The class `ElmoEmbedder` of AllenNLP 0.9."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.compat.allennlp_bilm import ElmoBiLM
from elmo.compat.allennlp_files import WEIGHTS_MISSING
from elmo.compat.allennlp_indexer import batch_to_ids, check_sentences
from elmo.embed.vector_writers import HDF5Writer, check_sentence_keys
from elmo.errors import ConfigError, InputError, listing
from elmo.files import atomic_path
from elmo.model.bilm import without_boundaries

# All layers of a sentence, (layers, words, dim). As in AllenNLP, float64 for an empty sentence.
SentenceLayers = NDArray[np.float32] | NDArray[np.float64]


class ElmoEmbedder:
    """AllenNLP 0.9's `ElmoEmbedder`: returns all layers and carries state from call to call."""

    def __init__(
        self,
        options_file: str | Path | None = None,
        weight_file: str | Path | None = None,
        cuda_device: int = -1,
    ) -> None:
        """Load the biLM.

        Args:
            options_file: Path of options.json. Default: found with the weights.
            weight_file: Path of weights.hdf5. Without `options_file`, also the name of a downloaded
                model or a folder.
            cuda_device: GPU number, or -1 for the CPU.
        """
        if weight_file is None:
            raise ConfigError(WEIGHTS_MISSING)
        self.elmo_bilm = ElmoBiLM(options_file, weight_file)
        self.cuda_device = cuda_device
        if cuda_device >= 0:
            self.elmo_bilm.to(torch.device("cuda", cuda_device))

    def refresh(self) -> None:
        """Make the next call use the current weights; see `ELMo.refresh`."""
        self.elmo_bilm.refresh()

    def batch_to_embeddings(self, batch: list[list[str]]) -> tuple[Tensor, Tensor]:
        """Return all layers of a batch, (batch, layers, time, dim), and the mask, (batch, time)."""
        ids = batch_to_ids(batch).to(next(self.elmo_bilm.parameters()).device)
        with torch.no_grad():
            output = self.elmo_bilm(ids)
            layers, mask = without_boundaries(torch.stack(output["activations"]), output["mask"])
        return layers.transpose(0, 1), mask

    def embed_sentence(self, sentence: list[str]) -> SentenceLayers:
        """Return the vectors of a sentence, (layers, words, dim)."""
        if isinstance(sentence, str):
            check_sentences(sentence, "embed_sentence")
        return self._embed([sentence])[0]

    def embed_batch(self, batch: list[list[str]]) -> list[SentenceLayers]:
        """Return the vectors of each sentence of a batch, (layers, words, dim)."""
        check_sentences(batch, "embed_batch")
        return self._embed(batch)

    def _embed(self, batch: list[list[str]]) -> list[SentenceLayers]:
        shape = (self.elmo_bilm.num_layers, 0, self.elmo_bilm.get_output_dim())
        empty = np.zeros(shape)
        if batch == [[]]:
            return [empty]
        layers, mask = self.batch_to_embeddings(batch)
        lengths = mask.sum(dim=1).tolist()
        return [
            layers[row, :, :length].cpu().numpy() if length else empty
            for row, length in enumerate(lengths)
        ]

    def embed_sentences(
        self, sentences: Iterable[list[str]], batch_size: int = 64
    ) -> Iterator[SentenceLayers]:
        """Yield the vectors of each sentence, (layers, words, dim), computed in batches."""
        batch: list[list[str]] = []
        if isinstance(sentences, str):
            check_sentences(sentences, "embed_sentences")
        for sentence in sentences:
            batch.append(sentence)
            if len(batch) == batch_size:
                check_sentences(batch, "embed_sentences")
                yield from self._embed(batch)
                batch = []
        if batch:
            check_sentences(batch, "embed_sentences")
            yield from self._embed(batch)

    def embed_file(
        self,
        input_file: Iterable[str],
        output_file_path: str | Path,
        output_format: str = "all",
        batch_size: int = 64,
        forget_sentences: bool = False,
        use_sentence_keys: bool = False,
    ) -> None:
        """Write the vectors of a file's sentences to HDF5.

        Args:
            input_file: Lines with one sentence each, words separated by whitespace.
            output_file_path: File to write.
            output_format: Layers to write: "all", "top" or "average".
            batch_size: Batch size.
            forget_sentences: Do not write `sentence_to_index`.
            use_sentence_keys: Use the sentences as dataset keys instead of their numbers.

        Raises:
            ConfigError: The output format is unknown.
            InputError: There are blank lines.
            OutputError: The sentences cannot be keys.
        """
        choices: dict[str, Callable[[SentenceLayers], SentenceLayers]] = {
            "all": lambda layers: layers,
            "top": lambda layers: layers[-1],
            "average": lambda layers: layers.mean(axis=0),
        }
        if output_format not in choices:
            raise ConfigError(
                f"Unknown output_format {output_format!r}. Expected one of: {', '.join(choices)}."
            )
        select = choices[output_format]
        lines = [line.strip() for line in input_file]
        blank = [str(number) for number, line in enumerate(lines) if not line]
        if blank:
            raise InputError(
                f"Remove the blank lines of input_file: {listing(blank, 10)} (counted from 0)."
            )
        if use_sentence_keys:
            check_sentence_keys(lines)
        split = [line.split() for line in lines]
        with atomic_path(Path(output_file_path)) as partial:
            writer = HDF5Writer(
                partial,
                index_sentences=not (forget_sentences or use_sentence_keys),
                store_words=False,
                sentence_keys=use_sentence_keys,
            )
            try:
                for line, words, layers in zip(
                    lines, split, self.embed_sentences(split, batch_size), strict=True
                ):
                    writer.write(line, words, select(layers))
            finally:
                writer.close()
