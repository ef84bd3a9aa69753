"""Tests of the ELMo network: mixes, dropout, gradients, precision and compilation."""

import dataclasses

import pytest
import torch
from conftest import TINY, random_model
from torch.func import functional_call
from torch.nn.functional import cosine_similarity

from elmo.config import EncoderConfig, LSTMConfig, MixConfig, ModelConfig, TextConfig
from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError, FormatError
from elmo.formats import model_folder
from elmo.formats.load import read
from elmo.model.bilm import distinct_rows
from elmo.model.losses import exact_losses
from elmo.model.network import ELMoNetwork
from elmo.text.vocabulary import Vocabulary

SENTENCES = [["the", "cat", "sat", "down"], ["a", "naïve", "word"], [], ["x"]]

# On CPUs without bfloat16 instructions PyTorch falls back with a warning; the result is correct.
no_mkldnn_warning = pytest.mark.filterwarnings(
    "ignore:mkldnn_matmul failed, switching to BLAS gemm:UserWarning"
)


def with_mix(**options):
    return dataclasses.replace(TINY, mix=MixConfig(**options))


def inputs(model, sentences=SENTENCES):
    """Return the network arguments: rows, index and mask."""
    ids = model.character_ids(sentences)
    return *distinct_rows(ids), (ids != 0).any(dim=2)


# ------------------------------------------------------------------------------------ mixes


def test_each_representation_has_its_own_layer_mix():
    model = ELMo(random_model(with_mix(n_mixes=3)))
    mixes = model.network.mixes
    mixes[1].weights.data = torch.tensor([-9e10, 1.0, -9e10])
    mixes[2].gamma.data.fill_(2.0)
    output = model(model.character_ids(SENTENCES))
    assert len(output.representations) == 3
    torch.testing.assert_close(output.representations[0], output.layers.mean(dim=0))
    torch.testing.assert_close(output.representations[1], output.layers[1])
    torch.testing.assert_close(output.representations[2], 2 * output.layers.mean(dim=0))


def test_network_without_mixes_returns_only_layers():
    model = ELMo(random_model(with_mix(n_mixes=0)))
    output = model(model.character_ids(SENTENCES))
    assert output.representations == []
    assert output.layers.any()
    assert model.mix_penalty().item() == 0


def test_mix_penalty_is_summed_over_all_mixes():
    network = ELMoNetwork(config=with_mix(n_mixes=2))
    network.mixes[0].weights.data = torch.tensor([1.0, 2.0, 3.0])
    network.mixes[1].weights.data = torch.tensor([0.5, 0.0, 0.0])
    assert network.mix_penalty().item() == pytest.approx(14.25)


def test_mix_penalty_is_zero_for_top_only_mixes():
    network = ELMoNetwork(config=with_mix(n_mixes=2, top_only=True))
    network.mixes[0].weights.data.fill_(3.0)
    assert network.mix_penalty().item() == 0


@pytest.mark.parametrize("layer_norm", ["none", "allennlp", "bilm-tf"])
def test_keeping_boundaries_does_not_change_word_vectors(layer_norm):
    pretrained = random_model(with_mix(layer_norm=layer_norm))
    plain, kept = ELMo(pretrained), ELMo(pretrained, keep_sentence_boundaries=True)
    ids = plain.character_ids(SENTENCES)
    without, with_boundaries = plain(ids), kept(ids)
    assert with_boundaries.layers.shape[2] == without.layers.shape[2] + 2
    assert with_boundaries.mask.sum(dim=1).tolist() == [6, 5, 2, 3]
    assert without.mask.sum(dim=1).tolist() == [4, 3, 0, 1]
    for row, sentence in enumerate(SENTENCES):
        n = len(sentence)
        for short, long in (
            (without.layers, with_boundaries.layers),
            (without.representations[0][None], with_boundaries.representations[0][None]),
        ):
            assert torch.equal(short[:, row, :n], long[:, row, 1 : n + 1])
            assert not short[:, row, n:].any()
            assert not long[:, row, n + 2 :].any()
            assert long[:, row, : n + 2].any(dim=2).all()


@pytest.mark.parametrize("layer_norm", ["allennlp", "bilm-tf"])
@pytest.mark.parametrize("keep", [False, True])
def test_layer_norm_of_empty_sentences_is_finite(layer_norm, keep):
    model = ELMo(
        random_model(with_mix(layer_norm=layer_norm)),
        requires_grad=True,
        keep_sentence_boundaries=keep,
    )
    output = model(model.character_ids([[], []]))
    assert output.representations[0].isfinite().all()
    output.representations[0].sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


# ------------------------------------------------------------------------------------ dropout


def test_dropout_applies_to_representations_in_training():
    model = ELMo(random_model(with_mix(n_mixes=2)), dropout=0.5)
    ids = model.character_ids(SENTENCES)
    torch.manual_seed(0)
    trained = model.train()(ids)
    evaluated = model.eval()(ids)
    clean = ELMo(random_model(with_mix(n_mixes=2))).train()(ids)
    for representation, expected in zip(
        evaluated.representations, clean.representations, strict=True
    ):
        assert torch.equal(representation, expected)
    # Dropout does not change the layers or the state.
    assert torch.equal(trained.layers, clean.layers)
    assert torch.equal(trained.state.h, clean.state.h)
    dropped = [item == 0 for item in trained.representations]
    for item, gone, whole in zip(
        trained.representations, dropped, clean.representations, strict=True
    ):
        assert 0.3 < gone[clean.mask].float().mean() < 0.7
        torch.testing.assert_close(item[~gone], 2 * whole[~gone])
    # Each representation has its own dropout mask.
    assert not torch.equal(*dropped)


# ------------------------------------------------------------------------------------ gradients


def test_all_weights_get_gradients_with_requires_grad():
    model = ELMo(random_model(), requires_grad=True)
    model(model.character_ids(SENTENCES)).representations[0].square().sum().backward()
    names = dict(model.network.named_parameters())
    assert sum(name.startswith("bilm.") for name in names) == 27
    for name, parameter in names.items():
        assert parameter.grad is not None, name
        assert parameter.grad.any(), name
    table = names["bilm.encoder.characters.embedding.weight"]
    assert not table.grad[0].any()


def test_only_mixes_get_gradients_without_requires_grad():
    model = ELMo(random_model(with_mix(n_mixes=2)))
    output = model(model.character_ids(SENTENCES))
    sum(item.square().sum() for item in output.representations).backward()
    with_gradient = {name for name, value in model.named_parameters() if value.grad is not None}
    assert with_gradient == {
        f"network.mixes.{k}.{part}" for k in (0, 1) for part in ("weights", "gamma")
    }
    assert not output.layers.requires_grad


def test_model_with_fixed_mix_has_no_trainable_parameters():
    model = ELMo(random_model(), scalar_mix_parameters=[0.0, 1.0, 2.0])
    assert not any(parameter.requires_grad for parameter in model.parameters())


def test_gradients_with_mask_and_with_lengths_agree():
    model = ELMo(random_model(), requires_grad=True).double()
    rows, index, mask = inputs(model)
    gradients = []
    for lengths in (None, mask.sum(dim=1).tolist()):
        output = model.network(rows, index, mask, lengths=lengths)
        loss = output.representations[0].square().sum() + output.state.c.sum()
        gradients.append(torch.autograd.grad(loss, list(model.network.parameters())))
    for by_mask, by_lengths in zip(*gradients, strict=True):
        torch.testing.assert_close(by_mask, by_lengths, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("layer_norm", ["none", "allennlp", "bilm-tf"])
def test_network_passes_gradcheck(layer_norm):
    config = ModelConfig(
        TextConfig(max_characters=5),
        EncoderConfig(n_characters=9, character_dim=2, filters=((1, 2), (2, 2)), activation="tanh"),
        LSTMConfig(cell_dim=3, projection_dim=2, cell_clip=0.3, projection_clip=0.1),
        MixConfig(layer_norm=layer_norm),
    )
    network = ELMoNetwork(config=config).double()
    generator = torch.Generator().manual_seed(1)
    for parameter in network.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator).double()
    rows = torch.randint(1, 9, (4, 5), generator=generator)
    index = torch.tensor([[0, 1, 2, 3], [0, 2, 3, 0]])
    mask = torch.tensor([[True] * 4, [True] * 3 + [False]])
    names = [name for name, _ in network.named_parameters()]

    def call(*values):
        output = functional_call(
            network, dict(zip(names, values, strict=True)), (rows, index, mask)
        )
        return output.representations[0], output.state.h, output.state.c

    state = network(rows, index, mask).state
    assert (state.c.abs() == 0.3).any()
    assert (state.h.abs() == 0.1).any()
    values = [parameter.detach().requires_grad_() for parameter in network.parameters()]
    assert torch.autograd.gradcheck(call, values, fast_mode=True)


def test_training_steps_reduce_the_loss():
    model = ELMo(random_model(), requires_grad=True)
    ids = model.character_ids(SENTENCES)
    target = torch.randn(4, 4, 16, generator=torch.Generator().manual_seed(0))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for _ in range(5):
        loss = (model(ids).representations[0] - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0]
    assert not model.network.bilm.encoder.characters.embedding.weight[0].any()


# ------------------------------------------------------------------------------------ saving


def test_network_state_dict_round_trip(tmp_path):
    pretrained = random_model(dataclasses.replace(with_mix(n_mixes=2), n_softmax_words=6))
    network = ELMo(pretrained, include_softmax=True).network
    network.mixes[1].weights.data = torch.tensor([1.0, 2.0, 3.0])
    torch.save(network.state_dict(), tmp_path / "weights.pt")
    other = ELMoNetwork(config=network.config)
    other.load_state_dict(torch.load(tmp_path / "weights.pt", weights_only=True))
    assert other.softmax.weight.shape == (6, 8)
    for name, value in network.state_dict().items():
        assert torch.equal(other.state_dict()[name], value), name
    arguments = inputs(ELMo(pretrained))
    with torch.no_grad():
        expected = network(*arguments)
        output = other(*arguments)
    assert torch.equal(output.layers, expected.layers)
    assert torch.equal(output.representations[1], expected.representations[1])


# ------------------------------------------------------------------------------------ softmax


def with_softmax(n_words=12, cutoffs=(), projection_dim=16):
    lstm = dataclasses.replace(TINY.lstm, projection_dim=projection_dim)
    return dataclasses.replace(
        TINY, lstm=lstm, n_softmax_words=n_words, softmax_cutoffs=tuple(cutoffs)
    )


def test_config_selects_type_of_softmax():
    assert ELMoNetwork(config=with_softmax(0)).softmax is None
    assert isinstance(ELMoNetwork(config=with_softmax()).softmax, torch.nn.Linear)
    adaptive = ELMoNetwork(config=with_softmax(cutoffs=(3, 7))).softmax
    assert isinstance(adaptive, torch.nn.AdaptiveLogSoftmaxWithLoss)
    assert (adaptive.in_features, adaptive.n_classes) == (16, 12)
    assert adaptive.cutoffs == [3, 7, 12]


def test_adaptive_softmax_round_trip_through_model_folder(tmp_path):
    config = with_softmax(cutoffs=(3, 7))
    words = ["<S>", "</S>", "<UNK>", *"abcdefghi"]
    pretrained = random_model(config, vocabulary=Vocabulary(words))
    model_folder.write(pretrained, tmp_path / "model")
    output = read(tmp_path / "model")
    assert output.config == config
    first, second = (ELMoNetwork(config=config) for _ in range(2))
    first.load_state_dict(dict(pretrained.weights))
    second.load_state_dict(dict(output.weights))
    hidden = torch.randn(30, 16, generator=torch.Generator().manual_seed(0))
    targets = torch.arange(30) % 12
    losses = [exact_losses(network.softmax, hidden, targets) for network in (first, second)]
    assert torch.equal(*losses)
    assert losses[0].unique().numel() == 30


def test_softmax_weights_of_another_softmax_type_are_rejected():
    plain = random_model(with_softmax())
    with pytest.raises(FormatError, match=r"Missing: softmax\.head"):
        dataclasses.replace(plain, config=with_softmax(cutoffs=(3,)))


@pytest.mark.parametrize("cutoffs", [(0, 3), (-1,), (3, 3), (7, 3), (12,), (3, 13)])
def test_invalid_softmax_cutoffs_are_rejected(cutoffs):
    with pytest.raises(ConfigError, match="must be increasing and below its vocabulary size of 12"):
        with_softmax(cutoffs=cutoffs)


def test_softmax_clusters_need_minimum_projection_dim():
    with pytest.raises(ConfigError, match=r"projection_dim of at least 16 \(got 15\)"):
        with_softmax(cutoffs=(3, 7), projection_dim=15)
    assert with_softmax(cutoffs=(3, 7), projection_dim=16).softmax_cutoffs == (3, 7)
    assert with_softmax(projection_dim=1).n_softmax_words == 12


# ------------------------------------------------------------------------------------ precision


def assert_similar(vectors, expected, mask):
    """Check that the cosine similarity of all real vectors is above 0.99 and padding is zero."""
    vectors = vectors.float()
    assert vectors.isfinite().all()
    assert cosine_similarity(vectors[:, mask], expected[:, mask], dim=2).min() > 0.99
    assert not vectors[:, ~mask].any()


@no_mkldnn_warning
@pytest.mark.parametrize("layer_norm", ["none", "allennlp", "bilm-tf"])
@pytest.mark.parametrize("padding", ["mask", "lengths"])
def test_bfloat16_weights_are_close_to_float32(layer_norm, padding):
    pretrained = random_model(with_mix(layer_norm=layer_norm))
    model = ELMo(pretrained)
    rows, index, mask = inputs(model)
    lengths = mask.sum(dim=1).tolist() if padding == "lengths" else None
    expected = model.network(rows, index, mask, lengths=lengths)
    output = ELMo(pretrained).to(torch.bfloat16).network(rows, index, mask, lengths=lengths)
    assert output.layers.dtype == torch.bfloat16
    assert output.representations[0].dtype == torch.bfloat16
    assert output.state.c.dtype == torch.float32
    assert_similar(output.layers, expected.layers, expected.mask)
    assert_similar(
        output.representations[0][None], expected.representations[0][None], expected.mask
    )


@no_mkldnn_warning
@pytest.mark.parametrize("padding", ["mask", "lengths"])
def test_bfloat16_autocast_is_close_to_float32(padding):
    model = ELMo(random_model(), requires_grad=True)
    rows, index, mask = inputs(model)
    lengths = mask.sum(dim=1).tolist() if padding == "lengths" else None
    expected = model.network(rows, index, mask, lengths=lengths)
    expected.representations[0].square().sum().backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        output = model.network(rows, index, mask, lengths=lengths)
        assert not torch.equal(output.layers.float(), expected.layers)
        # The state can be passed to the next call.
        again = model.network(rows, index, mask, output.state, lengths)
    assert again.layers.isfinite().all()
    assert_similar(output.layers, expected.layers, expected.mask)
    output.representations[0].float().square().sum().backward()
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        assert parameter.grad.dtype == torch.float32
        cosine = cosine_similarity(parameter.grad.flatten(), gradient.flatten(), dim=0)
        assert cosine > 0.98


@no_mkldnn_warning
@pytest.mark.parametrize("role", ["join", "cache"])
def test_bfloat16_with_word_table_is_close_to_float32(role):
    encoder = dataclasses.replace(TINY.encoder, n_words=5, word_dim=8, word_role=role)
    words = {"<S>": 0, "</S>": 1, "<UNK>": 2, "cat": 3}
    pretrained = random_model(dataclasses.replace(TINY, encoder=encoder), words=words)
    ids = ELMo(pretrained).character_ids(SENTENCES)
    expected = ELMo(pretrained)(ids)
    assert_similar(ELMo(pretrained).bfloat16()(ids).layers, expected.layers, expected.mask)
    with torch.autocast("cpu", torch.bfloat16):
        output = ELMo(pretrained)(ids)
    assert_similar(output.layers, expected.layers, expected.mask)


# ------------------------------------------------------------------------------------ compilation


def test_network_compiles_to_one_graph():
    # The graph grows with layers and length, so both are small.
    lstm = dataclasses.replace(TINY.lstm, n_layers=1)
    model = ELMo(random_model(dataclasses.replace(with_mix(layer_norm="bilm-tf"), lstm=lstm)))
    model.requires_grad_(False)
    torch._dynamo.reset()
    try:
        compiled = torch.compile(model.network, backend="aot_eager", fullgraph=True)
        state = None
        for sentences in ([["cat"], ["sat"]], [["a", "b"], [], ["e"]]):
            arguments = (*inputs(model, sentences), state)
            expected, output = model.network(*arguments), compiled(*arguments)
            torch.testing.assert_close(output.layers, expected.layers, rtol=0, atol=1e-5)
            torch.testing.assert_close(output.state.c, expected.state.c, rtol=0, atol=1e-5)
            torch.testing.assert_close(
                output.representations[0], expected.representations[0], rtol=0, atol=1e-5
            )
            state = expected.state.rows(3)
    finally:
        torch._dynamo.reset()
