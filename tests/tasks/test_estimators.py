"""`Classifier` and `Tagger`."""

import numpy as np
import pytest
import torch
from small_tasks import LABELED, OPTIONS, TAGGED, write_elmo

import elmo.tasks
from elmo.config import TaskConfig
from elmo.config.serialization import leaves
from elmo.errors import ConfigError, InputError
from elmo.tasks import Classifier, Tagger, estimators
from elmo.train import loop
from elmo.train.loop import train

TEXTS = [" ".join(example.words) for example in LABELED]
LABELS = [example.target for example in LABELED]
SENTENCES = [list(example.words) for example in TAGGED]
TAGS = [list(example.target) for example in TAGGED]


@pytest.fixture(autouse=True)
def no_picture(monkeypatch):
    monkeypatch.setattr(loop, "draw_curves", lambda folder: None)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A classifier that has learned its examples."""
    name = write_elmo(tmp_path_factory.mktemp("elmo"))
    settings = {**OPTIONS, "epochs": 25, "evaluate_every": 50, "model": name}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "draw_curves", lambda folder: None)
        return Classifier(**settings).fit(TEXTS, LABELS, dev=(TEXTS, LABELS))


@pytest.mark.filterwarnings("error")
def test_a_classifier(fitted, tmp_path):
    assert fitted.labels == ["bad", "good"]
    assert fitted.predict(TEXTS).tolist() == LABELS
    assert (fitted.predict(TEXTS) == LABELS).mean() == 1
    # Words that are split already are the same texts.
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
    again = Classifier.load(tmp_path / "saved", device="cpu")
    assert np.array_equal(again.predict_proba(TEXTS), fitted.predict_proba(TEXTS))
    assert again.trained.facts == fitted.trained.facts
    with pytest.raises(ConfigError, match="holds a model for classification, not tagging"):
        Tagger.load(tmp_path / "saved")
    with pytest.raises(InputError, match="expected a list of texts, not one text alone: 'a good'"):
        again.predict("a good")


@pytest.mark.parametrize("kind", [int, bool, np.int64, np.bool_])
def test_labels_that_are_numbers(tmp_path, kind):
    """What goes in comes out: scikit-learn's own sets have such labels."""
    labels = [kind(label == "good") for label in LABELS]
    model = Classifier(**{**OPTIONS, "epochs": 25, "evaluate_every": 50})
    model.fit(TEXTS, labels, dev=(TEXTS, np.array(labels)))
    assert model.labels == ["0", "1"]
    assert model.classes_.dtype == np.array(labels).dtype
    assert (model.predict(TEXTS) == labels).all()
    assert model.evaluate(TEXTS, labels)["accuracy"] == 1
    model.save(tmp_path)
    again = Classifier.load(tmp_path)
    assert again.classes_.dtype == model.classes_.dtype
    assert (again.predict(TEXTS) == labels).all()
    assert again.score(TEXTS, labels) == 1
    with pytest.raises(InputError, match=r"example '0' has 0.5 for its target, expected a label"):
        model.fit(TEXTS, [0.5] * len(TEXTS))


def test_a_tagger_that_is_tuned(tmp_path):
    name = write_elmo(tmp_path / "elmo")
    tagger = Tagger(
        out=tmp_path / "run", **{**OPTIONS, "epochs": 2, "model": name, "use": "tuned"}
    ).fit(SENTENCES, map(tuple, TAGS))
    assert [len(tags) for tags in tagger.predict(SENTENCES)] == [len(tags) for tags in TAGS]
    assert tagger.predict([" ".join(SENTENCES[0])]) == tagger.predict([SENTENCES[0]])
    assert set(tagger.evaluate(SENTENCES, TAGS)) == set(tagger.trained.task.metrics)
    assert 0 <= tagger.score(SENTENCES, TAGS) <= 1
    # The training folder is one of `elmo task fit` too.
    again = Tagger.load(tmp_path / "run")
    assert again.predict(SENTENCES) == tagger.predict(SENTENCES)


def test_the_seed_decides(tmp_path):
    rows = []
    for seed in (1, 1, 2):
        torch.manual_seed(len(rows))
        model = Classifier(**{**OPTIONS, "seed": seed, "max_steps": 2})
        rows.append(model.fit(TEXTS, LABELS).predict_proba(TEXTS).tolist())
    assert rows[0] == rows[1] != rows[2]


def test_before_it_is_fitted():
    model = Classifier()
    for use in (lambda: model.predict(TEXTS), lambda: model.labels, lambda: model.save("x")):
        with pytest.raises(ConfigError, match="this Classifier has not been fitted: call fit or l"):
            use()


def test_settings_as_scikit_learn_asks_for_them(tmp_path):
    base = pytest.importorskip("sklearn.base")
    filters = [[1, 4], [2, 4]]
    model = Classifier(out=tmp_path, **{**OPTIONS, "character_filters": filters, "max_steps": 1})
    again = base.clone(model)
    assert again is not model
    assert again.get_params() == model.get_params()
    assert again.get_params()["out"] == tmp_path
    assert again.set_params(out=None, seed=7) is again
    assert (again.out, again.settings["seed"], model.out) == (None, 7, tmp_path)
    with pytest.raises(ConfigError, match="unknown setting sede; known: accelerator"):
        again.set_params(sede=1)
    assert "sede" not in again.get_params()
    assert 0 <= again.fit(TEXTS, LABELS).score(TEXTS, LABELS) <= 1


def test_unknown_settings():
    with pytest.raises(ConfigError, match=r"unknown setting hiden, rat; known: .*hidden"):
        Classifier(hiden=3, rat=1)
    # These are decided by the class, or make no sense here.
    for name in ("task", "seeds"):
        with pytest.raises(ConfigError, match=f"unknown setting {name}"):
            Tagger(**{name: "tagging"})
    with pytest.raises(ConfigError, match="found str 'much', expected int"):
        Classifier(**{**OPTIONS, "hidden": "much"}).fit(TEXTS, LABELS)


@pytest.mark.parametrize(
    ("kind", "texts", "targets", "message"),
    [
        (Classifier, ["a", "b"], ["x"], "2 texts, but 1 targets"),
        (Classifier, [], [], "there are no texts"),
        (Classifier, ["a", " "], ["x", "y"], "text 1 has no word"),
        (Classifier, ["a", []], ["x", "y"], "text 1 has no word"),
        (Classifier, ["a", None], ["x", "y"], "text 1 is None; expected a string or words"),
        (Classifier, ["a", ["b", 2]], ["x", "y"], "text 1 is .*; expected a string or words"),
        (Classifier, ["a", "b"], [0.5, 1], "example '0' has 0.5 for its target, expected a label"),
        (Classifier, ["a", "b"], [None, "x"], "'0' has None for its target, expected a label"),
        (Tagger, ["a b"], [["X"]], "text 0 has 2 words, but 1 tags"),
        (Tagger, ["a b"], ["XY"], "'0' has 'XY' for its target, expected a tag for each word"),
        (Tagger, ["a b"], [3], "'0' has 3 for its target, expected a tag for each word"),
    ],
)
def test_what_does_not_fit(kind, texts, targets, message):
    with pytest.raises(InputError, match=message):
        kind(**OPTIONS).fit(texts, targets)


def test_what_cannot_be_measured(fitted):
    with pytest.raises(InputError, match="20 texts, but 1 targets"):
        fitted.score(TEXTS, ["good"])
    with pytest.raises(InputError, match=r"has 1\.5 for its target, expected a label"):
        fitted.evaluate(["a"], [1.5])
    with pytest.raises(InputError, match="text 0 has no word"):
        fitted.predict([""])


def test_names_of_the_room():
    assert elmo.tasks.Classifier is Classifier
    assert elmo.tasks.__all__ == [
        "Answerer",
        "Classifier",
        "CoreferenceResolver",
        "Example",
        "Frame",
        "NeighbourFinder",
        "PairClassifier",
        "RoleLabeller",
        "SenseFinder",
        "Tagger",
        "read",
    ]
    with pytest.raises(AttributeError):
        elmo.tasks.Parser  # noqa: B018


def test_settings_of_files_are_none_here():
    for name, value in (("train", "a.txt"), ("reader", "conll"), ("seeds", 3), ("dry_run", True)):
        with pytest.raises(ConfigError, match=f"unknown setting {name}; known"):
            Classifier(**{name: value})


def test_a_fraction_is_what_is_learned_from(monkeypatch):
    learned = []

    def watched(job):
        learned.append(len(job.train))
        return train(job)

    monkeypatch.setattr(estimators, "train", watched)
    for fraction in (1.0, 0.5):
        Classifier(**{**OPTIONS, "max_steps": 1, "fraction": fraction}).fit(TEXTS, LABELS)
    assert learned == [18, 9]


def test_a_model_that_is_loaded_has_its_settings(fitted, tmp_path):
    fitted.save(tmp_path / "saved")
    again = Classifier.load(tmp_path / "saved", device="cpu").get_params()
    told = {**fitted.get_params(), "character_filters": ((1, 4), (2, 4))}
    assert again["hidden"] == 8
    assert {name: told[name] for name in again} == again
    # What is as usual need not be told.
    usual = {leaf.name: leaf.default for leaf in leaves(TaskConfig)}
    assert {name for name in told if told[name] != usual[name]} - {"out"} <= again.keys()


def test_whether_texts_were_raw_is_known(fitted):
    assert fitted.trained.raw
    words = Classifier(**{**OPTIONS, "max_steps": 1}).fit(map(str.split, TEXTS), LABELS)
    assert not words.trained.raw


def test_scikit_learn_chooses_and_measures():
    selection = pytest.importorskip("sklearn.model_selection")
    model = Classifier(**{**OPTIONS, "epochs": 6, "evaluate_every": 50})
    scores = selection.cross_val_score(model, TEXTS, LABELS, cv=2)
    assert len(scores) == 2
    assert all(0 <= score <= 1 for score in scores)
    search = selection.GridSearchCV(model, {"max_steps": [1, 2]}, cv=2).fit(TEXTS, LABELS)
    assert search.best_params_["max_steps"] in (1, 2)
    assert list(search.classes_) == ["bad", "good"]
    assert len(search.predict(TEXTS)) == len(TEXTS)


def test_a_model_in_a_pipeline():
    pipeline = pytest.importorskip("sklearn.pipeline")
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    model = Classifier(**{**OPTIONS, "max_steps": 1})
    assert not hasattr(model, "classes_")
    steps = pipeline.make_pipeline(preprocessing.FunctionTransformer(), model)
    assert len(steps.fit(TEXTS, LABELS).predict(TEXTS)) == len(TEXTS)
