"""Tests of the estimators `WordSenseDisambiguator` and `NearestOccurrenceFinder`."""

import pytest
from small_tasks import write_elmo

from elmo.errors import ConfigError, InputError
from elmo.tasks import Classifier, Example, NearestOccurrenceFinder, WordSenseDisambiguator, read
from elmo.tasks.word_senses.sense_tagged_files import SenseTarget

TEXTS = ["a bat flew by", "his wooden bat broke", ["the", "end"]]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_elmo(tmp_path_factory.mktemp("elmo"))


def test_nearest_occurrence_finder_predicts_before_and_after_saving(tmp_path, model):
    finder = NearestOccurrenceFinder(model=model, n_nearest=1).fit(TEXTS)
    queries = [("Bat", "his heavy bat broke"), ("owl", ["an", "owl"])]
    first, second = finder.predict(queries)
    (occurrence,) = first["occurrences"]
    assert (occurrence["word"], occurrence["place"], len(occurrence["nearest"])) == ("bat", 2, 1)
    assert second["occurrences"] == [{"word": "owl", "place": 1, "nearest": []}]
    finder.save(tmp_path / "saved")
    loaded = NearestOccurrenceFinder.load(tmp_path / "saved", "cpu")
    assert loaded.predict(queries) == [first, second]
    assert loaded.settings["n_nearest"] == 1
    for invalid in ("a bat", ("bat",)):
        with pytest.raises(InputError, match="Text 0 must be a pair of a word and its sentence"):
            finder.predict([invalid])


def test_nearest_occurrence_finder_indexes_only_a_fraction_if_set(model):
    finder = NearestOccurrenceFinder(model=model, fraction=0.2).fit(f"word{n}" for n in range(20))
    assert len(finder.fitted.task.sentences) == 4


def test_nearest_occurrence_finder_scores_examples_with_senses(tmp_path, model):
    path = tmp_path / "senses.tsv"
    path.write_text(
        "bat\tanimal\ta bat flew\nbat\tanimal\tthe bat flew\nbat\tclub\this bat broke\n"
    )
    examples = read(path, "occurrences")
    scores = NearestOccurrenceFinder(model=model, n_nearest=1).fit(examples).evaluate(examples)
    assert scores.keys() == {"accuracy", "nearest"}


def test_word_sense_disambiguator_predicts_before_and_after_saving(tmp_path, model):
    wordnet = tmp_path / "index.sense"
    wordnet.write_text("bank%1:14:00:: 08420278 1 20\nbank%1:17:01:: 09213565 2 14\n")
    entry = ("bank", "NOUN")
    examples = [
        Example((words,), (("bank%1:17:01::",),), extra=(SenseTarget(1, 2, entry),))
        for words in (("the", "bank", "of"), ("a", "bank"))
    ]
    finder = WordSenseDisambiguator(model=model, wordnet=str(wordnet)).fit(examples)
    (prediction,) = finder.predict(["The bank of"])
    assert [word["sense"] for word in prediction["senses"]] == ["bank%1:17:01::"]
    finder.save(tmp_path / "saved")
    loaded = WordSenseDisambiguator.load(tmp_path / "saved", "cpu")
    assert loaded.predict(["The bank of"]) == [prediction]
    with pytest.raises(
        ConfigError, match="contains a model for word_senses, not for nearest_occurrences"
    ):
        NearestOccurrenceFinder.load(tmp_path / "saved")


def test_lookup_estimators_reject_invalid_input(tmp_path, model):
    with pytest.raises(ConfigError, match=r"Unknown setting: train\. Common settings are"):
        NearestOccurrenceFinder(train="text.txt")
    with pytest.raises(
        ConfigError, match=r"This WordSenseDisambiguator is not fitted\. Call fit or load"
    ):
        WordSenseDisambiguator().predict(["a"])
    with pytest.raises(InputError, match="Text 1 has no words"):
        NearestOccurrenceFinder(model=model).fit(["a", ""])
    with pytest.raises(InputError, match="There are no texts"):
        NearestOccurrenceFinder(model=model).fit([])
    with pytest.raises(InputError, match="Text 0 must be an Example as returned by elmo"):
        WordSenseDisambiguator(model=model).fit(["a"])
    with pytest.raises(ConfigError, match="nearest_occurrences requires a frozen ELMo"):
        NearestOccurrenceFinder(model=None).fit(["a"])
    classifier = Classifier(model=None, hidden=4, max_steps=1, out=tmp_path / "run")
    classifier.fit(["a", "b"] * 5, ["x", "y"] * 5)
    with pytest.raises(ConfigError, match="for classification, not for nearest_occurrences"):
        NearestOccurrenceFinder.load(tmp_path / "run")
