"""Tests for ELMo in models of sentence-transformers."""

import warnings
from types import SimpleNamespace

import datasets
import numpy as np
import pytest
import torch

import elmo.integrations
from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError, InputError

TEXTS = ["He sat on the bank .", "She left", "", "a"]


@pytest.fixture(scope="module")
def library():
    """Return the names of sentence-transformers.

    They are imported here because that takes many seconds, and each test process reads this file.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import sentence_transformers as library
        from sentence_transformers.base.modules import Normalize
        from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
        from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss
        from sentence_transformers.sentence_transformer.modules import Pooling
    return SimpleNamespace(
        SentenceTransformer=library.SentenceTransformer,
        MultiVectorEncoder=library.MultiVectorEncoder,
        Trainer=library.SentenceTransformerTrainer,
        TrainingArguments=library.SentenceTransformerTrainingArguments,
        Normalize=Normalize,
        MultiVectorMask=MultiVectorMask,
        CosineSimilarityLoss=CosineSimilarityLoss,
        Pooling=Pooling,
        ElmoModule=elmo.integrations.ElmoModule,
    )


@pytest.fixture
def create(library, tiny_folder):
    """Return a function that creates a model with mean pooling."""

    def create(**settings):
        modules = [library.ElmoModule(tiny_folder, **settings), library.Pooling(16)]
        return library.SentenceTransformer(modules=modules, device="cpu")

    return create


@pytest.fixture
def model(create):
    return create()


def test_mean_pooling_equals_encode(model, tiny_folder):
    expected = ELMo.from_pretrained(tiny_folder).encode(TEXTS, pooling="mean")
    np.testing.assert_allclose(model.encode(TEXTS), expected, atol=1e-6)
    assert model.get_embedding_dimension() == 16
    assert not model.encode("").any()


def test_saved_model_is_loaded_with_its_settings(library, create, tmp_path):
    model = create(trainable=False, max_seq_length=2)
    model.save_pretrained(str(tmp_path / "model"))
    folder = str(tmp_path / "model")
    loaded = library.SentenceTransformer(folder, device="cpu", trust_remote_code=True)
    assert np.array_equal(loaded.encode(TEXTS), model.encode(TEXTS))
    assert (loaded[0].trainable, loaded.max_seq_length) == (False, 2)
    trained = {name for name, weight in loaded.named_parameters() if weight.requires_grad}
    assert trained
    assert all("mixes" in name for name in trained)


def test_longer_texts_are_cut(model):
    full = model.encode(["a b", "prompt a"])
    model.max_seq_length = 2
    np.testing.assert_allclose(model.encode(["a b c d", "a b"])[0], full[0], atol=1e-6)
    np.testing.assert_allclose(model.encode("a b", prompt="prompt "), full[1], atol=1e-6)


def test_words_are_encoded_without_the_tokenizer(model):
    features = model[0].preprocess([["He sat", "on"], ["it"]])
    assert features["attention_mask"].tolist() == [[True, True], [True, False]]
    assert features["input_ids"].shape[:2] == (2, 4)
    with pytest.raises(InputError, match="cannot be added to a list of words"):
        model[0].preprocess([["a"]], prompt="query: ")


@pytest.mark.filterwarnings("ignore")  # the trainer's own
@pytest.mark.parametrize("trainable", [True, False])
def test_trainer_changes_trainable_weights(library, create, tmp_path, trainable):
    model = create(trainable=trainable)
    module = model[0]
    before = {name: value.clone() for name, value in module.state_dict().items()}
    data = datasets.Dataset.from_dict(
        {"first": ["a b", "c"] * 4, "second": ["a", "d e f"] * 4, "score": [1.0, 0.0] * 4}
    )
    arguments = library.TrainingArguments(
        output_dir=str(tmp_path),
        max_steps=3,
        per_device_train_batch_size=4,
        learning_rate=0.01,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
    )
    vectors = model.encode(TEXTS)
    trainer = library.Trainer(
        model=model, args=arguments, train_dataset=data, loss=library.CosineSimilarityLoss(model)
    )
    trainer.train()
    changed = {
        name for name, value in module.state_dict().items() if not torch.equal(value, before[name])
    }
    assert any("mixes" in name for name in changed)
    assert any("lstm" in name for name in changed) == trainable
    assert abs(model.encode(TEXTS) - vectors).max() > 1e-4


def test_late_interaction_sums_the_best_cosines(library, tiny_folder):
    modules = [
        library.ElmoModule(tiny_folder),
        library.Normalize("token_embeddings"),
        library.MultiVectorMask(),
    ]
    model = library.MultiVectorEncoder(modules=modules, device="cpu")
    query, document = model.encode_query(["a b"]), model.encode_document(["b c d"])
    words = ELMo.from_pretrained(tiny_folder).encode(["a b", "b c d"])
    first, second = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in words)
    np.testing.assert_allclose(query[0], first, atol=1e-6)
    score = float(model.similarity(query, document))
    assert score == pytest.approx((first @ second.T).max(axis=1).sum(), abs=1e-5)


def test_invalid_settings_are_rejected(library, tiny_folder, tiny):
    with pytest.raises(ConfigError, match="max_seq_length must be at least 1"):
        library.ElmoModule(tiny_folder, max_seq_length=0)
    with pytest.raises(ConfigError, match="model must be the name"):
        library.ElmoModule(tiny)
