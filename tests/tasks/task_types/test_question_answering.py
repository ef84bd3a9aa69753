"""Answers to questions: their head, windows of long passages, and models for them."""

import json
import math

import pytest
import torch
from small_tasks import (
    OPTIONS,
    QUESTIONS,
    UNANSWERED,
    fabric,
    make_fitted_task,
    make_question,
    with_padding,
    write_elmo,
)
from typer.testing import CliRunner

from elmo import cli
from elmo.config import QuestionAnsweringConfig, TaskConfig, TaskEncoderConfig, WordFeaturesConfig
from elmo.errors import ConfigError, InputError
from elmo.tasks import QuestionAnswerer
from elmo.tasks.examples import Example, GoldAnswers, Passage
from elmo.tasks.heads.question_answering_head import PredictedSpan, QuestionAnsweringHead
from elmo.tasks.packed_batch import PackedBatch
from elmo.tasks.task_model import EncodedTexts
from elmo.tasks.task_trainable import TaskTrainingJob
from elmo.tasks.task_types.task_registry import make_task, task_for
from elmo.train import loop

SETTINGS = {
    "max_answer_words": 3,
    "window": 6,
    "overlap": 2,
    "has_unanswerable": True,
    "f1_unit": "words",
}


@pytest.fixture(autouse=True)
def no_picture(monkeypatch):
    monkeypatch.setattr(loop, "draw_curves", lambda folder: None)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_elmo(tmp_path_factory.mktemp("elmo"))


# ---------------------------------------------------------------------------------------- passages


def test_words_in_their_text():
    passage = Passage.align("a cat,  a  dog", ["a", "cat", ",", "a", "dog"])
    assert passage.word_offsets == ((0, 1), (2, 5), (5, 6), (8, 9), (11, 14))
    assert passage.text_of((1, 4)) == "cat,  a"
    assert passage.find_words("cat,") == (1, 3)
    # The word comes before the letter in one.
    assert passage.find_words("a") == (0, 1)
    assert passage.find_words("a", 8) == (3, 4)
    assert passage.find_words("at") == (1, 2)
    for wrong in (("dot",), ("cat", 3), ("  ", 6), ("a", -6)):
        assert passage.find_words(*wrong) is None
    with pytest.raises(InputError, match="The word 'b' is not found after character 1"):
        Passage.align("a c", ["a", "b"])


# -------------------------------------------------------------------------------------------- head


@pytest.fixture(scope="module")
def head():
    torch.manual_seed(0)
    return QuestionAnsweringHead(
        dim=6, max_answer_words=3, config=TaskEncoderConfig(hidden=5)
    ).eval()


def texts_of(*lengths):
    generator = torch.Generator().manual_seed(1)
    return [
        EncodedTexts(torch.randn(2, n, 6, generator=generator), PackedBatch.from_lengths([n, n]))
        for n in lengths
    ]


def test_all_spans_and_no_answer_share_one_softmax(head):
    scores = head(texts_of(4, 5)).detach().log_softmax(dim=1)
    assert scores.shape == (2, 5 * 3 + 1)
    # Spans of 1, 2 and 3 words that end in the passage: 5 + 4 + 3.
    assert torch.isfinite(scores).sum(dim=1).tolist() == [12 + 1] * 2
    (found, _) = head.predict(texts_of(4, 5))
    best = scores[0, :-1].argmax()
    assert found.start == best // 3
    assert found.end == found.start + best % 3 + 1 <= 5
    assert found.log_probability == pytest.approx(float(scores[0, best]))
    assert found.log_none == pytest.approx(float(scores[0, -1]))


def test_the_loss_is_that_of_the_right_span(head):
    texts = texts_of(4, 5)
    scores = head(texts).log_softmax(dim=1)
    loss = head.loss(texts, torch.tensor([[1, 3], [-1, -1]]))
    torch.testing.assert_close(loss, -(scores[0, 1 * 3 + 1] + scores[1, -1]) / 2)
    # Of an answer that is too long its beginning is learned.
    assert head.loss(texts, torch.tensor([[1, 5], [0, 1]])) == head.loss(
        texts, torch.tensor([[1, 4], [0, 1]])
    )


def test_padding_is_no_answer(head):
    texts = texts_of(4, 5)
    expected = head.predict(texts)
    wide = []
    for x, layout, _ in texts:
        more = torch.full((2, 3, 6), 50.0)
        wide.append(EncodedTexts(torch.cat([x, more], dim=1), with_padding(layout, 3)))
    for found, other in zip(head.predict(wide), expected, strict=True):
        assert found == pytest.approx(other, abs=1e-5)


# ----------------------------------------------------------------------------------------- windows


def test_long_passages_are_cut_into_windows():
    kind = make_task("question_answering", SETTINGS)
    words = tuple(f"w{n}" for n in range(15))
    example = make_question("where ?", " ".join(words), "w4 w5")
    pieces = kind.split_example(example)
    assert [piece.texts[1] for piece in pieces] == [words[0:6], words[4:10], words[8:14], words[9:]]
    assert [piece.target.word_range for piece in pieces] == [(4, 6), (0, 2), None, None]
    for piece in pieces:
        assert piece.texts[0] == example.texts[0]
        assert piece.extra.text_of((0, 6)) == " ".join(piece.texts[1])
    assert kind.split_example(make_question("where ?", "a b", "a")) == [
        make_question("where ?", "a b", "a")
    ]
    # What is only asked has no target.
    assert {
        p.target for p in kind.split_example(kind.make_example(["a", " ".join(words)], str.split))
    } == {None}


def test_the_answer_stands_highest_above_none():
    kind = make_task("question_answering", SETTINGS)
    example = make_question("where ?", " ".join(f"w{n}" for n in range(10)), "w4")
    pieces = kind.split_example(example)
    spans = [PredictedSpan(0, 1, math.log(0.6), math.log(0.3)), PredictedSpan(1, 3, -1.0, -5.0)]
    answer = kind.merge_predictions(example, pieces, spans)
    assert (answer.text, answer.start, answer.end) == ("w5 w6", 15, 20)
    assert answer.score == pytest.approx(math.exp(-1))
    none = [PredictedSpan(0, 1, math.log(0.2), math.log(0.7))] * 2
    answer = kind.merge_predictions(example, pieces, none)
    assert (answer.text, answer.start, answer.score) == ("", None, pytest.approx(0.7))
    record = kind.to_record(example, answer)
    assert record == {"question": "where ?", "answer": "", "start": None, "end": None, "score": 0.7}
    # A model that saw no question without an answer always gives one.
    always = make_task("question_answering", {**SETTINGS, "has_unanswerable": False})
    assert always.merge_predictions(example, pieces, none).text == "w0"


def test_words_of_both_texts_are_marked():
    kind = make_task("question_answering", SETTINGS)
    questions, passages = kind.text_groups([make_question("where is Kim ?", "Is it Kim", "it")])
    assert questions.indicators == [[0, 1, 1, 0]]
    assert passages.indicators == [[1, 0, 1]]


def test_what_windows_cannot_be():
    with pytest.raises(ConfigError, match="overlap is 9 and window 9; windows must go on"):
        QuestionAnsweringConfig(window=9, overlap=9)
    with pytest.raises(ConfigError, match="max_answer_words is 0"):
        QuestionAnsweringConfig(max_answer_words=0)
    with pytest.raises(ConfigError, match="indicator_dim is 0; it must be at least 1"):
        WordFeaturesConfig(indicator_dim=0)
    with pytest.raises(ConfigError, match="batch_words is 0; it must be at least 1"):
        TaskConfig(out="", batch_words=0)


# ------------------------------------------------------------------------------------------ models


@pytest.mark.parametrize(
    "settings", [{"batch_words": 40}, {"placement": "both", "window": 7, "overlap": 4}]
)
def test_answers_are_learned_by_heart(tmp_path, model, settings):
    if "place" in settings:
        settings = {**settings, "model": model}
    examples = QUESTIONS + UNANSWERED
    trained = make_fitted_task(
        tmp_path, examples, examples, task="question_answering", hidden=16, **settings
    )
    assert trained.task.has_unanswerable
    work = TaskTrainingJob(trained, examples, examples).make_trainable(fabric())
    for number, batch in zip(range(90), work.batches(0), strict=False):
        work.step(batch, number)
    found = work.evaluation(work.measure(90, iter))
    assert found.scores["f1"] > 0.9
    assert found.metric == "f1"


def test_windows_have_layers_on_the_disk(tmp_path, model):
    trained = make_fitted_task(
        tmp_path,
        QUESTIONS,
        task="question_answering",
        model=model,
        window=7,
        overlap=4,
        placement="output",
    )
    pieces = [piece for example in QUESTIONS for piece in trained.task.split_example(example)]
    assert len(pieces) > len(QUESTIONS)
    found = trained.built.indexer.layers([piece.texts[1] for piece in pieces])
    assert {len(one) for one in found} == {7}


def test_a_tuned_elmo_learns_from_both_texts(tmp_path, model):
    trained = make_fitted_task(
        tmp_path, QUESTIONS, task="question_answering", model=model, use="tuned"
    )
    work = TaskTrainingJob(trained, QUESTIONS, ()).make_trainable(fabric())
    before = [value.clone() for value in work.model.features.network.bilm.parameters()]
    work.step(next(work.batches(0)), 0)
    after = work.model.features.network.bilm.parameters()
    assert not any(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_an_answerer(tmp_path):
    texts = [(" ".join(e.texts[0]), e.extra.text) for e in QUESTIONS]
    answers = [e.target.texts[0] for e in QUESTIONS]
    settings = {**OPTIONS, "hidden": 16, "epochs": 25, "evaluate_every": 100}
    model = QuestionAnswerer(**settings).fit(
        texts, answers, dev=(texts, [[one] for one in answers])
    )
    assert model.score(texts, answers) > 0.9
    assert model.labels == []
    found = model.answers(texts)
    assert model.predict(texts) == [answer.text for answer in found]
    for (_, passage), answer in zip(texts, found, strict=True):
        assert passage[answer.start : answer.end] == answer.text
        assert 0 < answer.score <= 1
    model.save(tmp_path / "model")
    assert QuestionAnswerer.load(tmp_path / "model").answers(texts) == found
    # Words that are split already are a text with spaces.
    (answer,) = model.answers([("where is Kim ?".split(), QUESTIONS[0].texts[1])])
    assert answer.text in " ".join(QUESTIONS[0].texts[1])


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("Busan", "text 0: its passage does not hold 'Busan'"),
        ([("Kim", 1)], "text 0: its passage does not hold 'Kim'"),
        (3, "'0' has 3 for its target, expected answers, and a passage"),
    ],
)
def test_answers_that_do_not_fit(target, message):
    with pytest.raises(InputError, match=message):
        QuestionAnswerer(**OPTIONS).fit([("who ?", "Kim left")], [target])


def test_targets_as_they_are_given():
    estimator = QuestionAnswerer()
    example = task_for("question_answering", QUESTIONS).make_example(
        ("who ?", "Kim left Kim"), str.split
    )
    for target, expected in (
        ("", GoldAnswers()),
        ([], GoldAnswers()),
        ("Kim", GoldAnswers(("Kim",), (0, 1))),
        ([("Kim", 9), "left"], GoldAnswers(("Kim", "left"), (2, 3))),
    ):
        assert estimator._target(example, target, 0) == expected


def test_examples_without_a_passage():
    with pytest.raises(InputError, match="expected answers, and a passage with the places of its"):
        task_for("question_answering", [Example((("a",), ("b",)), GoldAnswers())])


def test_fit_evaluate_and_predict_as_typed(tmp_path):
    def elmo(*words, given=None):
        return CliRunner().invoke(cli.application(), ["task", *map(str, words)], input=given)

    records = [
        {"question": " ".join(e.words), "context": e.extra.text, "answer": e.target.texts[0]}
        for e in QUESTIONS
    ]
    file = tmp_path / "questions.json"
    file.write_text(json.dumps(records))
    flags = ["--model", "none", "--hidden", "4", "--max-steps", "2", "--accelerator", "cpu"]
    run = elmo("fit", "squad", "--train", file, "--dev", file, "--out", tmp_path / "run", *flags)
    assert run.exit_code == 0, run.stderr
    shown = json.loads(elmo("evaluate", tmp_path / "run", file, "--as-json").stdout)
    assert set(shown) == {"exact_match", "f1", "examples"}
    passage = "now Kim  is at home ."
    result = elmo("predict", tmp_path / "run", "-", given=f"where is Kim ?\t{passage}\n")
    record = json.loads(result.stdout)
    assert record["question"] == "where is Kim ?"
    assert record["answer"] == passage[record["start"] : record["end"]]
    assert 0 < record["score"] <= 1
