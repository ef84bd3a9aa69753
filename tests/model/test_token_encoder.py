"""Tests of the token encoder: CNN, highway layers, chunks, and word roles "join" and "cache"."""

import numpy as np
import pytest
import torch

from elmo.config import EncoderConfig
from elmo.kernels.torch_kernels import AUTO_KERNELS
from elmo.model import token_encoder
from elmo.model.token_encoder import CharacterCNN, Highway, TokenEncoder

CHARACTERS = {
    "n_characters": 20,
    "character_dim": 3,
    "filters": ((1, 2), (2, 3)),
    "n_highway": 1,
}


def filled(module, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator)
    return module


def draw_rows(count, columns=6, top=20, seed=1):
    return torch.randint(1, top, (count, columns), generator=torch.Generator().manual_seed(seed))


def encoder_of(output_dim=4, **options):
    return filled(TokenEncoder(config=EncoderConfig(**options), output_dim=output_dim))


# ------------------------------------------------------------------------------------ parts


def test_highway_gate_scales_transform():
    highway = Highway(dim=2)
    highway.linear.weight.data.zero_()
    highway.linear.bias.data = torch.tensor([3.0, -3.0, 0.0, 0.0])
    x = torch.tensor([[1.0, 5.0]])
    # A gate of 0.5 gives the mean of the transform relu(3), relu(-3) and the input.
    assert highway(x).tolist() == [[2.0, 2.5]]
    highway.linear.bias.data[2:] = -100.0
    assert highway(x).tolist() == [[1.0, 5.0]]
    highway.linear.bias.data[2:] = 100.0
    assert highway(x).tolist() == [[3.0, 0.0]]


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_convolutions_equal_manually_computed_values(activation):
    cnn = CharacterCNN(
        n_characters=4, character_dim=1, filters=((2, 1),), activation=activation, n_highway=0
    )
    cnn.embedding.weight.data = torch.tensor([[0.0], [1.0], [2.0], [-4.0]])
    cnn.convolutions[0].weight.data = torch.tensor([[[0.25, -0.5]]])
    cnn.convolutions[0].bias.data = torch.tensor([0.125])
    # Before the bias, 1 2 3 gives -0.75 and 2.5, and 3 1 1 gives -1.5 and -0.25.
    highest = np.array([[2.625], [-0.125]])
    expected = np.maximum(highest, 0) if activation == "relu" else np.tanh(highest)
    vectors = cnn(torch.tensor([[1, 2, 3], [3, 1, 1]])).detach().numpy()
    np.testing.assert_allclose(vectors, expected, rtol=0, atol=1e-7)


def test_character_vector_follows_order_of_filters():
    options = {"n_characters": 20, "character_dim": 3, "activation": "relu", "n_highway": 0}
    both = filled(CharacterCNN(filters=((1, 2), (3, 4)), **options))
    rows = draw_rows(5)
    for number, (start, stop, filters) in enumerate([(0, 2, ((1, 2),)), (2, 6, ((3, 4),))]):
        single = CharacterCNN(filters=filters, **options)
        single.embedding.load_state_dict(both.embedding.state_dict())
        single.convolutions[0].load_state_dict(both.convolutions[number].state_dict())
        torch.testing.assert_close(single(rows), both(rows)[:, start:stop])


# ------------------------------------------------------------------------------------ word roles


def test_encoder_with_word_table_and_no_projection_returns_table_rows():
    encoder = encoder_of(n_characters=0, n_words=9, word_dim=4, project=False)
    rows = draw_rows(7, columns=1, top=9)
    assert torch.equal(encoder(rows), encoder.words.weight[rows[:, 0]])


def test_encoder_with_word_table_and_projection_projects_table_rows():
    encoder = encoder_of(n_characters=0, n_words=9, word_dim=3)
    rows = draw_rows(7, columns=1, top=9)
    expected = encoder.words.weight[rows[:, 0]] @ encoder.projection.weight.t()
    torch.testing.assert_close(encoder(rows), expected + encoder.projection.bias)


def test_join_role_concatenates_word_vector_before_character_vector():
    encoder = encoder_of(**CHARACTERS, n_words=9, word_dim=2)
    rows = torch.cat([draw_rows(7), draw_rows(7, columns=1, top=9)], dim=1)
    word = encoder.words.weight[rows[:, -1]]
    joined = torch.cat([word, encoder.characters(rows[:, :-1])], dim=1)
    assert joined.shape == (7, 7)
    expected = joined @ encoder.projection.weight.t() + encoder.projection.bias
    torch.testing.assert_close(encoder(rows), expected)


def cached_encoder():
    return encoder_of(**CHARACTERS, n_words=9, word_dim=4, word_role="cache")


def test_cache_role_encodes_only_unknown_words_from_characters():
    encoder = cached_encoder()
    plain = TokenEncoder(config=EncoderConfig(**CHARACTERS), output_dim=4)
    plain.load_state_dict({n: v for n, v in encoder.state_dict().items() if "words" not in n})
    characters = draw_rows(6)
    words = torch.tensor([3, 0, 8, 0, 0, 1])
    vectors = encoder(torch.cat([characters, words[:, None]], dim=1))
    computed = plain(characters)
    for row, word in enumerate(words.tolist()):
        expected = encoder.words.weight[word] if word else computed[row]
        torch.testing.assert_close(vectors[row], expected)


@pytest.mark.parametrize("words", [[1, 2, 3], [0, 0, 0]])
def test_cache_role_handles_batches_with_all_or_no_words_known(words):
    encoder = cached_encoder()
    characters = draw_rows(3)
    rows = torch.cat([characters, torch.tensor(words)[:, None]], dim=1)
    expected = encoder.words.weight[words] if any(words) else encoder._compute(rows, AUTO_KERNELS)
    torch.testing.assert_close(encoder(rows), expected)


def test_character_encoder_is_not_run_for_cached_words(monkeypatch):
    encoder = cached_encoder()
    sizes = []
    inner = encoder._compute
    monkeypatch.setattr(
        encoder, "_compute", lambda rows, kernels: sizes.append(len(rows)) or inner(rows, kernels)
    )
    characters = draw_rows(5)
    encoder(torch.cat([characters, torch.tensor([[1], [0], [2], [0], [3]])], dim=1))
    encoder(torch.cat([characters, torch.ones(5, 1, dtype=torch.long)], dim=1))
    assert sizes == [2]


def test_cache_role_gradients_reach_word_table_or_character_encoder():
    encoder = cached_encoder()
    rows = torch.cat([draw_rows(2), torch.tensor([[5], [0]])], dim=1)
    encoder(rows)[0].sum().backward()
    assert encoder.words.weight.grad[5].tolist() == [1.0] * 4
    assert encoder.words.weight.grad.count_nonzero() == 4
    projection = encoder.projection.weight.grad
    assert projection is None or not projection.any()
    encoder.zero_grad()
    encoder(rows)[1].sum().backward()
    assert encoder.projection.weight.grad.any()
    assert not encoder.words.weight.grad.any()


# ------------------------------------------------------------------------------------ chunks


@pytest.mark.parametrize("role", ["none", "join", "cache"])
@pytest.mark.parametrize("limit", [1, 3, 7, 8])
def test_chunk_size_does_not_change_token_vectors(monkeypatch, role, limit):
    words = {} if role == "none" else {"n_words": 9, "word_dim": 4, "word_role": role}
    encoder = encoder_of(**CHARACTERS, **words).double()
    rows = draw_rows(7)
    if words:
        rows = torch.cat([rows, torch.tensor([0, 1, 0, 0, 0, 2, 0])[:, None]], dim=1)
    whole = encoder(rows)
    sizes = []
    encoder.characters.register_forward_hook(lambda _, inputs, __: sizes.append(len(inputs[0])))
    monkeypatch.setitem(token_encoder.CHUNK_ROWS, "cpu", limit)
    torch.testing.assert_close(encoder(rows), whole, rtol=0, atol=1e-12)
    assert max(sizes) <= limit
    assert sum(sizes) == (5 if role == "cache" else 7)


def test_padding_rows_of_embedding_tables_get_no_gradient():
    encoder = encoder_of(**CHARACTERS, n_words=9, word_dim=2)
    encoder(torch.zeros(2, 7, dtype=torch.long)).sum().backward()
    assert not encoder.characters.embedding.weight.grad.any()
    assert not encoder.words.weight.grad.any()
    assert encoder.projection.weight.grad.any()


def test_encoder_accepts_an_empty_batch():
    assert encoder_of(**CHARACTERS)(torch.zeros(0, 6, dtype=torch.long)).shape == (0, 4)
