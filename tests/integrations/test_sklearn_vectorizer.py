"""Tests for the scikit-learn vectorizer."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import SkipTestWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import validate_data

from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError, InputError
from elmo.integrations import sklearn_vectorizer
from elmo.integrations.sklearn_vectorizer import ElmoVectorizer

TEXTS = ["good film", "bad", "good film", "", "a very long and dull film"] * 4
TARGETS = [1, 0, 1, 0, 0] * 4


@pytest.fixture
def vectorizer(tiny_folder):
    return ElmoVectorizer(str(tiny_folder))


class NumbersAsWords(ElmoVectorizer):
    """Reads rows of numbers as texts: most checks of scikit-learn have no texts."""

    def __init__(self, model="small-en", *, missing="error"):
        super().__init__(model, missing=missing)

    def _texts(self, values):
        rows = validate_data(self, values, dtype=None)
        return [" ".join(map(str, row)) for row in rows]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        tags.no_validation = True  # the number of features is not defined for texts
        return tags


@pytest.mark.parametrize(("kind", "least"), [(ElmoVectorizer, 1), (NumbersAsWords, 35)])
def test_checks_of_scikit_learn_pass(kind, least, tiny_folder):
    from sklearn.utils.estimator_checks import check_estimator  # takes a while

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkipTestWarning)
        results = check_estimator(kind(str(tiny_folder)), on_skip=None)
    by_status = {status: [] for status in ("passed", "skipped")}
    for result in results:
        by_status[result["status"]].append(result["check_name"])
    assert len(by_status["passed"]) >= least
    assert set(by_status["skipped"]) <= {"check_array_api_input"}


@pytest.mark.parametrize("pooling", ["mean", "max", "first-last"])
@pytest.mark.parametrize("layers", ["average", "top", 0])
def test_vectors_equal_those_of_encode(tiny_folder, pooling, layers):
    vectors = ElmoVectorizer(tiny_folder, layers=layers, pooling=pooling).fit_transform(TEXTS)
    expected = ELMo.from_pretrained(tiny_folder).encode(TEXTS, layers=layers, pooling=pooling)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected, atol=1e-6)


def test_equal_texts_are_encoded_once(vectorizer, monkeypatch):
    calls = []
    encode = ELMo.encode
    monkeypatch.setattr(
        ELMo,
        "encode",
        lambda self, texts, **rest: calls.append(texts) or encode(self, texts, **rest),
    )
    vectors = vectorizer.transform(TEXTS)
    assert calls == [["good film", "bad", "", "a very long and dull film"]]
    assert (vectors[0] == vectors[2]).all()
    assert not vectors[3].any()


def test_fit_does_not_load_the_model(monkeypatch):
    def load(*arguments):
        raise AssertionError

    monkeypatch.setattr(sklearn_vectorizer, "shared_elmo", load)
    vectorizer = ElmoVectorizer("no-such-model").fit(TEXTS)
    assert len(pickle.dumps(clone(vectorizer))) < 500


def test_feature_names_and_pandas_output(vectorizer):
    names = vectorizer.get_feature_names_out()
    assert list(names[:2]) == ["elmovectorizer0", "elmovectorizer1"]
    table = vectorizer.set_output(transform="pandas").fit_transform(
        pd.Series(["a", "b"], index=["x", "y"])
    )
    assert list(table.index) == ["x", "y"]
    assert list(table.columns) == list(names)


def test_missing_texts_are_an_error_or_zero(vectorizer):
    texts = pd.DataFrame({"text": ["a", None]})
    with pytest.raises(InputError, match=r'Text 1 is a missing value\..*missing="zero"'):
        vectorizer.fit_transform(texts)
    vectors = clone(vectorizer).set_params(missing="zero").fit_transform(texts)
    assert vectors[0].any()
    assert not vectors[1].any()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": 3}, "model must be the name"),
        ({"missing": "drop"}, 'missing must be "error" or "zero"'),
        ({"pooling": None}, "pooling must be one of mean, max, first-last"),
        ({"layers": "all"}, "several vectors per text"),
    ],
)
def test_invalid_settings_are_rejected_by_fit(settings, message):
    with pytest.raises(ConfigError, match=message):
        ElmoVectorizer(**settings).fit(TEXTS)


def test_pipeline_with_grid_search_in_threads(vectorizer):
    pipeline = make_pipeline(vectorizer, LogisticRegression())
    grid = {"elmovectorizer__layers": ["top", 0], "logisticregression__C": [1, 100]}
    search = GridSearchCV(pipeline, grid, cv=2, n_jobs=2, error_score="raise")
    # Worker processes would import PyTorch for seconds; the model travels to them as its name.
    with parallel_config(backend="threading"):
        search.fit(TEXTS, TARGETS)
    assert search.predict(["good film"])[0] == 1
    again = pickle.loads(pickle.dumps(search))
    assert (again.predict_proba(TEXTS) == search.predict_proba(TEXTS)).all()


def test_column_transformer_with_texts_and_numbers(vectorizer):
    table = pd.DataFrame({"title": TEXTS, "body": TEXTS[::-1], "year": range(20)})
    columns = ColumnTransformer(
        [("title", vectorizer, "title"), ("body", vectorizer, ["body"])], remainder="passthrough"
    )
    features = columns.set_output(transform="pandas").fit_transform(table)
    assert features.shape == (20, 33)
    assert features.columns[0] == "title__elmovectorizer0"
    np.testing.assert_allclose(features.iloc[0, :16], features.iloc[-1, 16:32], rtol=1e-5)
