"""From dials to a model: first weights, and what splits raw text."""

import pytest
import torch
from conftest import TINY, random_model
from small_tasks import make_fitted_task, task_config, weights, write_elmo

from elmo.embed.embedder import ELMo
from elmo.tasks.build import layers_folder, load_elmo, splitter
from elmo.tasks.frozen_layers import ComputedLayers, StoredLayers


def test_the_seed_decides_the_first_weights(tmp_path):
    torch.manual_seed(8)
    drawn = torch.rand(3)
    torch.manual_seed(8)
    found = [weights(make_fitted_task(tmp_path, seed=seed)) for seed in (1, 1, 2)]
    assert torch.equal(torch.rand(3), drawn)
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])
    assert not torch.equal(found[0]["head.out.weight"], found[2]["head.out.weight"])


@pytest.mark.parametrize("use", ["frozen", "tuned"])
def test_whose_layers_a_model_reads(tmp_path, use):
    name = write_elmo(tmp_path / "elmo")
    trained = make_fitted_task(tmp_path / "run", model=name, use=use)
    fields, network = trained.built.indexer, trained.built.model.features.network
    if use == "frozen":
        assert isinstance(fields.layers, StoredLayers)
        assert fields.mapper is network is None
        trained.save(tmp_path / "model")
    else:
        assert fields.layers is None
        assert fields.mapper is trained.built.elmo.mapper
        assert network is trained.built.elmo.network
        assert not (tmp_path / "run" / "layers").exists()


def test_a_model_in_use_computes_its_layers(tmp_path):
    from elmo.tasks.fitted_task import load_fitted_task

    name = write_elmo(tmp_path / "elmo")
    make_fitted_task(tmp_path / "run", model=name).save(tmp_path / "model")
    assert isinstance(load_fitted_task(tmp_path / "model").built.indexer.layers, ComputedLayers)


def test_what_splits_raw_text():
    text = "Don't, he said."
    english = ["Do", "n't", ",", "he", "said", "."]
    assert splitter(task_config("x"), None)(text) == text.split()
    assert splitter(task_config("x", tokenizer="english"), None)(text) == english
    elmo = ELMo(random_model(TINY).with_tokenizer("english"))
    assert splitter(task_config("x"), elmo)(text) == english
    assert splitter(task_config("x", tokenizer="whitespace"), elmo)(text) == text.split()


def test_where_layers_are_kept(tmp_path):
    assert layers_folder(task_config(tmp_path)) == tmp_path / "layers"
    assert layers_folder(task_config(tmp_path, cache="here")).name == "here"
    assert load_elmo(task_config(tmp_path)) is None
