"""Linear-chain conditional random field (Lafferty et al., 2001).

A tag sequence `y` has the score `start[y_1] + Σ emissions[t, y_t] + Σ transitions[y_t-1, y_t] +
end[y_n]`; its probability is the softmax over the scores of all sequences. All computation is in
log space and in float32 or float64.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from elmo.errors import ConfigError

# Score of forbidden transitions in training. It makes their probability negligible, but keeps the
# loss finite for gold sequences with forbidden transitions, which do occur in real data.
FORBIDDEN = -1e4
# Score of impossible transitions where -inf would result in NaN.
IMPOSSIBLE = -1e30
# Maximum number of elements in the transition matrices of a batch for which a GPU combines the
# matrices in parallel instead of word by word.
MAX_PARALLEL_SIZE = 2**26


class _Edges(NamedTuple):
    """Start, transition and end scores of a CRF, with constraints applied."""

    start: Tensor
    transitions: Tensor
    end: Tensor


class CRF(nn.Module):
    """Linear-chain CRF: likelihood, marginals and decoding of tag sequences.

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
        self,
        n_tags: int,
        constraints: tuple[Tensor, Tensor, Tensor] | None = None,
        constrain_training: bool = False,
    ) -> None:
        """Initialize all scores with 0.

        Args:
            n_tags: Number of distinct tags.
            constraints: Boolean masks of the allowed first tags, (tags,), transitions,
                (tags, tags), and last tags, (tags,), as returned by `spans.allowed_transitions`.
                `decode` only returns allowed sequences. Constraints are not saved with the weights.
            constrain_training: Whether the constraints also apply in training: forbidden sequences
                get a probability close to 0.
        """
        super().__init__()
        if n_tags < 1:
            raise ConfigError(f"n_tags must be at least 1 (got {n_tags}).")
        if constrain_training and constraints is None:
            raise ConfigError("constrain_training=True requires constraints.")
        self.n_tags = n_tags
        self.constrain_training = constrain_training
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
        """Return the negative log likelihood of the gold tags, averaged over sentences.

        Args:
            emissions: Tag scores of each word, (batch, time, tags).
            tags: Gold tag indices, (batch, time); values at padding are ignored.
            mask: True at words, (batch, time).
        """
        return (self.log_partition(emissions, mask) - self.score(emissions, tags, mask)).mean()

    def score(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """Return the score of the given tag sequence of each sentence, (batch,)."""
        self._check(emissions, mask)
        if tags.shape != mask.shape:
            raise ConfigError(
                f"tags must have the shape {tuple(mask.shape)} (got {tuple(tags.shape)})."
            )
        with _full_precision(emissions):
            emissions, edges = self._prepare(emissions, mask, self._forbidden_in_training())
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
            emissions, edges = self._prepare(emissions, mask, self._forbidden_in_training())
            size = mask.numel() * self.n_tags**2
            if emissions.device.type == "cuda" and size <= MAX_PARALLEL_SIZE:
                last = _last_in_parallel(emissions, mask, edges)
            else:
                last = _forward(emissions, mask, edges)[-1]
            return (last + edges.end).logsumexp(dim=1)

    # ------------------------------------------------------------------------- predictions

    def marginals(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """Return the marginal probability of each tag at each word.

        With `constrain_training`, only allowed sequences are considered.

        Args:
            emissions: Tag scores of each word, (batch, time, tags).
            mask: True at words, (batch, time).

        Returns:
            Probabilities, (batch, time, tags); 0 at padding.
        """
        self._check(emissions, mask)
        with _full_precision(emissions):
            emissions, edges = self._prepare(emissions, mask, self._forbidden_in_training())
            before = torch.stack(_forward(emissions, mask, edges), dim=1)
            after = torch.stack(_backward(emissions, mask, edges), dim=1)
            total = (before[:, -1] + edges.end).logsumexp(dim=1)
            probabilities = (before + after - total[:, None, None]).exp()
            return torch.where(mask[:, :, None], probabilities, 0)

    @torch.no_grad()
    def decode(self, emissions: Tensor, mask: Tensor) -> list[list[int]]:
        """Return the highest-scoring allowed tag sequence of each sentence (Viterbi decoding).

        Args:
            emissions: Tag scores of each word, (batch, time, tags).
            mask: True at words, (batch, time).

        Returns:
            For each sentence, one tag index per word.

        Raises:
            ConfigError: The mask has padding before a word, or the constraints allow no sequence.
        """
        self._check(emissions, mask)
        if not (mask[:, 0].all() and (mask[:, 1:] <= mask[:, :-1]).all()):
            raise ConfigError(
                "Each row of mask must be True at the words of the sentence and False after them."
            )
        with _full_precision(emissions):
            # Use -inf, because large emissions could outweigh the finite score used in training.
            emissions, edges = self._prepare(emissions, mask, float("-inf"))
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

    def _forbidden_in_training(self) -> float | None:
        return FORBIDDEN if self.constrain_training else None

    def _prepare(
        self, emissions: Tensor, mask: Tensor, forbidden: float | None
    ) -> tuple[Tensor, _Edges]:
        """Return the scores in at least float32, with padding set to 0 and constraints applied.

        Args:
            emissions: Tag scores of each word, (batch, time, tags), in any floating-point dtype.
            mask: True at words, (batch, time).
            forbidden: Score that replaces the learned score of a forbidden tag or transition; None
                to ignore the constraints.
        """
        dtype = torch.promote_types(emissions.dtype, torch.float32)
        limits = (self.start_allowed, self.transitions_allowed, self.end_allowed)
        scores = [score.to(dtype) for score in (self.start, self.transitions, self.end)]
        if forbidden is not None:
            scores = [
                score if limit is None else torch.where(limit, score, forbidden)
                for score, limit in zip(scores, limits, strict=True)
            ]
        # A NaN at padding would make gradients NaN, although no result depends on it.
        return torch.where(mask[:, :, None], emissions.to(dtype), 0), _Edges(*scores)

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


def _forward(emissions: Tensor, mask: Tensor, edges: _Edges) -> list[Tensor]:
    """Return the forward scores: one tensor per time step, (batch, tags).

    The forward score of a tag is the log-sum-exp of the scores of all partial sequences that end
    with this tag. At padding, the scores of the last word are repeated.
    """
    sums = [edges.start + emissions[:, 0]]
    for time in range(1, emissions.shape[1]):
        longer = (sums[-1][:, :, None] + edges.transitions).logsumexp(dim=1) + emissions[:, time]
        sums.append(torch.where(mask[:, time, None], longer, sums[-1]))
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


def _backward(emissions: Tensor, mask: Tensor, edges: _Edges) -> list[Tensor]:
    """Return the backward scores: one tensor per time step, (batch, tags).

    The backward score of a tag is the log-sum-exp of the scores of all continuations after this
    tag. It does not include the emission of the current word.
    """
    last = edges.end.expand_as(emissions[:, 0])
    sums = [last]
    for time in range(emissions.shape[1] - 1, 0, -1):
        after = (sums[-1] + emissions[:, time])[:, None, :]
        longer = (edges.transitions + after).logsumexp(dim=2)
        sums.append(torch.where(mask[:, time, None], longer, last))
    return sums[::-1]


def _full_precision(emissions: Tensor) -> torch.autocast:
    return torch.autocast(emissions.device.type, enabled=False)


def _bool(limits: Tensor | None) -> Tensor | None:
    return None if limits is None else limits.bool().clone()
