"""Tests of building task models: initial weights, ELMo layers, tokenization of raw text."""

import pytest
import torch
from conftest import TINY, random_model
from small_tasks import make_fitted_task, task_config, weights, write_elmo

from elmo.embed.embedder import ELMo
from elmo.tasks.core.frozen_layers import ComputedLayers, StoredLayers
from elmo.tasks.core.loaded_elmo import load_elmo
from elmo.tasks.fitted.build import layers_folder, splitter


def test_initial_weights_are_determined_by_seed(tmp_path):
    torch.manual_seed(8)
    expected = torch.rand(3)
    torch.manual_seed(8)
    models = [weights(make_fitted_task(tmp_path, seed=seed)) for seed in (1, 1, 2)]
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(models[0][name], models[1][name]) for name in models[0])
    assert not torch.equal(models[0]["head.out.weight"], models[2]["head.out.weight"])


@pytest.mark.parametrize("use", ["frozen", "tuned"])
def test_frozen_elmo_uses_stored_layers_and_tuned_elmo_its_network(tmp_path, use):
    name = write_elmo(tmp_path / "elmo")
    fitted = make_fitted_task(tmp_path / "run", model=name, use=use)
    indexer, network = fitted.built.indexer, fitted.built.model.features.network
    if use == "frozen":
        assert isinstance(indexer.layers, StoredLayers)
        assert indexer.mapper is network is None
        fitted.save(tmp_path / "model")
    else:
        assert indexer.layers is None
        assert indexer.mapper is fitted.elmo.mapper
        assert network is fitted.elmo.network
        assert not (tmp_path / "run" / "layers").exists()


def test_loaded_task_model_computes_elmo_layers(tmp_path):
    from elmo.tasks.fitted.load_fitted import load_fitted_task

    name = write_elmo(tmp_path / "elmo")
    make_fitted_task(tmp_path / "run", model=name).save(tmp_path / "model")
    assert isinstance(load_fitted_task(tmp_path / "model").built.indexer.layers, ComputedLayers)


def test_splitter_uses_tokenizer_from_config_or_elmo_model():
    text = "Don't, he said."
    english = ["Do", "n't", ",", "he", "said", "."]
    assert splitter(task_config("x"), None)(text) == text.split()
    assert splitter(task_config("x", tokenizer="english"), None)(text) == english
    elmo = ELMo(random_model(TINY).with_tokenizer("english"))
    assert splitter(task_config("x"), elmo)(text) == english
    assert splitter(task_config("x", tokenizer="whitespace"), elmo)(text) == text.split()


def test_layers_folder_is_cache_folder_or_inside_output_folder(tmp_path):
    assert layers_folder(task_config(tmp_path)) == tmp_path / "layers"
    assert layers_folder(task_config(tmp_path, cache="here")).name == "here"
    assert load_elmo(task_config(tmp_path).elmo) is None
