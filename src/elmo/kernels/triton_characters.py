"""Convolutions over the characters of words with the maximum over positions, in Triton.

Of a convolution only its maximum is wanted: it is kept while walking over the positions, and no
output of a position is ever written. The way back needs no convolution either: what a filter's
gradient does depends only on which character stood at which of its places, so gradients are
counted by filter, place and character.
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
def count(
    gradient,  # (words, columns)
    chosen,  # (words, columns), uint8
    characters,  # (words, LENGTH), int32
    sums,  # (splits, WIDTH, FILTERS, CHARACTERS), float32, zero before: out
    n_words,
    n_columns,
    column,
    words_each,  # words of a split
    LENGTH: tl.constexpr,
    WIDTH: tl.constexpr,
    FILTERS: tl.constexpr,
    CHARACTERS: tl.constexpr,
    BLOCK: tl.constexpr,  # as many as the program has threads: each owns a filter, none is raced
):
    """Add up a filter's gradients by the character at one of its places."""
    filters = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    split = tl.program_id(1).to(tl.int64)
    place = tl.program_id(2)
    is_filter = filters < FILTERS
    # Letters are few: what a filter adds to most of the time stays near.
    block = sums + ((split * WIDTH + place) * FILTERS + filters) * CHARACTERS
    first = split * words_each
    last = tl.minimum(first + words_each, n_words)
    for word in range(first, last):
        at = word * n_columns + column + filters
        value = tl.load(gradient + at, mask=is_filter, other=0.0).to(tl.float32)
        position = tl.load(chosen + at, mask=is_filter, other=0).to(tl.int32)
        letter = tl.load(characters + word * LENGTH + position + place, mask=is_filter, other=0)
        target = block + letter
        tl.store(target, tl.load(target, mask=is_filter, other=0.0) + value, mask=is_filter)
