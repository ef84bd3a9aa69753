"""A slow language model that reads one word at a time, and the text on which it is tested."""

import dataclasses
import itertools
import math

import numpy as np
import torch
from conftest import TINY, random_model

from elmo.model.network import ELMoNetwork
from elmo.text.vocabulary import SPECIAL_TOKENS, Vocabulary

TEXT = [
    "the cat sat on the mat",
    "a naïve 日本 word",
    "",
    "cat",
    "the unseen sat on a very very long mat , said the cat",
    "word word word",
    "on the mat",
]
SENTENCES = [line.split() for line in TEXT]
KNOWN = ["the", "cat", "sat", "on", "mat", "a", "word", "naïve", "日本", "said", ","]
VOCABULARY = Vocabulary([*SPECIAL_TOKENS, *KNOWN])
CONFIG = dataclasses.replace(
    TINY,
    lstm=dataclasses.replace(TINY.lstm, projection_dim=16, cell_dim=10, cell_clip=0.7),
    n_softmax_words=len(VOCABULARY),
)
ADAPTIVE_CONFIG = dataclasses.replace(CONFIG, softmax_cutoffs=(5, 9))


def make_model(config=CONFIG, seed=0):
    return random_model(config, seed=seed, vocabulary=VOCABULARY, scale=3.0)


def network_of(model):
    network = ELMoNetwork(config=model.config)
    network.load_state_dict(dict(model.weights))
    return network


class SlowDirection:
    """Language model of one direction that reads one word at a time in float64."""

    def __init__(self, model, direction):
        self.model = model
        stack = ("forward_lstm", "backward_lstm")[direction]
        self.layers = []
        for depth in range(model.config.lstm.n_layers):
            start = f"bilm.{stack}.layers.{depth}."
            self.layers.append(
                {
                    name.removeprefix(start): value.double().numpy()
                    for name, value in model.weights.items()
                    if name.startswith(start)
                }
            )
        self.network = network_of(model)
        self.reset()

    def reset(self):
        lstm = self.model.config.lstm
        self.states = [(np.zeros(lstm.projection_dim), np.zeros(lstm.cell_dim))] * lstm.n_layers

    def loss(self, word, target):
        """Read a word and return the negative log-likelihood of the next word."""
        tables = {"<S>": 256, "</S>": 257}
        inside = [tables[word]] if word in tables else list(word.encode())[:10]
        row = [258, *inside, 259] + [260] * (10 - len(inside))
        with torch.no_grad():
            x = self.network.bilm.encoder(torch.tensor([row]) + 1)[0].double().numpy()
        for depth, weights in enumerate(self.layers):
            out = self.step(depth, weights, x)
            x = out + x if depth else out
        probabilities = self.probabilities(x)
        ids = VOCABULARY.ids
        return -math.log(probabilities[ids.get(target, ids["<UNK>"])])

    def step(self, depth, weights, x):
        lstm = self.model.config.lstm
        h, c = self.states[depth]
        gates = weights["weight_ih"] @ x + weights["weight_hh"] @ h + weights["bias"]
        i, f, g, o = np.split(gates, 4)
        i, f, o = (1 / (1 + np.exp(-value)) for value in (i, f + 1.0, o))
        c = np.clip(f * c + i * np.tanh(g), -lstm.cell_clip, lstm.cell_clip)
        h = weights["weight_hr"] @ (o * np.tanh(c))
        h = np.clip(h, -lstm.projection_clip, lstm.projection_clip)
        self.states[depth] = (h, c)
        return h

    def probabilities(self, x):
        if self.model.config.softmax_cutoffs:
            with torch.no_grad():
                softmax = self.network.softmax.double()
                return softmax.log_prob(torch.from_numpy(x)[None])[0].exp().numpy()
        weight, bias = (
            self.model.weights[f"softmax.{name}"].double().numpy() for name in ("weight", "bias")
        )
        scores = np.exp(weight @ x + bias)
        return scores / scores.sum()


def pairs_of(sentence, direction):
    words = ["<S>", *sentence, "</S>"]
    return list(itertools.pairwise(words[::-1] if direction else words))


def slow_reset(model, sentences=SENTENCES):
    """Return the total loss of each direction, starting every sentence from a zero state."""
    totals = []
    for direction in (0, 1):
        slow, total = SlowDirection(model, direction), 0.0
        for sentence in sentences:
            slow.reset()
            total += sum(itertools.starmap(slow.loss, pairs_of(sentence, direction)))
        totals.append(total)
    return totals


def slow_carry(model, n_streams, n_steps):
    """Return the total loss of each direction if streams share a queue and carry their state."""
    totals = []
    for direction in (0, 1):
        queue = [pairs_of(sentence, direction) for sentence in SENTENCES]
        current = [[] for _ in range(n_streams)]
        streams = [SlowDirection(model, direction) for _ in range(n_streams)]
        total = 0.0
        while queue or any(current):
            for row in range(n_streams):
                for _ in range(n_steps):
                    if not current[row] and queue:
                        current[row] = queue.pop(0)
                    if current[row]:
                        total += streams[row].loss(*current[row].pop(0))
        totals.append(total)
    return totals


N_WORDS = sum(map(len, SENTENCES))
COUNTS = [
    N_WORDS + len(SENTENCES),
    N_WORDS,
    sum(word not in KNOWN for sentence in SENTENCES for word in sentence),
    sum(len(word) + 1 for sentence in SENTENCES for word in sentence) + len(SENTENCES),
]
