"""Tests that sentence vectors do not depend on the batch, the input order or earlier calls."""

import itertools
import json

import numpy as np
import pytest
import torch
from conftest import TINY, random_model
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo.embed import encoding, pending_batch
from elmo.embed.embedder import ELMo
from elmo.embed.sentence_groups import batches_by_length
from elmo.errors import InputError
from elmo.inference.engine_slot import EngineSlot
from elmo.kernels.torch_kernels import REFERENCE_KERNELS

WORDS = st.one_of(
    st.sampled_from(["the", "bank", ".", "<S>", "naïve", "안녕하세요", "x" * 40, ""]),
    st.text(max_size=6),
)
SENTENCE = st.lists(WORDS, max_size=9)
SENTENCES = st.lists(SENTENCE, min_size=1, max_size=7)
MODEL = ELMo(random_model(TINY, seed=3, scale=1.5))
PROPERTY = settings(max_examples=30)


@PROPERTY
@given(
    SENTENCES, SENTENCES, st.integers(1, 9), st.integers(1, 9), st.randoms(use_true_random=False)
)
def test_vectors_do_not_depend_on_other_sentences_order_or_batch_size(
    sentences, others, size, other_size, random
):
    alone = [MODEL.encode([sentence], layers="all")[0] for sentence in sentences]
    mixed = [*sentences, *others]
    random.shuffle(mixed)
    together = MODEL.encode(mixed, layers="all", batch_size=size)
    MODEL.encode(others, state="carry", batch_size=other_size)
    again = MODEL.encode(sentences, layers="all", batch_size=other_size)
    for sentence, vectors, later in zip(sentences, alone, again, strict=True):
        assert vectors.shape == (3, len(sentence), 16)
        np.testing.assert_allclose(together[mixed.index(sentence)], vectors, rtol=0, atol=1e-5)
        np.testing.assert_allclose(later, vectors, rtol=0, atol=1e-5)


@PROPERTY
@given(SENTENCES, SENTENCES, st.integers(1, 9), st.randoms(use_true_random=False))
def test_encode_returns_identical_bytes_for_shuffled_sentences(sentences, others, size, random):
    first = MODEL.encode(sentences, layers="all", batch_size=size)
    MODEL.encode(others, batch_size=size)
    second = MODEL.encode(sentences, layers="all", batch_size=size)
    order = list(range(len(sentences)))
    random.shuffle(order)
    shuffled = MODEL.encode([sentences[index] for index in order], layers="all", batch_size=size)
    for index, vectors in enumerate(first):
        assert vectors.tobytes() == second[index].tobytes()
        assert vectors.tobytes() == shuffled[order.index(index)].tobytes()


@PROPERTY
@given(SENTENCES)
def test_forward_and_encode_return_equal_layers(sentences):
    with torch.no_grad():
        output = MODEL(MODEL.character_ids(sentences))
    for row, vectors in enumerate(MODEL.encode(sentences, layers="all")):
        words = output.layers[:, row, : len(sentences[row])]
        np.testing.assert_allclose(words.numpy(), vectors, rtol=0, atol=1e-5)
    assert output.mask.sum(1).tolist() == [len(sentence) for sentence in sentences]


@pytest.mark.parametrize("layer_norm", ["none", "allennlp", "bilm-tf"])
def test_layer_mix_does_not_depend_on_other_sentences_in_the_batch(tmp_path, layer_norm):
    MODEL.save_pretrained(tmp_path / "model")
    elmo = ELMo.from_pretrained(tmp_path / "model", do_layer_norm=layer_norm)
    elmo.network.mixes[0].weights.data = torch.tensor([0.1, 0.5, -0.3])
    sentences = [["a", "short", "one"], ["and", "a", "rather", "longer", "one", "."], []]
    alone = [elmo.encode([sentence], layers="mix")[0] for sentence in sentences]
    for single, batched in zip(alone, elmo.encode(sentences, layers="mix"), strict=True):
        np.testing.assert_allclose(single, batched, rtol=0, atol=1e-5)
    with torch.no_grad():
        output = elmo(elmo.character_ids([sentences[1]]))
    np.testing.assert_allclose(alone[1], output.representations[0][0], rtol=0, atol=1e-5)


def test_encode_ignores_global_setting_for_reduced_float32_precision(monkeypatch):
    """The global settings that allow faster float32 products are disabled only during encoding."""
    seen = []
    matmul = torch.backends.mkldnn.matmul
    before = matmul.fp32_precision
    run = MODEL.network.bilm.forward

    def spy(*inputs, **options):
        seen.append((matmul.fp32_precision, torch.backends.cudnn.conv.fp32_precision))
        return run(*inputs, **options)

    monkeypatch.setattr(MODEL.network.bilm, "forward", spy)
    try:
        matmul.fp32_precision = "bf16"
        MODEL.encode([["a"]])
        assert seen == [("ieee", "ieee")]
        assert matmul.fp32_precision == "bf16"
    finally:
        matmul.fp32_precision = before


def test_encode_in_bfloat16_does_not_change_later_float32_results():
    """PyTorch permanently disables oneDNN after an unsupported product, e.g. in bfloat16."""
    elmo = ELMo.from_pretrained("small-en")
    elmo._engines = EngineSlot(REFERENCE_KERNELS)
    sentences = [["a", "few", "words"], ["and", "some", "more", "of", "them"]]
    before = elmo.encode(sentences, pooling="mean")
    elmo.encode(sentences, precision="bfloat16")
    np.testing.assert_array_equal(elmo.encode(sentences, pooling="mean"), before)


@pytest.mark.parametrize("name", ["allennlp/elmo", "bilm-tf/model"])
def test_vectors_of_reference_models_do_not_depend_on_the_batch(golden_path, name):
    elmo = ELMo.from_pretrained(golden_path(name))
    path = golden_path("allennlp/elmo/sentences.json")
    sentences = [line.split() for lines in json.loads(path.read_text()) for line in lines]
    together = elmo.encode(sentences, layers="all", batch_size=30)
    for sentence, batched in zip(sentences, together, strict=True):
        alone = elmo.encode([sentence], layers="all")[0]
        np.testing.assert_allclose(batched, alone, rtol=0, atol=1e-5)
    for vectors, reverse in zip(
        together, elmo.encode(sentences[::-1], layers="all", batch_size=30)[::-1], strict=True
    ):
        assert vectors.tobytes() == reverse.tobytes()


def test_batches_by_length_do_not_depend_on_input_order():
    """Sentences of equal length are sorted by words, so equal sets lead to equal batches."""
    sentences = [(word, str(number % 3)) for number, word in enumerate("zyxwvutsrqponm")]
    expected = list(batches_by_length(sentences, 4, 100))
    assert list(batches_by_length(sentences[::-1], 4, 100)) == expected
    assert list(batches_by_length(sentences[5:] + sentences[:5], 4, 100)) == expected
    assert [len(batch) for batch in expected] == [4, 4, 4, 2]


def test_batches_by_length_puts_long_sentences_into_small_batches():
    sentences = [("a",) * 98, ("b",) * 60, ("c",) * 31, ("d",) * 30, ("e",) * 30, ("f",)]
    sizes = [len(batch) for batch in batches_by_length(sentences, 32, 100)]
    assert sizes == [1, 1, 3, 1]


def test_encode_ignores_autocast():
    sentences = [["a", "b", "c"], ["d"]]
    expected = MODEL.encode(sentences, layers="all")
    with torch.autocast("cpu", torch.bfloat16):
        actual = MODEL.encode(sentences, layers="all")
    for vectors, reference in zip(actual, expected, strict=True):
        assert vectors.tobytes() == reference.tobytes()


@pytest.mark.parametrize("state", ["reset", "carry"])
def test_batch_is_split_if_the_device_runs_out_of_memory(monkeypatch, state):
    """Batches are halved until they fit; a single sentence that does not fit is an error."""
    elmo = MODEL
    sentences = [["a", "b"], ["c", "d", "e"], ["f"], ["g", "h"], ["i"]] * 2
    expected = elmo.encode(sentences, state=state, batch_size=5)
    inner, sizes = encoding.EncodingRun._compute, []

    def compute(self, batch, *rest):
        sizes.append(len(batch))
        if len(batch) > limit:
            raise torch.OutOfMemoryError("too much")
        return inner(self, batch, *rest)

    monkeypatch.setattr(encoding.EncodingRun, "_compute", compute)
    limit = 1
    actual = elmo.encode(sentences, state=state, batch_size=5)
    # A size that did not fit is not tried again.
    assert sizes.count(5) == 1
    assert sizes.count(1) >= 5
    for vectors, reference in zip(actual, expected, strict=True):
        np.testing.assert_allclose(vectors, reference, rtol=0, atol=1e-6)
    limit = 0
    with pytest.raises(InputError, match="words does not fit into the memory of cpu"):
        elmo.encode(sentences, state=state, batch_size=5)


def test_batches_unpacked_in_threads_have_the_same_vectors(monkeypatch):
    """As on a GPU, several batches are queued for the threads that unpack them."""
    monkeypatch.setattr(encoding, "CHUNK_VALUES", 200)
    sentences = [[f"w{n}"] * (n % 7) for n in range(40)]
    expected = MODEL.encode(sentences, batch_size=3)
    run = MODEL.encoding_run(batch_size=3)
    run.unpacks_in_threads = True
    counts = []
    actual = run.encode(sentences, report=counts.append)
    assert sum(counts) == 40
    for vectors, reference in zip(actual, expected, strict=True):
        assert vectors.tobytes() == reference.tobytes()

    def fail(self, batch, rows):
        raise OSError("no more memory")

    monkeypatch.setattr(encoding.EncodingRun, "_unpack_rows", fail)
    with pytest.raises(OSError, match="no more memory"):
        run.encode(sentences)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_to_array_converts_half_precision_to_float32_exactly(dtype):
    """The input is a non-contiguous slice that includes special values."""
    special = torch.tensor([float("inf"), float("nan"), -0.0, 1e-40, 3e38, 2**-24, -1.5])
    values = torch.cat([torch.randn(3 * 5 * 4 * 8), special.repeat(24)[: 3 * 5 * 4]]).to(dtype)
    chunk = values.view(3, 5, 4, 9)[:, 1:4, 1:3].movedim(-3, 0)
    array = pending_batch.to_array(chunk, torch.float32)
    assert array.dtype == np.float32
    np.testing.assert_array_equal(array, chunk.float().numpy())


@pytest.mark.parametrize("layers", ["average", "all"])
@pytest.mark.parametrize("state", ["reset", "carry"])
def test_returned_vectors_do_not_keep_their_whole_batch_in_memory(monkeypatch, layers, state):
    """Arrays are copied in chunks of a few sentences; every tensor owns its memory."""
    sentences = [[f"w{n}"] * (n * 5 % 7) for n in range(40)]
    expected = MODEL.encode(sentences, layers=layers, state=state)
    row = 9 * MODEL.config.dim * (MODEL.config.n_layers if layers == "all" else 1)
    for chunk_values in (1, 3 * row):
        monkeypatch.setattr(encoding, "CHUNK_VALUES", chunk_values)
        actual = MODEL.encode(sentences, layers=layers, state=state)
        for vectors, reference in zip(actual, expected, strict=True):
            assert vectors.tobytes() == reference.tobytes()
            assert vectors.flags.c_contiguous
        tensors = MODEL.encode(sentences, layers=layers, state=state, convert_to_tensor=True)
        assert all(tensor.untyped_storage().nbytes() == 4 * tensor.numel() for tensor in tensors)
        run = MODEL.encoding_run(layers=layers)
        arrays = run.encode(sentences, state)
        bases = [array if array.base is None else array.base for array in arrays]
        assert max(base.nbytes for base in bases) <= 4 * max(row, chunk_values)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=20), st.integers(1, 5))
def test_similar_length_ranges_cover_all_rows_with_as_few_ranges_as_possible(lengths, max_rows):
    ranges = list(pending_batch.similar_length_ranges(lengths, max_rows))
    assert [row for rows in ranges for row in rows] == list(range(len(lengths)))
    for rows in ranges:
        inside = [lengths[row] for row in rows]
        assert len(inside) <= max_rows
        assert all(inside[0] <= 2 * length and length <= 2 * inside[0] for length in inside)
    # A range ends only at its maximum size or before a length that is too different.
    for rows, following in itertools.pairwise(ranges):
        first, after = lengths[rows.start], lengths[following.start]
        assert len(rows) == max_rows or not first <= 2 * after <= 4 * first
