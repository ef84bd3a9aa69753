"""Tests of coreference: the head, long documents, GAP and complete models."""

import json
import logging
import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from small_tasks import OPTIONS, fabric, make_fitted_task, watch_nothing, write_elmo
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from typer.testing import CliRunner

from elmo import cli
from elmo.errors import ConfigError, InputError
from elmo.tasks import CoreferenceResolver
from elmo.tasks.core.example import Example
from elmo.tasks.core.packed_batch import PackedBatch
from elmo.tasks.core.task_model import EncodedTexts
from elmo.tasks.coreference import coreference_task as coreference_module
from elmo.tasks.coreference.coreference_head import CoreferenceHead, distance_bucket
from elmo.tasks.coreference.coreference_options import CoreferenceOptions
from elmo.tasks.coreference.gap import PronounCandidates
from elmo.tasks.registry.task_classes import make_task, task_for
from elmo.tasks.training.task_trainable import TaskTrainingJob

OPTIONS = {
    **OPTIONS,
    **{
        "max_mention_words": 2,
        "top_span_ratio": 0.5,
        "max_antecedents": 8,
        "scorer_dim": 32,
        "batch_size": 1,
    },
}


def document(he, she, first, single):
    """Return a document of three sentences with two names and pronouns.

    If `single` is true, the gold clusters include the singleton "a dog".
    """
    texts = (
        (*he.split(), "met", *she.split(), "."),
        (first, "saw", "a", "dog", "."),
        ("She" if first == "He" else "He", "left", "."),
    )
    n_he, n_she = len(he.split()), len(she.split())
    second = n_he + n_she + 2
    named = {"He": (0, n_he), "She": (n_he + 1, n_he + 1 + n_she)}
    clusters = [
        (named[first], (second, second + 1)),
        (named[texts[2][0]], (second + 5, second + 6)),
    ]
    if single:
        clusters.append(((second + 2, second + 4),))
    return Example(texts, tuple(sorted(clusters)), extra=("",) * 3)


def documents(single):
    return [
        document(he, she, first, single)
        for he in ("Kim", "Bob")
        for she in ("Ann", "Lady Jane")
        for first in ("He", "She")
    ]


def make_head(has_singletons=True, **options):
    torch.manual_seed(0)
    options = {
        "max_mention_words": 3,
        "top_span_ratio": 0.5,
        "max_antecedents": 4,
        "scorer_dim": 7,
        **options,
    }
    return CoreferenceHead(
        dim=6, config=CoreferenceOptions(**options), has_singletons=has_singletons, dropout=0.2
    )


def texts_of(*lengths):
    """Return random vectors of sentences; padding has large values that must be ignored."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(len(lengths), max(lengths), 6, generator=generator)
    layout = PackedBatch.from_lengths(lengths)
    return [EncodedTexts(x.masked_fill(~layout.mask.unsqueeze(2), 1e6), layout)]


# -------------------------------------------------------------------------------------------- head


def test_coreference_head_only_scores_spans_within_sentences():
    head = make_head(top_span_ratio=9.0).eval()
    top = head(texts_of(4, 1, 2))
    # 4 + 3 + 2 spans of 4 words, 1 span of 1 word, 2 + 1 spans of 2 words.
    assert len(top.spans) == 13
    ranges = [(span // 3, span // 3 + span % 3 + 1) for span in top.spans.tolist()]
    assert ranges == sorted(ranges)
    assert set(ranges) >= {(0, 3), (1, 4), (4, 5), (5, 7)}
    assert not {(2, 5), (3, 5), (4, 6)} & set(ranges)


def test_span_vector_combines_ends_attention_and_length():
    head = make_head().eval()
    ((x, _, _),) = texts_of(5)
    vectors, _ = head._spans(x[0], torch.zeros(5, dtype=torch.int64))
    words = x[0, 1:4]
    weights = head.attention(words).softmax(dim=0)
    expected = (
        head.first(words[0])
        + head.last(words[2])
        + head.inner((weights * words).sum(dim=0))
        + head.n_words.weight[2]
    ).relu()
    torch.testing.assert_close(vectors[1, 2], expected)


def test_coreference_head_selects_spans_with_highest_scores():
    head = make_head(top_span_ratio=0.5).eval()
    top = head(texts_of(5, 2))
    assert len(top.spans) == math.ceil(0.5 * 7)
    best = top.scores.flatten().topk(4).indices
    assert sorted(best.tolist()) == top.spans.tolist()


def test_link_score_combines_pair_score_and_mention_scores():
    head = make_head().eval()
    top = head(texts_of(5, 5))
    assert top.links.shape == (5, 1 + 4)
    assert top.links[:, 0].tolist() == [0.0] * 5
    # The first span has no antecedents, the second has one, and so on.
    assert torch.isfinite(top.links).sum(dim=1).tolist() == [1, 2, 3, 4, 5]
    vectors, _ = head._spans(texts_of(5, 5)[0][0].flatten(0, 1), torch.arange(10) // 5)
    later, earlier = top.spans[4], top.spans[1]
    g, h = (vectors.flatten(0, 1)[number] for number in (later, earlier))
    n_sentences = later // 15 - earlier // 15
    hidden = (
        head.later(g)
        + head.earlier(h)
        + head.alike(g * h)
        + head.mentions_between.weight[3]
        + head.sentences_between.weight[n_sentences]
    )
    mention_scores = top.scores.flatten()[top.spans[[4, 1]]]
    expected = head.pair(hidden.relu())[0] + mention_scores.sigmoid().log().sum()
    torch.testing.assert_close(top.links[4, 3], expected)


def test_distances_above_four_share_buckets():
    buckets = distance_bucket(torch.tensor([0, 1, 4, 5, 7, 8, 15, 16, 31, 32, 63, 64, 9999]))
    assert buckets.tolist() == [0, 1, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9]


def mention_loss(top, *mentions):
    """Return the mention loss of a document whose spans are single words."""
    probabilities = top.scores.flatten().sigmoid()
    is_mention = torch.zeros(len(probabilities), dtype=torch.bool)
    is_mention[list(mentions)] = True
    return -probabilities.where(is_mention, 1 - probabilities).log().mean()


def test_coreference_loss_sums_probabilities_of_gold_antecedents():
    head = make_head(top_span_ratio=1.0, max_mention_words=1).eval()
    top = head(texts_of(4))
    probabilities = top.links.softmax(dim=1)
    targets = torch.tensor([[0, 1, 7], [1, 2, 7], [3, 4, 7]])
    p = probabilities
    gold = [p[0, 0], p[1, 1], p[2, 0], p[3, 2] + p[3, 3]]
    expected = -torch.stack(gold).log().mean() + mention_loss(top, 0, 1, 3)
    torch.testing.assert_close(head.loss(texts_of(4), targets), expected)
    # A gold mention that is too long is ignored.
    too_long = torch.cat([targets, torch.tensor([[0, 4, 8]])])
    torch.testing.assert_close(head.loss(texts_of(4), too_long), expected)
    none = torch.zeros(0, 3, dtype=torch.int64)
    expected = -p[:, 0].log().mean() + mention_loss(top)
    torch.testing.assert_close(head.loss(texts_of(4), none), expected)


@pytest.mark.parametrize(
    ("has_singletons", "expected"),
    [(True, [[(0, 1), (1, 2), (3, 4)], [(2, 3)]]), (False, [[(0, 1), (1, 2), (3, 4)]])],
)
def test_coreference_head_builds_clusters_from_links(monkeypatch, has_singletons, expected):
    head = make_head(has_singletons, top_span_ratio=1.0, max_mention_words=1).eval()
    top = head(texts_of(5))
    links = torch.full_like(top.links, -9.0)
    links[:, 0] = 0.0
    links[1, 1] = links[3, 2] = 1.0
    scores = torch.tensor([5.0, 5.0, 5.0, 5.0, -5.0]).unsqueeze(1)
    monkeypatch.setattr(head, "forward", lambda texts: top._replace(links=links, scores=scores))
    assert head.predict(texts_of(5)) == [expected]


def test_coreference_head_accepts_one_word_document():
    head = make_head()
    assert head.loss(texts_of(1), torch.tensor([[0, 1, 0]])) > 0
    assert len(head.predict(texts_of(1))) == 1


class TensorSizes(TorchDispatchMode):
    """Records the largest and the total number of elements of all computed tensors."""

    def __init__(self):
        super().__init__()
        self.largest = self.total = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self.largest = max(self.largest, leaf.numel())
                self.total += leaf.numel()
        return result


def test_coreference_head_memory_is_linear_in_number_of_words():
    """The measured memory includes the backward pass."""
    head = make_head(max_antecedents=10)
    measured = []
    for n in (20, 40, 80):
        texts, targets = texts_of(*[10] * n), torch.tensor([[0, 1, 0], [5, 6, 0]])
        with TensorSizes() as sizes:
            head.loss(texts, targets).backward()
        measured.append((sizes.largest, sizes.total))
        # All pairs of top spans: as many spans as half of the words, each with ten antecedents.
        assert sizes.largest <= max(0.5 * 10 * n * 10, 10 * n * 3) * 7
    for smaller, larger in pairwise(measured):
        assert larger[0] <= 2.05 * smaller[0]
        assert larger[1] <= 2.05 * smaller[1]


# ------------------------------------------------------------------------------------------- task

SETTINGS = {"has_singletons": True, "max_sentence_words": 3, "max_document_words": 5}


def test_split_example_splits_long_document_at_sentence_boundaries(caplog):
    coreference_module._warn_about_split.cache_clear()
    task = make_task("coreference", SETTINGS)
    texts = (("a", "b"), ("c", "d", "e", "f"), ("g",))
    clusters = (((0, 2), (5, 6)), ((4, 5), (6, 7)), ((2, 3),))
    example = Example(texts, clusters, "x", ("Kim", "Lee", ""))
    with caplog.at_level(logging.WARNING):
        parts = task.split_example(example)
        task.split_example(example)
    assert [part.texts for part in parts] == [
        (("a", "b"), ("c", "d", "e")),
        (("f",), ("g",)),
    ]
    assert [part.target for part in parts] == [
        (((0, 2),), ((4, 5),), ((2, 3),)),
        (((0, 1),), ((1, 2),)),
    ]
    assert [part.extra for part in parts] == [("Kim", "Lee"), ("Lee", "")]
    assert task.answer(example, parts, [[[(4, 5)]], [[(1, 2), (0, 1)]]], []) == (
        ((4, 5),),
        ((5, 6), (6, 7)),
    )
    (message,) = caplog.messages
    assert "Documents with more than 5 words are split at sentence boundaries" in message
    # An example without a target or speakers.
    (first, _) = task.split_example(Example(texts))
    assert (first.target, first.extra) == (None, ("", ""))


def test_indicator_feature_is_the_speaker_number():
    task = make_task("coreference", {"has_singletons": False})
    texts = (("a", "b"), ("c",), ("d",), ("e",))
    (part,) = task.split_example(Example(texts, (), extra=("Kim", "", "Lee", "Kim")))
    (group,) = task.text_groups([part])
    assert group.texts == list(texts)
    assert group.indicators == [[1, 1], [0], [2], [1]]
    many = tuple(map(str, range(40)))
    (part,) = task.split_example(Example((("a",),) * 40, extra=many))
    indicators = {row[0] for row in task.text_groups([part])[0].indicators}
    assert indicators == set(range(1, task.n_indicators))


@pytest.mark.parametrize("single", [True, False])
def test_gold_clusters_survive_encoding_and_get_perfect_scores(single):
    examples = documents(single)
    task = task_for("coreference", examples, CoreferenceOptions(max_antecedents=8))
    assert task.has_singletons is single
    assert task.options.max_antecedents == 8
    assert vars(make_task("coreference", task.to_settings())) == vars(task)
    predictions = []
    for example in examples:
        (part,) = task.split_example(example)
        rows = task.targets([part], {}).tolist()
        clusters = {}
        for start, end, number in rows:
            clusters.setdefault(number, []).append((start, end))
        predictions.append(task.answer(example, [part], [list(clusters.values())], []))
    assert predictions == [example.target for example in examples]
    scores = task.scores(examples, predictions)
    assert tuple(scores) == task.metrics
    assert set(scores.values()) == {1.0}


def test_scores_include_gold_singletons():
    task = make_task("coreference", {"has_singletons": True})
    example = Example((("a", "b", "c"),), (((0, 1), (1, 2)), ((2, 3),)))
    scores = task.scores([example], [(((0, 1), (1, 2)),)])
    assert scores["muc_f1"] == 1
    assert scores["b3_f1"] == pytest.approx(2 * (2 / 3) / (1 + 2 / 3))
    assert scores["mention_f1"] == pytest.approx(0.8)


@pytest.mark.parametrize(
    "target",
    [
        None,
        "x",
        ((),),
        (((0, 4),),),
        (((2, 2),),),
        (((-1, 1),),),
        ([(0, 1)],),
        # A mention in two clusters.
        (((0, 1), (1, 2)), ((0, 1), (2, 3))),
    ],
)
def test_task_for_rejects_example_without_valid_clusters(target):
    with pytest.raises(InputError, match=r"has the target .*; expected clusters of mentions"):
        task_for("coreference", [Example((("a", "b"), ("c",)), target)])


def test_coreference_config_rejects_invalid_values():
    with pytest.raises(ConfigError, match="max_mention_words must be at least 1"):
        CoreferenceOptions(max_mention_words=0)
    with pytest.raises(ConfigError, match="top_span_ratio must be above 0"):
        CoreferenceOptions(top_span_ratio=0)
    with pytest.raises(
        ConfigError, match=r"max_document_words \(9\) must be at least max_sentence_words \(10\)"
    ):
        CoreferenceOptions(max_document_words=9, max_sentence_words=10)


# --------------------------------------------------------------------------------------------- GAP

GAP = Example(
    (("Ann", "Lee", "met", "Miss", "Eve", "."), ("She", "left", ".")),
    (False, True),
    extra=PronounCandidates((6, 7), (0, 2), (4, 5), "feminine"),
)


@pytest.mark.parametrize(
    ("clusters", "is_correct"),
    [
        ((((4, 5), (6, 7)),), True),
        # A mention that includes the title matches the name; one with less overlap does not.
        ((((3, 5), (6, 7)),), True),
        ((((2, 6), (6, 7)),), False),
        ((((0, 2), (4, 5), (6, 7)),), False),
        ((((4, 5),), ((6, 7),)), False),
        ((((2, 5), (6, 7)), ((4, 5),)), False),
        ((), False),
    ],
)
def test_gap_examples_are_scored_with_gap_metrics(clusters, is_correct):
    task = make_task("coreference", {"has_singletons": True})
    assert task.has_valid_target(GAP)
    he = replace(GAP, extra=replace(GAP.extra, gender="masculine"))
    scores = task.scores([GAP, he], [clusters, (((4, 5), (6, 7)),)])
    assert set(scores) == {"gap_f1", "masculine_f1", "feminine_f1", "bias"}
    assert scores["masculine_f1"] == 1
    assert (scores["feminine_f1"] == 1) is is_correct


def test_coreference_training_on_gap_is_rejected():
    with pytest.raises(InputError, match="Task coreference: cannot train on GAP"):
        task_for("coreference", [GAP])


# ------------------------------------------------------------------------------------------ models


@pytest.mark.parametrize("settings", [{"single": True}, {"single": False, "placement": "both"}])
def test_coreference_model_overfits_training_documents(tmp_path, settings):
    single = settings.pop("single")
    if settings:
        settings = {**settings, "model": write_elmo(tmp_path / "elmo")}
    examples = documents(single)
    fitted = make_fitted_task(
        tmp_path, examples, examples, task="coreference", **{**OPTIONS, **settings}
    )
    trainable = TaskTrainingJob(fitted, examples, examples).make_trainable(fabric())
    for number, batch in zip(range(160), trainable.batches(0), strict=False):
        trainable.step(batch, number)
    evaluation = trainable.evaluation(trainable.measure(160, watch_nothing))
    assert evaluation.metric == "mean_f1"
    assert evaluation.scores["mean_f1"] > 0.9


def test_prediction_for_document_does_not_depend_on_other_documents(tmp_path):
    examples = documents(True)
    fitted = make_fitted_task(
        tmp_path, examples, task="coreference", **{**OPTIONS, "batch_size": 2}
    )
    trainable = TaskTrainingJob(fitted, examples, ()).make_trainable(fabric())
    assert [part.share for part in next(trainable.batches(0))] == [0.5, 0.5]
    predictions = fitted.predict(examples)
    assert predictions == [fitted.predict([example])[0] for example in examples]


@pytest.mark.parametrize("settings", [{"placement": "both"}, {"use": "tuned"}])
def test_encoding_sentences_in_blocks_does_not_change_results(tmp_path, settings):
    """Loss, gradients and predictions are the same if a long sentence is in its own block."""
    texts = (
        ("He", "left", "."),
        ("Kim", "met", "Lady", "Jane", "."),
        ("She", "saw", "him"),
        ("a",),
    )
    example = Example(texts, (((0, 1), (3, 4), (10, 11)), ((5, 7), (8, 9))), extra=("Kim", "") * 2)
    settings = {**OPTIONS, **settings, "model": write_elmo(tmp_path / "elmo")}
    shapes, gradients, predictions = [], [], []
    for words in (20, 9):
        fitted = make_fitted_task(
            tmp_path, [example], task="coreference", batch_words=words, **settings
        )
        # The model is untrained; with the initial bias there would be no mentions to compare.
        fitted.built.model.head.mention.bias.data.fill_(5.0)
        (part,) = next(TaskTrainingJob(fitted, [example], ()).make_trainable(fabric()).batches(0))
        shapes.append([tuple(group.mask.shape) for group in part.groups])
        loss = fitted.built.model.loss(part.groups, part.targets)
        loss.backward()
        parameters = fitted.built.model.parameters()
        gradients.append([loss, *(value.grad for value in parameters if value.grad is not None)])
        predictions.append(fitted.predict([example]))
    assert shapes == [[(4, 5)], [(3, 3), (1, 5)]]
    assert predictions[0] == predictions[1] != [()]
    for first, second in zip(*gradients, strict=True):
        torch.testing.assert_close(first, second, atol=1e-5, rtol=1e-4)


def test_coreference_fine_tuning_updates_elmo(tmp_path):
    examples = documents(True)
    model = write_elmo(tmp_path / "elmo")
    settings = {**OPTIONS, "model": model, "use": "tuned", "placement": "output"}
    fitted = make_fitted_task(tmp_path, examples, task="coreference", **settings)
    trainable = TaskTrainingJob(fitted, examples, ()).make_trainable(fabric())
    before = [value.clone() for value in trainable.model.features.network.bilm.parameters()]
    trainable.step(next(trainable.batches(0)), 0)
    after = trainable.model.features.network.bilm.parameters()
    assert not any(torch.equal(*pair) for pair in zip(before, after, strict=True))


def test_coreference_resolver_fits_saves_and_loads(tmp_path):
    examples = documents(True)
    texts = [[list(text) for text in example.texts] for example in examples]
    raw = [" ".join(word for text in example.texts for word in text) for example in examples]
    clusters = [example.target for example in examples]
    settings = {**OPTIONS, "epochs": 5, "evaluate_every": 40}
    model = CoreferenceResolver(**settings).fit(texts, clusters, dev=(texts, clusters))
    assert model.score(texts, clusters) > 0.3
    predictions = model.predict(texts)
    # Raw and tokenized texts are split into the same sentences.
    assert model.predict(raw) == model.predict([text.split() for text in raw]) == predictions
    model.save(tmp_path / "model")
    assert CoreferenceResolver.load(tmp_path / "model").predict(texts) == predictions
    assert model.predict([" ", [], [[]], texts[0]]) == [[], [], [], predictions[0]]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (3, "Text 0: the clusters must be lists of pairs"),
        ([[(0, 1, 2)]], "the clusters must be lists of pairs"),
        ([[(0, 9)]], "'0' has the target .*; expected clusters"),
        ([[(0, 1)], [(0, 1)]], "expected clusters of .* in exactly one cluster"),
    ],
)
def test_coreference_resolver_rejects_invalid_clusters(target, message):
    with pytest.raises(InputError, match=message):
        CoreferenceResolver(**OPTIONS).fit(["a b"], [target])


def columns(example, name):
    """Return a document in the CoNLL-2012 column format."""
    lines = [f"#begin document ({name}); part 0"]
    position = 0
    for text in example.texts:
        for number, word in enumerate(text):
            cells = []
            for cluster, mentions in enumerate(example.target):
                for start, end in mentions:
                    opens, closes = "(" * (start == position), ")" * (end == position + 1)
                    cells += [f"{opens}{cluster}{closes}"] if opens or closes else []
            lines.append(f"{name} 0 {number} {word} NN * - - - - * {'|'.join(cells) or '-'}")
            position += 1
        lines.append("")
    return "\n".join([*lines, "#end document", ""])


def test_fit_evaluate_and_predict_commands_support_coreference(tmp_path):
    def elmo(*arguments, stdin=None):
        return CliRunner().invoke(cli.application(), ["task", *map(str, arguments)], input=stdin)

    examples = documents(True)
    file = tmp_path / "documents.conll"
    file.write_text("".join(columns(e, f"d{n}") for n, e in enumerate(examples)))
    flags = ["--model", "none", "--hidden", "4", "--max-steps", "2", "--accelerator", "cpu"]
    run = elmo("fit", "litbank", "--train", file, "--dev", file, "--out", tmp_path / "run", *flags)
    assert run.exit_code == 0, run.stderr
    scores = json.loads(elmo("evaluate", tmp_path / "run", file, "--json").stdout)
    assert {"muc_f1", "b3_f1", "ceafe_f1", "mean_f1", "mention_f1", "examples"} == set(scores)
    text = "Ann met Eve. She left."
    table = tmp_path / "gap.tsv"
    header = "ID Text Pronoun Pronoun-offset A A-offset A-coref B B-offset B-coref URL".split()
    row = ["x-1", text, "She", "13", "Ann", "0", "TRUE", "Eve", "8", "FALSE", "url"]
    table.write_text("".join("\t".join(cells) + "\n" for cells in (header, row)))
    result = elmo("evaluate", tmp_path / "run", table, "--reader", "gap", "--json")
    scores = json.loads(result.stdout)
    assert {"gap_f1", "masculine_f1", "feminine_f1", "bias", "examples"} == set(scores)
    result = elmo("predict", tmp_path / "run", "-", stdin=f"{text}\n")
    record = json.loads(result.stdout)
    assert record["words"] == ["Ann", "met", "Eve", ".", "She", "left", "."]
    for cluster in record["clusters"]:
        for mention in cluster:
            words = record["words"][mention["start"] : mention["end"]]
            assert mention["text"] == " ".join(words)
    result = elmo("predict", tmp_path / "run", "-", stdin=" \n")
    assert json.loads(result.stdout) == {"words": [], "clusters": []}
