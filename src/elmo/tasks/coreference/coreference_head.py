"""Head for coreference resolution, which scores spans as mentions and links them to antecedents.

Based on Lee et al. (2017), "End-to-end Neural Coreference Resolution". A span is represented by its
first and last word, an attention-weighted mean of its words, and its length. The score of a link is
the score of the span pair plus the log probability that each span is a mention; the score of "no
link" is 0. The loss is the negative log likelihood of choosing any of the gold antecedents. Unlike
in the paper, a second loss trains the mention scores directly: early in training, the top spans
contain hardly any coreferent pairs, and singleton mentions have no links to learn from.

Memory is linear in the number of words. With `d = scorer_dim`, the span vectors have
`words * max_mention_words * d` elements and the pair vectors
`top_span_ratio * words * max_antecedents * d`. A linear layer over concatenated vectors is computed
as a sum of linear layers over the individual vectors, so that the concatenation is never stored.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.tasks.core.example import IndexRange
from elmo.tasks.core.task_model import EncodedTexts
from elmo.tasks.coreference.coreference_options import CoreferenceOptions

# Number of distance buckets: 0, 1, 2, 3, 4, 5 to 7, 8 to 15, 16 to 31, 32 to 63, and above.
N_DISTANCES = 10
# Absolute limit for attention logits, so that no sum of weights overflows or becomes 0.
MAX_ATTENTION_LOGIT = 30.0
# Initial mention score; negative, because most spans are not mentions.
INITIAL_MENTION_SCORE = -3.0


class TopSpans(NamedTuple):
    """The spans of a document with the highest mention scores, in text order.

    Attributes:
        spans: Indices of the top spans, start * max_mention_words + length - 1, (top spans,).
        scores: Mention scores of all spans, (words, max_mention_words); -inf for invalid spans.
        links: Link scores, (top spans, 1 + antecedents): first the score of "no link", then of a
            link to each preceding top span, nearest first; -inf for invalid links.
        antecedents: Candidate antecedents of each top span, as indices into `spans`,
            (top spans, antecedents).
    """

    spans: Tensor
    scores: Tensor
    links: Tensor
    antecedents: Tensor


class CoreferenceHead(nn.Module):
    """Predicts the clusters of coreferent mentions in a document."""

    def __init__(
        self, *, dim: int, config: CoreferenceOptions, has_singletons: bool, dropout: float
    ) -> None:
        """Create the layers; only `has_singletons` predicts spans without a link."""
        super().__init__()
        self.config, self.has_singletons = config, has_singletons
        width = config.scorer_dim
        self.first = nn.Linear(dim, width)
        self.last = nn.Linear(dim, width, bias=False)
        self.inner = nn.Linear(dim, width, bias=False)
        self.attention = nn.Linear(dim, 1)
        self.n_words = nn.Embedding(config.max_mention_words, width)
        self.mention = nn.Linear(width, 1)
        nn.init.constant_(self.mention.bias, INITIAL_MENTION_SCORE)
        self.later = nn.Linear(width, width)
        self.earlier = nn.Linear(width, width, bias=False)
        self.alike = nn.Linear(width, width, bias=False)
        self.mentions_between = nn.Embedding(N_DISTANCES, width)
        self.sentences_between = nn.Embedding(N_DISTANCES, width)
        self.pair = nn.Linear(width, 1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, groups: Sequence[EncodedTexts]) -> TopSpans:
        """Score all spans of a document and the links between the top spans."""
        x, sentences = _in_text_order(groups)
        vectors, is_valid = self._spans(x, sentences)
        scores = self.mention(vectors).squeeze(2).float().masked_fill(~is_valid, -torch.inf)
        n_top = min(int(is_valid.sum()), math.ceil(self.config.top_span_ratio * len(scores)))
        spans = scores.flatten().topk(n_top).indices.sort().values
        offsets = torch.arange(1, min(self.config.max_antecedents + 1, n_top), device=spans.device)
        antecedents = torch.arange(n_top, device=spans.device).unsqueeze(1) - offsets
        links = self._links(
            vectors.flatten(0, 1)[spans],
            scores.flatten()[spans],
            sentences[spans // self.config.max_mention_words],
            antecedents.clamp(min=0),
        ).masked_fill(antecedents < 0, -torch.inf)
        links = functional.pad(links, (1, 0))
        return TopSpans(spans, scores, links, antecedents.clamp(min=0))

    def _spans(self, x: Tensor, sentences: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the vectors of all spans from word vectors, (words, dim).

        `sentences` is the sentence index of each word, (words,). Returns span vectors, (words,
        max_mention_words, scorer_dim), and whether each span is within a single sentence, (words,
        max_mention_words).
        """
        first, last = self.first(x), self.last(x)
        logits = self.attention(x).float()
        weights = logits.clamp(-MAX_ATTENTION_LOGIT, MAX_ATTENTION_LOGIT).exp()
        inner = self.inner(x) * weights
        total, weight = torch.zeros_like(inner), torch.zeros_like(weights)
        vectors, is_valid = [], []
        for extra_words in range(self.config.max_mention_words):
            # Extend every span by one word and add that word to the attention-weighted sum.
            total = total + _shift(inner, extra_words)
            weight = weight + _shift(weights, extra_words)
            length = self.n_words.weight[extra_words]
            parts = first + _shift(last, extra_words) + total / weight + length
            vectors.append(self.dropout(parts.relu()))
            # Add 1, because `_shift` fills with 0, which is also a sentence index.
            ends = _shift(sentences.unsqueeze(1) + 1, extra_words).squeeze(1)
            is_valid.append(ends == sentences + 1)
        return torch.stack(vectors, dim=1), torch.stack(is_valid, dim=1)

    def _links(
        self, spans: Tensor, scores: Tensor, sentences: Tensor, antecedents: Tensor
    ) -> Tensor:
        """Return the scores of the links from top spans to candidates, (top spans, antecedents).

        Span vectors, mention scores and sentence indices are those of the top spans; `antecedents`
        are the indices of the candidates, (top spans, antecedents).
        """
        n_mentions = torch.arange(1, antecedents.shape[1] + 1, device=antecedents.device)
        n_sentences = sentences.unsqueeze(1) - sentences[antecedents]
        pairs = (
            self.later(spans).unsqueeze(1)
            + self.earlier(spans)[antecedents]
            + self.alike(spans.unsqueeze(1) * spans[antecedents])
            + self.mentions_between(distance_bucket(n_mentions))
            + self.sentences_between(distance_bucket(n_sentences))
        )
        pair_scores: Tensor = self.pair(self.dropout(pairs.relu())).squeeze(2).float()
        # Log probabilities instead of raw scores: a very high mention score must not favor a link.
        mention_scores = functional.logsigmoid(scores)
        return pair_scores + mention_scores.unsqueeze(1) + mention_scores[antecedents]

    def loss(self, groups: Sequence[EncodedTexts], targets: Tensor) -> Tensor:
        """Return the antecedent loss plus the mention loss, each per top span.

        The targets are start, end and cluster index of each gold mention, (mentions, 3).
        """
        top = self(groups)
        gold = torch.full_like(top.scores, -1, dtype=torch.int64)
        start, end, cluster = targets[
            targets[:, 1] - targets[:, 0] <= self.config.max_mention_words
        ].unbind(1)
        gold[start, end - start - 1] = cluster
        clusters = gold.flatten()[top.spans]
        is_gold = (clusters[top.antecedents] == clusters.unsqueeze(1)) & (clusters >= 0).unsqueeze(
            1
        )
        is_gold &= top.links[:, 1:] > -torch.inf
        gold_links = torch.cat([~is_gold.any(dim=1, keepdim=True), is_gold], dim=1)
        gold_scores = top.links.masked_fill(~gold_links, -torch.inf).logsumexp(dim=1)
        link_losses: Tensor = top.links.logsumexp(dim=1) - gold_scores
        is_valid = top.scores > -torch.inf
        mention_loss = functional.binary_cross_entropy_with_logits(
            top.scores[is_valid], (gold >= 0)[is_valid].float(), reduction="sum"
        )
        return link_losses.mean() + mention_loss / len(clusters)

    def predict(self, groups: Sequence[EncodedTexts]) -> list[list[list[IndexRange]]]:
        """Return the clusters of the document; mentions join their best antecedent."""
        top = self(groups)
        starts = top.spans // self.config.max_mention_words
        ends = starts + top.spans % self.config.max_mention_words + 1
        scores = top.scores.flatten()[top.spans]
        columns = (starts, ends, top.links.argmax(dim=1), scores)
        cluster_of_span: list[list[IndexRange]] = []
        clusters: list[tuple[list[IndexRange], bool]] = []
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for number, (start, end, link, score) in enumerate(rows):
            cluster = cluster_of_span[number - link] if link else []
            cluster.append((start, end))
            cluster_of_span.append(cluster)
            if not link:
                clusters.append((cluster, self.has_singletons and score > 0))
        return [
            [cluster for cluster, can_be_single in clusters if can_be_single or len(cluster) > 1]
        ]


def _in_text_order(groups: Sequence[EncodedTexts]) -> tuple[Tensor, Tensor]:
    """Return the word vectors of a document in text order, and the sentence index of each word."""
    words = torch.cat([x[layout.mask] for x, layout, _ in groups])
    sentence_indices = [
        layout.text_indices.unsqueeze(1).expand_as(layout.mask)[layout.mask]
        for _, layout, _ in groups
    ]
    sentences, order = torch.cat(sentence_indices).sort(stable=True)
    return words[order], sentences


def distance_bucket(n: Tensor) -> Tensor:
    """Return the bucket of each distance: exact below 5, then bounded by powers of 2."""
    large = 3 + n.clamp(min=1).float().log2().floor().long()
    return n.where(n < 5, large).clamp(max=N_DISTANCES - 1)


def _shift(x: Tensor, n: int) -> Tensor:
    """Shift the rows of a (words, width) tensor up by `n`; the last `n` rows become 0."""
    return functional.pad(x[n:], (0, 0, 0, min(n, len(x))))
