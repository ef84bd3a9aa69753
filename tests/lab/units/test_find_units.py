"""Tests of the search for units, with units that are known to follow a property."""

import dataclasses
import json

import numpy as np
import pytest
from conftest import TINY
from conftest import random_model as random_elmo
from small_networks import TEXT, small_network

from elmo.errors import ConfigError, InputError
from elmo.lab import find_units
from elmo.lab.recurrent_folder import RecurrentModel
from elmo.lab.units import sampled_text
from elmo.lab.units.property_labels import number_labels, text_labels
from elmo.lab.units.random_model import random_model
from elmo.lab.units.read_traces import read_traces
from elmo.lab.units.text_properties import text_property
from elmo.lab.units.traces import Track, UnitTraces
from elmo.lab.units.unit_search import UnitSearch, searches_of

HIDDEN, CELL = Track(0, "forward", "hidden"), Track(1, "forward", "cell")
LONG = 'He said "go (now)" and went.\nA 7th "word" here (too).\n' * 30


def make_model(text=LONG, **options):
    network, symbols = small_network(text=text, **options)
    return RecurrentModel(network, symbols, {})


def traces_of(text, planted, seed=0):
    """Return traces of random units, of which unit 2 of the second track is a given array."""
    rng = np.random.default_rng(seed)
    values = {track: rng.normal(size=(len(text), 6)).astype(np.float32) for track in (HIDDEN, CELL)}
    values[CELL][:, 2] = planted
    return UnitTraces(tuple(text), "characters", values)


@pytest.mark.parametrize("sign", [1, -1])
def test_search_finds_planted_unit(sign):
    labels = text_labels("quotes", text_property("quotes"), traces_of(LONG, 0))
    noise = np.random.default_rng(3).normal(size=len(LONG)) / 3
    search = UnitSearch(traces_of(LONG, sign * labels.values + noise), labels.is_valid)
    best, *others = search.best(labels, 3)
    assert (best.track, best.unit, best.sign) == (CELL, 2, sign)
    assert best.auc > 0.95
    assert best.correlation > 0.7
    assert best.mutual_information > 0.3
    assert all(other.auc < 0.6 for other in others)
    null = search.null_scores(labels, 20, seed=1)
    assert null.shape == (20,)
    assert abs(null.mean() - 0.5) < 0.2


def test_search_correlates_with_numbers():
    labels = text_labels("line-position", text_property("line-position"), traces_of(LONG, 0))
    search = UnitSearch(traces_of(LONG, -3 * labels.values + 1), labels.is_valid)
    (best,) = search.best(labels, 1)
    assert (best.unit, best.sign, best.auc) == (2, -1, None)
    assert best.score == pytest.approx(1.0, abs=1e-4)


def test_unit_is_chosen_on_first_half_only():
    labels = text_labels("quotes", text_property("quotes"), traces_of(LONG, 0))
    half = len(LONG) // 2
    planted = np.where(np.arange(len(LONG)) < half, labels.values, -labels.values)
    (best,) = UnitSearch(traces_of(LONG, planted), labels.is_valid).best(labels, 1)
    assert (best.unit, best.sign) == (2, 1)
    assert best.auc == pytest.approx(0.0, abs=1e-5)


def test_shifted_labels_of_noise_do_not_exceed_chance():
    text = "ab" * 2000
    traces = traces_of(text, np.random.default_rng(4).normal(size=len(text)))
    labels = number_labels("x", [float(i // 50 % 2) for i in range(len(text))], traces)
    scores = UnitSearch(traces, labels.is_valid).null_scores(labels, 50, seed=1)
    assert 0.45 < scores.mean() < 0.55
    assert scores.max() < 0.6


def test_result_has_all_sections():
    found = find_units(make_model(), LONG, builtin="quotes,line-position", n=2, ablate=True)
    assert [item.name for item in found.properties] == ["quotes", "line-position"]
    quotes = found["quotes"]
    assert len(quotes.units) == 2
    assert quotes.random is not None
    assert len(quotes.shifted) == 20
    assert len(quotes.ablations) == 2
    assert quotes.ablations[0].clamp.value == 0.0
    data = json.loads(json.dumps(found.to_dict()))
    assert data["properties"][0]["chosen_by"] == "auc"
    assert data["properties"][1]["units"][0]["auc"] is None
    text = str(found)
    for part in ("quotes: inside double quotes", "random:", "shifted labels", "bits per character"):
        assert part in text
    assert all(len(line) <= 100 for line in text.split("\n"))


def test_random_network_is_not_the_model():
    model = make_model()
    other = random_model(model, seed=99)
    traces, others = (read_traces(network, LONG, kinds=["hidden"]) for network in (model, other))
    assert not np.allclose(traces.values[HIDDEN], others.values[HIDDEN])
    assert traces.values.keys() == others.values.keys()


def test_default_properties_are_those_of_text():
    names = [item.name for item in find_units(make_model(), LONG, random=False).properties]
    assert {"quotes", "brackets", "capital", "digit", "line-position"} <= set(names)
    assert "comment" not in names


def test_labels_and_pattern_are_properties(tmp_path):
    path = tmp_path / "labels.txt"
    path.write_text("\n".join(str(i % 3) for i in range(len(LONG))), encoding="utf-8")
    found = find_units(make_model(), LONG, labels=path, pattern=r"\w+", random=False)
    assert [item.name for item in found.properties] == [r"\w+", "labels"]
    assert not found["labels"].is_boolean


def test_positions_without_label_are_ignored(tmp_path):
    labels = text_labels("quotes", text_property("quotes"), traces_of(LONG, 0)).values
    generator = np.random.default_rng(5)
    is_known = generator.random(len(LONG)) < 0.3
    # Where labels are missing, the planted unit has the wrong sign.
    traces = traces_of(LONG, np.where(is_known, labels, -labels))
    known = number_labels("known", np.where(is_known, labels, np.nan).tolist(), traces)
    all_labels = number_labels("all", labels.tolist(), traces)
    search, other = searches_of(traces, [known, all_labels])
    assert search.best(known, 1)[0].auc == pytest.approx(1.0)
    assert other.best(all_labels, 1)[0].auc < 0.9
    assert sum(map(len, search.parts)) == is_known.sum()
    path = tmp_path / "labels.txt"
    words = [str(int(label)) if kept else "-" for label, kept in zip(labels, is_known, strict=True)]
    path.write_text(" ".join(words), encoding="utf-8")
    found = find_units(make_model(), LONG, labels=path, builtin="digit", random=False)
    assert found["labels"].n_positions == len(search.parts[1])
    assert found["digit"].n_positions == len(LONG) // 2


def test_named_property_that_does_not_vary_is_skipped():
    text = LONG + "no more marks of speech are in this part of it, but only " * 40
    gaps = [float("nan")] * len(text)
    found = find_units(
        make_model(text), text, builtin="quotes,whitespace", labels=gaps, random=False
    )
    assert [item.name for item in found.properties] == ["whitespace"]
    reason = "has the same value everywhere in the second half of the text"
    assert found.skipped["quotes"] == reason
    assert found.to_dict()["skipped"]["labels"].startswith("has labels at only 0 positions")
    assert f"Skipped: quotes {reason}" in " ".join(str(found).split())


def test_error_about_sampled_text_states_how_much_was_read():
    with pytest.raises(InputError, match=r"Read 40 of the .* Use a larger --max-positions\.$"):
        find_units(make_model(), LONG, builtin="comment", max_positions=40)
    with pytest.raises(InputError, match=r"No property varies .* Use a larger --max-positions\.$"):
        find_units(make_model(), LONG, max_positions=3)


@pytest.mark.parametrize("unit", ["characters", "bytes", "words"])
def test_labels_of_sample_are_those_of_whole_text(unit, monkeypatch):
    monkeypatch.setattr(sampled_text, "MIN_WINDOW", 20)
    text = LONG.replace("went", "wént") + '"open \n' * 40
    model = make_model(text, unit=unit)
    whole, sample = (read_traces(model, text, max_positions=n, n_guesses=0) for n in (10**5, 150))
    assert len(sample.sample.windows) > 1
    for name in ("quotes", "line-position", "capital"):
        expected = text_labels(name, text_property(name), whole).values[sample.positions]
        values = text_labels(name, text_property(name), sample).values
        np.testing.assert_array_equal(values, expected)
    n_labels = sum(piece != "\n" or unit != "words" for piece in whole.pieces)
    numbers = list(map(float, range(n_labels)))
    expected = number_labels("x", numbers, whole).values[sample.positions]
    np.testing.assert_array_equal(number_labels("x", numbers, sample).values, expected)


@pytest.mark.parametrize("unit", ["bytes", "words"])
def test_units_other_than_characters_have_labels(unit):
    text = LONG.replace("went", "wént")
    found = find_units(make_model(text, unit=unit), text, builtin="capital", random=False)
    words = sum(word[0].isupper() for word in text.split()) / len(text.split())
    capitals = sum(map(str.isupper, text)) / len(text.encode())
    assert found["capital"].mean == pytest.approx(words if unit == "words" else capitals, abs=0.02)


def test_words_have_property_of_any_character():
    traces = read_traces(make_model(unit="words"), 'a "Bc\nd" Ef 7', kinds=["hidden"])
    capital = text_labels("capital", text_property("capital"), traces)
    np.testing.assert_array_equal(capital.values, [0, 1, np.nan, 0, 1, 0])
    quotes = text_labels("quotes", text_property("quotes"), traces)
    np.testing.assert_array_equal(quotes.values, [0, 1, np.nan, 0, 0, 0])


def test_elmo_reads_words_of_conllu_file(tmp_path):
    rows = ["1\tthe\t_\tDET\t_\t_\t2\tdet\t_\t_", "2\tcats\t_\tNOUN\t_\tNumber=Plur\t0\troot\t_\t_"]
    path = tmp_path / "words.conllu"
    path.write_text(("\n".join(rows) + "\n\n") * 6, encoding="utf-8")
    model = random_elmo(dataclasses.replace(TINY))
    found = find_units(model, path, builtin="upos=NOUN", device="cpu")
    assert found["upos=NOUN"].mean == 0.5
    assert found["upos=NOUN"].units[0].auc == pytest.approx(1.0)
    assert [item.name for item in find_units(model, path, device="cpu").properties] == [
        "upos=NOUN",
        "Number=Plur",
    ]
    with pytest.raises(ConfigError, match="Unknown property of words"):
        find_units(model, path, builtin="noun", device="cpu")
    with pytest.raises(ConfigError, match="this random model has no softmax"):
        find_units(model, path, ablate=True, device="cpu")


@pytest.mark.parametrize(
    ("text", "options", "error", "message"),
    [
        ("t", {}, InputError, "No property varies"),
        ("t", {"builtin": "capital"}, InputError, "labels at only 1 position, at least 4"),
        (TEXT, {"builtin": "comment"}, InputError, "comment has the same value everywhere"),
        (TEXT, {"builtin": "comment,if"}, InputError, r"comment has .*; if has .* longer text\."),
        (TEXT, {"labels": [float("nan")] * len(TEXT)}, InputError, "labels at only 0 positions"),
        (TEXT, {"builtin": "coment"}, ConfigError, "Did you mean comment"),
        (TEXT, {"builtin": ""}, InputError, "No property was given"),
        (TEXT, {"labels": [1.0, 0.0]}, InputError, r"there are 2 labels\. Expected"),
        (TEXT, {"kinds": "update"}, ConfigError, "no values of these kinds: update"),
        (TEXT, {"kinds": "x"}, ConfigError, "Unknown kind"),
        (TEXT, {"n": 0}, ConfigError, "n must be at least 1"),
        ("", {}, InputError, "The text is empty"),
    ],
)
def test_invalid_input_is_rejected(text, options, error, message):
    with pytest.raises(error, match=message):
        find_units(make_model(TEXT), text, **options)
