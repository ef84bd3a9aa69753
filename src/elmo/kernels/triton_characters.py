"""Triton kernels for character convolutions with max pooling over the positions of a word.

The forward pass keeps the running maximum in registers and never writes the outputs of single
positions to memory. In the backward pass, only the position of the maximum receives a gradient.
This gradient is computed in registers, position by position, and multiplied as in an ordinary
convolution. Sums are accumulated in registers and written once.
"""

import triton
import triton.language as tl


@triton.jit
def convolve(
    vectors,  # (words, LENGTH, DIM): character vectors of words
    weight,  # (WIDTH * DIM, FILTERS)
    bias,  # (FILTERS,), float32
    used,  # (words,): length without repetitions of the last character
    maxima,  # (words, columns): out, from `column` on
    chosen,  # (words, columns), uint8: out: first position of the maximum
    n_words,
    n_columns,
    column,
    LENGTH: tl.constexpr,
    DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    FILTERS: tl.constexpr,
    DEPTH: tl.constexpr,  # WIDTH * DIM, rounded up to a power of two
    WORDS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute the maximum over all positions for a block of words and a block of filters."""
    words = tl.program_id(0) * WORDS + tl.arange(0, WORDS)
    filters = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    depth = tl.arange(0, DEPTH)
    is_deep = depth < WIDTH * DIM
    is_filter = filters < FILTERS
    word_in = tl.minimum(words, n_words - 1)
    b = tl.load(
        weight + depth[:, None] * FILTERS + filters[None, :],
        mask=is_deep[:, None] & is_filter[None, :],
        other=0.0,
    )
    at = vectors + word_in.to(tl.int64)[:, None] * (LENGTH * DIM) + depth[None, :]
    best = tl.full((WORDS, BLOCK), float("-inf"), dtype=tl.float32)
    best_position = tl.zeros((WORDS, BLOCK), dtype=tl.int32)
    # After the last character that differs all windows are equal: they do not change the maximum.
    n_positions = tl.minimum(tl.max(tl.load(used + word_in), axis=0) + 1, LENGTH - WIDTH + 1)
    for position in range(0, n_positions):
        a = tl.load(at + position * DIM, mask=is_deep[None, :], other=0.0)
        value = tl.dot(a, b, input_precision="ieee")
        is_larger = (value > best) | (value != value)  # NaN is preserved
        best = tl.where(is_larger, value, best)
        best_position = tl.where(is_larger, position, best_position)
    best += tl.load(bias + filters, mask=is_filter, other=0.0)[None, :]
    out = words.to(tl.int64)[:, None] * n_columns + column + filters[None, :]
    valid = (words < n_words)[:, None] & is_filter[None, :]
    tl.store(maxima + out, best.to(maxima.dtype.element_ty), mask=valid)
    tl.store(chosen + out, best_position.to(tl.uint8), mask=valid)


@triton.jit
def filter_gradients(
    vectors,  # (words, LENGTH, DIM): character vectors of words
    gradient,  # (words, columns): gradient of the maxima
    chosen,  # (words, columns), uint8: position of the maxima
    used,  # (words,): length without repetitions of the last character
    sums,  # (splits, WIDTH * DIM, FILTERS), float32: out
    n_words,
    n_columns,
    column,
    blocks_each,  # blocks of words per split
    LENGTH: tl.constexpr,
    DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    FILTERS: tl.constexpr,
    DEPTH: tl.constexpr,  # WIDTH * DIM, rounded up to a power of two
    WORDS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute the gradient of a block of filters of one width from one subset of the words."""
    filters = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    split = tl.program_id(1)
    depth = tl.arange(0, DEPTH)
    is_deep = depth < WIDTH * DIM
    is_filter = filters < FILTERS
    total = tl.zeros((DEPTH, BLOCK), dtype=tl.float32)
    for block in range(split * blocks_each, (split + 1) * blocks_each):
        words = block * WORDS + tl.arange(0, WORDS)
        word_in = tl.minimum(words, n_words - 1).to(tl.int64)
        valid = (words < n_words)[:, None] & is_filter[None, :]
        at = word_in[:, None] * n_columns + column + filters[None, :]
        value = tl.load(gradient + at, mask=valid, other=0.0)
        best_position = tl.load(chosen + at, mask=valid, other=0).to(tl.int32)
        read = vectors + word_in[None, :] * (LENGTH * DIM) + depth[:, None]
        n_positions = tl.minimum(tl.max(tl.load(used + word_in), axis=0) + 1, LENGTH - WIDTH + 1)
        for position in range(0, n_positions):
            a = tl.load(read + position * DIM, mask=is_deep[:, None], other=0.0)
            total = tl.dot(
                a, tl.where(best_position == position, value, 0.0), total, input_precision="ieee"
            )
    out = (split.to(tl.int64) * (WIDTH * DIM) + depth[:, None]) * FILTERS + filters[None, :]
    tl.store(sums + out, total, mask=is_deep[:, None] & is_filter[None, :])


@triton.jit
def vector_gradients(
    weight,  # (FILTERS, WIDTH, DIM)
    gradient,  # (words, columns): gradient of the maxima
    chosen,  # (words, columns), uint8: position of the maxima
    used,  # (words,): length without repetitions of the last character
    d_vectors,  # (words, LENGTH, DIM), float32: in and out: the gradient is added to it
    n_words,
    n_columns,
    column,
    LENGTH: tl.constexpr,
    DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    FILTERS: tl.constexpr,
    BREADTH: tl.constexpr,  # DIM, rounded up to a power of two
    WORDS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Add the gradient from all filters of one width for one character of each word in a block."""
    words = tl.program_id(0) * WORDS + tl.arange(0, WORDS)
    character = tl.program_id(1)
    word_in = tl.minimum(words, n_words - 1).to(tl.int64)
    n_positions = tl.minimum(tl.max(tl.load(used + word_in), axis=0) + 1, LENGTH - WIDTH + 1)
    # No window contains this character: its gradient is unchanged.
    if character >= n_positions + WIDTH - 1:
        return
    is_word = words < n_words
    dims = tl.arange(0, BREADTH)
    is_dim = dims < DIM
    out = d_vectors + (word_in * LENGTH + character)[:, None] * DIM + dims[None, :]
    inside = is_word[:, None] & is_dim[None, :]
    # Windows overlap. One program sums over all windows that contain this character, so that its
    # gradient is read and written once, without atomic additions.
    total = tl.load(out, mask=inside, other=0.0)
    for start in range(0, FILTERS, BLOCK):
        filters = start + tl.arange(0, BLOCK)
        is_filter = filters < FILTERS
        valid = is_word[:, None] & is_filter[None, :]
        at = word_in[:, None] * n_columns + column + filters[None, :]
        value = tl.load(gradient + at, mask=valid, other=0.0)
        best_position = tl.load(chosen + at, mask=valid, other=0).to(tl.int32)
        for offset in tl.static_range(WIDTH):
            b = tl.load(
                weight + (filters[:, None] * WIDTH + offset) * DIM + dims[None, :],
                mask=is_filter[:, None] & is_dim[None, :],
                other=0.0,
            )
            # No maximum is at a position outside the word.
            a = tl.where(best_position == character - offset, value, 0.0)
            total = tl.dot(a, b, total, input_precision="ieee")
    tl.store(out, total, mask=inside)


@triton.jit
def character_gradients(
    d_vectors,  # (words, LENGTH, DIM), float32
    characters,  # (words, LENGTH), int32
    used,  # (words,): length without repetitions of the last character
    sums,  # (splits, n_characters, DIM), float32: out
    n_words,
    n_characters,
    blocks_each,  # blocks of words per split
    LENGTH: tl.constexpr,
    DIM: tl.constexpr,
    WIDEST: tl.constexpr,  # width of the widest filter
    BREADTH: tl.constexpr,  # DIM, rounded up to a power of two
    WORDS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Sum the gradients of a block of character ids over one subset of the words."""
    ids = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    split = tl.program_id(1)
    dims = tl.arange(0, BREADTH)
    is_dim = dims < DIM
    total = tl.zeros((BLOCK, BREADTH), dtype=tl.float32)
    for block in range(split * blocks_each, (split + 1) * blocks_each):
        words = block * WORDS + tl.arange(0, WORDS)
        is_word = words < n_words
        word_in = tl.minimum(words, n_words - 1).to(tl.int64)
        # The last window that counts begins at the last character that differs.
        n_used = tl.minimum(tl.max(tl.load(used + word_in), axis=0) + WIDEST, LENGTH)
        for position in range(0, n_used):
            id_at_position = tl.load(characters + word_in * LENGTH + position)
            b = tl.load(
                d_vectors + (word_in * LENGTH + position)[:, None] * DIM + dims[None, :],
                mask=is_word[:, None] & is_dim[None, :],
                other=0.0,
            )
            a = tl.where(ids[:, None] == id_at_position[None, :], 1.0, 0.0)
            total = tl.dot(a, b, total, input_precision="ieee")
    out = (split.to(tl.int64) * n_characters + ids[:, None]) * DIM + dims[None, :]
    tl.store(sums + out, total, mask=(ids < n_characters)[:, None] & is_dim[None, :])
