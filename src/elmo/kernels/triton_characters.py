"""Convolutions over the characters of words with the maximum over positions, in Triton.

Of a convolution only its maximum is wanted: it is kept while walking over the positions, and no
output of a position is ever written. On the way back the gradient of a position is that of the
maximum where it was found there, and zero elsewhere: it is made in registers, position by position,
and goes into the products of an ordinary convolution's way back. No program reads what it has
written: sums grow in registers and are written once.
"""

import triton
import triton.language as tl


@triton.jit
def convolve(
    vectors,  # (words, LENGTH, DIM): characters of words
    weight,  # (WIDTH * DIM, FILTERS)
    bias,  # (FILTERS,), float32
    used,  # (words,): characters before the last one repeats
    pooled,  # (words, columns): out, from `column` on
    chosen,  # (words, columns), uint8: out: where the maximum was found first
    n_words,
    n_columns,
    column,
    LENGTH: tl.constexpr,
    DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    FILTERS: tl.constexpr,
    DEPTH: tl.constexpr,  # WIDTH * DIM, up to a power of two
    WORDS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Maximum over all positions of words, for some filters of one width."""
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
    place = tl.zeros((WORDS, BLOCK), dtype=tl.int32)
    # Beyond the last different character every window is the same, and a maximum does not count.
    n_positions = tl.minimum(tl.max(tl.load(used + word_in), axis=0) + 1, LENGTH - WIDTH + 1)
    for position in range(0, n_positions):
        a = tl.load(at + position * DIM, mask=is_deep[None, :], other=0.0)
        value = tl.dot(a, b, input_precision="ieee")
        is_more = (value > best) | (value != value)  # what is no number stays none
        best = tl.where(is_more, value, best)
        place = tl.where(is_more, position, place)
    best += tl.load(bias + filters, mask=is_filter, other=0.0)[None, :]
    out = words.to(tl.int64)[:, None] * n_columns + column + filters[None, :]
    wanted = (words < n_words)[:, None] & is_filter[None, :]
    tl.store(pooled + out, best.to(pooled.dtype.element_ty), mask=wanted)
    tl.store(chosen + out, place.to(tl.uint8), mask=wanted)


@triton.jit
def to_filters(
    vectors,  # (words, LENGTH, DIM): characters of words
    gradient,  # (words, columns): of the maximum
    chosen,  # (words, columns), uint8: where it was found
    used,  # (words,): characters before the last one repeats
    sums,  # (splits, WIDTH * DIM, FILTERS), float32: out
    n_words,
    n_columns,
    column,
    blocks_each,  # blocks of words of a split
    LENGTH: tl.constexpr,
    DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    FILTERS: tl.constexpr,
    DEPTH: tl.constexpr,  # WIDTH * DIM, up to a power of two
    WORDS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Gradient of some filters of one width, from some of the words."""
    filters = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    split = tl.program_id(1)
    depth = tl.arange(0, DEPTH)
    is_deep = depth < WIDTH * DIM
    is_filter = filters < FILTERS
    total = tl.zeros((DEPTH, BLOCK), dtype=tl.float32)
    for block in range(split * blocks_each, (split + 1) * blocks_each):
        words = block * WORDS + tl.arange(0, WORDS)
        word_in = tl.minimum(words, n_words - 1).to(tl.int64)
        wanted = (words < n_words)[:, None] & is_filter[None, :]
        at = word_in[:, None] * n_columns + column + filters[None, :]
        value = tl.load(gradient + at, mask=wanted, other=0.0)
        place = tl.load(chosen + at, mask=wanted, other=0).to(tl.int32)
        read = vectors + word_in[None, :] * (LENGTH * DIM) + depth[:, None]
        n_positions = tl.minimum(tl.max(tl.load(used + word_in), axis=0) + 1, LENGTH - WIDTH + 1)
        for position in range(0, n_positions):
            a = tl.load(read + position * DIM, mask=is_deep[:, None], other=0.0)
            total = tl.dot(
                a, tl.where(place == position, value, 0.0), total, input_precision="ieee"
            )
    out = (split.to(tl.int64) * (WIDTH * DIM) + depth[:, None]) * FILTERS + filters[None, :]
    tl.store(sums + out, total, mask=is_deep[:, None] & is_filter[None, :])


@triton.jit
def to_vectors(
    weight,  # (FILTERS, WIDTH, DIM)
    gradient,  # (words, columns): of the maximum
    chosen,  # (words, columns), uint8: where it was found
    used,  # (words,): characters before the last one repeats
    d_vectors,  # (words, LENGTH, DIM), float32: what filters of one width add to it
    n_words,
    n_columns,
    column,
    LENGTH: tl.constexpr,
    DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    FILTERS: tl.constexpr,
    BREADTH: tl.constexpr,  # DIM, up to a power of two
    WORDS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Gradient of one character of each of some words, from all filters of one width."""
    words = tl.program_id(0) * WORDS + tl.arange(0, WORDS)
    own = tl.program_id(1)
    word_in = tl.minimum(words, n_words - 1).to(tl.int64)
    n_positions = tl.minimum(tl.max(tl.load(used + word_in), axis=0) + 1, LENGTH - WIDTH + 1)
    # No window reaches this character: it stays as it was.
    if own >= n_positions + WIDTH - 1:
        return
    is_word = words < n_words
    dims = tl.arange(0, BREADTH)
    is_dim = dims < DIM
    out = d_vectors + (word_in * LENGTH + own)[:, None] * DIM + dims[None, :]
    inside = is_word[:, None] & is_dim[None, :]
    # Windows lie over each other. All that hold this character are gathered here, so that it is
    # read once and written once, and no thread waits for what another one has written.
    total = tl.load(out, mask=inside, other=0.0)
    for start in range(0, FILTERS, BLOCK):
        filters = start + tl.arange(0, BLOCK)
        is_filter = filters < FILTERS
        wanted = is_word[:, None] & is_filter[None, :]
        at = word_in[:, None] * n_columns + column + filters[None, :]
        value = tl.load(gradient + at, mask=wanted, other=0.0)
        place = tl.load(chosen + at, mask=wanted, other=0).to(tl.int32)
        for offset in tl.static_range(WIDTH):
            b = tl.load(
                weight + (filters[:, None] * WIDTH + offset) * DIM + dims[None, :],
                mask=is_filter[:, None] & is_dim[None, :],
                other=0.0,
            )
            # A window that would begin outside of the word was never chosen.
            a = tl.where(place == own - offset, value, 0.0)
            total = tl.dot(a, b, total, input_precision="ieee")
    tl.store(out, total, mask=inside)


@triton.jit
def to_characters(
    d_vectors,  # (words, LENGTH, DIM), float32
    characters,  # (words, LENGTH), int32
    used,  # (words,): characters before the last one repeats
    sums,  # (splits, n_characters, DIM), float32: out
    n_words,
    n_characters,
    blocks_each,  # blocks of words of a split
    LENGTH: tl.constexpr,
    DIM: tl.constexpr,
    WIDEST: tl.constexpr,  # of the filters
    BREADTH: tl.constexpr,  # DIM, up to a power of two
    WORDS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Sum of the gradients of some characters, from some of the words."""
    numbers = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    split = tl.program_id(1)
    dims = tl.arange(0, BREADTH)
    is_dim = dims < DIM
    total = tl.zeros((BLOCK, BREADTH), dtype=tl.float32)
    for block in range(split * blocks_each, (split + 1) * blocks_each):
        words = block * WORDS + tl.arange(0, WORDS)
        is_word = words < n_words
        word_in = tl.minimum(words, n_words - 1).to(tl.int64)
        # No window lies beyond the one that begins at the last different character.
        n_places = tl.minimum(tl.max(tl.load(used + word_in), axis=0) + WIDEST, LENGTH)
        for place in range(0, n_places):
            found = tl.load(characters + word_in * LENGTH + place)
            b = tl.load(
                d_vectors + (word_in * LENGTH + place)[:, None] * DIM + dims[None, :],
                mask=is_word[:, None] & is_dim[None, :],
                other=0.0,
            )
            a = tl.where(numbers[:, None] == found[None, :], 1.0, 0.0)
            total = tl.dot(a, b, total, input_precision="ieee")
    out = (split.to(tl.int64) * n_characters + numbers[:, None]) * DIM + dims[None, :]
    tl.store(sums + out, total, mask=(numbers < n_characters)[:, None] & is_dim[None, :])
