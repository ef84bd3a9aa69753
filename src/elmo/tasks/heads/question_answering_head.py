"""The end of a model that answers questions: which words of a passage are the answer.

After Seo et al. (2017), "Bidirectional Attention Flow for Machine Comprehension": attention from
the passage to the question and back, and BiLSTMs over what comes of it. All spans of a passage up
to a length and the answer that there is none share one softmax.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.config import TaskELMoConfig, TaskEncoderConfig
from elmo.tasks.encoder import TaskEncoder
from elmo.tasks.heads.sentence_pair_head import attended
from elmo.tasks.task_model import EncodedTexts


class PredictedSpan(NamedTuple):
    """The likeliest span of a passage, and how it compares with no answer at all."""

    start: int
    end: int
    log_probability: float
    log_none: float


class QuestionAnsweringHead(nn.Module):
    """A span of the second text that answers the first, or none."""

    def __init__(self, *, dim: int, max_answer_words: int, config: TaskEncoderConfig) -> None:
        """Make it.

        Args:
            dim: width of a word's vector.
            max_answer_words: words of an answer at most.
            config: dials of the first BiLSTM, which the others share, but for their depth.
        """
        super().__init__()
        self.max_answer_words = max_answer_words
        width = config.hidden or dim
        self.of_passage = nn.Linear(dim, 1, bias=False)
        self.of_question = nn.Linear(dim, 1, bias=False)
        self.of_both = nn.Parameter(torch.empty(dim))
        nn.init.normal_(self.of_both, std=dim**-0.5)
        self.join = nn.Linear(4 * dim, width)
        inner = replace(config, depth=1, input_dropout=config.dropout)
        without = TaskELMoConfig(model=None)
        self.model = TaskEncoder(config=inner, elmo=without, input_dim=width)
        self.end_model = TaskEncoder(config=inner, elmo=without, input_dim=self.model.dim + width)
        self.start = nn.Linear(self.model.dim + width, 1)
        self.end = nn.Linear(self.end_model.dim + width, 1)
        self.none = nn.Linear(self.model.dim + dim, 1)

    def forward(self, groups: Sequence[EncodedTexts]) -> Tensor:
        """Give the scores of all spans and, last, of no answer: (batch, time x longest + 1).

        The span of `n` words that begins at word `t` is number `t x longest + n - 1`.
        """
        (question, asking, _), (passage, layout, _) = groups
        question_mask, mask = asking.mask, layout.mask
        padding = ~mask.unsqueeze(2)
        likeness = (
            self.of_passage(passage)
            + self.of_question(question).transpose(1, 2)
            + (passage * self.of_both) @ question.transpose(1, 2)
        )
        asked = attended(likeness, question, question_mask)
        # What the question asks of the passage as a whole: its words that are like some word of it.
        closest = likeness.masked_fill(~question_mask.unsqueeze(1), -torch.inf).amax(dim=2)
        told = attended(closest.unsqueeze(1), passage, mask)
        joined = torch.cat([passage, asked, passage * asked, passage * told], dim=2)
        joined = self.join(joined).relu().masked_fill(padding, 0.0)
        modelled = self.model(joined, layout, None)
        both = torch.cat([joined, modelled], dim=2)
        ends = torch.cat([joined, self.end_model(both, layout, None)], dim=2)
        largest = [
            x.masked_fill(~here.unsqueeze(2), -torch.inf).amax(dim=1)
            for x, here in ((modelled, mask), (question, question_mask))
        ]
        none = self.none(torch.cat(largest, dim=1))
        spans = self._spans(self.start(both), self.end(ends), padding)
        return torch.cat([spans, none.float()], dim=1)

    def _spans(self, starts: Tensor, ends: Tensor, padding: Tensor) -> Tensor:
        """Add scores of starts and ends, (batch, time, 1) each, for all spans that may be."""
        first, last = (
            x.float().masked_fill(padding, -torch.inf).squeeze(2) for x in (starts, ends)
        )
        # (batch, time, longest): the ends that a start may have.
        reached = functional.pad(last, (0, self.max_answer_words - 1), value=-torch.inf)
        return (first.unsqueeze(2) + reached.unfold(1, self.max_answer_words, 1)).flatten(1)

    def loss(self, groups: Sequence[EncodedTexts], targets: Tensor) -> Tensor:
        """Give the mean of -ln p of the right spans.

        Args:
            groups: questions, and passages.
            targets: first word and the one after the last, (batch, 2); -1 for no answer.
        """
        scores = self(groups)
        start, end = targets.unbind(1)
        # Of an answer that is too long its beginning is learned.
        number = start * self.max_answer_words + (end - start - 1).clamp(
            max=self.max_answer_words - 1
        )
        return functional.cross_entropy(scores, number.where(start >= 0, scores.shape[1] - 1))

    def predict(self, groups: Sequence[EncodedTexts]) -> list[PredictedSpan]:
        """Give the likeliest span of each passage."""
        scores = self(groups).log_softmax(dim=1)
        best, number = scores[:, :-1].max(dim=1)
        rows = zip(number.tolist(), best.tolist(), scores[:, -1].tolist(), strict=True)
        found = []
        for place, log_probability, log_none in rows:
            start, more = divmod(place, self.max_answer_words)
            found.append(PredictedSpan(start, start + more + 1, log_probability, log_none))
        return found
