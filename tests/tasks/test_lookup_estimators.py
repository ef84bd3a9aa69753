"""`WordSenseDisambiguator` and `NearestOccurrenceFinder`: what the verbs do, without files."""

import pytest
from small_tasks import write_elmo

from elmo.errors import ConfigError, InputError
from elmo.tasks import Classifier, Example, NearestOccurrenceFinder, WordSenseDisambiguator, read
from elmo.tasks.readers.sense_tagged_files import SenseTarget

TEXTS = ["a bat flew by", "his wooden bat broke", ["the", "end"]]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_elmo(tmp_path_factory.mktemp("elmo"))


def test_neighbours(tmp_path, model):
    finder = NearestOccurrenceFinder(model=model, n_nearest=1).fit(TEXTS)
    asked = [("Bat", "his heavy bat broke"), ("owl", ["an", "owl"])]
    first, second = finder.predict(asked)
    (found,) = first["occurrences"]
    assert (found["word"], found["place"], len(found["nearest"])) == ("bat", 2, 1)
    assert second["occurrences"] == [{"word": "owl", "place": 1, "nearest": []}]
    finder.save(tmp_path / "saved")
    again = NearestOccurrenceFinder.load(tmp_path / "saved", "cpu")
    assert again.predict(asked) == [first, second]
    assert again.settings["n_nearest"] == 1
    for wrong in ("a bat", ("bat",)):
        with pytest.raises(InputError, match=r"text 0 is .*; expected a word and its sentence"):
            finder.predict([wrong])


def test_a_fraction_of_texts_is_remembered(model):
    finder = NearestOccurrenceFinder(model=model, fraction=0.2).fit(f"word{n}" for n in range(20))
    assert len(finder.remembered.index.sentences) == 4


def test_neighbours_of_examples_are_measured(tmp_path, model):
    path = tmp_path / "senses.tsv"
    path.write_text(
        "bat\tanimal\ta bat flew\nbat\tanimal\tthe bat flew\nbat\tclub\this bat broke\n"
    )
    examples = read(path, "occurrences")
    scores = NearestOccurrenceFinder(model=model, n_nearest=1).fit(examples).evaluate(examples)
    assert scores.keys() == {"accuracy", "nearest"}


def test_senses(tmp_path, model):
    wordnet = tmp_path / "index.sense"
    wordnet.write_text("bank%1:14:00:: 08420278 1 20\nbank%1:17:01:: 09213565 2 14\n")
    entry = ("bank", "NOUN")
    examples = [
        Example((words,), (("bank%1:17:01::",),), extra=(SenseTarget(1, 2, entry),))
        for words in (("the", "bank", "of"), ("a", "bank"))
    ]
    finder = WordSenseDisambiguator(model=model, wordnet=str(wordnet)).fit(examples)
    (found,) = finder.predict(["The bank of"])
    assert [one["sense"] for one in found["senses"]] == ["bank%1:17:01::"]
    finder.save(tmp_path / "saved")
    assert WordSenseDisambiguator.load(tmp_path / "saved", "cpu").predict(["The bank of"]) == [
        found
    ]
    with pytest.raises(ConfigError, match="holds a model for senses, not nearest"):
        NearestOccurrenceFinder.load(tmp_path / "saved")


def test_what_is_refused(tmp_path, model):
    with pytest.raises(ConfigError, match="unknown setting train; known"):
        NearestOccurrenceFinder(train="text.txt")
    with pytest.raises(ConfigError, match="this SenseFinder has not been fitted: call fit or load"):
        WordSenseDisambiguator().predict(["a"])
    with pytest.raises(InputError, match="text 1 has no word"):
        NearestOccurrenceFinder(model=model).fit(["a", ""])
    with pytest.raises(InputError, match="there are no texts"):
        NearestOccurrenceFinder(model=model).fit([])
    with pytest.raises(InputError, match="text 0 is no example such as elmo"):
        WordSenseDisambiguator(model=model).fit(["a"])
    with pytest.raises(ConfigError, match="vectors of a frozen ELMo"):
        NearestOccurrenceFinder(model=None).fit(["a"])
    classifier = Classifier(model=None, hidden=4, max_steps=1, out=tmp_path / "run")
    classifier.fit(["a", "b"] * 5, ["x", "y"] * 5)
    with pytest.raises(ConfigError, match="for classification, which remembers nothing"):
        NearestOccurrenceFinder.load(tmp_path / "run")
