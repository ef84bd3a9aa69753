"""Linear-chain conditional random field (Lafferty et al., 2001).

A tag sequence `y` has the score `start[y_1] + Σ emissions[t, y_t] + Σ transitions[y_t-1, y_t] +
end[y_n]`; its probability is the softmax over the scores of all sequences. All computation is in
log space and in float32 or float64.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from elmo.errors import ConfigError

# Score of impossible transitions where -inf would result in NaN.
IMPOSSIBLE = -1e30
# Maximum number of elements in the transition matrices of a batch for which a GPU combines the
# matrices in parallel instead of word by word.
MAX_PARALLEL_SIZE = 2**26


class _Edges(NamedTuple):
    """Start, transition and end scores of a CRF."""

    start: Tensor
    transitions: Tensor
    end: Tensor


class CRF(nn.Module):
    """Linear-chain CRF: likelihood and decoding of tag sequences.

    Emissions have the shape (batch, time, tags), masks the shape (batch, time). A mask is True at
    words and False at padding. Each row has at least one word and is padded on the right. Values at
    padding are ignored.

    Attributes:
        transitions: Score of each transition from one tag (row) to the next (column), (tags, tags).
        start: Score of each tag at the start of a sequence, (tags,).
        end: Score of each tag at the end of a sequence, (tags,).
    """

    start_allowed: Tensor | None
    transitions_allowed: Tensor | None
    end_allowed: Tensor | None

    def __init__(
        self, n_tags: int, constraints: tuple[Tensor, Tensor, Tensor] | None = None
    ) -> None:
        """Initialize all scores with 0.

        The constraints are boolean masks of the allowed first tags, (tags,), transitions, (tags,
        tags), and last tags, (tags,), as returned by `spans.allowed_transitions`. They only apply
        to `decode`, and are not saved with the weights.
        """
        super().__init__()
        if n_tags < 1:
            raise ConfigError(f"n_tags must be at least 1 (got {n_tags}).")
        self.n_tags = n_tags
        self.transitions = nn.Parameter(torch.zeros(n_tags, n_tags))
        self.start = nn.Parameter(torch.zeros(n_tags))
        self.end = nn.Parameter(torch.zeros(n_tags))
        shapes = [(n_tags,), (n_tags, n_tags), (n_tags,)]
        given_shapes = [tuple(part.shape) for part in constraints] if constraints else shapes
        if given_shapes != shapes:
            raise ConfigError(
                f"The constraints for {n_tags} tags must have the shapes {shapes} "
                f"(got {given_shapes})."
            )
        start, transitions, end = constraints or (None, None, None)
        self.register_buffer("start_allowed", _bool(start), persistent=False)
        self.register_buffer("transitions_allowed", _bool(transitions), persistent=False)
        self.register_buffer("end_allowed", _bool(end), persistent=False)

    # ------------------------------------------------------------------------- training

    def loss(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """Return the negative log likelihood of the tags (batch, time), averaged over sentences."""
        return (self.log_partition(emissions, mask) - self.score(emissions, tags, mask)).mean()

    def score(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """Return the score of the given tag sequence of each sentence, (batch,)."""
        self._check(emissions, mask)
        if tags.shape != mask.shape:
            raise ConfigError(
                f"tags must have the shape {tuple(mask.shape)} (got {tuple(tags.shape)})."
            )
        with _full_precision(emissions):
            emissions, edges = self._prepare(emissions, mask)
            tags = torch.where(mask, tags, 0)
            tag_scores = emissions.gather(2, tags[:, :, None]).squeeze(2)
            steps = edges.transitions[tags[:, :-1], tags[:, 1:]]
            last = tags.gather(1, mask.sum(dim=1, keepdim=True) - 1).squeeze(1)
            total = torch.where(mask, tag_scores, 0).sum(dim=1)
            total = total + torch.where(mask[:, 1:], steps, 0).sum(dim=1)
            return total + edges.start[tags[:, 0]] + edges.end[last]

    def log_partition(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """Return the log partition function of each sentence, (batch,)."""
        self._check(emissions, mask)
        with _full_precision(emissions):
            emissions, edges = self._prepare(emissions, mask)
            size = mask.numel() * self.n_tags**2
            if emissions.device.type == "cuda" and size <= MAX_PARALLEL_SIZE:
                last = _last_in_parallel(emissions, mask, edges)
            else:
                last = _forward(emissions, mask, edges)
            return (last + edges.end).logsumexp(dim=1)

    # ------------------------------------------------------------------------- predictions

    @torch.no_grad()
    def decode(self, emissions: Tensor, mask: Tensor) -> list[list[int]]:
        """Return the highest-scoring allowed tag sequence of each sentence (Viterbi decoding).

        It is an error if the constraints allow no sequence, or if there is padding before a word.
        """
        self._check(emissions, mask)
        if not (mask[:, 0].all() and (mask[:, 1:] <= mask[:, :-1]).all()):
            raise ConfigError(
                "Each row of mask must be True at the words of the sentence and False after them."
            )
        with _full_precision(emissions):
            emissions, edges = self._prepare(emissions, mask)
            limits = (self.start_allowed, self.transitions_allowed, self.end_allowed)
            edges = _Edges(
                *(
                    score if limit is None else torch.where(limit, score, float("-inf"))
                    for score, limit in zip(edges, limits, strict=True)
                )
            )
            scores = edges.start + emissions[:, 0]
            stay = torch.arange(self.n_tags, device=scores.device).expand_as(scores)
            pointers: list[Tensor] = []
            for time in range(1, emissions.shape[1]):
                best, origin = (scores[:, :, None] + edges.transitions).max(dim=1)
                is_word = mask[:, time, None]
                scores = torch.where(is_word, best + emissions[:, time], scores)
                pointers.append(torch.where(is_word, origin, stay))
            best, tag = (scores + edges.end).max(dim=1)
            if (best == float("-inf")).any():
                raise ConfigError(
                    "The constraints do not allow any tag sequence for a sentence with "
                    f"{int(mask.sum(dim=1)[best == float('-inf')][0])} words."
                )
        path = [tag]
        for origin in reversed(pointers):
            path.append(origin.gather(1, path[-1][:, None]).squeeze(1))
        rows = torch.stack(path[::-1], dim=1).tolist()
        return [row[:n] for row, n in zip(rows, mask.sum(dim=1).tolist(), strict=True)]

    # ------------------------------------------------------------------------- helpers

    def _prepare(self, emissions: Tensor, mask: Tensor) -> tuple[Tensor, _Edges]:
        """Return the scores in at least float32, with padding set to 0."""
        dtype = torch.promote_types(emissions.dtype, torch.float32)
        edges = _Edges(*(score.to(dtype) for score in (self.start, self.transitions, self.end)))
        # A NaN at padding would make gradients NaN, although no result depends on it.
        return torch.where(mask[:, :, None], emissions.to(dtype), 0), edges

    def _check(self, emissions: Tensor, mask: Tensor) -> None:
        if emissions.ndim != 3 or emissions.shape[2] != self.n_tags or 0 in emissions.shape:
            raise ConfigError(
                f"emissions must have the shape (batch, time, {self.n_tags}) without a dimension "
                f"of size 0 (got {tuple(emissions.shape)})."
            )
        if mask.shape != emissions.shape[:2] or mask.dtype != torch.bool:
            raise ConfigError(
                f"mask must be a torch.bool tensor of shape {tuple(emissions.shape[:2])} "
                f"(got {mask.dtype}, {tuple(mask.shape)})."
            )


def _forward(emissions: Tensor, mask: Tensor, edges: _Edges) -> Tensor:
    """Return the forward scores of the last word, (batch, tags).

    The forward score of a tag is the log-sum-exp of the scores of all partial sequences that end
    with this tag.
    """
    sums = edges.start + emissions[:, 0]
    for time in range(1, emissions.shape[1]):
        longer = (sums[:, :, None] + edges.transitions).logsumexp(dim=1) + emissions[:, time]
        sums = torch.where(mask[:, time, None], longer, sums)
    return sums


def _last_in_parallel(emissions: Tensor, mask: Tensor, edges: _Edges) -> Tensor:
    """Return the forward scores of the last word, (batch, tags), by a parallel reduction.

    The scores from one word to the next form a (tags, tags) matrix, and the forward scores are a
    log-space product of these matrices. Each iteration multiplies all pairs of adjacent matrices at
    once, until one matrix is left. This takes more operations than `_forward`, but far fewer kernel
    launches.
    """
    matrices = edges.transitions + emissions[:, 1:, None, :]
    stay = torch.full_like(edges.transitions, IMPOSSIBLE).fill_diagonal_(0.0)
    matrices = torch.where(mask[:, 1:, None, None], matrices, stay)
    while (n := matrices.shape[1]) > 1:
        products = _log_matmul(matrices[:, 0 : n - 1 : 2], matrices[:, 1::2])
        matrices = torch.cat([products, matrices[:, n - n % 2 :]], dim=1)
    first = edges.start + emissions[:, 0]
    return (first[:, :, None] + matrices[:, 0]).logsumexp(dim=1) if matrices.shape[1] else first


def _log_matmul(left: Tensor, right: Tensor) -> Tensor:
    """Return the matrix product in log space, (..., tags, tags).

    Elements are clamped from below: in float32, to about 87 less than the sum of the row maximum of
    `left` and the column maximum of `right`.
    """
    # Detached, because the gradients of the two uses of each maximum cancel out.
    row_max, column_max = (
        x.detach().amax(dim=dim, keepdim=True) for x, dim in ((left, -1), (right, -2))
    )
    product = (left - row_max).exp() @ (right - column_max).exp()
    smallest = torch.finfo(product.dtype).tiny
    return product.clamp(min=smallest).log() + row_max + column_max


def _full_precision(emissions: Tensor) -> torch.autocast:
    return torch.autocast(emissions.device.type, enabled=False)


def _bool(limits: Tensor | None) -> Tensor | None:
    return None if limits is None else limits.bool().clone()
