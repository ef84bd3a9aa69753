"""Tests of text generation, with models whose next symbol is known and with small networks."""

import logging

import numpy as np
import pytest
import torch
from small_networks import TEXT, small_network

from elmo.config.language_models import SymbolConfig
from elmo.errors import ConfigError
from elmo.lab.generation import StepwiseGenerator, TextGenerator
from elmo.lab.recurrent_stepper import RecurrentStepper
from elmo.lab.symbol_codec import SymbolCodec
from elmo.lab.symbols import Symbols


class Recital:
    """A `StepwiseModel` that recites given symbols; its state is the number of read symbols."""

    def __init__(self, symbols, text, n_read=1):
        self.n_symbols, self.ids, self.n_read = len(symbols), symbols.encode(text).tolist(), n_read
        self.was_read = []

    def start(self, n):
        return torch.full((n,), -self.n_read)

    def repeat(self, state, n):
        return state.expand(n)

    def read(self, ids, state):
        self.was_read.append(ids[:, 0].tolist())
        state = state + len(ids)
        scores = torch.full((len(state), self.n_symbols), -torch.inf)
        for row, place in enumerate(state.tolist()):
            scores[row, self.ids[place % len(self.ids)]] = 0.0
        return scores, state

    def step(self, ids, state):
        return self.read(ids.unsqueeze(0), state)


def reciting(text, unit="characters", known=None, n_read=1, **options):
    symbols = Symbols.of_text([known or text], SymbolConfig(unit=unit, **options))
    return StepwiseGenerator(Recital(symbols, text, n_read), SymbolCodec(symbols))


def test_sample_returns_prompt_and_continuation():
    generator = reciting("abc\n", n_read=3)
    assert generator.sample("ab", 6) == "ababc\nab"


@pytest.mark.parametrize("unit", ["characters", "bytes", "words"])
def test_prompt_is_read_in_one_call_after_line_break(unit):
    generator = reciting("a b\nc d\n", unit)
    generator.sample("b c", 2)
    symbols = generator.codec.symbols
    first, *others = generator.stepper.was_read
    assert first == [symbols.end, *symbols.encode("b c").tolist()]
    assert [len(ids) for ids in others] == [1]


def test_empty_prompt_without_line_breaks_starts_from_most_frequent_symbol():
    generator = reciting("abbb")
    assert generator.sample("", 3) == "abb"
    assert generator.stepper.was_read[0] == [1]
    assert generator.codec.symbols.names[1] == "b"


@pytest.mark.parametrize("unit", ["characters", "bytes", "words"])
def test_stream_joins_to_sample_and_text(unit):
    text = "the king 한국어 é\n\nspeaks 😀 now\n"
    generator = reciting(text, unit)
    n_symbols = len(generator.stepper.ids)
    parts = list(generator.stream("", n_symbols))
    assert "".join(parts) == text == generator.sample("", n_symbols)
    assert all(parts)
    assert len(parts) > 5


def test_words_continue_prompt_after_space():
    assert reciting("to be\nor not\n", "words", n_read=2).sample("hear", 2) == "hear to be"
    assert reciting("to be\nor not\n", "words", n_read=2).sample("hear ", 2) == "hear to be"
    assert reciting("\nor not\n", "words", n_read=2).sample("hear", 3) == "hear\nor not"
    assert reciting("or not\n", "words", n_read=3).sample("hear\n", 2) == "hear\nor not"


def test_words_of_one_character_are_written_without_spaces():
    generator = reciting("한국어\n", "words", n_read=2, tokenizer="characters")
    assert generator.sample("한", 5) == "한한국어\n한"


@pytest.mark.parametrize("unit", ["characters", "bytes", "words"])
def test_lone_surrogate_of_prompt_is_a_replacement_character(unit):
    network, symbols = small_network(unit=unit)
    text = TextGenerator(network, symbols).sample("\ud800 to", 5)
    assert text == TextGenerator(network, symbols).sample("\ufffd to", 5)
    assert text.startswith("\ufffd to")


def test_bytes_are_decoded_when_character_is_complete():
    generator = reciting("é한", "bytes")
    assert list(generator.stream("", 5)) == ["é", "한"]
    # The last character is cut off after two of three bytes.
    assert list(generator.stream("", 4)) == ["é", "\ufffd"]


def test_incomplete_character_of_prompt_is_completed_by_bytes():
    begin, end = "é".encode()[:1], "é".encode()[1:]
    generator = reciting(end.decode("utf-8", "surrogateescape"), "bytes", n_read=2)
    assert generator.sample(begin.decode("utf-8", "surrogateescape"), 1) == "é"


def test_stop_string_ends_text_and_is_not_written():
    generator = reciting("one\n\ntwo\n\n")
    assert generator.sample("", 50, stop="\n\n") == "one"
    assert generator.sample("", 4, stop="\n\n") == "one\n"
    assert list(generator.stream("", 50, stop="e\n\nt")) == ["o", "n"]
    assert len(generator.stepper.was_read) == 5 + 4 + 6


def test_stop_string_in_prompt_is_ignored():
    assert reciting("abc\n", n_read=2).sample("c", 3, stop="c") == "cab"


def test_stop_string_within_words():
    assert reciting("to be\nor not\n", "words").sample("", 9, stop="e\no") == "to b"


def test_unknown_characters_of_prompt_are_read_as_unknown_with_one_warning(caplog):
    generator = reciting("abc\n", n_read=6)
    with caplog.at_level(logging.WARNING):
        assert generator.sample("aXé\nX", 2) == "aXé\nXab"
    assert generator.stepper.was_read[0] == [4, 1, 0, 0, 4, 0]
    (record,) = caplog.records
    assert "characters that the model does not know: 'X', 'é'" in record.getMessage()


def test_unknown_word_token_in_prompt_is_no_reason_for_warning(caplog):
    reciting("to be\n", "words").sample("<unk> to", 2)
    assert not caplog.records
    reciting("to be\n", "words").sample("be king", 2)
    assert "'king'" in caplog.text


def test_unknown_symbol_is_never_written():
    network, symbols = small_network()
    with torch.no_grad():
        network.softmax.bias[0] = 100.0
    generator = TextGenerator(network, symbols)
    for options in ({}, {"temperature": 0.0}, {"top_k": 1}, {"top_p": 0.5}):
        assert "<UNK>" not in generator.sample("", 30, **options)


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm", "lstmp"])
def test_most_likely_text_is_that_of_reading_whole_text_again(cell):
    network, symbols = small_network(cell=cell)
    text = TextGenerator(network, symbols).sample("to be", 20, temperature=0.0)
    ids = [symbols.end, *symbols.encode(text).tolist()]
    for end in range(6, len(ids)):
        stepper = RecurrentStepper(network)
        scores, _ = stepper.read(torch.tensor(ids[:end])[:, None], stepper.start(1))
        scores[0, 0] = -torch.inf
        assert int(scores.argmax()) == ids[end]


@pytest.mark.parametrize(
    "options",
    [
        {"unit": "bytes"},
        {"unit": "words"},
        {"unit": "words", "tied": True, "embedding_dim": 8},
        {"unit": "words", "word_input": "characters", "filters": ((1, 4), (2, 4))},
    ],
)
def test_reading_symbols_at_once_has_probabilities_of_single_steps(options):
    network, symbols = small_network(**options)
    stepper = RecurrentStepper(network)
    ids = torch.from_numpy(symbols.encode(TEXT)[:9].astype(np.int64))
    together, state = stepper.read(ids[:, None], stepper.start(1))
    step_state = stepper.start(1)
    for number in ids:
        scores, step_state = stepper.step(number[None], step_state)
    torch.testing.assert_close(scores, together)
    torch.testing.assert_close(step_state.h, state.h)
    torch.testing.assert_close(together.exp().sum(1), torch.ones(1))


def test_long_prompt_is_read_in_parts(monkeypatch):
    network, symbols = small_network()
    whole = TextGenerator(network, symbols).sample(TEXT, 20)
    monkeypatch.setattr("elmo.lab.recurrent_stepper.MAX_STEPS", 7)
    assert TextGenerator(network, symbols).sample(TEXT, 20) == whole


def test_samples_are_a_batch_of_different_texts_that_begin_with_sample():
    network, symbols = small_network()
    generator = TextGenerator(network, symbols)
    texts = generator.samples("to", 40, 3, seed=7)
    assert len(set(texts)) == 3
    assert all(text.startswith("to") and len(text) == 42 for text in texts)
    assert generator.sample("to", 40, seed=7) == texts[0]
    assert generator.samples("to", 40, 5, seed=7)[:3] == texts
    assert generator.sample("to", 40, seed=8) != texts[0]


def test_rows_of_batch_stop_independently():
    network, symbols = small_network()
    generator = TextGenerator(network, symbols)
    texts = generator.samples("", 60, 4)
    stopped = generator.samples("", 60, 4, stop="e")
    assert stopped == [text.split("e")[0] for text in texts]
    assert len({len(text) for text in stopped}) > 1


def test_length_0_returns_prompt():
    assert reciting("ab").sample("ab", 0) == "ab"


def test_options_are_checked_before_first_part():
    generator = reciting("ab")
    with pytest.raises(ConfigError, match="temperature"):
        generator.stream("a", 5, temperature=-1.0)
    with pytest.raises(ConfigError, match="n must be at least 1"):
        generator.samples("a", 5, 0)
    with pytest.raises(ConfigError, match="must be a string, not bytes"):
        generator.sample(b"a", 5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": "a"}, "temperature must be a number \\(got str 'a'\\)"),
        ({"temperature": None}, "temperature must be a number \\(got None\\)"),
        ({"top_k": 2.5}, "top_k must be an integer \\(got float 2.5\\)"),
        ({"top_p": "0.5"}, "top_p must be a number"),
        ({"seed": 1.5}, "seed must be an integer"),
        ({"seed": None}, "seed must be an integer"),
        ({"stop": 5}, "stop must be a string"),
        ({"length": 2.5}, "length must be an integer"),
        ({"length": "5"}, "length must be an integer"),
        ({"length": True}, "length must be an integer"),
        ({"n": "2"}, "n must be an integer"),
    ],
)
def test_options_of_other_types_are_rejected(options, message):
    with pytest.raises(ConfigError, match=message):
        reciting("ab").samples("a", **options)


def test_numpy_numbers_are_accepted():
    options = {"seed": np.int64(2), "temperature": np.float32(0.5), "top_k": np.int32(2)}
    network, symbols = small_network()
    text = TextGenerator(network, symbols).sample("to", np.int64(9), **options)
    assert text == TextGenerator(network, symbols).sample("to", 9, seed=2, temperature=0.5, top_k=2)


def test_generator_rejects_network_in_training_mode():
    network, symbols = small_network()
    with pytest.raises(ConfigError, match="training mode"):
        TextGenerator(network.train(), symbols)
