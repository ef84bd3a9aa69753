"""The end of a model for coreference: spans are scored as mentions, the best linked to one before.

After Lee et al. (2017), "End-to-end Neural Coreference Resolution": a span is known by its first
and last word, a head word found by attention, and its width; a link is worth what the pair is worth
and how likely both are mentions, no link 0; what is learned is that a right antecedent is chosen,
whichever. Unlike there, mentions are learned by themselves too: at first hardly any two that belong
together are among the spans that are kept, and a mention that stands alone has no link to learn by.

Memory is linear in the words of a document, with `d` numbers for a span: `words x widest x d` for
all spans, then `kept x words x max_antecedents x d` for the pairs. First layers of what reads several
vectors side by side are computed by word and added, so that the vectors are never put together.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.config import CoreferenceConfig
from elmo.tasks.examples import IndexRange
from elmo.tasks.task_model import EncodedTexts

# Distances 0 to 4, 5 to 7, 8 to 15, 16 to 31, 32 to 63, and above.
N_DISTANCES = 10
# Bounds what a word of a span may weigh, so that no sum of weights is infinite or 0.
STEEPEST = 30.0
# Most spans are no mentions, which a model begins with.
FIRST_SCORE = -3.0


class Kept(NamedTuple):
    """The spans of a document that are compared, in its order.

    Attributes:
        spans: their numbers, first word x widest + further words, (kept,).
        scores: of all spans as mentions, -inf where there is none, (words, widest).
        links: worth of no link and of one to each mention before, the nearest first; -inf where
            there is none, (kept, 1 + antecedents).
        before: the place of each such mention among the kept, (kept, antecedents).
    """

    spans: Tensor
    scores: Tensor
    links: Tensor
    before: Tensor


class CoreferenceHead(nn.Module):
    """The mentions of a document in clusters."""

    def __init__(
        self, *, dim: int, dials: CoreferenceConfig, has_singletons: bool, dropout: float
    ) -> None:
        """Make it.

        Args:
            dim: width of a word's vector.
            dials: how many spans and pairs there are.
            has_singletons: whether a mention may be alone in its cluster; where not, only what is
                mentioned again is a mention.
            dropout: of spans and pairs.
        """
        super().__init__()
        self.dials, self.has_singletons = dials, has_singletons
        width = dials.scorer_dim
        self.first = nn.Linear(dim, width)
        self.last = nn.Linear(dim, width, bias=False)
        self.inner = nn.Linear(dim, width, bias=False)
        self.attention = nn.Linear(dim, 1)
        self.n_words = nn.Embedding(dials.max_mention_words, width)
        self.mention = nn.Linear(width, 1)
        nn.init.constant_(self.mention.bias, FIRST_SCORE)
        self.later = nn.Linear(width, width)
        self.earlier = nn.Linear(width, width, bias=False)
        self.alike = nn.Linear(width, width, bias=False)
        self.mentions_between = nn.Embedding(N_DISTANCES, width)
        self.sentences_between = nn.Embedding(N_DISTANCES, width)
        self.pair = nn.Linear(width, 1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, groups: Sequence[EncodedTexts]) -> Kept:
        """Score the spans of one document and the links of the best, given its sentences."""
        x, sentences = _in_order(groups)
        vectors, is_there = self._spans(x, sentences)
        scores = self.mention(vectors).squeeze(2).float().masked_fill(~is_there, -torch.inf)
        n_kept = min(int(is_there.sum()), math.ceil(self.dials.top_span_ratio * len(scores)))
        spans = scores.flatten().topk(n_kept).indices.sort().values
        offsets = torch.arange(1, min(self.dials.max_antecedents + 1, n_kept), device=spans.device)
        before = torch.arange(n_kept, device=spans.device).unsqueeze(1) - offsets
        links = self._links(
            vectors.flatten(0, 1)[spans],
            scores.flatten()[spans],
            sentences[spans // self.dials.max_mention_words],
            before.clamp(min=0),
        ).masked_fill(before < 0, -torch.inf)
        links = functional.pad(links, (1, 0))
        return Kept(spans, scores, links, before.clamp(min=0))

    def _spans(self, x: Tensor, sentences: Tensor) -> tuple[Tensor, Tensor]:
        """Give the vectors of all spans, (words, widest, width), and which there are."""
        first, last = self.first(x), self.last(x)
        weights = self.attention(x).float().clamp(-STEEPEST, STEEPEST).exp()
        inner = self.inner(x) * weights
        total, weight = torch.zeros_like(inner), torch.zeros_like(weights)
        vectors, is_there = [], []
        for more in range(self.dials.max_mention_words):
            # The word that ends the span joins those whose mean is its head.
            total = total + _ahead(inner, more)
            weight = weight + _ahead(weights, more)
            parts = first + _ahead(last, more) + total / weight + self.n_words.weight[more]
            vectors.append(self.dropout(parts.relu()))
            is_there.append(_ahead(sentences.unsqueeze(1) + 1, more).squeeze(1) == sentences + 1)
        return torch.stack(vectors, dim=1), torch.stack(is_there, dim=1)

    def _links(self, spans: Tensor, scores: Tensor, sentences: Tensor, before: Tensor) -> Tensor:
        """Give what it is worth to link mentions to those before, (kept, antecedents).

        Args:
            spans: vectors of mentions, (kept, width).
            scores: of them, (kept,).
            sentences: they stand in, (kept,).
            before: which others they may be linked to, (kept, antecedents).
        """
        n_mentions = torch.arange(1, before.shape[1] + 1, device=before.device)
        n_sentences = sentences.unsqueeze(1) - sentences[before]
        pairs = (
            self.later(spans).unsqueeze(1)
            + self.earlier(spans)[before]
            + self.alike(spans.unsqueeze(1) * spans[before])
            + self.mentions_between(distance(n_mentions))
            + self.sentences_between(distance(n_sentences))
        )
        worth: Tensor = self.pair(self.dropout(pairs.relu())).squeeze(2).float()
        # Not the score itself: no mention is the likelier to be linked for being sure of itself.
        own = functional.logsigmoid(scores)
        return worth + own.unsqueeze(1) + own[before]

    def loss(self, groups: Sequence[EncodedTexts], targets: Tensor) -> Tensor:
        """Give -ln p that right antecedents are chosen, by kept span; and that of mentions.

        Args:
            groups: the sentences of one document.
            targets: first word, word after the last and number of the cluster of each mention,
                (mentions, 3).
        """
        kept = self(groups)
        gold = torch.full_like(kept.scores, -1, dtype=torch.int64)
        start, end, cluster = targets[
            targets[:, 1] - targets[:, 0] <= self.dials.max_mention_words
        ].unbind(1)
        gold[start, end - start - 1] = cluster
        own = gold.flatten()[kept.spans]
        same = (own[kept.before] == own.unsqueeze(1)) & (own >= 0).unsqueeze(1)
        same &= kept.links[:, 1:] > -torch.inf
        right = torch.cat([~same.any(dim=1, keepdim=True), same], dim=1)
        chosen = kept.links.masked_fill(~right, -torch.inf).logsumexp(dim=1)
        links: Tensor = kept.links.logsumexp(dim=1) - chosen
        is_there = kept.scores > -torch.inf
        mentions = functional.binary_cross_entropy_with_logits(
            kept.scores[is_there], (gold >= 0)[is_there].float(), reduction="sum"
        )
        return links.mean() + mentions / len(own)

    def predict(self, groups: Sequence[EncodedTexts]) -> list[list[list[IndexRange]]]:
        """Give the clusters of the document, the only one: each mention joins its best before."""
        kept = self(groups)
        starts = kept.spans // self.dials.max_mention_words
        ends = starts + kept.spans % self.dials.max_mention_words + 1
        scores = kept.scores.flatten()[kept.spans]
        columns = (starts, ends, kept.links.argmax(dim=1), scores)
        of: list[list[IndexRange]] = []
        begun: list[tuple[list[IndexRange], bool]] = []
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for number, (start, end, link, score) in enumerate(rows):
            own = of[number - link] if link else []
            own.append((start, end))
            of.append(own)
            if not link:
                begun.append((own, self.has_singletons and score > 0))
        return [[own for own, may_be_alone in begun if may_be_alone or len(own) > 1]]


def _in_order(groups: Sequence[EncodedTexts]) -> tuple[Tensor, Tensor]:
    """Give the words of a document as they follow, (words, dim), and the sentence of each."""
    words = torch.cat([x[layout.mask] for x, layout, _ in groups])
    numbers = [
        layout.text_indices.unsqueeze(1).expand_as(layout.mask)[layout.mask]
        for _, layout, _ in groups
    ]
    sentences, order = torch.cat(numbers).sort(stable=True)
    return words[order], sentences


def distance(n: Tensor) -> Tensor:
    """Give numbers of distances: small ones each its own, large ones by powers of 2."""
    large = 3 + n.clamp(min=1).float().log2().floor().long()
    return n.where(n < 5, large).clamp(max=N_DISTANCES - 1)


def _ahead(x: Tensor, n: int) -> Tensor:
    """Give at each word what stands `n` words further on, 0 beyond the last, (words, width)."""
    return functional.pad(x[n:], (0, 0, 0, min(n, len(x))))
