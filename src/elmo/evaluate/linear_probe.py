"""A linear probe: what one linear map and a softmax find in vectors stands in the vectors."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from elmo.evaluate.probe_vectors import WORDS_TOGETHER
from elmo.kernels.exact_float32 import exact_float32
from elmo.model.layer_mix import LayerMix

# The same for every model and layer; nothing is chosen on the development part.
EPOCHS = 8
MIN_STEPS = 200
BATCH = 1024
LEARNING_RATE = 0.01
L2 = 1e-5


def standardise(train: Tensor, test: Tensor) -> None:
    """Give every feature mean 0 and deviation 1 in training, in place.

    A linear map can undo it; the steps of training and the shares of a mix then mean the same in
    every layer and model.
    """
    for layer in range(len(train)):
        mean, deviation = train[layer].mean(dim=0), train[layer].std(dim=0, correction=0)
        # A feature that never changes stays 0.
        scale = torch.where(deviation > 1e-6 * deviation.max(), 1 / deviation, 0.0)
        for part in (train, test):
            part[layer].sub_(mean).mul_(scale)


class LinearProbe(nn.Module):
    """A mix of layers and a linear map to labels; a mix of one layer is that layer, scaled."""

    def __init__(self, *, n_layers: int, dim: int, n_labels: int) -> None:
        """Make a probe that holds every label for equally likely."""
        super().__init__()
        self.mix = LayerMix(n_layers=n_layers, trainable=n_layers > 1)
        self.linear = nn.Linear(dim, n_labels)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, features: Tensor) -> Tensor:
        """Map (layers, words, dim) to scores, (words, labels)."""
        mixed = self.mix(features) if len(features) > 1 else features[0]
        scores: Tensor = self.linear(mixed)
        return scores

    @torch.no_grad()
    def accuracy(self, features: Tensor, answers: Tensor) -> float:
        """Give the share of (layers, words, dim) whose best label is the answer."""
        right = 0
        with exact_float32():
            for first in range(0, len(answers), WORDS_TOGETHER):
                part = slice(first, first + WORDS_TOGETHER)
                right += int((self(features[:, part]).argmax(dim=1) == answers[part]).sum())
        return right / len(answers)


def fit(features: Tensor, targets: Tensor, n_labels: int, *, seed: int = 0) -> LinearProbe:
    """Train a probe: Adam with a falling rate, a fixed penalty and a fixed number of epochs.

    Few words are met more often, or the probe would stop on its way.

    Args:
        features: (layers, words, dim), standardised.
        targets: number of the label of each word.
        n_labels: distinct labels.
        seed: of the order of words; it is the same on every device.
    """
    n_layers, n_words, dim = features.shape
    probe = LinearProbe(n_layers=n_layers, dim=dim, n_labels=n_labels).to(features.device)
    trained = [value for value in probe.parameters() if value.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=LEARNING_RATE)
    steps_an_epoch = -(-n_words // BATCH)
    n_epochs = max(EPOCHS, -(-MIN_STEPS // steps_an_epoch))
    n_steps = n_epochs * steps_an_epoch
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / n_steps)
    generator = torch.Generator().manual_seed(seed)
    with exact_float32():
        for _ in range(n_epochs):
            order = torch.randperm(n_words, generator=generator).to(features.device)
            for first in range(0, n_words, BATCH):
                rows = order[first : first + BATCH]
                loss = cross_entropy(probe(features[:, rows]), targets[rows])
                loss = loss + L2 * probe.linear.weight.square().sum()
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                schedule.step()
    return probe
