"""Tests of `elmo evaluate`: perplexity of texts and corpora, and rejected input."""

import dataclasses
import itertools
import json
import math
import unicodedata
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import random_model
from slow_language_model import (
    ADAPTIVE_CONFIG,
    CONFIG,
    COUNTS,
    KNOWN,
    N_WORDS,
    SENTENCES,
    TEXT,
    VOCABULARY,
    make_model,
    slow_carry,
    slow_reset,
)

from elmo.config import CorpusConfig, EvaluateConfig, PrepareConfig, ReadingConfig
from elmo.corpus.prepare_corpus import prepare
from elmo.corpus.shards import HEADER, CorpusHeader, Split
from elmo.errors import ConfigError, ElmoError
from elmo.evaluate.evaluate_model import EvaluateResult, evaluate
from elmo.evaluate.perplexity import Perplexity
from elmo.formats import model_folder
from elmo.text.vocabulary import SPECIAL_TOKENS, Vocabulary


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "test.txt"
    path.write_text("\n".join(TEXT) + "\n", "utf-8")
    return str(path)


@pytest.fixture
def folder(tmp_path):
    model_folder.write(make_model(), tmp_path / "model")
    return str(tmp_path / "model")


def run(text, folder, **options):
    return evaluate(EvaluateConfig((text,), folder, **{"device": "cpu", **options}))


def test_evaluate_returns_loss_and_counts_of_the_slow_loop(text, folder):
    result = run(text, folder, keep_blank_lines=True)
    assert (result.model, result.state) == (folder, "reset")
    metrics, expected = result.perplexity, slow_reset(make_model())
    assert metrics.forward_loss == pytest.approx(expected[0] / COUNTS[0], rel=1e-5)
    assert metrics.backward_loss == pytest.approx(expected[1] / COUNTS[0], rel=1e-5)
    assert [metrics.n_predictions, metrics.n_words, metrics.n_unknown] == COUNTS[:3]
    assert metrics.n_characters == sum(len(line) + 1 for line in TEXT)
    assert not metrics.characters_estimated
    assert str(result).startswith(f"{folder}, state reset, sentences line\nperplexity ")
    assert f"of {N_WORDS} words" in str(result)


def test_evaluate_with_a_common_vocabulary_counts_all_other_words_as_unknown(
    text, folder, tmp_path
):
    plain = run(text, folder).perplexity

    def common(*words):
        path = tmp_path / "common.txt"
        path.write_bytes(Vocabulary([*SPECIAL_TOKENS, *words]).to_bytes())
        return run(text, folder, common_vocab=str(path)).perplexity

    # Words that the model does not know change nothing.
    same = common(*KNOWN, "unseen")
    assert same.n_unknown == plain.n_unknown
    assert same.loss == pytest.approx(plain.loss, rel=1e-6)
    fewer = common("the", "cat")
    assert fewer.n_unknown == sum(word not in ("the", "cat") for line in SENTENCES for word in line)
    assert fewer.forward_loss < plain.forward_loss
    assert common().n_unknown == plain.n_words


def test_common_vocabulary_rejects_an_adaptive_softmax_and_a_missing_file(text, folder, tmp_path):
    with pytest.raises(ElmoError, match="Cannot read the vocabulary"):
        run(text, folder, common_vocab=str(tmp_path / "missing.txt"))
    model_folder.write(make_model(ADAPTIVE_CONFIG), tmp_path / "adaptive")
    path = tmp_path / "common.txt"
    path.write_bytes(VOCABULARY.to_bytes())
    with pytest.raises(ConfigError, match="adaptive softmax"):
        run(text, str(tmp_path / "adaptive"), common_vocab=str(path))


def test_evaluate_skips_blank_lines_by_default(text, folder):
    metrics = run(text, folder).perplexity
    assert metrics.n_predictions == COUNTS[0] - 1
    kept = [sentence for sentence in SENTENCES if sentence]
    assert metrics.forward_loss * metrics.n_predictions == pytest.approx(
        slow_reset(make_model(), kept)[0], rel=1e-5
    )


def test_evaluate_with_carried_state_equals_slow_loop(text, folder):
    result = run(text, folder, state="carry", batch_size=2, unroll=1, keep_blank_lines=True)
    expected = slow_carry(make_model(), 2, 1)
    assert result.perplexity.forward_loss * COUNTS[0] == pytest.approx(expected[0], rel=1e-5)
    assert result.state == "carry"


def test_drop_tail_skips_the_incomplete_last_batch(text, folder):
    metrics = run(text, folder, batch_size=4, unroll=5, drop_tail=True).perplexity
    assert 0 < metrics.n_predictions < COUNTS[0]
    assert metrics.n_predictions % 20 == 0


def test_drop_tail_rejects_a_text_shorter_than_one_batch(text, folder):
    with pytest.raises(ConfigError, match="the text is shorter than one batch"):
        run(text, folder, drop_tail=True)


def test_evaluate_result_converts_to_json(text, folder):
    result = run(text, folder)
    data = json.loads(json.dumps(result.to_dict()))
    assert data["n_words"] == N_WORDS
    assert data["forward"] == result.perplexity.forward
    assert (data["split"], data["sentences"]) == (None, "line")
    lines = Path(text).read_text(encoding="utf-8").splitlines()
    assert data["n_sentences"] == sum(bool(line.strip()) for line in lines)


def test_evaluate_reads_several_files(text, folder, tmp_path):
    second = tmp_path / "more.txt"
    second.write_text("the cat\n")
    both = evaluate(EvaluateConfig((text, str(second)), folder, device="cpu")).perplexity
    assert both.n_words == N_WORDS + 2


def test_evaluate_supports_models_with_word_embeddings(text, tmp_path):
    encoder = dataclasses.replace(CONFIG.encoder, n_words=len(VOCABULARY) + 1, word_dim=6)
    config = dataclasses.replace(CONFIG, encoder=encoder)
    model = random_model(config, vocabulary=VOCABULARY, words=VOCABULARY.ids)
    model_folder.write(model, tmp_path / "model")
    assert run(text, str(tmp_path / "model")).perplexity.n_unknown == COUNTS[2]


def write_corpus(folder):
    """Write a prepared corpus with a training and a validation split, without `elmo prepare`."""
    words = list(dict.fromkeys(itertools.chain.from_iterable(SENTENCES)))
    numbers = {word: number for number, word in enumerate(words)}
    encoded = [word.encode() for word in words]
    folder.mkdir()
    (folder / "words.bin").write_bytes(b"".join(encoded))
    (folder / "words.idx").write_bytes(np.cumsum([0, *map(len, encoded)]).tobytes())
    (folder / "counts.bin").write_bytes(np.ones(len(words), dtype=np.int64).tobytes())
    (folder / "vocab.txt").write_bytes(Vocabulary([*SPECIAL_TOKENS, *words]).to_bytes())
    splits = {"train": SENTENCES[:2], "valid": SENTENCES}
    counts = {"shards": {}, "n_words": {}, "n_sentences": {}}
    for name, sentences in splits.items():
        split = Split.of([[numbers[word] for word in sentence] for sentence in sentences])
        (shard,) = split.shards
        (folder / f"{name}-00000.tokens").write_bytes(shard.words.astype(np.uint16).tobytes())
        (folder / f"{name}-00000.starts").write_bytes(shard.starts.tobytes())
        counts["shards"][name] = 1
        counts["n_words"][name] = split.n_words
        counts["n_sentences"][name] = split.n_sentences
    reading = ReadingConfig(tokenizer="whitespace")
    (folder / HEADER).write_bytes(CorpusHeader(1, reading, **counts).to_bytes())
    return str(folder)


def test_evaluate_reads_splits_of_a_prepared_corpus(text, folder, tmp_path):
    corpus = write_corpus(tmp_path / "corpus")
    metrics = run(corpus, folder, split="valid").perplexity
    expected = run(text, folder, keep_blank_lines=True).perplexity
    # The corpus does not record its characters, but here the estimate is exact.
    assert metrics == dataclasses.replace(expected, characters_estimated=True)
    assert "about 124 characters" in str(metrics)
    assert "estimated from the words" in str(metrics)
    assert run(corpus, folder, split="train").perplexity.n_words == 10


@pytest.mark.parametrize(
    ("options", "is_reported"),
    [
        ({}, True),
        ({"sentences": "line"}, False),
        ({"sentences": "split"}, False),
        ({"keep_blank_lines": True}, False),
    ],
)
def test_evaluate_warns_about_lines_that_are_paragraphs(
    folder, tmp_path, caplog, options, is_reported
):
    text = tmp_path / "paragraphs.txt"
    text.write_text("She left . He sat . Why ?\n" * 5, encoding="utf-8")
    run(str(text), folder, **options)
    assert caplog.text.count("Use --sentences split") == is_reported


def test_evaluate_of_a_corpus_without_test_split_uses_valid_and_reports_it(
    folder, tmp_path, caplog
):
    corpus = write_corpus(tmp_path / "corpus")
    expected = run(corpus, folder, split="valid")
    assert not caplog.text
    assert run(corpus, folder) == expected
    assert "has no split test. The split valid is evaluated" in caplog.text
    assert str(expected).splitlines()[0].endswith("state reset, split valid")
    assert expected.to_dict()["split"] == "valid"


@pytest.mark.parametrize("recorded", [None, "line", "split"])
def test_evaluate_splits_lines_into_sentences_as_recorded_or_given(tmp_path, recorded):
    record = None if recorded is None else {"sentences": recorded}
    model_folder.write(dataclasses.replace(make_model(), training=record), tmp_path / "model")
    paragraph, lines = tmp_path / "paragraph.txt", tmp_path / "lines.txt"
    paragraph.write_text("The cat sat . The mat sat .\n")
    lines.write_text("The cat sat .\nThe mat sat .\n")
    folder = str(tmp_path / "model")
    split = run(str(paragraph), folder, sentences="split")
    line = run(str(paragraph), folder, sentences="line")
    assert split.perplexity == run(str(lines), folder, sentences="line").perplexity
    assert split.perplexity.n_predictions == line.perplexity.n_predictions + 1
    assert run(str(paragraph), folder) == (split if recorded == "split" else line)
    assert "sentences split" in str(split)


def test_evaluate_reads_records(folder, text, tmp_path):
    texts = [" ".join(sentence) for sentence in SENTENCES if sentence]
    (tmp_path / "dump.log").write_text("".join(json.dumps({"body": t}) + "\n" for t in texts))
    (tmp_path / "dump").write_text("body\n" + "".join(f'"{t}"\n' for t in texts))
    metrics = run(text, folder).perplexity
    # The text also has a blank line.
    metrics = dataclasses.replace(metrics, n_characters=metrics.n_characters - 1)
    assert run(str(tmp_path / "dump.log"), folder, text_column="body").perplexity == metrics
    options = {"input_format": "csv", "text_column": "body"}
    assert run(str(tmp_path / "dump"), folder, **options).perplexity == metrics


# ------------------------------------------------------------------------- metrics and counts


def uniform_model(vocabulary, tokenizer):
    """Return a model that predicts every word of its vocabulary with the same probability."""
    config = dataclasses.replace(
        CONFIG,
        text=dataclasses.replace(CONFIG.text, tokenizer=tokenizer),
        n_softmax_words=len(vocabulary),
    )
    model = random_model(config, vocabulary=vocabulary)
    weights = {
        name: torch.zeros_like(value) if name.startswith("softmax") else value
        for name, value in model.weights.items()
    }
    return dataclasses.replace(model, weights=weights)


@pytest.mark.parametrize(
    ("tokenizer", "words", "n_predictions"),
    [
        # the cat . end, a mat end
        ("english", ["the", "cat", ".", "a", "mat"], 4 + 3),
        # The spaces are not predicted.
        ("characters", list("thecat.am"), 8 + 5),
        # Every character and every line end is predicted, except those of the blank line.
        ("characters-and-spaces", list(" thecat.am"), 10 + 6),
    ],
)
def test_bits_per_character_match_hand_calculation(tmp_path, tokenizer, words, n_predictions):
    text = "the  cat.\n\na mat"
    (tmp_path / "text").write_text(text)
    # 16 equally probable words: each prediction costs 4 bits.
    fillers = [f"filler{number}" for number in range(16 - 3 - len(words))]
    vocabulary = Vocabulary([*SPECIAL_TOKENS, *words, *fillers])
    model_folder.write(uniform_model(vocabulary, tokenizer), tmp_path / "model")
    result = run(str(tmp_path / "text"), str(tmp_path / "model"))
    assert result.perplexity.mean == pytest.approx(16)
    assert result.perplexity.n_predictions == n_predictions
    assert result.perplexity.n_characters == 17
    for name in ("bits_per_character", "forward_bits_per_character", "backward_bits_per_character"):
        assert result.to_dict()[name] == pytest.approx(4 * n_predictions / 17)
    assert result.to_dict()["characters_estimated"] is False


def test_bits_per_character_are_log2_of_perplexity_if_all_characters_are_words(tmp_path):
    text = "the  cat.\n\n a\tmat \n"
    (tmp_path / "text").write_text(text)
    vocabulary = Vocabulary([*SPECIAL_TOKENS, *sorted(set(text) - {"\n"})])
    config = dataclasses.replace(
        CONFIG,
        text=dataclasses.replace(CONFIG.text, tokenizer="characters-and-spaces"),
        n_softmax_words=len(vocabulary),
    )
    model_folder.write(random_model(config, vocabulary=vocabulary, scale=3.0), tmp_path / "model")
    options = {"keep_blank_lines": True}
    metrics = run(str(tmp_path / "text"), str(tmp_path / "model"), **options).perplexity
    values = metrics.values()
    assert metrics.n_unknown == 0
    assert metrics.n_predictions == metrics.n_characters == len(text)
    assert values["bits_per_character"] == pytest.approx(math.log2(metrics.mean))
    assert values["forward_bits_per_character"] == pytest.approx(math.log2(metrics.forward))
    # Without the blank line, one character is not predicted.
    metrics = run(str(tmp_path / "text"), str(tmp_path / "model")).perplexity
    expected = math.log2(metrics.mean) * (len(text) - 1) / len(text)
    assert metrics.values()["bits_per_character"] == pytest.approx(expected)


def test_result_with_unknown_words_says_whether_it_can_be_compared():
    perplexity = Perplexity(2.0, 4.0, 5, 3, 1, 8)
    result = EvaluateResult(perplexity, "m", "reset", None, "line", 1, None)
    assert "only be compared with --common-vocab" in str(result)
    result = dataclasses.replace(result, common_vocab="v.txt")
    assert "can be compared with those of other models" in str(result)
    assert "only" not in str(result).splitlines()[-1]


def test_drop_tail_counts_a_proportional_part_of_the_characters(text, folder):
    whole = run(text, folder).perplexity
    part = run(text, folder, drop_tail=True, batch_size=2, unroll=3).perplexity
    assert 0 < part.n_predictions < whole.n_predictions
    expected = whole.n_characters * part.n_predictions / whole.n_predictions
    assert part.n_characters == pytest.approx(expected, rel=0.1)


# ------------------------------------------------------------------------- rejected input


def test_evaluate_rejects_options_for_files_with_a_prepared_corpus(folder, tmp_path):
    corpus = write_corpus(tmp_path / "corpus")
    with pytest.raises(ConfigError, match=r"is a prepared corpus.*--text-column"):
        run(corpus, folder, split="valid", text_column="body")


def test_evaluate_rejects_a_missing_split(folder, tmp_path):
    corpus = write_corpus(tmp_path / "corpus")
    with pytest.raises(ConfigError, match=r"no split 'test'\. .*: train, valid\. .* --split"):
        run(corpus, folder, split="test")


def test_evaluate_rejects_split_for_text_and_sentences_for_a_corpus(text, folder, tmp_path):
    with pytest.raises(ConfigError, match=r"--split test selects .*test\.txt is text.* Omit it"):
        run(text, folder, split="test")
    with pytest.raises(ConfigError, match=r"prepared corpus.* Omit --sentences"):
        run(write_corpus(tmp_path / "corpus"), folder, sentences="split")


def test_evaluate_rejects_a_model_without_softmax(text, tmp_path):
    model_folder.write(random_model(), tmp_path / "model")
    with pytest.raises(ConfigError, match="has no softmax and cannot predict words"):
        run(text, str(tmp_path / "model"))


def test_evaluate_needs_a_vocabulary_in_the_model_or_as_a_file(text, tmp_path):
    model_folder.write(dataclasses.replace(make_model(), vocabulary=None), tmp_path / "model")
    with pytest.raises(ConfigError, match="has a softmax but no vocabulary"):
        run(text, str(tmp_path / "model"))
    vocab = tmp_path / "vocab.txt"
    vocab.write_bytes(VOCABULARY.to_bytes())
    assert run(text, str(tmp_path / "model"), vocab=str(vocab)).perplexity.n_words == N_WORDS


@pytest.mark.parametrize("content", ["", "\n\n \n"])
def test_evaluate_rejects_an_empty_text(folder, tmp_path, content):
    path = tmp_path / "empty.txt"
    path.write_text(content)
    with pytest.raises(ElmoError, match=r"empty\.txt"):
        run(str(path), folder)


def test_evaluate_rejects_a_missing_text_file(folder, tmp_path):
    with pytest.raises(ElmoError, match=r"missing\.txt"):
        run(str(tmp_path / "missing.txt"), folder)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"unroll": -1}, "unroll must be at least 1"),
        ({"state": "keep"}, "state must be reset or carry"),
    ],
)
def test_evaluate_rejects_invalid_options(text, folder, options, message):
    with pytest.raises(ConfigError, match=message):
        run(text, folder, **options)


def test_evaluate_rejects_pretokenized_and_reports_another_tokenizer_for_a_corpus(
    tmp_path, folder, caplog
):
    (tmp_path / "text.txt").write_text("the cat sat\nthe mat\n")
    reading = ReadingConfig("english")
    corpus = CorpusConfig(reading, held_out=0.0, workers=1)
    prepare(PrepareConfig((str(tmp_path / "text.txt"),), str(tmp_path / "corpus"), corpus=corpus))
    with pytest.raises(ConfigError, match=r"prepared corpus.* Omit --pretokenized"):
        run(str(tmp_path / "corpus"), folder, pretokenized=True)
    run(str(tmp_path / "corpus"), folder, split="train")
    assert "tokenizer english, but the model has the tokenizer whitespace" in caplog.text


@pytest.mark.parametrize(
    ("tokenizer", "pretokenized", "remedy"),
    [
        ("english", True, "omit --pretokenized to tokenize"),
        ("english", False, "Use a model that was trained on such text."),
        (None, True, "Use a model that was trained on such text."),
    ],
)
def test_many_unknown_words_cause_a_warning_that_perplexity_is_not_meaningful(
    tmp_path, caplog, tokenizer, pretokenized, remedy
):
    text = dataclasses.replace(CONFIG.text, tokenizer=tokenizer)
    model_folder.write(make_model(dataclasses.replace(CONFIG, text=text)), tmp_path / "model")
    (tmp_path / "text.txt").write_text("cats, dogs\nthe mat\n")
    source, model = (str(tmp_path / "text.txt"),), str(tmp_path / "model")
    evaluate(EvaluateConfig(source, model=model, pretokenized=pretokenized))
    (message,) = [m for m in caplog.messages if "out of vocabulary" in m]
    assert "the perplexity is not meaningful" in message
    assert remedy in message


def test_many_unknown_words_of_decomposed_hangul_are_to_be_normalized(tmp_path, folder, caplog):
    (tmp_path / "text.txt").write_text(unicodedata.normalize("NFD", "나는 갔다\n"), "utf-8")
    run(str(tmp_path / "text.txt"), folder)
    assert "Normalize the text to NFC." in caplog.text
    assert "Use a model that was trained on such text" not in caplog.text
