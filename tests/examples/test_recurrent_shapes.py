"""Tests that the examples of recurrent shapes learn what they claim to show."""

import random
import runpy
import sys
from datetime import date
from pathlib import Path

import brackets
import building_blocks
import clock_times
import dates
import highlighting
import next_character
import pytest
import torch

FOLDER = Path(building_blocks.__file__).parent


def test_table_reaches_loss_of_counts_and_recurrent_layer_improves_on_it():
    figures = next_character.main(steps=120)
    # No table has a lower loss on the training text than the counts, up to their smoothing.
    assert figures.counts_train - 1e-3 < figures.table_train < figures.counts_train + 0.02
    assert figures.table == pytest.approx(figures.counts, abs=0.03)
    assert figures.recurrent < figures.counts - 0.6


def test_clock_phrases_of_held_out_times_are_correct_and_samples_vary():
    figures = clock_times.main(steps=300)
    assert figures.greedy > 0.85
    assert 0.6 < figures.sampled < figures.greedy
    assert 0.35 < figures.past_or_to < 0.65


def test_brackets_need_last_real_state_and_packing_computes_no_padding():
    figures = brackets.main(steps=250)
    assert figures.last_real > 0.9
    assert figures.last_position < 0.7
    positions, differences = figures.positions, figures.differences
    n_real = positions["one string at a time"]
    assert positions["packed by hand"] == positions["packed by PyTorch"] == n_real
    assert positions["padded, masked steps"] > 1.5 * n_real
    assert differences.pop("padded, last position") > 0.5
    assert max(differences.values()) < 1e-5


def test_dates_are_normalized_with_attention_but_not_yet_without():
    figures = dates.main(steps=220)
    assert figures.with_attention > 0.65
    assert figures.without_attention < 0.1


def test_highlighting_needs_memory():
    figures = highlighting.main(steps=150)
    assert figures.tags > 0.98
    assert figures.lines > 0.85
    assert figures.tags_without_memory < 0.85
    assert figures.lines_without_memory < 0.1


def test_example_with_same_seed_has_same_figures():
    assert highlighting.main(steps=10, seed=3) == highlighting.main(steps=10, seed=3)
    assert highlighting.main(steps=10, seed=3) != highlighting.main(steps=10, seed=4)


@pytest.mark.parametrize("lengths", [[3], [4, 4, 4], [1, 5, 2, 5, 1, 3]])
def test_packed_by_hand_has_states_of_single_strings_in_their_order(lengths):
    torch.manual_seed(0)
    alphabet = building_blocks.Alphabet(brackets.BRACKETS)
    model = brackets.Classifier(len(alphabet))
    rng = random.Random(0)
    texts = ["".join(rng.choices(brackets.BRACKETS, k=length)) for length in lengths]
    ids, found = alphabet.batch(texts)
    assert found.tolist() == lengths
    expected = torch.cat([model(alphabet.encode(text).unsqueeze(1))[-1] for text in texts])
    packed, sizes = brackets.packed_by_hand(model, ids, found)
    torch.testing.assert_close(packed, expected)
    assert sizes == [sum(length > step for length in lengths) for step in range(max(lengths))]
    torch.testing.assert_close(brackets.masked_steps(model, ids, found), expected)
    pytorch, pytorch_sizes = brackets.packed_by_pytorch(model, ids, found)
    torch.testing.assert_close(pytorch, expected)
    assert pytorch_sizes == sizes


def is_balanced(text):
    while (shorter := text.replace("()", "").replace("[]", "")) != text:
        text = shorter
    return not text


def test_labels_of_bracket_examples_are_correct():
    rng = random.Random(0)
    examples = [brackets.example(rng) for _ in range(300)]
    assert all(is_balanced(text) == bool(label) for text, label in examples)
    assert 100 < sum(label for _, label in examples) < 200


def test_reversed_sequences_reverses_real_steps_only():
    x = torch.arange(12.0).view(4, 3, 1)
    lengths = torch.tensor([4, 2, 1])
    reversed_x = dates.reversed_sequences(x, lengths)
    assert reversed_x[:, 0, 0].tolist() == [9, 6, 3, 0]
    assert reversed_x[:2, 1, 0].tolist() == [4, 1]
    assert reversed_x[0, 2, 0] == 2
    assert torch.equal(dates.reversed_sequences(reversed_x, lengths), x)


def test_attention_ignores_padding():
    torch.manual_seed(0)
    model = dates.Translator(10, 12, attention=True)
    ids, start = torch.randint(1, 10, (5, 1)), torch.tensor([[1]])
    padded = torch.cat([ids, torch.zeros(3, 1, dtype=torch.long)])
    results = []
    for batch in (ids, padded):
        encoded, h = model.encode(batch, torch.tensor([5]))
        results.append(model.decode(start, h, encoded, batch != 0))
    torch.testing.assert_close(results[0][0], results[1][0])
    assert torch.all(results[1][2][:, :, 5:] == 0)


def test_dates_are_formatted_with_their_year_month_and_day():
    texts = {dates.random_format(date(1998, 3, 7), random.Random(seed)) for seed in range(200)}
    assert texts == {
        "7 March 1998",
        "March 7, 1998",
        "07.03.1998",
        "3/7/1998",
        "Saturday, 7 Mar 1998",
        "1998, Mar 7",
        "Mar 7 '98",
        "7-Mar-1998",
    }


@pytest.mark.parametrize(
    ("hour", "minute", "expected"),
    [
        (3, 0, ["three o'clock"]),
        (3, 5, ["three oh five", "five past three"]),
        (7, 30, ["seven thirty", "half past seven"]),
        (12, 45, ["twelve forty five", "quarter to one"]),
        (9, 38, ["nine thirty eight", "twenty two to ten"]),
    ],
)
def test_phrases_of_a_time(hour, minute, expected):
    assert clock_times.phrases(hour, minute) == expected


def test_lines_of_code_have_tags_of_python():
    rng = random.Random(0)
    for _ in range(200):
        text, tags = highlighting.random_line(rng)
        expected, state = "", "."
        for position, character in enumerate(text):
            begins = state == "." and character in '"#'
            if begins:
                state = "s" if character == '"' else "c"
            expected += state
            ends = state == "s" and character == '"' and text[position - 1] != "\\"
            if ends and not begins:
                state = "."
        assert tags == expected, text


def test_command_line_runs_example_and_rejects_steps_below_one(monkeypatch, capsys):
    script = str(FOLDER / "highlighting.py")
    monkeypatch.setattr(sys, "argv", [script, "--steps", "2", "--seed", "5"])
    runpy.run_path(script, run_name="__main__")
    assert "held-out code, GRU: " in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", [script, "--steps", "0"])
    with pytest.raises(SystemExit):
        runpy.run_path(script, run_name="__main__")
    assert "--steps must be at least 1 (got 0)." in capsys.readouterr().err


def test_training_restores_threads_and_onednn():
    before = torch.get_num_threads(), torch.backends.mkldnn.enabled
    model = torch.nn.Linear(1, 1)
    building_blocks.train(model, lambda: model(torch.ones(1, 1)).square().sum(), steps=1)
    assert (torch.get_num_threads(), torch.backends.mkldnn.enabled) == before
