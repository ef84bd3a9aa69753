"""Probabilities of words given their context, from both directions of the language model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError
from elmo.inference.word_cache import WordCache
from elmo.kernels.exact_float32 import exact_float32
from elmo.model.losses import CHUNK_VALUES, exact_losses, log_expected_count
from elmo.text.characters import BEGIN_TOKEN, END_TOKEN
from elmo.text.vocabulary import SPECIAL_TOKENS, UNKNOWN


@dataclass(frozen=True)
class WordScores:
    """Natural log-probabilities of the words of a sentence.

    Attributes:
        forward: Log-probability of each word given the words before it.
        backward: Log-probability of each word given the words after it.
        end: Log-probability that the sentence ends after its last word.
        begin: Log-probability that the sentence begins before its first word.
        is_known: Whether each word is in the vocabulary of the softmax. The log-probabilities of
            other words are those of `<UNK>`.
    """

    forward: NDArray[np.float32]
    backward: NDArray[np.float32]
    end: float
    begin: float
    is_known: NDArray[np.bool_]


class WordScorer:
    """Computes probabilities of words with the softmax of an ELMo.

    Each sentence starts from the zero state, so its scores do not depend on other sentences.
    """

    def __init__(
        self,
        elmo: ELMo,
        *,
        precision: torch.dtype | str | None = None,
        cache: WordCache | None = None,
    ) -> None:
        """Prepare the softmax.

        Args:
            elmo: The model, whose weights must not change while the scorer is used.
            precision: Precision of the LSTM, as in `ELMo.encode`.
            cache: Cache of word vectors, as in `ELMo.encode`.

        Raises:
            ConfigError: The model has no softmax or no vocabulary.
        """
        softmax, vocabulary = elmo.softmax(), elmo.vocabulary
        if softmax is None or vocabulary is None:
            missing = "softmax" if softmax is None else "vocabulary"
            raise ConfigError(
                f"This {elmo.origin} has no {missing}, so it has no probabilities of words."
            )
        vocabulary.require_special_tokens()
        self._run = elmo.encoding_run(
            layers="top", precision=precision, keep_on_device=True, cache=cache, boundaries=True
        )
        self._softmax = softmax.to(self._run.device)
        self._ids = vocabulary.ids
        self._n_words = elmo.config.n_softmax_words
        self._dim = elmo.config.lstm.projection_dim
        self.words: Sequence[str] = vocabulary.words

    def score(self, sentences: Sequence[Sequence[str]]) -> list[WordScores]:
        """Return the scores of the words of each sentence."""
        if not sentences:
            return []
        with torch.inference_mode(), exact_float32():
            before, after = self._contexts(sentences)
            ends = [self._targets([*words, END_TOKEN]) for words in sentences]
            begins = [self._targets([BEGIN_TOKEN, *words]) for words in sentences]
            forward = self._log_probabilities(torch.cat(before), np.concatenate(ends))
            backward = self._log_probabilities(torch.cat(after), np.concatenate(begins))
        splits = np.cumsum([len(part) for part in ends])[:-1]
        return [
            WordScores(
                forward=of_forward[:-1],
                backward=of_backward[1:],
                end=float(of_forward[-1]),
                begin=float(of_backward[0]),
                is_known=np.array([word in self._ids for word in words], dtype=np.bool_),
            )
            for words, of_forward, of_backward in zip(
                sentences, np.split(forward, splits), np.split(backward, splits), strict=True
            )
        ]

    def at_positions(
        self, sentences: Sequence[Sequence[str]], positions: Sequence[Sequence[int]]
    ) -> Iterator[Tensor]:
        """Yield the log-probabilities of all words of the softmax at positions of sentences.

        The words before and after are regarded as independent given the word, so its probability is
        proportional to the product of its probabilities in both directions, divided by its
        frequency. Otherwise frequent words would be counted twice. Special tokens have the
        probability 0.

        Args:
            sentences: The sentences.
            positions: Indices of words, for each sentence.

        Yields:
            A tensor (words,) for each position, in order.
        """
        special = torch.tensor([self._ids[token] for token in SPECIAL_TOKENS])
        # Vocabularies are sorted by decreasing frequency, which Zipf's law estimates.
        frequency = log_expected_count(torch.arange(self._n_words), self._n_words, 1)
        frequency = frequency.to(self._run.device)
        with torch.inference_mode(), exact_float32():
            before, after = self._contexts(sentences)
            # The context before the word at a position is that of the boundary token or word
            # before it. `after` begins with the context after the boundary token.
            forward = [part[list(of)] for part, of in zip(before, positions, strict=True)]
            backward = [
                part[[index + 1 for index in of]] for part, of in zip(after, positions, strict=True)
            ]
            chunk = max(1, CHUNK_VALUES // (4 * self._n_words))
            for one, other in zip(
                torch.split(torch.cat(forward), chunk),
                torch.split(torch.cat(backward), chunk),
                strict=True,
            ):
                scores = self._distribution(one) + self._distribution(other) - frequency
                scores[:, special.to(scores.device)] = -torch.inf
                yield from functional.log_softmax(scores, dim=1).cpu()

    def _contexts(self, sentences: Sequence[Sequence[str]]) -> tuple[list[Tensor], list[Tensor]]:
        """Return the vectors before each word and the end, and after the beginning and each word.

        Both are (words + 1, dim) for each sentence.
        """
        vectors = [torch.as_tensor(item).float() for item in self._run.encode(sentences)]
        return (
            [item[:-1, : self._dim] for item in vectors],
            [item[1:, self._dim :] for item in vectors],
        )

    def _targets(self, words: Sequence[str]) -> NDArray[np.int64]:
        unknown = self._ids[UNKNOWN]
        return np.array([self._ids.get(word, unknown) for word in words], dtype=np.int64)

    def _log_probabilities(self, hidden: Tensor, targets: NDArray[np.int64]) -> NDArray[np.float32]:
        losses = exact_losses(self._softmax, hidden, torch.from_numpy(targets).to(hidden.device))
        values: NDArray[np.float32] = -losses.cpu().numpy()
        return values

    def _distribution(self, hidden: Tensor) -> Tensor:
        if isinstance(self._softmax, nn.AdaptiveLogSoftmaxWithLoss):
            return self._softmax.log_prob(hidden)
        return functional.log_softmax(self._softmax(hidden), dim=1)
