"""Softmax row that new words share before fine-tuning.

The row of `<UNK>` alone is not a good start: a model whose text had no unknown words gives `<UNK>`
almost no probability, and the perplexity on a text with new words would be meaningless. The row is
therefore fitted to a sample of the text, so that unknown words are as likely as they are frequent.
"""

from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.config import RegularizationConfig
from elmo.corpus.bptt_segments import read_once
from elmo.corpus.shards import Split
from elmo.corpus.token_tables import TokenTables
from elmo.inference.engine import compile_kernels
from elmo.model.bidirectional_lm import BidirectionalLM
from elmo.model.lstm import LSTMState
from elmo.model.network import ELMoNetwork
from elmo.train.step_input import SegmentTensors

# The sample consists of this many segments of streams times steps.
N_SEGMENTS, N_STREAMS, N_STEPS = 2, 32, 20
# Number of logits computed in total and at a time.
MAX_LOGITS, CHUNK_LOGITS = 2**28, 2**25
# Ridge penalty, relative to the mean squared length of the hidden vectors.
RIDGE = 1e-3
# Largest bias that is considered.
MAX_BIAS = 1000.0


class NewWordRow(NamedTuple):
    """Row of the softmax: weight (dim,) and bias ()."""

    weight: Tensor
    bias: Tensor


def fit_new_word_row(
    network: ELMoNetwork, tables: TokenTables, split: Split, *, unknown: int, keep_weight: bool
) -> NewWordRow:
    """Return the row for all words that are not in the vocabulary, including `<UNK>`.

    There are two candidates: the weight of `<UNK>` and, unless `keep_weight`, a weight that gives
    the same probability in all contexts. With each, the bias is chosen such that the mean
    probability in the sample is the fraction of unknown words. The candidate with the higher
    likelihood is returned. `unknown` is the softmax id of `<UNK>`.
    """
    softmax = network.softmax
    assert isinstance(softmax, nn.Linear)
    with torch.no_grad():
        hidden, is_unknown = _sample(network, tables, split, unknown)
        log_known = _log_known(softmax, hidden, unknown)
        hidden, log_known = hidden.double(), log_known.double()
        weights = [softmax.weight[unknown].double()]
        if not keep_weight:
            weights.append(_constant_probability_weight(hidden, log_known))
        # Additive smoothing, because the sample can be without unknown words, or all unknown.
        rate = float((is_unknown.sum() + 0.5) / (len(is_unknown) + 1))
        candidates = []
        for weight in weights:
            log_odds = hidden @ weight - log_known
            bias = _bias_for_rate(log_odds, rate)
            loss = functional.binary_cross_entropy_with_logits(log_odds + bias, is_unknown.double())
            candidates.append((float(loss), NewWordRow(weight.float(), bias.float())))
    return min(candidates, key=lambda candidate: candidate[0])[1]


def _sample(
    network: ELMoNetwork, tables: TokenTables, split: Split, unknown: int
) -> tuple[Tensor, Tensor]:
    """Return hidden vectors (n, dim), and whether the predicted word is unknown, (n,)."""
    model = BidirectionalLM(
        bilm=network.bilm,
        regularization=RegularizationConfig(),
        kernels=compile_kernels(network.bilm.named_parameters()),
    ).eval()
    state = LSTMState.zeros(network.config.lstm, N_STREAMS, device=torch.device("cpu"))
    vectors, flags = [], []
    segments = read_once(split, n_streams=N_STREAMS, n_steps=N_STEPS, reset=True)
    for segment in islice(segments, N_SEGMENTS):
        batch, real = SegmentTensors.of(tables.batch(segment)), torch.from_numpy(segment.real)
        rows = torch.from_numpy(tables.rows)[batch.words].long()
        hidden, h, c = model(rows, batch.index, batch.resets, state.h, state.c)
        state = LSTMState(h, c)
        vectors.append(hidden[:, real].flatten(0, 1))
        flags.append((batch.targets[:, real] == unknown).flatten())
    hidden, is_unknown = torch.cat(vectors), torch.cat(flags)
    step = -(-len(hidden) * network.config.n_softmax_words // MAX_LOGITS)
    return hidden[::step], is_unknown[::step]


def _log_known(softmax: nn.Linear, hidden: Tensor, unknown: int) -> Tensor:
    """Return the log of the summed exponentials of all logits except that of `<UNK>`, (n,)."""
    sums = []
    for chunk in torch.split(hidden, max(1, CHUNK_LOGITS // softmax.out_features)):
        logits = softmax(chunk)
        logits[:, unknown] = -torch.inf
        sums.append(logits.logsumexp(dim=1))
    return torch.cat(sums)


def _constant_probability_weight(hidden: Tensor, log_known: Tensor) -> Tensor:
    """Return the weight (dim,) whose logit has the same distance to `log_known` everywhere.

    A logit is linear and `log_known` is not, so this is a least-squares fit (ridge regression).
    """
    centered = hidden - hidden.mean(dim=0)
    gram = centered.T @ centered
    penalty = RIDGE * gram.diagonal().sum() + torch.finfo(torch.float32).tiny
    gram.diagonal().add_(penalty)
    weight: Tensor = torch.linalg.solve(gram, centered.T @ (log_known - log_known.mean()))
    return weight


def _bias_for_rate(log_odds: Tensor, rate: float) -> Tensor:
    """Return the bias for which the mean of `sigmoid(log_odds + bias)` is `rate` (bisection)."""
    low, high = -MAX_BIAS, MAX_BIAS
    for _ in range(60):
        middle = (low + high) / 2
        if float((log_odds + middle).sigmoid().mean()) < rate:
            low = middle
        else:
            high = middle
    return torch.tensor(high, dtype=torch.float64)
