"""A small measured comparison, for tests of its results."""

from functools import cache

from small_networks import TEXT, small_network

from elmo.lab.gradients.gradient_flow import gradient_flow
from elmo.lab.recurrent_folder import RecurrentModel
from elmo.lab.recurrent_model import LanguageModel


def small_model(**options):
    """Return a language model with random weights."""
    return LanguageModel(RecurrentModel(*small_network(**options), {}))


@cache
def small_flow():
    """Return the gradients of a two-layer LSTM and a one-layer RNN with random weights."""
    others = [small_model(cell="rnn", n_layers=1)]
    return gradient_flow(small_model(), TEXT, compare=others, steps=20, windows=4)
