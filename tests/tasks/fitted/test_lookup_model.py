"""Tests of lookup models for word senses and nearest occurrences, from files to predictions."""

import json

import numpy as np
import pytest
from sense_probe import SenseData, sense_accuracy
from small_tasks import task_config, write_elmo
from typer.testing import CliRunner

from elmo import cli
from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError, FormatError, InputError
from elmo.tasks.core.example import Example
from elmo.tasks.fitted.load_fitted import load_fitted_task
from elmo.tasks.reading.readers import read
from elmo.tasks.training.fit import fit

INDEX = """\
bank%1:14:00:: 08420278 2 20
bank%1:17:01:: 09213565 1 25
owl%1:05:00:: 01621127 2 0
owl%1:18:00:: 01621128 1 0
run%2:38:00:: 01926311 1 106
run%2:33:00:: 01926312 2 10
"""


def sgml(words):
    """Return a sentence in SemCor format.

    An item is a word, or a word with its lemma, sense number and sense key.
    """
    lines = [
        f"<wf cmd=done pos=XX lemma={word[1]} wnsn={word[2]} lexsn={word[3]}>{word[0]}</wf>"
        if isinstance(word, tuple)
        else f"<wf cmd=ignore pos=XX>{word}</wf>"
        for word in words
    ]
    return "\n".join(["<s snum=1>", *lines, "</s>", ""])


RIVER, MONEY = ("bank", "bank", 1, "1:17:01::"), ("Bank", "bank", 2, "1:14:00::")
RAN = ("ran", "run", 1, "2:38:00::")
SEMCOR = (
    "".join(
        map(sgml, [["the", RIVER, "of", "it"], [MONEY, "pays"], ["a", RIVER], ["it", RAN, "out"]])
    )
    + "</contextfile>\n"
)
XML = """\
<corpus><text>
<sentence><wf>the</wf><instance id="a" lemma="bank" pos="NOUN">bank</instance><wf>of</wf></sentence>
<sentence><instance id="b" lemma="owl" pos="NOUN">owls</instance></sentence>
<sentence><instance id="c" lemma="bank" pos="NOUN">Bank</instance><wf>pays</wf></sentence>
<sentence><wf>nothing</wf></sentence>
</text></corpus>
"""
KEYS = "a bank%1:17:01::\nb owl%1:18:00::\nc bank%1:14:00::\n"
SENSES = """\
bat\tanimal\ta small bat flew
bat\tanimal\tthe small bat flew
bat\tclub\this wooden bat broke
bat\tclub\this heavy bat broke

seal\tanimal\tthe seal
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_elmo(tmp_path_factory.mktemp("elmo"))


@pytest.fixture
def folder(tmp_path):
    for name, text in {
        "wordnet-3.0/index.sense": INDEX,
        "semcor3.0/brown1/tagfiles/br-a01": SEMCOR,
        "Evaluation_Datasets/ALL/ALL.data.xml": XML,
        "Evaluation_Datasets/ALL/ALL.gold.key.txt": KEYS,
    }.items():
        path = tmp_path / "wsd" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "wsd"


@pytest.fixture(scope="module")
def elmo():
    """Return a function that runs `elmo task` with the given arguments and standard input."""
    runner, app = CliRunner(), cli.application()
    return lambda *words, stdin=None: runner.invoke(app, ["task", *map(str, words)], input=stdin)


def senses_config(folder, out, model, **settings):
    defaults = {
        "task": "word_senses",
        "reader": "word_senses",
        "train": str(folder / "semcor3.0"),
        "test": str(folder / "Evaluation_Datasets" / "ALL"),
        "model": model,
        "layers": "2",
    }
    return task_config(out, **{**defaults, **settings})


def nearest_config(path, out, model, **settings):
    defaults = {
        "task": "nearest_occurrences",
        "reader": "occurrences",
        "train": str(path),
        "model": model,
    }
    return task_config(out, **{**defaults, "layers": "top", **settings})


# ------------------------------------------------------------------------------------------ senses


@pytest.mark.parametrize("layer", [0, 2])
def test_word_sense_scores_equal_the_scores_of_sense_accuracy(tmp_path, folder, model, layer):
    result = fit(senses_config(folder, tmp_path / "run", model, layers=str(layer)))
    elmo = ELMo.from_pretrained(model)
    data = SenseData.read(folder)
    expected = sense_accuracy(lambda sentences: elmo.encode(sentences, layers="all"), data)
    (run,) = result.runs
    assert run["test"] == {"f1": expected.layers[layer], "first_sense": expected.first_sense}
    assert run["test"]["f1"] == 1  # "bank" is found by its context, "owl" in WordNet
    assert run["development"] is None
    assert str(result).splitlines()[0] == "test         f1 1.0000, first sense 0.6667"


def test_lookup_model_is_reused_after_moving_examples_or_model(tmp_path, folder, model):
    first = fit(senses_config(folder, tmp_path / "run", model))
    (folder / "semcor3.0").rename(folder / "gone")
    # The same examples in another folder: the model is not built again.
    moved = senses_config(folder, tmp_path / "run", model, train=str(folder / "gone"))
    assert fit(moved) == first
    (tmp_path / "run" / "model").rename(tmp_path / "moved")
    examples = read(folder / "Evaluation_Datasets" / "ALL", "word_senses")
    assert load_fitted_task(tmp_path / "moved", "cpu").scores(examples) == first.runs[0]["test"]


def test_word_senses_are_predicted_for_raw_sentences(tmp_path, folder, model, elmo):
    fit(senses_config(folder, tmp_path / "run", model))
    shown = elmo("predict", tmp_path / "run", "-", stdin="the bank of\nBank pays\nhe Ran\n")
    assert shown.exit_code == 0
    records = [json.loads(line) for line in shown.stdout.splitlines()]
    assert records[0] == {
        "words": ["the", "bank", "of"],
        "senses": [
            {"text": "bank", "start": 1, "end": 2, "sense": "bank%1:17:01::", "by": "nearest"}
        ],
    }
    # Inflected forms in the training examples are known.
    assert [word["sense"] for word in records[2]["senses"]] == ["run%2:38:00::"]
    assert len(records[1]["senses"]) == 1


def test_lemma_without_training_occurrences_gets_first_wordnet_sense(tmp_path, folder, model):
    fit(senses_config(folder, tmp_path / "run", model))
    lookup = load_fitted_task(tmp_path / "run")
    example = read(folder / "Evaluation_Datasets" / "ALL", "word_senses")[1]
    (prediction,) = lookup.predict([example])
    assert lookup.task.to_record(example, prediction)["senses"] == [
        {"text": "owls", "start": 0, "end": 1, "sense": "owl%1:18:00::", "by": "first sense"}
    ]


def test_word_sense_lookup_rejects_invalid_input(tmp_path, folder, model):
    with pytest.raises(FormatError, match=r"Cannot read .*nowhere"):
        fit(senses_config(folder, tmp_path / "a", model, wordnet=str(folder / "nowhere")))
    with pytest.raises(ConfigError, match="word_senses requires a frozen ELMo"):
        fit(senses_config(folder, tmp_path / "b", None))
    with pytest.raises(ConfigError, match=r"word_senses is deterministic\. Use seeds: 1"):
        senses_config(folder, tmp_path / "c", model, seeds=2)
    with pytest.raises(ConfigError, match=r"There are no examples for the index\. Set a file"):
        fit(senses_config(folder, tmp_path / "d", model, train=None))
    with pytest.raises(FormatError, match=r"is not a directory\. Expected semcor3\.0"):
        read(folder / "x", "word_senses")
    with pytest.raises(ConfigError, match="These data sets are always UTF-8"):
        read(folder / "semcor3.0", "word_senses", encoding="cp949")
    (folder / "wordnet-3.0" / "index.sense").write_text("x%1:00:00:: 1 1 0\n")
    with pytest.raises(InputError, match="None of the senses in the examples occurs in"):
        fit(senses_config(folder, tmp_path / "e", model))


# ----------------------------------------------------------------------------------------- nearest


def test_occurrence_reader_accepts_raw_text_and_tab_separated_senses(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("one sentence\nBank\tthe bank of a bank\n\nbat\tclub\this bat\n")
    assert read(path, "occurrences") == [
        Example((("one", "sentence"),), None, "1"),
        Example((("the", "bank", "of", "a", "bank"),), None, "2", 1),
        Example((("his", "bat"),), "club", "4", 1),
    ]
    for text, message in (
        ("a\tb\tc\td\n", "line 1: expected a sentence; word, sentence"),
        ("\ta bat\n", "line 1: expected a sentence; word, sentence"),
        ("bat\tno such\n", "line 1: the sentence does not contain the word 'bat'"),
        ("bat\t\n", "line 1: the sentence has no words"),
        ("\n", "contains no sentences"),
    ):
        path.write_text(text)
        with pytest.raises(FormatError, match=message):
            read(path, "occurrences")


def test_nearest_occurrences_with_senses_are_scored_and_predicted(tmp_path, model, elmo):
    path = tmp_path / "senses.tsv"
    path.write_text(SENSES)
    result = fit(nearest_config(path, tmp_path / "run", model, dev=str(path), n_nearest=1))
    # A sentence is not its own neighbor, so "seal" has no neighbors.
    assert result.runs[0]["development"] == {"accuracy": 0.8, "nearest": 0.8}
    shown = elmo("evaluate", tmp_path / "run", path)
    assert shown.stdout == "accuracy        0.8000\nnearest         0.8000\nexamples        5\n"
    stdin = "Bat\this heavy bat broke\nowl\tan owl\n"
    shown = elmo("predict", tmp_path / "run", "-", stdin=stdin)
    first, second = map(json.loads, shown.stdout.splitlines())
    (occurrence,) = first["occurrences"]
    assert (occurrence["word"], occurrence["place"]) == ("bat", 2)
    (nearest,) = occurrence["nearest"]
    assert (nearest["text"], nearest["sense"]) == ("his wooden bat broke", "club")
    assert 0 < nearest["cosine"] < 1
    assert second["occurrences"] == [{"word": "owl", "place": 1, "nearest": []}]


def test_nearest_occurrences_from_raw_text_have_no_senses(tmp_path, model, elmo):
    path = tmp_path / "text.txt"
    path.write_text("a bat\nA bat here\nthe end\n")
    fit(nearest_config(path, tmp_path / "run", model, max_per_word=1, layers="all"))
    (tmp_path / "senses.tsv").write_text(SENSES)
    shown = elmo("evaluate", tmp_path / "run", tmp_path / "senses.tsv")
    assert "The index contains no senses" in shown.stderr
    lookup = load_fitted_task(tmp_path / "run" / "model")
    assert [tuple(item) for item in lookup.task.occurrences] == [
        (0, 0, None),
        (0, 1, None),
        (1, 2, None),
        (2, 0, None),
        (2, 1, None),
    ]
    assert lookup.task.vectors.dtype == np.float16
    (prediction,) = lookup.predict([Example((("A", "bat"),))])
    assert [[item.sentence for item, _ in word.nearest] for word in prediction] == [[0], [0]]
    # Several layers are averaged.
    vectors = ELMo.from_pretrained(lookup.config.elmo.model).encode([["a", "bat"]], layers="all")
    np.testing.assert_allclose(lookup.task.vectors[:2], vectors[0].mean(axis=0), rtol=2e-3)
    with pytest.raises(InputError, match="expected the name of a sense"):
        lookup.scores([Example((("a", "bat"),), None, "", 1)])


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("memory.json", b"{}"),
        ("memory.json", b'{"sentences": [["a"]], "occurrences": [[0, 0, null]]}'),
        ("memory.safetensors", b"damaged"),
    ],
)
def test_load_rejects_damaged_lookup_model(tmp_path, model, name, data):
    path = tmp_path / "text.txt"
    path.write_text("a bat\n")
    fit(nearest_config(path, tmp_path / "run", model))
    (tmp_path / "run" / "model" / name).write_bytes(data)
    with pytest.raises(FormatError, match="is not a complete fitted task model"):
        load_fitted_task(tmp_path / "run")


def test_dry_run_of_lookup_task_writes_nothing(tmp_path, model):
    config = nearest_config(tmp_path / "text.txt", tmp_path / "run", model, dry_run=True)
    assert "nearest_occurrences needs no training" in str(fit(config))
    assert list(tmp_path.iterdir()) == []


def test_lookup_fit_rejects_changed_examples_for_existing_model(tmp_path, model):
    path = tmp_path / "text.txt"
    path.write_text("a bat\n")
    fit(nearest_config(path, tmp_path / "run", model))
    fit(nearest_config(path, tmp_path / "run", model))
    path.write_text("a bat\nanother bat\n")
    with pytest.raises(ConfigError, match="run was built from other examples or"):
        fit(nearest_config(path, tmp_path / "run", model))


def test_lookup_fit_rejects_another_target_word_in_the_same_sentence(tmp_path, model):
    path = tmp_path / "senses.tsv"
    path.write_text("bat\tx\tthe bat club\n")
    fit(nearest_config(path, tmp_path / "run", model))
    path.write_text("club\tx\tthe bat club\n")
    with pytest.raises(ConfigError, match="run was built from other examples or"):
        fit(nearest_config(path, tmp_path / "run", model))


def test_lookup_prediction_error_names_the_input_line(tmp_path, model, elmo):
    path = tmp_path / "text.txt"
    path.write_text("a bat\n")
    fit(nearest_config(path, tmp_path / "run", model))
    shown = elmo("predict", tmp_path / "run", "-", stdin="bat\ta bat\nKim\tShe left\n")
    assert shown.exit_code == 1
    assert (
        "standard input, line 2: query: the sentence does not contain the word 'Kim'"
        in shown.stderr
    )
