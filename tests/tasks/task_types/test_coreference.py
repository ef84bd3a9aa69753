"""Coreference: its head, documents in pieces, pronouns of GAP, and models."""

import json
import logging
import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from small_tasks import OPTIONS, fabric, make_fitted_task, task_config, write_elmo
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from typer.testing import CliRunner

from elmo import cli
from elmo.config import CoreferenceConfig
from elmo.errors import ConfigError, InputError
from elmo.tasks import CoreferenceResolver
from elmo.tasks.examples import Example, PronounCandidates
from elmo.tasks.heads.coreference_head import CoreferenceHead, distance
from elmo.tasks.packed_batch import PackedBatch
from elmo.tasks.task_model import EncodedTexts
from elmo.tasks.task_trainable import TaskTrainingJob
from elmo.tasks.task_types import coreference as clusters_module
from elmo.tasks.task_types.task_registry import make_task, task_for
from elmo.train import loop

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
    """Make three sentences in which he and she are named, then meant; a dog may be told of once."""
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


@pytest.fixture(autouse=True)
def no_picture(monkeypatch):
    monkeypatch.setattr(loop, "draw_curves", lambda folder: None)


def make_head(has_singletons=True, **dials):
    torch.manual_seed(0)
    dials = {
        "max_mention_words": 3,
        "top_span_ratio": 0.5,
        "max_antecedents": 4,
        "scorer_dim": 7,
        **dials,
    }
    return CoreferenceHead(
        dim=6, dials=CoreferenceConfig(**dials), has_singletons=has_singletons, dropout=0.2
    )


def texts_of(*lengths):
    """Give vectors of sentences, padded with what must not be read."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(len(lengths), max(lengths), 6, generator=generator)
    layout = PackedBatch.from_lengths(lengths)
    return [EncodedTexts(x.masked_fill(~layout.mask.unsqueeze(2), 1e6), layout)]


# -------------------------------------------------------------------------------------------- head


def test_spans_end_in_their_sentence():
    head = make_head(top_span_ratio=9.0).eval()
    kept = head(texts_of(4, 1, 2))
    # Of 4 words 4 + 3 + 2 spans, of 1 word 1, of 2 words 2 + 1.
    assert len(kept.spans) == 13
    places = [(span // 3, span // 3 + span % 3 + 1) for span in kept.spans.tolist()]
    assert places == sorted(places)
    assert set(places) >= {(0, 3), (1, 4), (4, 5), (5, 7)}
    assert not {(2, 5), (3, 5), (4, 6)} & set(places)


def test_a_span_is_known_by_its_ends_its_head_and_its_width():
    head = make_head().eval()
    ((x, _, _),) = texts_of(5)
    found, _ = head._spans(x[0], torch.zeros(5, dtype=torch.int64))
    words = x[0, 1:4]
    shares = head.attention(words).softmax(dim=0)
    expected = (
        head.first(words[0])
        + head.last(words[2])
        + head.inner((shares * words).sum(dim=0))
        + head.n_words.weight[2]
    ).relu()
    torch.testing.assert_close(found[1, 2], expected)


def test_the_best_spans_are_kept():
    head = make_head(top_span_ratio=0.5).eval()
    kept = head(texts_of(5, 2))
    assert len(kept.spans) == math.ceil(0.5 * 7)
    best = kept.scores.flatten().topk(4).indices
    assert sorted(best.tolist()) == kept.spans.tolist()


def test_what_a_link_is_worth():
    head = make_head().eval()
    kept = head(texts_of(5, 5))
    assert kept.links.shape == (5, 1 + 4)
    assert kept.links[:, 0].tolist() == [0.0] * 5
    # The first has nothing before it, the second one mention, and so on.
    assert torch.isfinite(kept.links).sum(dim=1).tolist() == [1, 2, 3, 4, 5]
    vectors, _ = head._spans(texts_of(5, 5)[0][0].flatten(0, 1), torch.arange(10) // 5)
    one, other = kept.spans[4], kept.spans[1]
    g, h = (vectors.flatten(0, 1)[number] for number in (one, other))
    n_sentences = one // 15 - other // 15
    hidden = (
        head.later(g)
        + head.earlier(h)
        + head.alike(g * h)
        + head.mentions_between.weight[3]
        + head.sentences_between.weight[n_sentences]
    )
    own = kept.scores.flatten()[kept.spans[[4, 1]]]
    expected = head.pair(hidden.relu())[0] + own.sigmoid().log().sum()
    torch.testing.assert_close(kept.links[4, 3], expected)


def test_distances():
    found = distance(torch.tensor([0, 1, 4, 5, 7, 8, 15, 16, 31, 32, 63, 64, 9999]))
    assert found.tolist() == [0, 1, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9]


def of_mentions(kept, *places):
    """Give the loss of the mentions of a document whose spans are its words."""
    chances = kept.scores.flatten().sigmoid()
    is_mention = torch.zeros(len(chances), dtype=torch.bool)
    is_mention[list(places)] = True
    return -chances.where(is_mention, 1 - chances).log().mean()


def test_the_loss_is_that_of_any_right_antecedent():
    head = make_head(top_span_ratio=1.0, max_mention_words=1).eval()
    kept = head(texts_of(4))
    chances = kept.links.softmax(dim=1)
    targets = torch.tensor([[0, 1, 7], [1, 2, 7], [3, 4, 7]])
    right = [chances[0, 0], chances[1, 1], chances[2, 0], chances[3, 2] + chances[3, 3]]
    expected = -torch.stack(right).log().mean() + of_mentions(kept, 0, 1, 3)
    torch.testing.assert_close(head.loss(texts_of(4), targets), expected)
    # A mention that is too wide cannot be learned, and does no harm.
    wide = torch.cat([targets, torch.tensor([[0, 4, 8]])])
    torch.testing.assert_close(head.loss(texts_of(4), wide), expected)
    none = torch.zeros(0, 3, dtype=torch.int64)
    expected = -chances[:, 0].log().mean() + of_mentions(kept)
    torch.testing.assert_close(head.loss(texts_of(4), none), expected)


@pytest.mark.parametrize(
    ("has_singletons", "expected"),
    [(True, [[(0, 1), (1, 2), (3, 4)], [(2, 3)]]), (False, [[(0, 1), (1, 2), (3, 4)]])],
)
def test_links_make_clusters(monkeypatch, has_singletons, expected):
    head = make_head(has_singletons, top_span_ratio=1.0, max_mention_words=1).eval()
    kept = head(texts_of(5))
    links = torch.full_like(kept.links, -9.0)
    links[:, 0] = 0.0
    links[1, 1] = links[3, 2] = 1.0
    scores = torch.tensor([5.0, 5.0, 5.0, 5.0, -5.0]).unsqueeze(1)
    monkeypatch.setattr(head, "forward", lambda texts: kept._replace(links=links, scores=scores))
    assert head.predict(texts_of(5)) == [expected]


def test_a_document_of_one_word():
    head = make_head()
    assert head.loss(texts_of(1), torch.tensor([[0, 1, 0]])) > 0
    assert len(head.predict(texts_of(1))) == 1


class Largest(TorchDispatchMode):
    """Notes the numbers of the largest tensor, and of all together, that are computed."""

    def __init__(self):
        super().__init__()
        self.largest = self.total = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(found):
            if isinstance(leaf, torch.Tensor):
                self.largest = max(self.largest, leaf.numel())
                self.total += leaf.numel()
        return found


def test_memory_is_linear_in_words():
    """Twice the words take twice the numbers, in all and at most, backwards too."""
    head = make_head(max_antecedents=10)
    seen = []
    for n in (20, 40, 80):
        texts, targets = texts_of(*[10] * n), torch.tensor([[0, 1, 0], [5, 6, 0]])
        with Largest() as noted:
            head.loss(texts, targets).backward()
        seen.append((noted.largest, noted.total))
        # All pairs of kept spans: half of the words, each with ten before.
        assert noted.largest <= max(0.5 * 10 * n * 10, 10 * n * 3) * 7
    for one, other in pairwise(seen):
        assert other[0] <= 2.05 * one[0]
        assert other[1] <= 2.05 * one[1]


# ------------------------------------------------------------------------------------------- kind

SETTINGS = {"has_singletons": True, "max_sentence_words": 3, "max_document_words": 5}


def test_long_documents_are_cut_between_sentences(caplog):
    clusters_module._tell.cache_clear()
    kind = make_task("coreference", SETTINGS)
    texts = (("a", "b"), ("c", "d", "e", "f"), ("g",))
    clusters = (((0, 2), (5, 6)), ((4, 5), (6, 7)), ((2, 3),))
    example = Example(texts, clusters, "x", ("Kim", "Lee", ""))
    with caplog.at_level(logging.WARNING):
        pieces = kind.split_example(example)
        kind.split_example(example)
    assert [piece.texts for piece in pieces] == [
        (("a", "b"), ("c", "d", "e")),
        (("f",), ("g",)),
    ]
    assert [piece.target for piece in pieces] == [
        (((0, 2),), ((4, 5),), ((2, 3),)),
        (((0, 1),), ((1, 2),)),
    ]
    assert [piece.extra for piece in pieces] == [("Kim", "Lee"), ("Lee", "")]
    assert kind.merge_predictions(example, pieces, [(((4, 5),),), (((0, 1), (1, 2)),)]) == (
        ((4, 5),),
        ((5, 6), (6, 7)),
    )
    (told,) = caplog.messages
    assert "documents above 5 words are cut between sentences" in told
    # What is asked has no target, and nobody speaks.
    (first, _) = kind.split_example(Example(texts))
    assert (first.target, first.extra) == (None, ("", ""))


def test_words_are_marked_by_who_speaks():
    kind = make_task("coreference", {"has_singletons": False})
    texts = (("a", "b"), ("c",), ("d",), ("e",))
    (piece,) = kind.split_example(Example(texts, (), extra=("Kim", "", "Lee", "Kim")))
    (group,) = kind.text_groups([piece])
    assert group.texts == list(texts)
    assert group.indicators == [[1, 1], [0], [2], [1]]
    many = tuple(map(str, range(40)))
    (piece,) = kind.split_example(Example((("a",),) * 40, extra=many))
    marks = {row[0] for row in kind.text_groups([piece])[0].indicators}
    assert marks == set(range(1, kind.n_indicators))


@pytest.mark.parametrize("single", [True, False])
def test_gold_in_gold_out(single):
    examples = documents(single)
    kind = task_for("coreference", examples, task_config("x", task="coreference", **OPTIONS))
    assert kind.has_singletons is single
    assert kind.dials.max_antecedents == 8
    assert vars(make_task("coreference", kind.to_settings())) == vars(kind)
    answers = []
    for example in examples:
        (piece,) = kind.split_example(example)
        rows = kind.targets([piece], {}).tolist()
        clusters = {}
        for start, end, number in rows:
            clusters.setdefault(number, []).append((start, end))
        (found,) = kind.decode_predictions([list(clusters.values())], [])
        answers.append(kind.merge_predictions(example, [piece], [found]))
    assert answers == [example.target for example in examples]
    scores = kind.scores(examples, answers)
    assert tuple(scores) == kind.metrics
    assert set(scores.values()) == {1.0}


def test_clusters_of_one_mention_count_as_the_examples_have_them():
    kind = make_task("coreference", {"has_singletons": True})
    example = Example((("a", "b", "c"),), (((0, 1), (1, 2)), ((2, 3),)))
    scores = kind.scores([example], [(((0, 1), (1, 2)),)])
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
        # A mention of two clusters.
        (((0, 1), (1, 2)), ((0, 1), (2, 3))),
    ],
)
def test_examples_without_clusters(target):
    with pytest.raises(InputError, match="for its target, expected clusters of mentions"):
        task_for("coreference", [Example((("a", "b"), ("c",)), target)])


def test_dials_that_cannot_be():
    with pytest.raises(ConfigError, match="max_mention_words is 0; it must be at least 1"):
        CoreferenceConfig(max_mention_words=0)
    with pytest.raises(ConfigError, match="kept is 0; it must be above 0"):
        CoreferenceConfig(top_span_ratio=0)
    with pytest.raises(ConfigError, match="max_document_words is 9 and max_sentence_words 10"):
        CoreferenceConfig(max_document_words=9, max_sentence_words=10)


# --------------------------------------------------------------------------------------------- GAP

GAP = Example(
    (("Ann", "Lee", "met", "Miss", "Eve", "."), ("She", "left", ".")),
    (False, True),
    extra=PronounCandidates((6, 7), (0, 2), (4, 5), "feminine"),
)


@pytest.mark.parametrize(
    ("clusters", "right"),
    [
        ((((4, 5), (6, 7)),), True),
        # With her title it is still her name; what shares less with it is not.
        ((((3, 5), (6, 7)),), True),
        ((((2, 6), (6, 7)),), False),
        ((((0, 2), (4, 5), (6, 7)),), False),
        ((((4, 5),), ((6, 7),)), False),
        ((((2, 5), (6, 7)), ((4, 5),)), False),
        ((), False),
    ],
)
def test_names_of_pronouns(clusters, right):
    kind = make_task("coreference", {"has_singletons": True})
    assert kind.has_valid_target(GAP)
    he = replace(GAP, extra=replace(GAP.extra, gender="masculine"))
    scores = kind.scores([GAP, he], [clusters, (((4, 5), (6, 7)),)])
    assert set(scores) == {"gap_f1", "masculine_f1", "feminine_f1", "bias"}
    assert scores["masculine_f1"] == 1
    assert (scores["feminine_f1"] == 1) is right


def test_names_of_pronouns_are_not_learned_from():
    with pytest.raises(InputError, match="clusters: GAP says of two names alone"):
        task_for("coreference", [GAP])


# ------------------------------------------------------------------------------------------ models


@pytest.mark.parametrize("settings", [{"single": True}, {"single": False, "placement": "both"}])
def test_clusters_are_learned_by_heart(tmp_path, settings):
    single = settings.pop("single")
    if settings:
        settings = {**settings, "model": write_elmo(tmp_path / "elmo")}
    examples = documents(single)
    trained = make_fitted_task(
        tmp_path, examples, examples, task="coreference", **{**OPTIONS, **settings}
    )
    work = TaskTrainingJob(trained, examples, examples).make_trainable(fabric())
    for number, batch in zip(range(160), work.batches(0), strict=False):
        work.step(batch, number)
    found = work.evaluation(work.measure(160, iter))
    assert found.metric == "mean_f1"
    assert found.scores["mean_f1"] > 0.9


def test_documents_are_computed_one_by_one(tmp_path):
    examples = documents(True)
    trained = make_fitted_task(
        tmp_path, examples, task="coreference", **{**OPTIONS, "batch_size": 2}
    )
    work = TaskTrainingJob(trained, examples, ()).make_trainable(fabric())
    assert [part.share for part in next(work.batches(0))] == [0.5, 0.5]
    together = trained.predict(examples)
    assert together == [trained.predict([example])[0] for example in examples]


@pytest.mark.parametrize("settings", [{"placement": "both"}, {"use": "tuned"}])
def test_a_document_in_several_blocks_is_the_same(tmp_path, settings):
    """A long sentence does not pad the short ones; losses, gradients and answers stay."""
    texts = (
        ("He", "left", "."),
        ("Kim", "met", "Lady", "Jane", "."),
        ("She", "saw", "him"),
        ("a",),
    )
    example = Example(texts, (((0, 1), (3, 4), (10, 11)), ((5, 7), (8, 9))), extra=("Kim", "") * 2)
    settings = {**OPTIONS, **settings, "model": write_elmo(tmp_path / "elmo")}
    shapes, gradients, found = [], [], []
    for words in (20, 9):
        trained = make_fitted_task(
            tmp_path, [example], task="coreference", batch_words=words, **settings
        )
        # Nothing is learned yet: without it there would be no mention to compare.
        trained.built.model.head.mention.bias.data.fill_(5.0)
        (part,) = next(TaskTrainingJob(trained, [example], ()).make_trainable(fabric()).batches(0))
        shapes.append([tuple(group.mask.shape) for group in part.groups])
        loss = trained.built.model.loss(part.groups, part.targets)
        loss.backward()
        own = trained.built.model.parameters()
        gradients.append([loss, *(value.grad for value in own if value.grad is not None)])
        found.append(trained.predict([example]))
    assert shapes == [[(4, 5)], [(3, 3), (1, 5)]]
    assert found[0] == found[1] != [()]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_a_tuned_elmo_learns_from_all_sentences(tmp_path):
    examples = documents(True)
    model = write_elmo(tmp_path / "elmo")
    settings = {**OPTIONS, "model": model, "use": "tuned", "placement": "output"}
    trained = make_fitted_task(tmp_path, examples, task="coreference", **settings)
    work = TaskTrainingJob(trained, examples, ()).make_trainable(fabric())
    before = [value.clone() for value in work.model.features.network.bilm.parameters()]
    work.step(next(work.batches(0)), 0)
    after = work.model.features.network.bilm.parameters()
    assert not any(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_a_coreference_resolver(tmp_path):
    examples = documents(True)
    texts = [[list(text) for text in example.texts] for example in examples]
    raw = [" ".join(word for text in example.texts for word in text) for example in examples]
    clusters = [example.target for example in examples]
    settings = {**OPTIONS, "epochs": 5, "evaluate_every": 40}
    model = CoreferenceResolver(**settings).fit(texts, clusters, dev=(texts, clusters))
    assert model.score(texts, clusters) > 0.3
    found = model.predict(texts)
    # Raw texts and words are cut into the same sentences.
    assert model.predict(raw) == model.predict([text.split() for text in raw]) == found
    model.save(tmp_path / "model")
    assert CoreferenceResolver.load(tmp_path / "model").predict(texts) == found
    for wrong in (" ", []):
        with pytest.raises(InputError, match="text 0 has no word"):
            model.predict([wrong])


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (3, "text 0 has 3 for its clusters; expected lists of pairs"),
        ([[(0, 1, 2)]], "for its clusters; expected lists of pairs"),
        ([[(0, 9)]], "'0' has .* for its target, expected clusters"),
        ([[(0, 1)], [(0, 1)]], "for its target, expected clusters of .*, and in one cluster"),
    ],
)
def test_clusters_that_do_not_fit(target, message):
    with pytest.raises(InputError, match=message):
        CoreferenceResolver(**OPTIONS).fit(["a b"], [target])


def columns(example, name):
    """Write a document in CoNLL's columns."""
    lines = [f"#begin document ({name}); part 0"]
    at = 0
    for text in example.texts:
        for number, word in enumerate(text):
            cells = []
            for cluster, mentions in enumerate(example.target):
                for start, end in mentions:
                    opens, closes = "(" * (start == at), ")" * (end == at + 1)
                    cells += [f"{opens}{cluster}{closes}"] if opens or closes else []
            lines.append(f"{name} 0 {number} {word} NN * - - - - * {'|'.join(cells) or '-'}")
            at += 1
        lines.append("")
    return "\n".join([*lines, "#end document", ""])


def test_fit_evaluate_and_predict_as_typed(tmp_path):
    def elmo(*words, given=None):
        return CliRunner().invoke(cli.application(), ["task", *map(str, words)], input=given)

    examples = documents(True)
    file = tmp_path / "documents.conll"
    file.write_text("".join(columns(e, f"d{n}") for n, e in enumerate(examples)))
    flags = ["--model", "none", "--hidden", "4", "--max-steps", "2", "--accelerator", "cpu"]
    run = elmo("fit", "litbank", "--train", file, "--dev", file, "--out", tmp_path / "run", *flags)
    assert run.exit_code == 0, run.stderr
    shown = json.loads(elmo("evaluate", tmp_path / "run", file, "--as-json").stdout)
    assert {"muc_f1", "b3_f1", "ceafe_f1", "mean_f1", "mention_f1", "examples"} == set(shown)
    text = "Ann met Eve. She left."
    table = tmp_path / "gap.tsv"
    header = "ID Text Pronoun Pronoun-offset A A-offset A-coref B B-offset B-coref URL".split()
    row = ["x-1", text, "She", "13", "Ann", "0", "TRUE", "Eve", "8", "FALSE", "url"]
    table.write_text("".join("\t".join(cells) + "\n" for cells in (header, row)))
    result = elmo("evaluate", tmp_path / "run", table, "--reader", "gap", "--as-json")
    shown = json.loads(result.stdout)
    assert {"gap_f1", "masculine_f1", "feminine_f1", "bias", "examples"} == set(shown)
    result = elmo("predict", tmp_path / "run", "-", "--raw", given=f"{text}\n")
    record = json.loads(result.stdout)
    assert record["words"] == ["Ann", "met", "Eve", ".", "She", "left", "."]
    for cluster in record["clusters"]:
        for mention in cluster:
            words = record["words"][mention["start"] : mention["end"]]
            assert mention["text"] == " ".join(words)
    result = elmo("predict", tmp_path / "run", "-", given=" \n")
    assert "line 1 holds no word: remove it" in result.stderr
