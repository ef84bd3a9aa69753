"""Tests of the estimators `Classifier` and `Tagger`."""

import dataclasses
import pickle
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from conftest import TINY
from small_tasks import LABELED, OPTIONS, TAGGED, write_elmo

import elmo.tasks
from elmo.config.serialization import leaves
from elmo.config.tasks import OPTION_SYNONYMS
from elmo.errors import ConfigError, InputError
from elmo.tasks import (
    Classifier,
    QuestionAnswerer,
    SentencePairClassifier,
    Tagger,
)
from elmo.tasks.classification.classification_task import LabelPrediction
from elmo.tasks.estimators import not_fitted, trained_estimator
from elmo.tasks.registry.task_config import TaskConfig
from elmo.train.loop import train

TEXTS = [" ".join(example.words) for example in LABELED]
LABELS = [example.target for example in LABELED]
SENTENCES = [list(example.words) for example in TAGGED]
TAGS = [list(example.target) for example in TAGGED]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A classifier that has overfitted its training examples."""
    name = write_elmo(tmp_path_factory.mktemp("elmo"))
    settings = {**OPTIONS, "epochs": 25, "evaluate_every": 50, "model": name}
    return Classifier(**settings).fit(TEXTS, LABELS, dev=(TEXTS, LABELS))


@pytest.mark.filterwarnings("error")
def test_classifier_predicts_and_scores_before_and_after_saving(fitted, tmp_path):
    assert fitted.labels == ["bad", "good"]
    assert fitted.predict(TEXTS).tolist() == LABELS
    assert (fitted.predict(TEXTS) == LABELS).mean() == 1
    # The same texts as lists of words.
    assert fitted.predict(text.split() for text in TEXTS).tolist() == LABELS
    for answer, row in zip(fitted.answers(TEXTS), fitted.predict_proba(TEXTS), strict=True):
        assert row.tolist() == [answer.probabilities["bad"], answer.probabilities["good"]]
        assert sum(row) == pytest.approx(1)
    assert fitted.evaluate(TEXTS, LABELS) == {"accuracy": 1.0, "macro_f1": 1.0}
    assert fitted.score(TEXTS, LABELS) == 1.0
    assert fitted.score(TEXTS, LABELS[::-1]) == 0.0
    (mix,) = fitted.mixes().values()
    assert len(mix["shares"]) == 3
    assert fitted.predict([]).shape == (0,)
    assert fitted.predict_proba([]).shape == (0, 2)

    fitted.save(tmp_path / "saved")
    loaded = Classifier.load(tmp_path / "saved", device="cpu")
    assert np.array_equal(loaded.predict_proba(TEXTS), fitted.predict_proba(TEXTS))
    assert loaded.fitted.facts == fitted.fitted.facts
    with pytest.raises(ConfigError, match="contains a model for classification, not for tagging"):
        Tagger.load(tmp_path / "saved")
    with pytest.raises(
        InputError, match="Expected a list of texts, but got a single text: 'a good'"
    ):
        loaded.predict("a good")


@pytest.mark.parametrize(
    ("good", "bad", "classes"), [(10, 2, [2, 10]), (-1, 2, [-1, 2]), ("2", "10", ["10", "2"])]
)
def test_classes_and_probabilities_are_sorted_as_in_scikit_learn(good, bad, classes):
    labels = [good if label == "good" else bad for label in LABELS]
    model = Classifier(**OPTIONS).fit(TEXTS, labels, dev=(TEXTS, labels))
    assert model.classes_.tolist() == classes == np.unique(labels).tolist()
    predicted, probabilities = model.predict(TEXTS), model.predict_proba(TEXTS)
    assert (predicted == model.classes_[probabilities.argmax(axis=1)]).all()
    for answer, label, row in zip(model.answers(TEXTS), predicted, probabilities, strict=True):
        assert answer.label == str(label)
        assert [answer.probabilities[str(name)] for name in classes] == row.tolist()


@pytest.mark.parametrize("label_type", [int, bool, np.int64, np.bool_])
def test_classifier_predicts_integers_if_labels_are_integers(tmp_path, label_type):
    """Data sets in scikit-learn have integer labels."""
    labels = [label_type(label == "good") for label in LABELS]
    model = Classifier(**{**OPTIONS, "epochs": 25, "evaluate_every": 50})
    model.fit(TEXTS, labels, dev=(TEXTS, np.array(labels)))
    assert model.labels == ["0", "1"]
    assert model.classes_.dtype == np.array(labels).dtype
    assert (model.predict(TEXTS) == labels).all()
    assert model.evaluate(TEXTS, labels)["accuracy"] == 1
    model.save(tmp_path)
    loaded = Classifier.load(tmp_path)
    assert loaded.classes_.dtype == model.classes_.dtype
    assert (loaded.predict(TEXTS) == labels).all()
    assert loaded.score(TEXTS, labels) == 1
    with pytest.raises(InputError, match=r"Target 0 is 0\.5; expected a label"):
        model.fit(TEXTS, [0.5] * len(TEXTS))
    with pytest.raises(InputError, match=r'targets has type \w+, a table\. .*table\["label"\]'):
        model.fit(TEXTS, SimpleNamespace(columns=["label"]))


def test_tagger_with_fine_tuned_elmo_predicts_and_loads(tmp_path):
    name = write_elmo(tmp_path / "elmo")
    tagger = Tagger(
        out=tmp_path / "run", **{**OPTIONS, "epochs": 2, "model": name, "use": "tuned"}
    ).fit(SENTENCES, map(tuple, TAGS))
    assert [len(tags) for tags in tagger.predict(SENTENCES)] == [len(tags) for tags in TAGS]
    assert tagger.predict([" ".join(SENTENCES[0])]) == tagger.predict([SENTENCES[0]])
    assert set(tagger.evaluate(SENTENCES, TAGS)) == set(tagger.fitted.task.metrics)
    assert 0 <= tagger.score(SENTENCES, TAGS) <= 1
    # The training folder has the format of `elmo task fit`.
    loaded = Tagger.load(tmp_path / "run")
    assert loaded.predict(SENTENCES) == tagger.predict(SENTENCES)


def test_estimators_say_how_to_pass_spacy_objects(fitted):
    spacy = pytest.importorskip("spacy")
    doc = spacy.blank("en")("A boring film.")
    words = r"Pass the words of a spaCy object: \[token\.text for token in doc"
    for texts, problem in (
        ([doc], "Text 0 has type Doc"),
        (["a", doc[:2]], "Text 1 has type Span"),
        ([list(doc)], "Text 0 contains spaCy objects, not strings"),
    ):
        with pytest.raises(InputError, match=rf"{problem}\. {words}"):
            fitted.predict(texts)
        with pytest.raises(InputError, match=rf"{problem}\. {words}"):
            Tagger(**OPTIONS).fit(texts, [["O"]] * len(texts))
    with pytest.raises(InputError, match=rf"Text 0 contains spaCy objects, not strings\. {words}"):
        SentencePairClassifier(**OPTIONS).fit([("a", doc)], ["x"])
    with pytest.raises(InputError, match=r"list of words \(got type int: 3\)"):
        fitted.predict([3])


def test_tagger_predicts_names_of_one_word_after_training_on_names_of_two():
    """All words of a name are the same, so that its length is the only new property."""
    sentences = [["now", "Kim", "Kim", "left"], ["nobody", "came"], ["Kim", "Kim", "came"]] * 8
    tags = [["O", "B-PER", "I-PER", "O"], ["O", "O"], ["B-PER", "I-PER", "O"]] * 8
    tagger = Tagger(**{**OPTIONS, "max_steps": 2}).fit(sentences, tags)
    assert tagger.labels == ["B-PER", "E-PER", "I-PER", "O", "S-PER"]
    head = tagger.fitted.built.model.head
    with torch.no_grad():
        head.out.bias.copy_(torch.tensor([0.0, 0.0, 0.0, 0.0, 1e3]))
    assert tagger.predict([["Kim", "came"]]) == [["B-PER", "B-PER"]]


def test_fitted_classifier_is_determined_by_seed(tmp_path):
    rows = []
    for seed in (1, 1, 2):
        torch.manual_seed(len(rows))
        model = Classifier(**{**OPTIONS, "seed": seed, "max_steps": 2})
        rows.append(model.fit(TEXTS, LABELS).predict_proba(TEXTS).tolist())
    assert rows[0] == rows[1] != rows[2]


def test_unfitted_estimator_raises_config_error():
    model = Classifier()
    for use in (lambda: model.predict(TEXTS), lambda: model.labels, lambda: model.save("x")):
        with pytest.raises(ConfigError, match=r"This Classifier is not fitted\. Call fit or l"):
            use()


def test_get_and_set_params_follow_scikit_learn(tmp_path):
    base = pytest.importorskip("sklearn.base")
    filters = [[1, 4], [2, 4]]
    model = Classifier(out=tmp_path, **{**OPTIONS, "character_filters": filters, "max_steps": 1})
    clone = base.clone(model)
    assert clone is not model
    assert clone.get_params() == model.get_params()
    assert clone.get_params()["out"] == tmp_path
    assert clone.set_params(out=None, seed=7) is clone
    assert (clone.out, clone.settings["seed"], model.out) == (None, 7, tmp_path)
    with pytest.raises(ConfigError, match=r"Unknown setting: sede\. Did you mean seed\?"):
        clone.set_params(sede=1)
    assert "sede" not in clone.get_params()
    assert 0 <= clone.fit(TEXTS, LABELS).score(TEXTS, LABELS) <= 1


def test_estimator_rejects_unknown_settings():
    with pytest.raises(ConfigError, match=r"Unknown setting: hiden, rat\. Did you mean hidden\?"):
        Classifier(hiden=3, rat=1)
    # These are determined by the class, or do not apply to estimators.
    for name in ("task", "seeds"):
        with pytest.raises(ConfigError, match=f"Unknown setting: {name}"):
            Tagger(**{name: "tagging"})
    with pytest.raises(ConfigError, match=r"^hidden: expected int \(got str 'much'\)"):
        Classifier(**{**OPTIONS, "hidden": "much"}).fit(TEXTS, LABELS)


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("lr", "learning_rate"),
        ("random_state", "seed"),
        ("hidden_size", "hidden"),
        ("bs", "batch_size"),
        ("max_iter", "epochs"),
        ("n_epochs", "epochs"),
    ],
)
def test_estimator_suggests_its_name_of_a_setting(name, suggestion):
    with pytest.raises(ConfigError, match=rf"Did you mean {suggestion}\? Common settin") as caught:
        Classifier(**{name: 1})
    assert len(str(caught.value)) < 220


def test_option_synonyms_are_not_options():
    options = {leaf.name for leaf in leaves(TaskConfig)}
    assert not options & OPTION_SYNONYMS.keys()
    assert set(OPTION_SYNONYMS.values()) <= options


def test_get_params_returns_all_settings_of_the_task():
    params = Classifier(epochs=3).get_params()
    assert (params["epochs"], params["model"], params["empty"]) == (3, "small-en", "error")
    assert {"out", "verbose", "batch_size", "learning_rate", "hidden", "seed"} <= params.keys()
    assert not {"train", "seeds", "task", "window", "n_nearest", "devices"} & params.keys()
    assert "window" in QuestionAnswerer().get_params()
    assert repr(Classifier(**params)) == "Classifier(epochs=3)"


@pytest.mark.parametrize(
    ("estimator", "texts", "targets", "message"),
    [
        (Classifier, ["a", "b"], ["x"], "There are 2 texts but 1 targets"),
        (Classifier, [], [], "There are no texts"),
        (Classifier, ["a", " "], ["x", "y"], r"Text 1 has no words\. Drop it, .*, or read them as"),
        (Tagger, ["a", " "], [["X"], []], r"Text 1 has no words\. Drop it, .* empty='skip'\.$"),
        (Classifier, ["a", []], ["x", "y"], "Text 1 has no words"),
        (
            Classifier,
            ["a", None],
            ["x", "y"],
            r"Text 1 is a missing value \(None\)",
        ),
        (Classifier, ["a", ["b", 2]], ["x", "y"], "Text 1 must be a string or a list of words"),
        (Classifier, ["a", "b"], [0.5, 1], r"Target 0 is 0\.5; expected a label: a string or an"),
        (Classifier, ["a", "b"], ["x", None], r"Target 1 is a missing value \(None\)\. Drop it"),
        (Classifier, ["a", "b"], [1.0, np.nan], r"Target 1 is a missing value \(nan\)"),
        (Tagger, ["a b"], [["X", float("nan")]], "Target 0 has the tag nan at word 1"),
        (Tagger, ["a b"], [["X"]], "Text 0 has 2 words but 1 tags"),
        (Tagger, ["a b"], ["XY"], "'0' has the target 'XY'; expected one tag per word"),
        (Tagger, ["a b"], [3], "'0' has the target 3; expected one tag per word"),
    ],
)
def test_fit_rejects_invalid_texts_and_targets(estimator, texts, targets, message):
    with pytest.raises(InputError, match=message):
        estimator(**OPTIONS).fit(texts, targets)


def test_fitted_estimator_rejects_invalid_texts_and_targets(fitted):
    with pytest.raises(InputError, match="There are 20 texts but 1 targets"):
        fitted.score(TEXTS, ["good"])
    with pytest.raises(InputError, match=r"Target 0 is 1\.5; expected a label"):
        fitted.evaluate(["a"], [1.5])
    for use in (fitted.predict, fitted.predict_proba):
        with pytest.raises(InputError, match=r"Text 1 has no words, so it has no label.*'keep'"):
            use(["a", " "])
    assert fitted.answers(["a", " "])[1] == LabelPrediction(None, {})


def test_classifier_handles_texts_without_words_as_configured(caplog):
    texts, labels = [*TEXTS, "", None], [*LABELS, "good", "bad"]
    model = Classifier(**{**OPTIONS, "max_steps": 1}, empty="skip").fit(texts, labels)
    assert "Skipped 2 of 22 texts: they have no words" in caplog.text
    assert model.evaluate(texts, labels) == model.evaluate(TEXTS, LABELS)
    with pytest.raises(InputError, match="Text 20 has no words"):
        model.predict(texts)
    model.set_params(empty="keep")
    assert model.predict(texts).shape == (22,)
    empty, word = model.predict_proba(["", "."]).tolist()
    assert empty == pytest.approx(word)
    assert 0 <= model.score(texts, labels) <= 1


def test_tagger_returns_no_tags_for_a_text_without_words():
    model = Tagger(**{**OPTIONS, "max_steps": 1}).fit(SENTENCES, TAGS)
    tags = model.predict([SENTENCES[0], [], " "])
    assert list(map(len, tags)) == [len(SENTENCES[0]), 0, 0]


def test_classifier_accepts_whole_floats_as_integers():
    """A column of integers with missing values is read by pandas as floats."""
    labels = [float(label == "good") for label in LABELS]
    model = Classifier(**{**OPTIONS, "max_steps": 1}).fit(TEXTS, np.array(labels, np.float32))
    assert model.labels == ["0", "1"]
    assert model.predict(TEXTS).dtype.kind == "i"
    assert model.score(TEXTS, labels) == (model.predict(TEXTS) == labels).mean()


def test_fit_names_a_label_that_only_occurs_in_the_development_set():
    message = r"All training examples have the label '0'; the label '1' only occurs in the dev"
    with pytest.raises(InputError, match=message) as caught:
        Classifier(**OPTIONS).fit(["good", "bad"], [1, 0])
    assert "column" not in str(caught.value)


def test_package_exports_public_names():
    assert elmo.tasks.Classifier is Classifier
    assert elmo.tasks.__all__ == [
        "Classifier",
        "CoreferenceResolver",
        "Example",
        "Frame",
        "NearestOccurrenceFinder",
        "QuestionAnswerer",
        "SemanticRoleLabeler",
        "SentencePairClassifier",
        "Tagger",
        "TaskConfig",
        "WordSenseDisambiguator",
        "read",
    ]
    with pytest.raises(AttributeError):
        elmo.tasks.Parser  # noqa: B018


def test_estimator_rejects_file_settings():
    for name, value in (("train", "a.txt"), ("reader", "conll"), ("seeds", 3), ("dry_run", True)):
        with pytest.raises(ConfigError, match=f"Unknown setting: {name}."):
            Classifier(**{name: value})


def test_fit_trains_on_a_fraction_of_the_examples(monkeypatch):
    n_examples = []

    def recording_train(job):
        n_examples.append(len(job.train))
        return train(job)

    monkeypatch.setattr(trained_estimator, "train", recording_train)
    for fraction in (1.0, 0.5):
        Classifier(**{**OPTIONS, "max_steps": 1, "fraction": fraction}).fit(TEXTS, LABELS)
    assert n_examples == [18, 9]


def test_loaded_estimator_has_the_settings_it_was_fitted_with(fitted, tmp_path):
    fitted.save(tmp_path / "saved")
    loaded = Classifier.load(tmp_path / "saved", device="cpu").get_params()
    params = {**fitted.get_params(), "character_filters": ((1, 4), (2, 4))}
    assert loaded["hidden"] == 8
    assert {name: params[name] for name in loaded} == loaded
    # Settings with default values can be missing.
    defaults = {leaf.name: leaf.default for leaf in leaves(TaskConfig)}
    assert {name for name in params if params[name] != defaults.get(name, 0)} - {
        "out"
    } <= loaded.keys()


def test_classifier_works_with_cross_validation_and_grid_search():
    selection = pytest.importorskip("sklearn.model_selection")
    model = Classifier(**{**OPTIONS, "epochs": 6, "evaluate_every": 50})
    scores = selection.cross_val_score(model, TEXTS, LABELS, cv=2)
    assert len(scores) == 2
    assert all(0 <= score <= 1 for score in scores)
    search = selection.GridSearchCV(model, {"max_steps": [1, 2]}, cv=2).fit(TEXTS, LABELS)
    assert search.best_params_["max_steps"] in (1, 2)
    assert list(search.classes_) == ["bad", "good"]
    assert len(search.predict(TEXTS)) == len(TEXTS)


def test_classifier_works_in_a_pipeline():
    pipeline = pytest.importorskip("sklearn.pipeline")
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    model = Classifier(**{**OPTIONS, "max_steps": 1})
    assert not hasattr(model, "classes_")
    steps = pipeline.make_pipeline(preprocessing.FunctionTransformer(), model)
    assert len(steps.fit(TEXTS, LABELS).predict(TEXTS)) == len(TEXTS)


def test_repr_shows_the_class_and_changed_settings():
    assert repr(Classifier()) == "Classifier()"
    model = Classifier(model="small-ko", epochs=20, hidden=64, verbose=1, out="run")
    assert repr(model) == "Classifier(out='run', verbose=1, model='small-ko', hidden=64)"


def test_error_before_fit_is_an_error_of_scikit_learn_and_can_be_pickled():
    exceptions = pytest.importorskip("sklearn.exceptions")
    for _ in range(2):
        with pytest.raises(exceptions.NotFittedError, match="This Tagger is not fitted") as caught:
            Tagger().predict(["a"])
        assert isinstance(caught.value, ConfigError)
    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, exceptions.NotFittedError)
    assert str(again) == str(caught.value)


def test_error_before_fit_without_scikit_learn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.exceptions", None)
    not_fitted._error_class.cache_clear()
    try:
        with pytest.raises(ConfigError, match="not fitted") as caught:
            Classifier().predict(["a"])
        assert type(caught.value) is not_fitted.NotFitted
    finally:
        not_fitted._error_class.cache_clear()


def test_fit_is_quiet_unless_verbose(capfd, tmp_path):
    model = write_elmo(tmp_path / "elmo")
    settings = {**OPTIONS, "model": model, "max_steps": 1}
    for verbose in (0, 1):
        Classifier(**settings, verbose=verbose).fit(TEXTS, LABELS)
        shown = "".join(capfd.readouterr())
        assert ("training examples" in shown) == ("ELMo layers" in shown) == bool(verbose)
        assert verbose or not shown


def test_training_data_with_a_single_label_are_rejected():
    with pytest.raises(InputError, match=r"All training examples have the label 'x'"):
        Classifier(**OPTIONS).fit(TEXTS, ["x"] * len(TEXTS))
    with pytest.raises(InputError, match=r"All training words have the label 'O'"):
        Tagger(**OPTIONS).fit(["a b"] * 4, [["O", "O"]] * 4)


def test_estimator_warns_about_text_and_tokenizer_that_do_not_fit_the_model(tmp_path, caplog):
    text = dataclasses.replace(TINY.text, tokenizer="english")
    config = dataclasses.replace(TINY, text=text)
    model = write_elmo(tmp_path / "elmo", config=config, attribution={"language": "en"})
    settings = {**OPTIONS, "model": model, "max_steps": 1}
    texts = [f"영화 {text[:3]} 재미있다" for text in TEXTS]
    Classifier(**settings, tokenizer="characters").fit(texts, LABELS)
    assert caplog.text.count("Use the model small-ko for Korean") == 1
    assert caplog.text.count("was trained on words of the tokenizer english") == 1
