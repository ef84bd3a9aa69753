"""A linear-chain conditional random field: scores of whole tag sequences (Lafferty et al., 2001).

A sequence `y` has the score `start[y_1] + Σ emissions[t, y_t] + Σ transitions[y_t-1, y_t] +
end[y_n]`; its probability is the softmax of that over all sequences. Everything is computed in log
space and at least in float32, over the whole batch at once, word by word.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from elmo.errors import ConfigError

# Score of what is forbidden in training: no sequence with it has any probability left, yet a gold
# one, which real files hold, has a loss that is finite and can be learned from.
FORBIDDEN = -1e4
# Score of what cannot be at all, where sums of such scores have to stay numbers.
IMPOSSIBLE = -1e30
# Numbers in the matrices of all words, up to which a device that computes much at once is better
# off with them than with one word after another.
MAX_NUMBERS = 2**26


class _Edges(NamedTuple):
    """Scores of the chain itself."""

    start: Tensor
    transitions: Tensor
    end: Tensor


class CRF(nn.Module):
    """Scores, probabilities and the best of tag sequences.

    Emissions are (batch, time, tags); masks are (batch, time), true at real words, and each row is
    true from its beginning for at least one word, then false. What stands at padding is not read.

    Attributes:
        transitions: score of a tag (row) being followed by another (column), (tags, tags).
        start: score of a sequence beginning with a tag, (tags,).
        end: score of a sequence ending with a tag, (tags,).
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
        """Make a chain whose scores are all 0.

        Args:
            n_tags: distinct tags.
            constraints: which tags may begin, follow each other and end, true where they may, as
                `spans.allowed_transitions` gives; `decode` never breaks them. They follow from the
                tags and are not saved with the weights.
            constrain_training: whether the sequences they forbid have no probability either.
        """
        super().__init__()
        if n_tags < 1:
            raise ConfigError(f"a CRF needs at least one tag, not {n_tags}")
        if constrain_training and constraints is None:
            raise ConfigError("constrain_training is set, but there are no constraints")
        self.n_tags = n_tags
        self.constrain_training = constrain_training
        self.transitions = nn.Parameter(torch.zeros(n_tags, n_tags))
        self.start = nn.Parameter(torch.zeros(n_tags))
        self.end = nn.Parameter(torch.zeros(n_tags))
        shapes = [(n_tags,), (n_tags, n_tags), (n_tags,)]
        found = [tuple(part.shape) for part in constraints] if constraints else shapes
        if found != shapes:
            raise ConfigError(f"constraints of {n_tags} tags have shapes {shapes}, not {found}")
        start, transitions, end = constraints or (None, None, None)
        self.register_buffer("start_allowed", _bool(start), persistent=False)
        self.register_buffer("transitions_allowed", _bool(transitions), persistent=False)
        self.register_buffer("end_allowed", _bool(end), persistent=False)

    # ------------------------------------------------------------------------- training

    def loss(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """Give the negative log likelihood of the tags, the mean over sentences.

        Args:
            emissions: (batch, time, tags).
            tags: numbers of the right ones, anything at padding, (batch, time).
            mask: (batch, time).
        """
        return (self.log_partition(emissions, mask) - self.score(emissions, tags, mask)).mean()

    def score(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """Give the score of one sequence of tags for each sentence, (batch,)."""
        self._check(emissions, mask)
        if tags.shape != mask.shape:
            raise ConfigError(f"tags have shape {tuple(tags.shape)}, not {tuple(mask.shape)}")
        with _full_precision(emissions):
            emissions, edges = self._prepared(emissions, mask, self._forbidden_in_training())
            tags = torch.where(mask, tags, 0)
            each = emissions.gather(2, tags[:, :, None]).squeeze(2)
            steps = edges.transitions[tags[:, :-1], tags[:, 1:]]
            last = tags.gather(1, mask.sum(dim=1, keepdim=True) - 1).squeeze(1)
            total = torch.where(mask, each, 0).sum(dim=1)
            total = total + torch.where(mask[:, 1:], steps, 0).sum(dim=1)
            return total + edges.start[tags[:, 0]] + edges.end[last]

    def log_partition(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """Give the log of the summed exponentials of the scores of all sequences, (batch,)."""
        self._check(emissions, mask)
        with _full_precision(emissions):
            emissions, edges = self._prepared(emissions, mask, self._forbidden_in_training())
            n_numbers = mask.numel() * self.n_tags**2
            if emissions.device.type == "cuda" and n_numbers <= MAX_NUMBERS:
                last = _last_by_halves(emissions, mask, edges)
            else:
                last = _forward(emissions, mask, edges)[-1]
            return (last + edges.end).logsumexp(dim=1)

    # ------------------------------------------------------------------------- answers

    def marginals(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """Give the probability of each tag of each word, 0 at padding, (batch, time, tags).

        Over all sequences, or over those allowed where training is constrained.
        """
        self._check(emissions, mask)
        with _full_precision(emissions):
            emissions, edges = self._prepared(emissions, mask, self._forbidden_in_training())
            before = torch.stack(_forward(emissions, mask, edges), dim=1)
            after = torch.stack(_backward(emissions, mask, edges), dim=1)
            total = (before[:, -1] + edges.end).logsumexp(dim=1)
            chances = (before + after - total[:, None, None]).exp()
            return torch.where(mask[:, :, None], chances, 0)

    @torch.no_grad()
    def decode(self, emissions: Tensor, mask: Tensor) -> list[list[int]]:
        """Give the allowed sequence of the highest score for each sentence (Viterbi).

        Args:
            emissions: (batch, time, tags).
            mask: (batch, time).
        """
        self._check(emissions, mask)
        if not (mask[:, 0].all() and (mask[:, 1:] <= mask[:, :-1]).all()):
            raise ConfigError("each row of the mask must be true from its beginning, then false")
        with _full_precision(emissions):
            # Not the score of training: emissions of any size must not outweigh it.
            emissions, edges = self._prepared(emissions, mask, float("-inf"))
            scores = edges.start + emissions[:, 0]
            stay = torch.arange(self.n_tags, device=scores.device).expand_as(scores)
            pointers: list[Tensor] = []
            for time in range(1, emissions.shape[1]):
                best, origin = (scores[:, :, None] + edges.transitions).max(dim=1)
                real = mask[:, time, None]
                scores = torch.where(real, best + emissions[:, time], scores)
                pointers.append(torch.where(real, origin, stay))
            best, tag = (scores + edges.end).max(dim=1)
            if (best == float("-inf")).any():
                raise ConfigError(
                    "the constraints allow no sequence of tags for a sentence of "
                    f"{int(mask.sum(dim=1)[best == float('-inf')][0])} words"
                )
        path = [tag]
        for origin in reversed(pointers):
            path.append(origin.gather(1, path[-1][:, None]).squeeze(1))
        rows = torch.stack(path[::-1], dim=1).tolist()
        return [row[:n] for row, n in zip(rows, mask.sum(dim=1).tolist(), strict=True)]

    # ------------------------------------------------------------------------- inside

    def _forbidden_in_training(self) -> float | None:
        return FORBIDDEN if self.constrain_training else None

    def _prepared(
        self, emissions: Tensor, mask: Tensor, forbidden: float | None
    ) -> tuple[Tensor, _Edges]:
        """Widen what is narrower than float32, empty the padding, and score what is forbidden.

        Args:
            emissions: of any float type.
            mask: of the emissions.
            forbidden: score in place of the learned one; None where constraints do not apply.
        """
        wide = torch.promote_types(emissions.dtype, torch.float32)
        limits = (self.start_allowed, self.transitions_allowed, self.end_allowed)
        scores = [score.to(wide) for score in (self.start, self.transitions, self.end)]
        if forbidden is not None:
            scores = [
                score if limit is None else torch.where(limit, score, forbidden)
                for score, limit in zip(scores, limits, strict=True)
            ]
        # What is not a number at padding would reach the gradients, though no result uses it.
        return torch.where(mask[:, :, None], emissions.to(wide), 0), _Edges(*scores)

    def _check(self, emissions: Tensor, mask: Tensor) -> None:
        if emissions.ndim != 3 or emissions.shape[2] != self.n_tags or 0 in emissions.shape:
            raise ConfigError(
                f"emissions have shape {tuple(emissions.shape)}; expected (batch, time, "
                f"{self.n_tags}), none of them 0"
            )
        if mask.shape != emissions.shape[:2] or mask.dtype != torch.bool:
            raise ConfigError(
                f"the mask is {mask.dtype} of shape {tuple(mask.shape)}; expected torch.bool of "
                f"shape {tuple(emissions.shape[:2])}"
            )


def _forward(emissions: Tensor, mask: Tensor, edges: _Edges) -> list[Tensor]:
    """Sum over all beginnings that end with a tag at a word, (batch, tags) for each word.

    At padding the sum of the last real word stands.
    """
    sums = [edges.start + emissions[:, 0]]
    for time in range(1, emissions.shape[1]):
        longer = (sums[-1][:, :, None] + edges.transitions).logsumexp(dim=1) + emissions[:, time]
        sums.append(torch.where(mask[:, time, None], longer, sums[-1]))
    return sums


def _last_by_halves(emissions: Tensor, mask: Tensor, edges: _Edges) -> Tensor:
    """Give the last of what `_forward` gives, (batch, tags), joining neighbours again and again.

    From each word to the next leads a matrix of scores. Two such ways behind each other are one,
    and a device joins all pairs of neighbours at once: more arithmetic, and far fewer launches.
    """
    ways = edges.transitions + emissions[:, 1:, None, :]
    stay = torch.full_like(edges.transitions, IMPOSSIBLE).fill_diagonal_(0.0)
    ways = torch.where(mask[:, 1:, None, None], ways, stay)
    while (n := ways.shape[1]) > 1:
        joined = _joined(ways[:, 0 : n - 1 : 2], ways[:, 1::2])
        ways = torch.cat([joined, ways[:, n - n % 2 :]], dim=1)
    first = edges.start + emissions[:, 0]
    return (first[:, :, None] + ways[:, 0]).logsumexp(dim=1) if ways.shape[1] else first


def _joined(left: Tensor, right: Tensor) -> Tensor:
    """Sum over the tags where two ways meet, in log space: (..., tags, tags).

    What is more than some 87 nats below the best of its row and column counts as that.
    """
    # Their gradients cancel each other.
    by_row, by_column = (
        x.detach().amax(dim=dim, keepdim=True) for x, dim in ((left, -1), (right, -2))
    )
    met = (left - by_row).exp() @ (right - by_column).exp()
    return met.clamp(min=torch.finfo(met.dtype).tiny).log() + by_row + by_column


def _backward(emissions: Tensor, mask: Tensor, edges: _Edges) -> list[Tensor]:
    """Sum over all ends that follow a tag at a word, the word itself left out."""
    finish = edges.end.expand_as(emissions[:, 0])
    sums = [finish]
    for time in range(emissions.shape[1] - 1, 0, -1):
        after = (sums[-1] + emissions[:, time])[:, None, :]
        longer = (edges.transitions + after).logsumexp(dim=2)
        sums.append(torch.where(mask[:, time, None], longer, finish))
    return sums[::-1]


def _full_precision(emissions: Tensor) -> torch.autocast:
    return torch.autocast(emissions.device.type, enabled=False)


def _bool(limits: Tensor | None) -> Tensor | None:
    return None if limits is None else limits.bool().clone()
