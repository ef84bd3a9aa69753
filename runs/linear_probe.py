"""Linear probe: a linear classifier that tests which labels word vectors encode."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from elmo.evaluate.probe_vectors import WORDS_PER_CHUNK
from elmo.kernels.exact_float32 import exact_float32
from elmo.model.layer_mix import LayerMix

# The same for every model and layer. None of them was tuned on a development set.
EPOCHS = 8
MIN_STEPS = 200
BATCH = 1024
LEARNING_RATE = 0.01
L2 = 1e-5


def standardize(train: Tensor, test: Tensor) -> None:
    """Scale every feature to mean 0 and standard deviation 1 on the training set, in place.

    This does not change what a linear map can represent, but makes learning rates and mix weights
    comparable between layers and models.

    Args:
        train: Training features, (layers, words, dim), from which the mean and standard deviation
            are computed.
        test: Test features, (layers, words, dim).
    """
    for layer in range(len(train)):
        mean, deviation = train[layer].mean(dim=0), train[layer].std(dim=0, correction=0)
        # A constant feature becomes 0.
        scale = torch.where(deviation > 1e-6 * deviation.max(), 1 / deviation, 0.0)
        for part in (train, test):
            part[layer].sub_(mean).mul_(scale)


class LinearProbe(nn.Module):
    """Layer mix followed by a linear classifier. With a single layer, there is no mix."""

    def __init__(self, *, n_layers: int, dim: int, n_labels: int) -> None:
        """Create a probe with zero weights, so that all labels have the same score."""
        super().__init__()
        self.mix = LayerMix(n_layers=n_layers, trainable=n_layers > 1)
        self.linear = nn.Linear(dim, n_labels)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, features: Tensor) -> Tensor:
        """Compute label scores (words, labels) from features (layers, words, dim)."""
        mixed = self.mix(features) if len(features) > 1 else features[0]
        scores: Tensor = self.linear(mixed)
        return scores

    @torch.no_grad()
    def accuracy(self, features: Tensor, labels: Tensor) -> float:
        """Return the accuracy, given features (layers, words, dim) and labels (words,)."""
        n_correct = 0
        with exact_float32():
            for first in range(0, len(labels), WORDS_PER_CHUNK):
                chunk = slice(first, first + WORDS_PER_CHUNK)
                n_correct += int((self(features[:, chunk]).argmax(dim=1) == labels[chunk]).sum())
        return n_correct / len(labels)


def fit(features: Tensor, targets: Tensor, n_labels: int, *, seed: int = 0) -> LinearProbe:
    """Train a probe with Adam, a linearly decaying learning rate and an L2 penalty.

    The number of epochs is fixed, except that small training sets are trained on for as many epochs
    as it takes to reach `MIN_STEPS` steps.

    Args:
        features: Standardized features, (layers, words, dim).
        targets: Label ids, (words,).
        n_labels: Number of labels.
        seed: Random seed for the order of the words. The order is the same on every device.
    """
    n_layers, n_words, dim = features.shape
    probe = LinearProbe(n_layers=n_layers, dim=dim, n_labels=n_labels).to(features.device)
    trainable = [value for value in probe.parameters() if value.requires_grad]
    optimizer = torch.optim.Adam(trainable, lr=LEARNING_RATE)
    steps_per_epoch = -(-n_words // BATCH)
    n_epochs = max(EPOCHS, -(-MIN_STEPS // steps_per_epoch))
    n_steps = n_epochs * steps_per_epoch
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
