"""Tests of text generation with the forward and backward language models of an ELMo."""

import dataclasses

import pytest
import torch
from conftest import TINY, random_model

from elmo.config import RegularizationConfig, TextConfig
from elmo.corpus.bptt_segments import read_once
from elmo.corpus.sentence_reader import corpus_of
from elmo.errors import ConfigError
from elmo.evaluate.perplexity import measure, model_tables
from elmo.lab.elmo_generation import ElmoCodec, ElmoTextGenerator
from elmo.lab.elmo_stepper import ElmoStepper
from elmo.lab.word_writers import BackwardWordWriter, WordText, WordWriter, separator_of
from elmo.model.bidirectional_lm import BidirectionalLM
from elmo.model.network import ELMoNetwork
from elmo.text.vocabulary import SPECIAL_TOKENS, Vocabulary

VOCABULARY = Vocabulary([*SPECIAL_TOKENS, "the", "cat", "sat", "on", "mat", "a"])
CONFIG = dataclasses.replace(
    TINY, text=TextConfig(max_characters=12, tokenizer="english"), n_softmax_words=len(VOCABULARY)
)
ADAPTIVE = dataclasses.replace(CONFIG, softmax_cutoffs=(5,))
SENTENCES = [["the", "cat", "sat"], ["a", "mat"], ["on", "the", "unseen", "cat"]]
WORDS = WordText(VOCABULARY.words, 1)


def make_model(config=CONFIG, **extra):
    return random_model(config, vocabulary=VOCABULARY, scale=2.0, **extra)


def mean_loss(model, direction):
    """Return the mean loss per prediction of a text that is read with an `ElmoStepper`."""
    stepper = ElmoStepper(model, direction)
    is_forward = direction == "forward"
    state, total, n_predictions = stepper.start(1), 0.0, 0
    for words in SENTENCES:
        ids = stepper.add_words(words if is_forward else words[::-1])
        for read, target in zip([stepper.border, *ids], [*ids, stepper.border], strict=True):
            scores, state = stepper.step(torch.tensor([read]), state)
            target = target if target < stepper.n_symbols else VOCABULARY.ids["<UNK>"]
            total -= float(scores[0, target])
            n_predictions += 1
    return total / n_predictions


@pytest.mark.parametrize("reset_share", [None, 1.0])
@pytest.mark.parametrize("config", [CONFIG, ADAPTIVE], ids=["full", "adaptive"])
def test_stepper_has_losses_of_perplexity(config, reset_share):
    training = None if reset_share is None else {"reset_share": reset_share}
    model = make_model(config, training=training)
    network = ELMoNetwork(config=model.config)
    network.load_state_dict(dict(model.weights))
    words, split = corpus_of(SENTENCES)
    sums = measure(
        BidirectionalLM(bilm=network.bilm, regularization=RegularizationConfig()),
        network.softmax,
        model_tables(model, words),
        # All sentences in one stream. The backward direction also reads the first sentence first.
        read_once(split, n_streams=1, n_steps=4, reset=bool(reset_share)),
        carry=not reset_share,
    )
    assert mean_loss(model, "forward") == pytest.approx(float(sums[0] / sums[2]), rel=1e-5)
    assert mean_loss(model, "backward") == pytest.approx(float(sums[1] / sums[2]), rel=1e-5)


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_reading_prompt_at_once_has_probabilities_of_single_steps(direction):
    stepper = ElmoStepper(make_model(training={"reset_share": 1.0}), direction)
    ids = ElmoCodec(stepper, direction, None).prompt_ids("the cat sat\n\non the unseen mat")
    together, state = stepper.read(torch.tensor(ids)[:, None], stepper.start(1))
    step_state = stepper.start(1)
    for number in ids:
        scores, step_state = stepper.step(torch.tensor([number]), step_state)
    torch.testing.assert_close(scores, together)
    torch.testing.assert_close(step_state.c, state.c)


def test_prompt_ids_follow_reading_direction_with_borders_between_sentences():
    prompt = "\nthe cat\n\na mat\n"
    forward, backward = (ElmoStepper(make_model(), name) for name in ("forward", "backward"))
    the, cat, a, mat = forward.add_words(["the", "cat", "a", "mat"])
    ids = ElmoCodec(forward, "forward", None).prompt_ids(prompt)
    assert ids == [1, the, cat, 1, a, mat, 1]
    ids = ElmoCodec(backward, "backward", None).prompt_ids(prompt)
    assert ids == [0, mat, a, 0, cat, the, 0]
    assert ElmoCodec(forward, "forward", None).prompt_ids("") == [1]


def test_prompt_is_split_with_tokenizer_of_model():
    generator = ElmoTextGenerator(make_model(), device="cpu")
    ids = generator.codec.prompt_ids("the cat's mat.")
    assert len(ids) == 1 + len(["the", "cat", "'s", "mat", "."])


def test_forward_text_begins_with_prompt_and_backward_text_ends_with_it():
    model = make_model()
    forward = ElmoTextGenerator(model, "forward", "cpu").sample("a cat", 40)
    backward = ElmoTextGenerator(model, "backward", "cpu").sample("a cat", 40)
    assert forward.startswith("a cat")
    assert len(forward) > 40
    assert backward.endswith("a cat")
    assert len(backward) > 40
    for text in (forward, backward):
        assert "\n" in text
        words = text.split()
        assert set(words) <= set(VOCABULARY.words[3:])
        assert len(words) + text.count("\n") == 42


def test_stop_string_in_backward_direction_is_text_before_beginning():
    model = make_model()
    generator = ElmoTextGenerator(model, "backward", "cpu")
    text = generator.sample("a cat", 40)
    assert generator.sample("a cat", 40, stop="\n") == text.rpartition("\n")[2]


def test_samples_of_elmo_begin_with_sample():
    generator = ElmoTextGenerator(make_model(), device="cpu")
    texts = generator.samples("the", 20, 3)
    assert texts[0] == generator.sample("the", 20) == "".join(generator.stream("the", 20))
    assert len(set(texts)) == 3


def test_stepper_rejects_model_without_softmax_or_vocabulary():
    with pytest.raises(ConfigError, match="no softmax"):
        ElmoStepper(random_model(), "forward")
    with pytest.raises(ConfigError, match="no vocabulary"):
        ElmoStepper(random_model(CONFIG), "forward")
    with pytest.raises(ConfigError, match="forward or backward"):
        ElmoStepper(make_model(), "up")


@pytest.mark.parametrize(
    ("prompt", "ids", "text"),
    [
        ("", [3, 4, 1, 8], "the cat\na"),
        ("x", [3, 1, 8], "x the\na"),
        ("x", [1, 8], "x\na"),
        ("x\n", [8], "x\na"),
    ],
)
def test_word_writer_writes_lines_after_prompt(prompt, ids, text):
    writer = WordWriter(WORDS, prompt, None)
    assert "".join([writer.begin(), *map(writer.add, ids), writer.end()]) == text


@pytest.mark.parametrize(
    ("prompt", "ids", "text"),
    [
        ("", [4, 3, 1, 8], "a\nthe cat"),
        ("x", [4, 1, 8], "a\ncat x"),
        ("x", [1, 8], "a\nx"),
        (" x", [8], "a x"),
    ],
)
def test_backward_word_writer_writes_lines_before_prompt(prompt, ids, text):
    writer = BackwardWordWriter(WORDS, prompt, None)
    assert "".join([writer.begin(), *map(writer.add, ids), writer.end()]) == text


def test_words_of_character_tokenizers_are_not_separated():
    assert separator_of("characters") == separator_of("characters-and-spaces") == ""
    assert separator_of("english") == separator_of(None) == " "
    writer = WordWriter(WordText("abcd", 0, ""), "x", None)
    assert writer.begin() + writer.add(1) + writer.add(2) == "xbc"
