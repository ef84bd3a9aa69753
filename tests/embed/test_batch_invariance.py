"""Same input, same vector: alone, in any batch, in any order, after anything."""

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
from elmo.embed.encoding import batches_by_length
from elmo.errors import InputError

WORDS = st.one_of(
    st.sampled_from(["the", "bank", ".", "<S>", "naïve", "안녕하세요", "x" * 40, ""]),
    st.text(max_size=6),
)
SENTENCE = st.lists(WORDS, max_size=9)
SENTENCES = st.lists(SENTENCE, min_size=1, max_size=7)
MODEL = ELMo(random_model(TINY, seed=3, scale=1.5))
PROPERTY = settings(max_examples=60, deadline=None, derandomize=True)


@PROPERTY
@given(
    SENTENCES, SENTENCES, st.integers(1, 9), st.integers(1, 9), st.randoms(use_true_random=False)
)
def test_neighbours_order_and_batch_size_do_not_matter(given_, others, size, other_size, random):
    alone = [MODEL.encode([sentence], layers="all")[0] for sentence in given_]
    mixed = [*given_, *others]
    random.shuffle(mixed)
    together = MODEL.encode(mixed, layers="all", batch_size=size)
    MODEL.encode(others, state="carry", batch_size=other_size)
    again = MODEL.encode(given_, layers="all", batch_size=other_size)
    for sentence, one, later in zip(given_, alone, again, strict=True):
        assert one.shape == (3, len(sentence), 16)
        np.testing.assert_allclose(together[mixed.index(sentence)], one, rtol=0, atol=1e-5)
        np.testing.assert_allclose(later, one, rtol=0, atol=1e-5)


@PROPERTY
@given(SENTENCES, SENTENCES, st.integers(1, 9), st.randoms(use_true_random=False))
def test_same_batch_same_bytes_in_any_order(given_, others, size, random):
    first = MODEL.encode(given_, layers="all", batch_size=size)
    MODEL.encode(others, batch_size=size)
    second = MODEL.encode(given_, layers="all", batch_size=size)
    order = list(range(len(given_)))
    random.shuffle(order)
    shuffled = MODEL.encode([given_[place] for place in order], layers="all", batch_size=size)
    for place, one in enumerate(first):
        assert one.tobytes() == second[place].tobytes()
        assert one.tobytes() == shuffled[order.index(place)].tobytes()


@PROPERTY
@given(SENTENCES)
def test_forward_equals_encode(given_):
    with torch.no_grad():
        output = MODEL(MODEL.character_ids(given_))
    for row, found in enumerate(MODEL.encode(given_, layers="all")):
        inside = output.layers[:, row, : len(given_[row])]
        np.testing.assert_allclose(inside.numpy(), found, rtol=0, atol=1e-5)
    assert output.mask.sum(1).tolist() == [len(sentence) for sentence in given_]


@pytest.mark.parametrize("layer_norm", ["none", "allennlp", "bilm-tf"])
def test_mix_does_not_depend_on_neighbours(tmp_path, layer_norm):
    MODEL.save_pretrained(tmp_path / "model")
    elmo = ELMo.from_pretrained(tmp_path / "model", do_layer_norm=layer_norm)
    elmo.network.mixes[0].weights.data = torch.tensor([0.1, 0.5, -0.3])
    sentences = [["a", "short", "one"], ["and", "a", "rather", "longer", "one", "."], []]
    alone = [elmo.encode([sentence], layers="mix")[0] for sentence in sentences]
    for one, other in zip(alone, elmo.encode(sentences, layers="mix"), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)
    with torch.no_grad():
        output = elmo(elmo.character_ids([sentences[1]]))
    np.testing.assert_allclose(alone[1], output.representations[0][0], rtol=0, atol=1e-5)


def test_reduced_precision_set_by_the_process_is_not_used(monkeypatch):
    """Switches for faster float32 products are off while encoding, and on again after it."""
    seen = []
    matmul = torch.backends.mkldnn.matmul
    before = matmul.fp32_precision
    run = MODEL.network.bilm.forward

    def spy(*inputs):
        seen.append((matmul.fp32_precision, torch.backends.cudnn.conv.fp32_precision))
        return run(*inputs)

    monkeypatch.setattr(MODEL.network.bilm, "forward", spy)
    try:
        matmul.fp32_precision = "bf16"
        MODEL.encode([["a"]])
        assert seen == [("ieee", "ieee")]
        assert matmul.fp32_precision == "bf16"
    finally:
        matmul.fp32_precision = before


def test_bfloat16_changes_nothing_of_what_comes_after():
    """PyTorch leaves oneDNN for good after a product it lacks, as on a CPU without bfloat16."""
    elmo = ELMo.from_pretrained("small-en")
    elmo.network.bilm.use_kernel("reference")
    sentences = [["a", "few", "words"], ["and", "some", "more", "of", "them"]]
    before = elmo.encode(sentences, pooling="mean")
    elmo.encode(sentences, precision="bfloat16")
    np.testing.assert_array_equal(elmo.encode(sentences, pooling="mean"), before)


@pytest.mark.parametrize("name", ["allennlp/elmo", "bilm-tf/model"])
def test_trained_models(golden_path, name):
    elmo = ELMo.from_pretrained(golden_path(name))
    path = golden_path("allennlp/elmo/sentences.json")
    sentences = [line.split() for lines in json.loads(path.read_text()) for line in lines]
    together = elmo.encode(sentences, layers="all", batch_size=30)
    for sentence, found in zip(sentences, together, strict=True):
        alone = elmo.encode([sentence], layers="all")[0]
        np.testing.assert_allclose(found, alone, rtol=0, atol=1e-5)
    for one, other in zip(
        together, elmo.encode(sentences[::-1], layers="all", batch_size=30)[::-1], strict=True
    ):
        assert one.tobytes() == other.tobytes()


def test_batches_do_not_depend_on_the_order_given():
    """Ties of length are broken by the words, so that equal sets make equal batches."""
    sentences = [(word, str(number % 3)) for number, word in enumerate("zyxwvutsrqponm")]
    expected = list(batches_by_length(sentences, 4, 100))
    assert list(batches_by_length(sentences[::-1], 4, 100)) == expected
    assert list(batches_by_length(sentences[5:] + sentences[:5], 4, 100)) == expected
    assert [len(batch) for batch in expected] == [4, 4, 4, 2]


def test_long_sentences_go_in_small_batches():
    sentences = [("a",) * 98, ("b",) * 60, ("c",) * 31, ("d",) * 30, ("e",) * 30, ("f",)]
    sizes = [len(batch) for batch in batches_by_length(sentences, 32, 100)]
    assert sizes == [1, 1, 3, 1]


def test_inside_autocast_the_arithmetic_stays():
    sentences = [["a", "b", "c"], ["d"]]
    expected = MODEL.encode(sentences, layers="all")
    with torch.autocast("cpu", torch.bfloat16):
        found = MODEL.encode(sentences, layers="all")
    for one, other in zip(found, expected, strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("state", ["reset", "carry"])
def test_what_does_not_fit_is_computed_in_parts(monkeypatch, state):
    """Rows are halved until they fit; a single sentence that does not is one clear error."""
    elmo = MODEL
    sentences = [["a", "b"], ["c", "d", "e"], ["f"], ["g", "h"], ["i"]] * 2
    expected = elmo.encode(sentences, state=state, batch_size=5)
    inner, sizes = encoding.EncodingRun._compute, []

    def compute(self, batch, rows, is_carried):
        sizes.append(len(batch))
        if len(batch) > limit:
            raise torch.OutOfMemoryError("too much")
        return inner(self, batch, rows, is_carried)

    monkeypatch.setattr(encoding.EncodingRun, "_compute", compute)
    limit = 1
    found = elmo.encode(sentences, state=state, batch_size=5)
    # What did not fit is not tried again.
    assert sizes.count(5) == 1
    assert sizes.count(1) >= 5
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)
    limit = 0
    with pytest.raises(InputError, match="words does not fit the memory of cpu"):
        elmo.encode(sentences, state=state, batch_size=5)


def test_threads_take_batches_apart(monkeypatch):
    """As where a GPU computes: several batches wait for the threads that cut them."""
    monkeypatch.setattr(encoding, "PIECE", 200)
    sentences = [[f"w{n}"] * (n % 7) for n in range(40)]
    expected = MODEL.encode(sentences, batch_size=3)
    run = MODEL.encoding_run(batch_size=3)
    run.is_cut_aside = True
    counts = []
    found = run.encode(sentences, report=counts.append)
    assert sum(counts) == 40
    for one, other in zip(found, expected, strict=True):
        assert one.tobytes() == other.tobytes()

    def fail(self, pending_batch, rows):
        raise OSError("no more memory")

    monkeypatch.setattr(encoding.EncodingRun, "_cut", fail)
    with pytest.raises(OSError, match="no more memory"):
        run.encode(sentences)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_halves_become_whole(dtype):
    """What a GPU computed in half precision, rows and positions cut out of it."""
    special = torch.tensor([float("inf"), float("nan"), -0.0, 1e-40, 3e38, 2**-24, -1.5])
    values = torch.cat([torch.randn(3 * 5 * 4 * 8), special.repeat(24)[: 3 * 5 * 4]]).to(dtype)
    piece = values.view(3, 5, 4, 9)[:, 1:4, 1:3].movedim(-3, 0)
    found = pending_batch.as_array(piece, torch.float32)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, piece.float().numpy())


@pytest.mark.parametrize("layers", ["average", "all"])
@pytest.mark.parametrize("state", ["reset", "carry"])
def test_what_is_kept_of_a_batch(monkeypatch, layers, state):
    """A batch is copied in pieces of a few sentences; a tensor that is given is its own."""
    sentences = [[f"w{n}"] * (n * 5 % 7) for n in range(40)]
    expected = MODEL.encode(sentences, layers=layers, state=state)
    row = 9 * MODEL.config.dim * (MODEL.config.n_layers if layers == "all" else 1)
    for piece in (1, 3 * row):
        monkeypatch.setattr(encoding, "PIECE", piece)
        found = MODEL.encode(sentences, layers=layers, state=state)
        for one, other in zip(found, expected, strict=True):
            assert one.tobytes() == other.tobytes()
            assert one.flags.c_contiguous
        tensors = MODEL.encode(sentences, layers=layers, state=state, convert_to_tensor=True)
        assert all(one.untyped_storage().nbytes() == 4 * one.numel() for one in tensors)
        run = MODEL.encoding_run(layers=layers)
        kept = run.encode(sentences, state)
        assert max((one if one.base is None else one.base).nbytes for one in kept) <= 4 * max(
            row, piece
        )


@given(st.lists(st.integers(0, 9), min_size=1, max_size=20), st.integers(1, 5))
def test_pieces_are_of_similar_lengths(counts, together):
    pieces = list(pending_batch.alike(counts, together))
    assert [place for piece in pieces for place in piece] == list(range(len(counts)))
    for piece in pieces:
        own = [counts[place] for place in piece]
        assert len(own) <= together
        assert all(own[0] <= 2 * count and count <= 2 * own[0] for count in own)
    # As few as can be, going from the first on.
    for one, other in itertools.pairwise(pieces):
        first, after = counts[one.start], counts[other.start]
        assert len(one) == together or not first <= 2 * after <= 4 * first
