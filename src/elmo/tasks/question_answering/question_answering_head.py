"""Head for extractive question answering, based on BiDAF.

Seo et al. (2017), "Bidirectional Attention Flow for Machine Comprehension": attention from the
passage to the question and from the question to the passage, followed by BiLSTMs. A single softmax
is computed over all spans up to a maximum length and the outcome "no answer".
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.config import TaskELMoConfig, TaskEncoderConfig
from elmo.tasks.core.encoder import TaskEncoder
from elmo.tasks.core.task_model import EncodedTexts
from elmo.tasks.sentence_pairs.sentence_pair_head import attend


class PredictedSpan(NamedTuple):
    """The most likely span, its log probability, and that of no answer."""

    start: int
    end: int
    log_probability: float
    log_none: float


class QuestionAnsweringHead(nn.Module):
    """Predicts the span of a passage that answers a question, or that there is no answer."""

    def __init__(self, *, dim: int, max_answer_words: int, config: TaskEncoderConfig) -> None:
        """Create the layers; the BiLSTMs of the head have the encoder's options, with depth 1."""
        super().__init__()
        self.max_answer_words = max_answer_words
        width = config.hidden or dim
        self.of_passage = nn.Linear(dim, 1, bias=False)
        self.of_question = nn.Linear(dim, 1, bias=False)
        self.of_both = nn.Parameter(torch.empty(dim))
        nn.init.normal_(self.of_both, std=dim**-0.5)
        self.join = nn.Linear(4 * dim, width)
        inner = replace(config, depth=1, input_dropout=config.dropout)
        no_elmo = TaskELMoConfig(model=None)
        self.model = TaskEncoder(config=inner, elmo=no_elmo, input_dim=width)
        self.end_model = TaskEncoder(config=inner, elmo=no_elmo, input_dim=self.model.dim + width)
        self.start = nn.Linear(self.model.dim + width, 1)
        self.end = nn.Linear(self.end_model.dim + width, 1)
        self.none = nn.Linear(self.model.dim + dim, 1)

    def forward(self, groups: Sequence[EncodedTexts]) -> Tensor:
        """Return the scores of all spans and of "no answer", (batch, time * max_answer_words + 1).

        The span of `n` words that starts at word `t` has the index `t * max_answer_words + n - 1`;
        "no answer" is the last column. The groups are questions and passages.
        """
        (question, question_layout, _), (passage, layout, _) = groups
        question_mask, mask = question_layout.mask, layout.mask
        padding = ~mask.unsqueeze(2)
        similarity = (
            self.of_passage(passage)
            + self.of_question(question).transpose(1, 2)
            + (passage * self.of_both) @ question.transpose(1, 2)
        )
        passage_to_question = attend(similarity, question, question_mask)
        # Question-to-passage attention: each passage word is weighted by its similarity to the most
        # similar question word.
        closest = similarity.masked_fill(~question_mask.unsqueeze(1), -torch.inf).amax(dim=2)
        question_to_passage = attend(closest.unsqueeze(1), passage, mask)
        parts = [
            passage,
            passage_to_question,
            passage * passage_to_question,
            passage * question_to_passage,
        ]
        joined = self.join(torch.cat(parts, dim=2)).relu().masked_fill(padding, 0.0)
        modeled = self.model(joined, layout, None)
        starts = torch.cat([joined, modeled], dim=2)
        ends = torch.cat([joined, self.end_model(starts, layout, None)], dim=2)
        pooled = [
            x.masked_fill(~x_mask.unsqueeze(2), -torch.inf).amax(dim=1)
            for x, x_mask in ((modeled, mask), (question, question_mask))
        ]
        none = self.none(torch.cat(pooled, dim=1))
        spans = self._spans(self.start(starts), self.end(ends), padding)
        return torch.cat([spans, none.float()], dim=1)

    def _spans(self, starts: Tensor, ends: Tensor, padding: Tensor) -> Tensor:
        """Return the sum of the start score and the end score of each span.

        Scores and padding are (batch, time, 1), the sums (batch, time * max_answer_words); -inf for
        spans that include padding.
        """
        first, last = (
            x.float().masked_fill(padding, -torch.inf).squeeze(2) for x in (starts, ends)
        )
        # Scores of the possible last words for each first word, (batch, time, max_answer_words).
        reachable = functional.pad(last, (0, self.max_answer_words - 1), value=-torch.inf)
        return (first.unsqueeze(2) + reachable.unfold(1, self.max_answer_words, 1)).flatten(1)

    def loss(self, groups: Sequence[EncodedTexts], targets: Tensor) -> Tensor:
        """Return the mean cross entropy of word ranges, (batch, 2); -1 for none."""
        scores = self(groups)
        start, end = targets.unbind(1)
        # A gold answer that is too long is truncated.
        index = start * self.max_answer_words + (end - start - 1).clamp(
            max=self.max_answer_words - 1
        )
        return functional.cross_entropy(scores, index.where(start >= 0, scores.shape[1] - 1))

    def predict(self, groups: Sequence[EncodedTexts]) -> list[PredictedSpan]:
        """Return the most likely span of each passage."""
        scores = self(groups).log_softmax(dim=1)
        best, indices = scores[:, :-1].max(dim=1)
        rows = zip(indices.tolist(), best.tolist(), scores[:, -1].tolist(), strict=True)
        predictions = []
        for index, log_probability, log_none in rows:
            start, extra_words = divmod(index, self.max_answer_words)
            end = start + extra_words + 1
            predictions.append(PredictedSpan(start, end, log_probability, log_none))
        return predictions
