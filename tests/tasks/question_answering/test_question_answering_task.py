"""Tests of question answering: the head, splitting long passages into windows, complete models."""

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
    watch_nothing,
    with_padding,
    write_elmo,
)
from typer.testing import CliRunner

from elmo import cli
from elmo.config import TaskEncoderConfig, WordFeaturesConfig
from elmo.errors import ConfigError, InputError
from elmo.tasks import QuestionAnswerer
from elmo.tasks.core.example import Example
from elmo.tasks.core.packed_batch import PackedBatch
from elmo.tasks.core.passage import Passage
from elmo.tasks.core.task_model import EncodedTexts
from elmo.tasks.question_answering.gold_answers import GoldAnswers
from elmo.tasks.question_answering.question_answering_head import (
    PredictedSpan,
    QuestionAnsweringHead,
)
from elmo.tasks.question_answering.question_answering_options import QuestionAnsweringOptions
from elmo.tasks.registry.task_classes import make_task, task_for
from elmo.tasks.registry.task_config import TaskConfig
from elmo.tasks.training.task_trainable import TaskTrainingJob

SETTINGS = {
    "max_answer_words": 3,
    "window": 6,
    "overlap": 2,
    "has_unanswerable": True,
    "f1_unit": "words",
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_elmo(tmp_path_factory.mktemp("elmo"))


# ---------------------------------------------------------------------------------------- passages


def test_passage_aligns_words_and_finds_answers():
    passage = Passage.align("a cat,  a  dog", ["a", "cat", ",", "a", "dog"])
    assert passage.word_offsets == ((0, 1), (2, 5), (5, 6), (8, 9), (11, 14))
    assert passage.text_of((1, 4)) == "cat,  a"
    assert passage.find_words("cat,") == (1, 3)
    # A whole word is preferred to a character inside a word.
    assert passage.find_words("a") == (0, 1)
    assert passage.find_words("a", 8) == (3, 4)
    assert passage.find_words("at") == (1, 2)
    for missing in (("dot",), ("cat", 3), ("  ", 6), ("a", -6)):
        assert passage.find_words(*missing) is None
    with pytest.raises(InputError, match="The word 'b' was not found after character 1"):
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


def test_question_answering_head_computes_one_softmax_over_all_spans_and_no_answer(head):
    scores = head(texts_of(4, 5)).detach().log_softmax(dim=1)
    assert scores.shape == (2, 5 * 3 + 1)
    # There are 5 + 4 + 3 spans of 1, 2 and 3 words.
    assert torch.isfinite(scores).sum(dim=1).tolist() == [12 + 1] * 2
    (span, _) = head.predict(texts_of(4, 5))
    best = scores[0, :-1].argmax()
    assert span.start == best // 3
    assert span.end == span.start + best % 3 + 1 <= 5
    assert span.log_probability == pytest.approx(float(scores[0, best]))
    assert span.log_none == pytest.approx(float(scores[0, -1]))


def test_question_answering_loss_is_cross_entropy_of_gold_span(head):
    texts = texts_of(4, 5)
    scores = head(texts).log_softmax(dim=1)
    loss = head.loss(texts, torch.tensor([[1, 3], [-1, -1]]))
    torch.testing.assert_close(loss, -(scores[0, 1 * 3 + 1] + scores[1, -1]) / 2)
    # A gold answer that is too long is truncated.
    assert head.loss(texts, torch.tensor([[1, 5], [0, 1]])) == head.loss(
        texts, torch.tensor([[1, 4], [0, 1]])
    )


def test_question_answering_head_ignores_padding(head):
    texts = texts_of(4, 5)
    expected = head.predict(texts)
    padded = []
    for x, layout, _ in texts:
        padding = torch.full((2, 3, 6), 50.0)
        padded.append(EncodedTexts(torch.cat([x, padding], dim=1), with_padding(layout, 3)))
    for span, other in zip(head.predict(padded), expected, strict=True):
        assert span == pytest.approx(other, abs=1e-5)


# ----------------------------------------------------------------------------------------- windows


def test_split_example_splits_long_passage_into_windows():
    task = make_task("question_answering", SETTINGS)
    words = tuple(f"w{n}" for n in range(15))
    example = make_question("where ?", " ".join(words), "w4 w5")
    parts = task.split_example(example)
    assert [part.texts[1] for part in parts] == [words[0:6], words[4:10], words[8:14], words[9:]]
    assert [part.target.word_range for part in parts] == [(4, 6), (0, 2), None, None]
    for part in parts:
        assert part.texts[0] == example.texts[0]
        assert part.extra.text_of((0, 6)) == " ".join(part.texts[1])
    assert task.split_example(make_question("where ?", "a b", "a")) == [
        make_question("where ?", "a b", "a")
    ]
    # Parts of an example without a target have no target.
    unlabeled = task.make_example(["a", " ".join(words)], str.split)
    assert {part.target for part in task.split_example(unlabeled)} == {None}


def test_answer_compares_answers_of_windows_with_no_answer():
    task = make_task("question_answering", SETTINGS)
    example = make_question("where ?", " ".join(f"w{n}" for n in range(10)), "w4")
    parts = task.split_example(example)
    spans = [PredictedSpan(0, 1, math.log(0.6), math.log(0.3)), PredictedSpan(1, 3, -1.0, -5.0)]
    answer = task.answer(example, parts, spans, [])
    assert (answer.text, answer.start, answer.end) == ("w5 w6", 15, 20)
    assert answer.score == pytest.approx(math.exp(-1))
    none = [PredictedSpan(0, 1, math.log(0.2), math.log(0.7))] * 2
    answer = task.answer(example, parts, none, [])
    assert (answer.text, answer.start, answer.score) == ("", None, pytest.approx(0.7))
    record = task.to_record(example, answer)
    assert record == {"question": "where ?", "answer": "", "start": None, "end": None, "score": 0.7}
    # A model trained without unanswerable questions always answers.
    always = make_task("question_answering", {**SETTINGS, "has_unanswerable": False})
    assert always.answer(example, parts, none, []).text == "w0"


def test_indicator_feature_marks_words_shared_by_question_and_passage():
    task = make_task("question_answering", SETTINGS)
    questions, passages = task.text_groups([make_question("where is Kim ?", "Is it Kim", "it")])
    assert questions.indicators == [[0, 1, 1, 0]]
    assert passages.indicators == [[1, 0, 1]]


def test_question_answering_config_rejects_invalid_values():
    with pytest.raises(
        ConfigError, match=r"overlap \(9\) must be 0 or more and smaller than window"
    ):
        QuestionAnsweringOptions(window=9, overlap=9)
    with pytest.raises(ConfigError, match="max_answer_words must be at least 1"):
        QuestionAnsweringOptions(max_answer_words=0)
    with pytest.raises(ConfigError, match="indicator_dim must be at least 1"):
        WordFeaturesConfig(indicator_dim=0)
    with pytest.raises(ConfigError, match="batch_words must be at least 1"):
        TaskConfig(out="", batch_words=0)


# ------------------------------------------------------------------------------------------ models


@pytest.mark.parametrize(
    "settings", [{"batch_words": 40}, {"placement": "both", "window": 7, "overlap": 4}]
)
def test_question_answering_model_overfits_training_questions(tmp_path, model, settings):
    if "placement" in settings:
        settings = {**settings, "model": model}
    examples = QUESTIONS + UNANSWERED
    fitted = make_fitted_task(
        tmp_path, examples, examples, task="question_answering", hidden=16, **settings
    )
    assert fitted.task.has_unanswerable
    trainable = TaskTrainingJob(fitted, examples, examples).make_trainable(fabric())
    for number, batch in zip(range(90), trainable.batches(0), strict=False):
        trainable.step(batch, number)
    evaluation = trainable.evaluation(trainable.measure(90, watch_nothing))
    assert evaluation.scores["f1"] > 0.9
    assert evaluation.metric == "f1"


def test_elmo_layers_of_passage_windows_are_cached(tmp_path, model):
    fitted = make_fitted_task(
        tmp_path,
        QUESTIONS,
        task="question_answering",
        model=model,
        window=7,
        overlap=4,
        placement="output",
    )
    parts = [part for example in QUESTIONS for part in fitted.task.split_example(example)]
    assert len(parts) > len(QUESTIONS)
    layers = fitted.built.indexer.layers([part.texts[1] for part in parts])
    assert {len(vectors) for vectors in layers} == {7}


def test_question_answering_fine_tuning_updates_elmo(tmp_path, model):
    fitted = make_fitted_task(
        tmp_path, QUESTIONS, task="question_answering", model=model, use="tuned"
    )
    trainable = TaskTrainingJob(fitted, QUESTIONS, ()).make_trainable(fabric())
    before = [value.clone() for value in trainable.model.features.network.bilm.parameters()]
    trainable.step(next(trainable.batches(0)), 0)
    after = trainable.model.features.network.bilm.parameters()
    assert not any(torch.equal(*pair) for pair in zip(before, after, strict=True))


def test_question_answerer_fits_saves_and_loads(tmp_path):
    texts = [(" ".join(e.texts[0]), e.extra.text) for e in QUESTIONS]
    answers = [e.target.texts[0] for e in QUESTIONS]
    settings = {**OPTIONS, "hidden": 16, "epochs": 25, "evaluate_every": 100}
    model = QuestionAnswerer(**settings).fit(
        texts, answers, dev=(texts, [[answer] for answer in answers])
    )
    assert model.score(texts, answers) > 0.9
    assert model.labels == []
    predictions = model.answers(texts)
    assert model.predict(texts) == [answer.text for answer in predictions]
    for (_, passage), answer in zip(texts, predictions, strict=True):
        assert passage[answer.start : answer.end] == answer.text
        assert 0 < answer.score <= 1
    model.save(tmp_path / "model")
    assert QuestionAnswerer.load(tmp_path / "model").answers(texts) == predictions
    # The text of a tokenized passage is its words joined by spaces.
    (answer,) = model.answers([("where is Kim ?".split(), QUESTIONS[0].texts[1])])
    assert answer.text in " ".join(QUESTIONS[0].texts[1])


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("Busan", "Text 0: the passage does not contain the answer 'Busan'"),
        ([("Kim", 1)], "Text 0: the passage does not contain the answer 'Kim'"),
        (3, "'0' has the target 3; expected answers, and a passage"),
    ],
)
def test_question_answerer_rejects_invalid_answers(target, message):
    with pytest.raises(InputError, match=message):
        QuestionAnswerer(**OPTIONS).fit([("who ?", "Kim left")], [target])


def test_question_answerer_accepts_all_target_formats():
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


def test_question_answering_rejects_example_without_passage():
    with pytest.raises(
        InputError, match="expected answers, and a passage with the positions of its"
    ):
        task_for("question_answering", [Example((("a",), ("b",)), GoldAnswers())])


def test_fit_evaluate_and_predict_commands_support_question_answering(tmp_path):
    def elmo(*arguments, stdin=None):
        return CliRunner().invoke(cli.application(), ["task", *map(str, arguments)], input=stdin)

    records = [
        {"question": " ".join(e.words), "context": e.extra.text, "answer": e.target.texts[0]}
        for e in QUESTIONS
    ]
    file = tmp_path / "questions.json"
    file.write_text(json.dumps(records))
    flags = ["--model", "none", "--hidden", "4", "--max-steps", "2", "--accelerator", "cpu"]
    run = elmo("fit", "squad", "--train", file, "--dev", file, "--out", tmp_path / "run", *flags)
    assert run.exit_code == 0, run.stderr
    scores = json.loads(elmo("evaluate", tmp_path / "run", file, "--json").stdout)
    assert set(scores) == {"exact_match", "f1", "examples"}
    passage = "now Kim  is at home ."
    result = elmo("predict", tmp_path / "run", "-", stdin=f"where is Kim ?\t{passage}\n")
    record = json.loads(result.stdout)
    assert record["question"] == "where is Kim ?"
    assert record["answer"] == passage[record["start"] : record["end"]]
    assert 0 < record["score"] <= 1
