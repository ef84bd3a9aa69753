"""Tests for the spaCy component."""

import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc
from spacy.util import registry

from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError, InputError
from elmo.integrations import spacy_component

TEXTS = ["He sat on the bank.  She left.", "", "   ", "One  word"]


@pytest.fixture
def pipeline(tiny_folder):
    """Return a function that creates a pipeline with the component."""

    def create(*, sentences=False, **config):
        nlp = spacy.blank("en")
        if sentences:
            nlp.add_pipe("sentencizer")
        nlp.add_pipe("elmo", config={"model": str(tiny_folder), **config})
        return nlp

    return create


def test_entry_points_name_the_registered_functions():
    project = tomllib.loads(
        (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    )
    groups = project["project"]["entry-points"]
    loaded = {
        group: {name: EntryPoint(name, value, group).load() for name, value in names.items()}
        for group, names in groups.items()
    }
    assert loaded["spacy_factories"] == {"elmo": spacy_component.create_elmo}
    architecture = registry.architectures.get("elmo.Tok2Vec.v1")
    assert loaded["spacy_architectures"] == {"elmo.Tok2Vec.v1": architecture}
    assert Language.has_factory("elmo")


@pytest.mark.parametrize("layers", ["average", "top", 1])
@pytest.mark.parametrize("keep_layers", [True, False])
def test_tensor_equals_vectors_of_encode(pipeline, tiny_folder, layers, keep_layers):
    elmo = ELMo.from_pretrained(tiny_folder)
    nlp = pipeline(sentences=True, layers=layers, keep_layers=keep_layers)
    doc = nlp(TEXTS[0])
    sentences = [[token.text for token in sent if not token.is_space] for sent in doc.sents]
    assert len(sentences) == 2
    expected = np.concatenate(elmo.encode(sentences, layers=layers))
    words = [token.i for token in doc if not token.is_space]
    np.testing.assert_allclose(doc.tensor[words], expected, atol=1e-6)
    assert not np.delete(doc.tensor, words, axis=0).any()
    if keep_layers:
        every = np.concatenate(elmo.encode(sentences, layers="all"), axis=1)
        np.testing.assert_allclose(doc._.elmo[:, words], every, atol=1e-6)
    else:
        assert doc._.elmo is None


def merge(doc):
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[:2])


def split(doc):
    with doc.retokenize() as retokenizer:
        retokenizer.split(doc[0], ["H", "e"], heads=[(doc[0], 1), doc[1]])


def merge_and_split(doc):
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[2:4])
        retokenizer.split(doc[0], ["H", "e"], heads=[(doc[0], 1), doc[1]])


@pytest.mark.parametrize(("change", "n_tokens"), [(merge, 4), (split, 6), (merge_and_split, 5)])
def test_layers_of_changed_tokens_are_an_error_until_the_component_runs(
    pipeline, tiny_folder, change, n_tokens
):
    nlp = pipeline()
    doc = nlp("He sat on it.")
    assert doc._.elmo.shape == (3, 5, 16)
    change(doc)
    message = rf"tokens of this document \({n_tokens}\) are no longer those that ELMo read \(5\)"
    with pytest.raises(InputError, match=message):
        _ = doc._.elmo
    nlp.get_pipe("elmo")(doc)
    words = [token.text for token in doc]
    assert doc.tensor.shape == (n_tokens, 16)
    expected = ELMo.from_pretrained(tiny_folder).encode([words], layers="all")[0]
    np.testing.assert_allclose(doc._.elmo, expected, atol=1e-6)


def test_layers_are_stored_with_a_document(pipeline):
    nlp = pipeline()
    doc = nlp(TEXTS[0])
    read = Doc(nlp.vocab).from_bytes(doc.to_bytes(exclude=["user_hooks"]))
    assert (read._.elmo == doc._.elmo).all()
    assert (doc.copy()._.elmo == doc._.elmo).all()
    assert doc[1:3].as_doc(copy_user_data=True)._.elmo is None
    doc._.elmo = None
    assert doc._.elmo is None


def test_document_without_sentence_boundaries_is_one_sentence(pipeline, tiny_folder):
    doc = pipeline()(TEXTS[0])
    words = [token.text for token in doc if not token.is_space]
    pooled = ELMo.from_pretrained(tiny_folder).encode([words], pooling="mean")[0]
    np.testing.assert_allclose(doc.vector, pooled, atol=1e-6)


def test_pipe_encodes_a_batch_at_once_with_equal_results(pipeline, monkeypatch):
    nlp = pipeline(sentences=True)
    single = [nlp(text) for text in TEXTS]
    calls = []
    encode = ELMo.encode
    monkeypatch.setattr(
        ELMo,
        "encode",
        lambda self, words, **rest: calls.append(words) or encode(self, words, **rest),
    )
    docs = list(nlp.pipe(TEXTS, batch_size=3))
    assert len(calls) == 2
    for doc, other in zip(docs, single, strict=True):
        assert doc.tensor.shape == (len(doc), 16)
        np.testing.assert_allclose(doc.tensor, other.tensor, atol=1e-6)


def test_failed_batch_is_passed_to_the_error_handler(pipeline, monkeypatch):
    nlp = pipeline()
    failed = []
    nlp.set_error_handler(lambda name, component, docs, error: failed.append((name, str(error))))

    def fail(*arguments, **options):
        raise RuntimeError("no memory")

    monkeypatch.setattr(ELMo, "encode", fail)
    assert list(nlp.pipe(TEXTS)) == []
    assert failed == [("elmo", "no memory")]


def test_saved_pipeline_contains_the_name_of_the_model_only(pipeline, tiny_folder, tmp_path):
    nlp = pipeline(layers="top")
    nlp.to_disk(tmp_path / "nlp")
    assert (tmp_path / "nlp" / "elmo").stat().st_size < 1000
    loaded = spacy.load(tmp_path / "nlp")
    component = loaded.get_pipe("elmo")
    assert (component.model, component.layers) == (str(tiny_folder), "top")
    assert (loaded(TEXTS[0]).tensor == nlp(TEXTS[0]).tensor).all()
    other = spacy.load(tmp_path / "nlp", config={"components.elmo.layers": "0"})
    assert (other(TEXTS[0]).tensor != nlp(TEXTS[0]).tensor).any()


@pytest.mark.parametrize("way", ["disk", "bytes"])
def test_component_reads_saved_settings_that_were_not_given(pipeline, tiny_folder, tmp_path, way):
    saved = pipeline(layers="top", keep_layers=False)
    saved.to_disk(tmp_path / "nlp")
    for given, expected in (({}, "top"), ({"layers": "0"}, "0")):
        nlp = spacy.blank("en")
        nlp.add_pipe("elmo", config=given)
        if way == "disk":
            nlp.from_disk(tmp_path / "nlp")
        else:
            nlp.from_bytes(saved.to_bytes())
        component = nlp.get_pipe("elmo")
        found = (component.model, component.layers, component.keep_layers)
        assert found == (str(tiny_folder), expected, False)


@pytest.mark.parametrize("layers", ["all", "sum", 3])
def test_invalid_layers_are_rejected(pipeline, layers):
    with pytest.raises(ConfigError, match="layers"):
        pipeline(layers=layers)("a")
