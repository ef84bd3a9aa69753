"""Reference implementation of ELMo in NumPy and float64, independent of the package.

Weights have the names and layout of bilm-tf's HDF5 files. Sentences, time steps and tokens are
processed one at a time, so that the code is easy to compare with the documentation of the formats.
"""

from dataclasses import dataclass, field

import numpy as np

BEGIN_OF_SENTENCE, END_OF_SENTENCE, BEGIN_OF_WORD, END_OF_WORD, PADDING = 256, 257, 258, 259, 260


# ------------------------------------------------------------------------------------ ids


def spell(token, max_characters, special=None):
    """Return the raw byte ids of one token; `special` maps special tokens to a single raw id."""
    if special and token in special:
        inside = [special[token]]
    else:
        valid = "".join(c for c in token if not 0xD800 <= ord(c) <= 0xDFFF)
        inside = list(valid.encode("utf-8"))[: max_characters - 2]
    ids = [BEGIN_OF_WORD, *inside, END_OF_WORD]
    while len(ids) < max_characters:
        ids.append(PADDING)
    return ids


def character_batch(sentences, max_characters, special=None):
    """Return character ids with boundary tokens, (batch, longest + 2, characters); padding is 0."""
    boundaries = {"begin": BEGIN_OF_SENTENCE, "end": END_OF_SENTENCE}
    width = max(len(sentence) for sentence in sentences) + 2
    ids = np.zeros((len(sentences), width, max_characters), dtype=np.int64)
    for row, sentence in enumerate(sentences):
        spelled = [spell("begin", max_characters, boundaries)]
        spelled += [spell(token, max_characters, special) for token in sentence]
        spelled += [spell("end", max_characters, boundaries)]
        for position, raw in enumerate(spelled):
            ids[row, position] = [raw_id + 1 for raw_id in raw]
    return ids


def word_batch(sentences, vocabulary):
    """Return word ids, (batch, longest + 2, 1): the vocabulary index plus one; padding is 0."""
    line = {word: number for number, word in enumerate(vocabulary)}
    width = max(len(sentence) for sentence in sentences) + 2
    ids = np.zeros((len(sentences), width, 1), dtype=np.int64)
    for row, sentence in enumerate(sentences):
        for position, word in enumerate(["<S>", *sentence, "</S>"]):
            ids[row, position, 0] = line.get(word, line["<UNK>"]) + 1
    return ids


# ------------------------------------------------------------------------------------ layers


def sigmoid(x):
    return 0.5 * (1.0 + np.tanh(0.5 * x))


def convolve(vectors, kernel, bias):
    """Convolve vectors (characters, dim) with a kernel (1, width, dim, filters) without padding.

    Returns:
        (positions, filters)
    """
    _, width, _, _ = kernel.shape
    return np.array(
        [
            np.einsum("wd,wdn->n", vectors[start : start + width], kernel[0]) + bias
            for start in range(len(vectors) - width + 1)
        ]
    )


def highway(x, scope, weights):
    """Compute a highway layer. The gate named "carry" multiplies the transformed value."""
    gate = sigmoid(x @ weights[f"{scope}/W_carry"] + weights[f"{scope}/b_carry"])
    transformed = x @ weights[f"{scope}/W_transform"] + weights[f"{scope}/b_transform"]
    return gate * np.maximum(transformed, 0.0) + (1.0 - gate) * x


@dataclass
class Clips:
    """Clipping bounds for cells and projections, and counts of the values clipped so far."""

    cell: float | None
    projection: float | None
    cells_hit: int = 0
    projections_hit: int = 0

    def clip_cell(self, c):
        if self.cell is None:
            return c
        self.cells_hit += int((np.abs(c) > self.cell).sum())
        return np.clip(c, -self.cell, self.cell)

    def clip_projection(self, h):
        if self.projection is None:
            return h
        self.projections_hit += int((np.abs(h) > self.projection).sum())
        return np.clip(h, -self.projection, self.projection)


def lstm_step(x, h, c, scope, weights, clips):
    """Compute one time step of a layer for one sentence. The gate order is i, j, f, o."""
    z = np.concatenate([x, h]) @ weights[f"{scope}/W_0"] + weights[f"{scope}/B"]
    i, j, f, o = np.split(z, 4)
    c = clips.clip_cell(sigmoid(f + 1.0) * c + sigmoid(i) * np.tanh(j))
    h = sigmoid(o) * np.tanh(c)
    if f"{scope}/W_P_0" in weights:
        h = clips.clip_projection(h @ weights[f"{scope}/W_P_0"])
    return h, c


# ------------------------------------------------------------------------------------ the model


@dataclass
class ReferenceBiLM:
    """Bidirectional language model that carries an LSTM state for each batch row.

    Attributes:
        weights: Arrays by name, as in a bilm-tf HDF5 file.
        activation: Activation function of the CNN, relu or tanh.
        clips: Clipping bounds.
        residual: Whether all layers except the first have residual connections.
        states: State (h, c) by batch row, direction and layer. Missing states are zero.
    """

    weights: dict
    activation: str
    clips: Clips
    residual: bool
    states: dict = field(default_factory=dict)

    def __post_init__(self):
        self.weights = {name: value.astype(np.float64) for name, value in self.weights.items()}

    def scope(self, direction, layer):
        single = f"RNN_{direction}/RNN/LSTMCell"
        if f"{single}/W_0" in self.weights:
            return single
        return f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"

    @property
    def n_layers(self):
        names = [name for name in self.weights if name.startswith("RNN_0/") and "W_0" in name]
        return len(names)

    @property
    def sizes(self):
        """Projection dimension and cell dimension."""
        rows, columns = self.weights[f"{self.scope(0, 0)}/W_0"].shape
        return rows // 2, columns // 4

    def token(self, ids):
        """Return the context-independent vector of a token, given its character ids."""
        if "char_embed" not in self.weights:
            return self.weights["embedding"][ids[0] - 1]
        table = self.weights["char_embed"]
        table = np.concatenate([np.zeros((1, table.shape[1])), table])
        vectors = table[ids]
        pooled = []
        while f"CNN/W_cnn_{len(pooled)}" in self.weights:
            number = len(pooled)
            values = convolve(
                vectors, self.weights[f"CNN/W_cnn_{number}"], self.weights[f"CNN/b_cnn_{number}"]
            )
            highest = values.max(axis=0)
            pooled.append(
                np.maximum(highest, 0.0) if self.activation == "relu" else np.tanh(highest)
            )
        x = np.concatenate(pooled)
        number = 0
        while f"CNN_high_{number}/W_carry" in self.weights:
            x = highway(x, f"CNN_high_{number}", self.weights)
            number += 1
        if "CNN_proj/W_proj" in self.weights:
            x = x @ self.weights["CNN_proj/W_proj"] + self.weights["CNN_proj/b_proj"]
        return x

    def direction(self, tokens, row, direction):
        """Return the outputs of all layers of one direction for one sentence, in sentence order."""
        projection, cell = self.sizes
        inputs = tokens[::-1] if direction else tokens
        layers = []
        for layer in range(self.n_layers):
            start = (np.zeros(projection), np.zeros(cell))
            h, c = self.states.get((row, direction, layer), start)
            outputs = []
            for x in inputs:
                h, c = lstm_step(x, h, c, self.scope(direction, layer), self.weights, self.clips)
                outputs.append(h + x if self.residual and layer > 0 else h)
            self.states[row, direction, layer] = (h, c)
            inputs = outputs
            layers.append(outputs[::-1] if direction else outputs)
        return np.array(layers)

    def batch(self, ids):
        """Update the states; return layers (layers + 1, batch, time, 2 * projection) and mask."""
        mask = (ids != 0).any(axis=2)
        n_rows, width = mask.shape
        layers = np.zeros((self.n_layers + 1, n_rows, width, 2 * self.sizes[0]))
        for row in range(n_rows):
            length = int(mask[row].sum())
            tokens = np.array([self.token(ids[row, position]) for position in range(length)])
            layers[0, row, :length] = np.concatenate([tokens, tokens], axis=1)
            both = [self.direction(tokens, row, direction) for direction in (0, 1)]
            layers[1:, row, :length] = np.concatenate(both, axis=2)
        return layers, mask

    def state_table(self, n_rows):
        """Return all states as arrays (layers, 2, rows, projection) and (layers, 2, rows, cell)."""
        h, c = (np.zeros((self.n_layers, 2, n_rows, size)) for size in self.sizes)
        for (row, direction, layer), (row_h, row_c) in self.states.items():
            h[layer, direction, row], c[layer, direction, row] = row_h, row_c
        return h, c


# ------------------------------------------------------------------------------------ mixing


def drop_boundaries(layers, mask):
    """Remove the boundary tokens; return layers (..., time - 2, dim), zero at padding, and mask."""
    inner = np.zeros_like(layers[..., 2:, :])
    words = np.zeros_like(mask[:, 2:])
    for row, length in enumerate(mask.sum(axis=1)):
        n_words = max(int(length) - 2, 0)
        inner[..., row, :n_words, :] = layers[..., row, 1 : 1 + n_words, :]
        words[row, :n_words] = True
    return inner, words


def normalized(layers, mask, epsilon):
    """Normalize each layer with its mean and variance over the unmasked positions of the batch."""
    result = np.empty_like(layers)
    for number, layer in enumerate(layers):
        values = layer[mask]
        result[number] = (layer - values.mean()) / np.sqrt(values.var() + epsilon)
    return result


def scalar_mix(layers, mask, weights, gamma, layer_norm="none", top_only=False):
    """Return mixed word vectors without boundary tokens, zero at padding."""
    if top_only:
        return gamma * drop_boundaries(layers, mask)[0][-1]
    shares = np.exp(weights - np.max(weights))
    shares = shares / shares.sum()
    if layer_norm == "allennlp":
        layers = normalized(layers, mask, 1e-13)
    words, words_mask = drop_boundaries(layers, mask)
    if layer_norm == "bilm-tf":
        words = normalized(words, words_mask, 1e-12)
    mixed = gamma * sum(share * layer for share, layer in zip(shares, words, strict=True))
    return mixed * words_mask[:, :, None]
