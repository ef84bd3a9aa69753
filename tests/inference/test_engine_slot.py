"""Tests that every change of a weight reaches the next vectors."""

import copy
import itertools
import logging
import os
import pickle
import random
import threading
import time
import weakref

import numpy as np
import pytest
import torch
from conftest import TINY, random_model
from torch import nn

from elmo.compat.allennlp import ElmoEmbedder
from elmo.config import EncoderConfig, LSTMConfig, ModelConfig, TextConfig
from elmo.embed.embedder import ELMo
from elmo.formats import bilm_hdf5
from elmo.inference.engine import Engine, compile_kernels
from elmo.inference.engine_slot import CHECKSUM_POSITIONS, EngineSlot
from elmo.inference.word_cache import WordCache
from elmo.kernels.native_ffi import can_compute
from elmo.kernels.native_kernels import NativeKernels
from elmo.kernels.torch_kernels import AUTO_KERNELS
from elmo.kernels.weight_snapshot import WeightSnapshot
from elmo.model.bilm import distinct_rows

# Widths that the native kernels support.
CONFIG = ModelConfig(
    TextConfig(max_characters=50),
    EncoderConfig(character_dim=16, filters=((1, 64), (2, 64)), n_highway=1),
    LSTMConfig(cell_dim=128, projection_dim=64),
)
SHORT = [["He", "sat", "on", "the", "river", "bank", "."], ["A", "bank", "."]]
LONG = [[f"w{row}", *"He sat on the river bank .".split()] for row in range(270)]


@pytest.fixture(autouse=True)
def needs_native_kernels():
    if not can_compute("float32"):
        pytest.skip("needs the native kernels")


def make_elmo(config=CONFIG, **arguments):
    return ELMo(random_model(config, scale=1.5), **arguments)


def fresh_vectors(elmo, sentences, **arguments):
    """Return the vectors of a new model with the same weights."""
    return ELMo(elmo.to_pretrained()).encode(sentences, layers="all", **arguments)


def assert_current(elmo, sentences=SHORT, **arguments):
    """Assert that `encode` and `forward` compute with the current weights."""
    actual = elmo.encode(sentences, layers="all", **arguments)
    expected = fresh_vectors(elmo, sentences, **arguments)
    for ours, true in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(ours, true)


def packed_weights(elmo):
    """Return the names of the weights of which the native kernels read copies."""
    names = [name for name, value in elmo.network.bilm.named_parameters() if value.dim() > 1]
    return [name for name in names if "embedding" not in name and "words" not in name]


def by_optimizer(make):
    def change(elmo, weight, position, value):
        weight.requires_grad_(True)
        weight.grad = torch.zeros_like(weight)
        weight.grad.view(-1)[position] = -value
        make([weight]).step()
        weight.grad = None
        weight.requires_grad_(False)

    return change


def in_place(elmo, weight, position, value):
    with torch.no_grad():
        weight.view(-1)[position] += value


def by_copy(elmo, weight, position, value):
    changed = weight.detach().clone()
    changed.view(-1)[position] += value
    with torch.no_grad():
        weight.copy_(changed)


def through_detached_alias(elmo, weight, position, value):
    weight.detach().view(-1)[position] += value


def in_inference_mode(elmo, weight, position, value):
    with torch.inference_mode():
        weight.view(-1)[position] += value


def by_data_assignment(elmo, weight, position, value):
    changed = weight.detach().clone()
    changed.view(-1)[position] += value
    weight.data = changed


def owner(elmo, weight):
    """Return the module and the attribute of a weight."""
    for module in elmo.network.bilm.modules():
        for name, value in module._parameters.items():
            if value is weight:
                return module, name
    raise AssertionError


def by_assignment(elmo, weight, position, value):
    changed = weight.detach().clone()
    changed.view(-1)[position] += value
    setattr(*owner(elmo, weight), nn.Parameter(changed, requires_grad=False))


def by_swapped_submodule(elmo, weight, position, value):
    module, name = owner(elmo, weight)
    other = copy.deepcopy(module)
    with torch.no_grad():
        getattr(other, name).view(-1)[position] += value
    for parent in elmo.network.bilm.modules():
        for child_name, child in parent._modules.items():
            if child is module:
                setattr(parent, child_name, other)
                return
    raise AssertionError


def by_state_dict(assign):
    def change(elmo, weight, position, value):
        state = {name: tensor.clone() for name, tensor in elmo.state_dict().items()}
        name = next(key for key, item in elmo.named_parameters() if item is weight)
        state[name].view(-1)[position] += value
        elmo.load_state_dict(state, assign=assign)

    return change


def by_vector(elmo, weight, position, value):
    changed = nn.utils.parameters_to_vector([weight]).detach().clone()
    changed[position] += value
    nn.utils.vector_to_parameters(changed, [weight])


COUNTED = {
    "in place": in_place,
    "copy_": by_copy,
    "detached alias": through_detached_alias,
    "inference mode": in_inference_mode,
    "data assignment": by_data_assignment,
    "assignment": by_assignment,
    "swapped submodule": by_swapped_submodule,
    "load_state_dict": by_state_dict(assign=False),
    "load_state_dict with assign": by_state_dict(assign=True),
    "vector_to_parameters": by_vector,
    "SGD": by_optimizer(lambda weights: torch.optim.SGD(weights, lr=1.0)),
    "fused SGD": by_optimizer(lambda weights: torch.optim.SGD(weights, lr=1.0, fused=True)),
    "fused AdamW": by_optimizer(lambda weights: torch.optim.AdamW(weights, lr=0.5, fused=True)),
    "fused Adagrad": by_optimizer(lambda weights: torch.optim.Adagrad(weights, lr=0.5, fused=True)),
}


def through_data(elmo, weight, position, value):
    weight.data.view(-1)[position] += value


def through_numpy(elmo, weight, position, value):
    weight.detach().numpy().reshape(-1)[position] += value


UNCOUNTED = {"data": through_data, "NumPy": through_numpy}


@pytest.mark.parametrize("name", COUNTED)
def test_change_of_a_random_number_of_a_random_weight_changes_the_next_vectors(name):
    generator, elmo = random.Random(name), make_elmo()
    needs_training = "SGD" in name or "Ada" in name
    elmo.network.bilm.requires_grad_(needs_training)
    for weight_name in generator.sample(packed_weights(elmo), 4):
        assert_current(elmo)
        weight = elmo.network.bilm.get_parameter(weight_name)
        before = weight.detach().clone()
        weight.requires_grad_(needs_training)
        COUNTED[name](elmo, weight, generator.randrange(weight.numel()), 2.0)
        assert not torch.equal(elmo.network.bilm.get_parameter(weight_name), before)
        assert_current(elmo)


@pytest.mark.parametrize("name", UNCOUNTED)
def test_uncounted_write_changes_the_vectors_of_long_calls_and_after_refresh(name):
    generator, elmo = random.Random(name), make_elmo()
    assert sum(map(len, LONG)) + 2 * len(LONG) >= CHECKSUM_POSITIONS["float32"]
    for weight_name in generator.sample(packed_weights(elmo), 4):
        assert_current(elmo)
        weight = elmo.network.bilm.get_parameter(weight_name)
        position = generator.randrange(weight.numel())
        UNCOUNTED[name](elmo, weight, position, 2.0)
        assert_current(elmo, LONG)
        UNCOUNTED[name](elmo, weight, position, 2.0)
        elmo.refresh()
        assert_current(elmo)


@pytest.mark.parametrize("precision", ["float32", "int8", "bfloat16", "float16", "float64"])
def test_change_reaches_every_precision(precision):
    if precision == "int8" and not can_compute("int8"):
        pytest.skip("no kernel computes in int8 here")
    elmo = make_elmo()
    for number, name in enumerate(packed_weights(elmo)):
        assert_current(elmo, precision=precision)
        in_place(elmo, elmo.network.bilm.get_parameter(name), 7 * number, 0.5)
        assert_current(elmo, precision=precision)


# Dtype of the model and precision of the call: the engine converts the weights on this machine, or
# on one whose processor lacks half precision.
CONVERTED = [
    (torch.float32, "float64"),
    (torch.float64, "float32"),
    (torch.float16, None),
    (torch.bfloat16, None),
]


@pytest.mark.parametrize(("dtype", "precision"), CONVERTED)
def test_fused_step_changes_the_vectors_of_converted_weights(dtype, precision):
    elmo = make_elmo(requires_grad=True).to(dtype)
    for name in ("forward_lstm.layers.0.weight_hh", "encoder.projection.bias"):
        weight = elmo.network.bilm.get_parameter(name)
        optimizer = torch.optim.AdamW([weight], lr=0.25, fused=True)
        before = elmo.encode(SHORT, precision=precision)
        weight.grad = torch.full_like(weight, 0.25)
        optimizer.step()
        optimizer.zero_grad()
        after = elmo.encode(SHORT, precision=precision)
        assert any((a != b).any() for a, b in zip(before, after, strict=True))
        for ours, true in zip(after, copied_vectors(elmo, SHORT, precision), strict=True):
            np.testing.assert_array_equal(ours, true)


@pytest.mark.parametrize(("dtype", "precision"), CONVERTED)
def test_uncounted_write_changes_the_vectors_of_long_calls_with_converted_weights(dtype, precision):
    elmo = make_elmo().to(dtype)
    elmo.encode(SHORT, precision=precision)
    for name in ("backward_lstm.layers.1.weight_hr", "forward_lstm.layers.0.bias"):
        elmo.network.bilm.get_parameter(name).data.mul_(-2).add_(0.5)
        actual = elmo.encode(LONG, precision=precision)
        for ours, true in zip(actual, copied_vectors(elmo, LONG, precision), strict=True):
            np.testing.assert_array_equal(ours, true)


def copied_vectors(elmo, sentences, precision):
    """Return the vectors of a copy of the model, which has the same dtype and no engines."""
    return copy.deepcopy(elmo).encode(sentences, precision=precision)


def test_conversion_to_half_precision_and_back_changes_the_vectors():
    elmo = make_elmo()
    before = elmo.encode(SHORT)
    elmo.half()
    assert_current(elmo)
    in_place(elmo, elmo.network.bilm.forward_lstm.layers[0].weight_hh, 5, 1.0)
    assert_current(elmo)
    elmo.float()
    assert_current(elmo)
    assert any((a != b).any() for a, b in zip(before, elmo.encode(SHORT), strict=True))
    elmo.network.bilm.encoder.double().float()
    assert_current(elmo)


@pytest.mark.parametrize("fused", [False, True])
def test_optimizer_step_after_encode_between_forward_and_backward_changes_the_vectors(fused):
    elmo = make_elmo(requires_grad=True)
    optimizer = torch.optim.AdamW(elmo.parameters(), lr=0.05, fused=fused)
    ids = elmo.character_ids(SHORT)
    for _ in range(3):
        loss = elmo(ids).representations[0].square().sum()
        elmo.encode(SHORT)
        loss.backward()
        optimizer.step()
        assert_current(elmo)
        optimizer.zero_grad()
        with torch.no_grad():
            torch.testing.assert_close(
                elmo(ids).layers, ELMo(elmo.to_pretrained())(ids).layers, rtol=0, atol=0
            )


def test_fused_step_followed_by_freezing_changes_the_vectors():
    elmo = make_elmo(requires_grad=True)
    elmo.encode(SHORT)
    optimizer = torch.optim.SGD(elmo.parameters(), lr=0.1, fused=True)
    elmo(elmo.character_ids(SHORT)).representations[0].square().sum().backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    elmo.network.bilm.requires_grad_(False)
    assert_current(elmo)


def test_fused_steps_on_the_network_between_unfreezing_and_freezing_change_the_vectors():
    elmo = make_elmo()
    elmo.encode(SHORT)
    elmo.requires_grad_()
    optimizer = torch.optim.SGD(elmo.network.parameters(), lr=0.1, fused=True)
    rows, index = distinct_rows(elmo.character_ids(SHORT))
    elmo.network(rows, index, index > 0).representations[0].square().sum().backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    elmo.requires_grad_(False)
    assert_current(elmo)


def test_unchanged_weights_keep_their_packed_copies(monkeypatch):
    elmo = make_elmo()
    elmo.encode(SHORT)
    packed = []
    copy_of = type(elmo._engines._snapshot).copy

    def spy(snapshot, weights, layout, make):
        if layout.startswith("first step"):
            return copy_of(snapshot, weights, layout, make)
        return copy_of(snapshot, weights, layout, lambda: packed.append(layout) or make())

    monkeypatch.setattr(type(elmo._engines._snapshot), "copy", spy)
    elmo.encode(SHORT)
    elmo.encode(LONG)
    elmo(elmo.character_ids(SHORT))
    assert not packed
    in_place(elmo, elmo.network.bilm.forward_lstm.layers[0].weight_hr, 0, 1.0)
    elmo.encode(SHORT)
    assert packed == ["projection float32"]
    packed.clear()
    # Another precision shares the convolutions and the linear layer.
    if can_compute("int8"):
        elmo.encode(SHORT, precision="int8")
        assert "filters" not in packed
        assert "linear" not in packed
        packed.clear()
        elmo.encode(SHORT)
        elmo.encode(SHORT, precision="int8")
        assert not packed


def test_layers_are_packed_only_when_they_are_needed():
    elmo = make_elmo()
    elmo.encode(SHORT, layers=0)
    sources = elmo._engines._snapshot._sources
    n_encoder = sum(bool(source.copies) for source in sources.values())
    elmo.encode(SHORT, layers=1)
    n_one = sum(bool(source.copies) for source in sources.values())
    elmo.encode(SHORT)
    assert n_encoder < n_one < sum(bool(source.copies) for source in sources.values())


@pytest.mark.parametrize("drop", [ELMo.refresh, ELMo.double, lambda elmo: elmo.to("meta")])
def test_dropped_engine_frees_its_memory(drop):
    elmo = make_elmo()
    elmo.encode(SHORT)
    snapshot = weakref.ref(elmo._engines._snapshot)
    drop(elmo)
    assert snapshot() is None


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_slot_returns_another_engine_after_a_change_of_any_weight(precision):
    bilm, slot = make_elmo().network.bilm, EngineSlot()
    weights = dict(bilm.named_parameters())
    engine = slot.engine(weights, precision)
    assert slot.engine(weights, precision) is engine
    for name, weight in weights.items():
        with torch.no_grad():
            weight.view(-1)[0] += 1.0
        other = slot.engine(weights, precision)
        assert other is not engine, name
        engine = other


def test_compiled_engine_has_native_kernels():
    bilm = make_elmo().network.bilm
    engine = Engine.compile(dict(bilm.named_parameters()), "float32", torch.device("cpu"))
    assert (engine.kernel, engine.precision.name) == ("native", "float32")
    assert isinstance(engine.kernels, NativeKernels)


def test_debug_log_names_kernel_and_precision(caplog):
    caplog.set_level(logging.DEBUG, "elmo.inference.engine_slot")
    elmo = make_elmo()
    elmo.encode(SHORT, precision="float16")
    assert "Computing on cpu with native kernels in float32 (requested: float16)." in caplog.text
    caplog.clear()
    elmo.encode(SHORT, precision="float16")
    assert not caplog.text


def test_debug_log_names_the_kernel_of_an_lstm_that_the_library_does_not_support(caplog):
    caplog.set_level(logging.DEBUG, "elmo.inference.engine_slot")
    elmo = make_elmo(TINY)
    elmo.encode(SHORT, precision="float32")
    assert "Computing on cpu with reference kernels in float32" in caplog.text
    caplog.clear()
    elmo.refresh()
    elmo(elmo.character_ids(SHORT))
    assert "Computing on cpu with reference kernels in float32" in caplog.text


# ------------------------------------------------------------------ word cache


def test_word_cache_follows_every_weight_of_the_encoder():
    generator, elmo, cache = random.Random(0), make_elmo(), WordCache()
    for weight in elmo.network.bilm.encoder.parameters():
        elmo.encode(SHORT, cache=cache)
        in_place(elmo, weight, generator.randrange(weight.numel()), 2.0)
        assert_matches_uncached(elmo, cache, SHORT)
        through_data(elmo, weight, generator.randrange(weight.numel()), 2.0)
        assert_matches_uncached(elmo, cache, LONG)
        through_data(elmo, weight, generator.randrange(weight.numel()), 2.0)
        elmo.refresh()
        assert_matches_uncached(elmo, cache, SHORT)


def assert_matches_uncached(elmo, cache, sentences):
    expected = fresh_vectors(elmo, sentences)
    actual = elmo.encode(sentences, layers="all", cache=cache)
    for ours, true in zip(actual, expected, strict=True):
        np.testing.assert_allclose(ours, true, rtol=0, atol=1e-5)


def test_word_cache_is_kept_while_weights_do_not_change():
    elmo, cache = make_elmo(), WordCache()
    elmo.encode(SHORT, cache=cache)
    n_computed = cache.n_computed
    elmo.encode(SHORT, cache=cache)
    elmo.encode(LONG, cache=cache)
    assert cache.n_computed == n_computed + len(LONG)


# ------------------------------------------------------------------ copies, threads, processes


def test_copies_of_a_model_have_engines_of_their_own():
    elmo = make_elmo()
    before = elmo.encode(SHORT, layers="all")
    for make in (copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))):
        other = make(elmo)
        assert other._engines is not elmo._engines
        in_place(other, other.network.bilm.forward_lstm.layers[0].weight_hh, 3, 1.0)
        assert_current(other)
        for ours, true in zip(elmo.encode(SHORT, layers="all"), before, strict=True):
            np.testing.assert_array_equal(ours, true)


def test_concurrent_first_calls_return_the_same_vectors():
    elmo = make_elmo()
    expected = fresh_vectors(elmo, SHORT)
    results, barrier = [], threading.Barrier(8, timeout=60)

    def work():
        barrier.wait()
        results.append(elmo.encode(SHORT, layers="all"))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8
    for vectors in results:
        for ours, true in zip(vectors, expected, strict=True):
            np.testing.assert_array_equal(ours, true)


def test_refresh_during_a_call_of_another_thread_is_not_lost(monkeypatch):
    elmo = make_elmo()
    weights = dict(elmo.network.bilm.named_parameters())
    slot, is_compared, is_refreshing = EngineSlot(), threading.Event(), threading.Event()
    updated, n_calls = WeightSnapshot.updated, itertools.count(1)

    def slow_updated(snapshot, *args, **kwargs):
        result = updated(snapshot, *args, **kwargs)
        if next(n_calls) == 2:  # the comparison before the slot is changed
            is_compared.set()
            is_refreshing.wait(60)
            time.sleep(0.2)  # time for `drop`, which must wait for this thread
        return result

    monkeypatch.setattr(WeightSnapshot, "updated", slow_updated)
    thread = threading.Thread(target=slot.engine, args=(weights,))
    thread.start()
    assert is_compared.wait(60)
    is_refreshing.set()
    slot.drop()
    thread.join()
    assert not slot._engines
    assert not slot._snapshot.covers(weights.values())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning")
def test_forked_process_follows_its_own_weights():
    elmo = make_elmo()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # OpenMP's threads do not survive a fork
    try:
        before = elmo.encode(SHORT)
        child = os.fork()
        if child == 0:
            try:
                in_place(elmo, elmo.network.bilm.forward_lstm.layers[0].weight_hh, 3, 1.0)
                assert_current(elmo)
                os._exit(0)
            except BaseException:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        for ours, true in zip(elmo.encode(SHORT), before, strict=True):
            np.testing.assert_array_equal(ours, true)
    finally:
        torch.set_num_threads(threads)


def test_functional_call_uses_the_given_weights_and_keeps_the_engine():
    elmo = make_elmo()
    ids = elmo.character_ids(SHORT)
    with torch.no_grad():
        before = elmo(ids).layers
        snapshot = elmo._engines._snapshot
        name = "network.bilm.forward_lstm.layers.0.weight_hh"
        changed = {name: elmo.get_parameter(name) * 2}
        other = torch.func.functional_call(elmo, changed, (ids,)).layers
        assert elmo._engines._snapshot is snapshot
        assert not torch.allclose(other, before)
        assert torch.equal(elmo(ids).layers, before)
        elmo.get_parameter(name).mul_(2)
        torch.testing.assert_close(elmo(ids).layers, other, rtol=0, atol=1e-5)


class Subclass(torch.Tensor):
    """A tensor whose memory does not have the layout of its shape, as far as kernels know."""


def test_tensor_subclasses_and_modules_without_parameters_run_with_pytorch():
    elmo = make_elmo()
    ids = elmo.character_ids(SHORT)
    with torch.no_grad():
        expected = elmo(ids).layers
        name = "network.bilm.forward_lstm.layers.0.weight_hh"
        wrapped = {name: elmo.get_parameter(name).detach().clone().as_subclass(Subclass)}
        actual = torch.func.functional_call(elmo, wrapped, (ids,)).layers
    torch.testing.assert_close(actual.as_subclass(torch.Tensor), expected, rtol=0, atol=1e-5)
    assert not WeightSnapshot(wrapped.values()).covers(wrapped.values())
    assert EngineSlot().kernels([]) is AUTO_KERNELS
    assert compile_kernels([]) is AUTO_KERNELS


def test_weights_without_memory_are_not_covered():
    weight = torch.ones(3)
    snapshot = WeightSnapshot([weight])
    assert snapshot.covers([weight])
    weight.untyped_storage().resize_(0)
    assert not snapshot.covers([weight])


def test_vmap_under_no_grad_does_not_read_batched_tensors():
    elmo = make_elmo()
    ids = elmo.character_ids(SHORT)
    with torch.no_grad():
        expected = elmo(ids).layers

        def scaled(factor):
            return factor * elmo(ids).layers

        assert torch.allclose(torch.func.vmap(scaled)(torch.ones(2))[1], expected, atol=1e-5)


def test_weights_replaced_by_a_parametrization_are_read_in_each_call():
    elmo = make_elmo()
    layer = elmo.network.bilm.forward_lstm.layers[0]
    elmo.encode(SHORT)

    class Doubled(nn.Module):
        def forward(self, x):
            return 2 * x

    nn.utils.parametrize.register_parametrization(layer, "weight_hh", Doubled())
    actual = elmo.encode(SHORT)
    nn.utils.parametrize.remove_parametrizations(layer, "weight_hh")
    for ours, true in zip(actual, elmo.encode(SHORT), strict=True):
        np.testing.assert_allclose(ours, true, rtol=0, atol=1e-5)


def test_allennlp_classes_follow_changed_weights(tmp_path):
    bilm_hdf5.write(random_model(CONFIG, scale=1.5), tmp_path)
    files = (tmp_path / "options.json", tmp_path / "weights.hdf5")
    elmo = ElmoEmbedder(*files)
    for name, weight in elmo.elmo_bilm.named_parameters():
        if weight.dim() < 2:
            continue
        elmo.elmo_bilm._elmo_lstm.reset_states()
        before = elmo.embed_batch(SHORT)
        with torch.no_grad():
            weight.view(-1)[5] += 3.0
        elmo.elmo_bilm._elmo_lstm.reset_states()
        other = ElmoEmbedder(*files)
        other.elmo_bilm.load_state_dict(elmo.elmo_bilm.state_dict())
        after = elmo.embed_batch(SHORT)
        for ours, true in zip(after, other.embed_batch(SHORT), strict=True):
            np.testing.assert_allclose(ours, true, rtol=0, atol=1e-6)
        if "char_embedding" not in name:
            assert any((a != b).any() for a, b in zip(before, after, strict=True)), name
