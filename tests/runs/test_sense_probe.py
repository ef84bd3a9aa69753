"""Tests of nearest-neighbor word sense disambiguation with a vocabulary of six words."""

import dataclasses
import tarfile

import numpy as np
import pytest
from sense_probe import SenseData, first_sense_accuracy, sense_accuracy

from elmo.errors import FormatError
from elmo.tasks.word_senses.semcor_files import (
    SenseOccurrence,
    TaggedWords,
    entry_of,
    read_semcor,
    read_targets,
    read_wordnet,
)
from elmo.tasks.word_senses.sense_index import SenseIndex

INDEX = """\
bank%1:14:00:: 08420278 2 20
bank%1:17:01:: 09213565 1 25
bank%2:40:00:: 02343595 1 0
near%3:00:00:: 00444519 1 0
near%5:00:00:close:02 00444520 2 0
owl%1:05:00:: 01621127 2 0
owl%1:18:00:: 01621128 1 0
take_place%2:30:00:: 00339934 1 5
"""
SEMCOR = """\
<contextfile concordance=brown>
<context filename=br-a01 paras=yes>
<p pnum=1>
<s snum=1>
<wf cmd=ignore pos=DT>The</wf>
<wf cmd=done pos=NN lemma=bank wnsn=1 lexsn=1:17:01::>bank</wf>
<wf cmd=done rdf=location pos=NNP lemma=location wnsn=1 lexsn=1:03:00:: pn=location>New_York</wf>
<punc>.</punc>
</s>
<s snum=2>
<wf cmd=done pos=NN lemma=bank wnsn=2 lexsn=1:14:00::>Bank</wf>
<wf cmd=done pos=VB lemma=take_place wnsn=1 lexsn=2:30:00::>took_place</wf>
<wf cmd=done pos=JJ lemma=near wnsn=2;1 lexsn=5:00:00:close(a):02;3:00:00::>near</wf>
<wf cmd=done pos=JJ lemma=near wnsn=0 lexsn=3:00:09::>near</wf>
<wf cmd=done pos=VB ot=notag>_</wf>
</s>
</p>
</context>
</contextfile>
"""
XML = """\
<?xml version="1.0" encoding="UTF-8" ?>
<corpus lang="en" source="x">
<text id="d0">
<sentence id="d0.s0">
<wf lemma="a" pos="DET">A</wf>
<instance id="d0.s0.t0" lemma="bank" pos="NOUN">bank</instance>
<instance id="d0.s0.t1" lemma="take_place" pos="VERB">took place</instance>
</sentence>
<sentence id="d0.s1">
<instance id="d0.s1.t0" lemma="owl" pos="NOUN">owls</instance>
<wf lemma="&amp;" pos="CONJ">&amp;</wf>
</sentence>
</text>
</corpus>
"""
KEYS = """\
d0.s0.t0 bank%1:14:00:: bank%1:17:01::
d0.s0.t1 take_place%2:30:00::
d0.s1.t0 owl%1:05:00::
"""


@pytest.fixture
def folder(tmp_path):
    for name, text in {
        "wordnet-3.0/index.sense": INDEX,
        "semcor3.0/brown1/tagfiles/br-a01": SEMCOR,
        "semcor3.0/brownv/tagfiles/br-a00": SEMCOR,
        "Evaluation_Datasets/ALL/ALL.data.xml": XML,
        "Evaluation_Datasets/ALL/ALL.gold.key.txt": KEYS,
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def test_sense_data_reads_wordnet_semcor_and_test_set(folder):
    data = SenseData.read(folder)
    assert data.wordnet[("bank", "NOUN")] == ["bank%1:17:01::", "bank%1:14:00::"]
    assert data.wordnet[("near", "ADJ")] == ["near%3:00:00::", "near%5:00:00:close:02"]
    assert data.semcor.sentences[:2] == [
        ["The", "bank", "New", "York", "."],
        ["Bank", "took", "place", "near", "near", "_"],
    ]
    assert data.semcor.occurrences[:4] == [
        SenseOccurrence(0, 1, 2, ("bank%1:17:01::",)),
        SenseOccurrence(1, 0, 1, ("bank%1:14:00::",)),
        SenseOccurrence(1, 1, 3, ("take_place%2:30:00::",)),
        SenseOccurrence(1, 3, 4, ("near%5:00:00:close:02", "near%3:00:00::")),
    ]
    assert len(data.semcor.sentences) == 4
    assert len(data.semcor.occurrences) == 8
    assert data.targets.sentences == [["A", "bank", "took", "place"], ["owls", "&"]]
    assert data.targets.occurrences == [
        SenseOccurrence(0, 1, 2, ("bank%1:14:00::", "bank%1:17:01::")),
        SenseOccurrence(0, 2, 4, ("take_place%2:30:00::",)),
        SenseOccurrence(1, 0, 1, ("owl%1:05:00::",)),
    ]
    assert data.entries == [("bank", "NOUN"), ("take_place", "VERB"), ("owl", "NOUN")]
    # Correct: bank and take_place. The first sense of owl is a person.
    assert first_sense_accuracy(data) == pytest.approx(2 / 3)


def test_read_semcor_stops_at_limit(folder):
    semcor = read_semcor(folder / "semcor3.0", limit=1)
    assert len(semcor.sentences) == 1
    assert len(semcor.occurrences) == 1


def test_entry_of_treats_satellite_adjective_as_adjective():
    assert entry_of("near%5:00:00:close:02") == entry_of("near%3:00:00::") == ("near", "ADJ")
    assert entry_of("take_place%2:30:00::") == ("take_place", "VERB")


# ----------------------------------------------------------------------------- accuracy

A, B, C = "x%1:00:00::", "x%1:00:01::", "x%1:00:02::"
# Vector of each word in layer 0; layer 1 swaps the axes.
PLANE = {"e": (1, 0), "n": (0, 3), "w": (-1, 0), "ne": (2, 2), "nne": (1, 2), "s": (0, -1)}


def plane(sentences):
    arrays = [np.array([PLANE[word] for word in words], np.float32) for words in sentences]
    return [np.stack([vectors, vectors[:, ::-1]]) for vectors in arrays]


def plane_and_constant(sentences):
    """Return the vectors of `plane` in layer 0 and a constant vector in layer 1."""
    return [
        np.stack([vectors[0], np.tile(np.array([1, 0], np.float32), (len(vectors[0]), 1))])
        for vectors in plane(sentences)
    ]


DATA = SenseData(
    wordnet={("x", "NOUN"): [A, B, C], ("y", "NOUN"): ["y%1:00:00::"], ("z", "VERB"): ["z%2:1::"]},
    semcor=TaggedWords(
        [["e", "n"], ["w"], ["n", "e", "s"]],
        [
            SenseOccurrence(0, 0, 1, (B,)),  # B: e, and the mean of n and e: (1, 0) + (.5, 1.5)
            SenseOccurrence(0, 1, 2, (C,)),  # C: n
            SenseOccurrence(2, 0, 2, (B,)),
            SenseOccurrence(2, 2, 3, ("other%1:00:00::",)),
        ],
    ),
    targets=TaggedWords(
        [["ne", "s"], ["nne"], ["w", "ne"], ["e"]],
        [
            # B has direction (1.5, 1.5): cosine 1 to ne, .71 to n.
            SenseOccurrence(0, 0, 1, (B,)),
            # nne: .95 to B, .89 to C.
            SenseOccurrence(1, 0, 1, (C, A)),
            # The mean of w and ne, (.5, 1): .95 to B, .89 to C.
            SenseOccurrence(2, 0, 2, (B,)),
            # y does not occur in SemCor and gets WordNet's first sense.
            SenseOccurrence(3, 0, 1, ("y%1:00:00::",)),
        ],
    ),
    entries=[("x", "NOUN"), ("x", "NOUN"), ("x", "NOUN"), ("y", "NOUN")],
)


def test_sense_accuracy_equals_hand_computed_values():
    result = sense_accuracy(plane, DATA)
    # Predicted are B, B, B and the first sense of y; the second B is wrong.
    assert result.layers == (0.75, 0.75)
    # Correct are one A, which is the first sense of x, and the first sense of y.
    assert result.first_sense == 0.5
    assert (result.n_targets, result.n_unseen) == (4, 1)
    assert (result.n_senses, result.n_occurrences) == (2, 3)


def test_equal_cosines_are_resolved_by_wordnet_order_in_each_layer():
    targets = TaggedWords(
        [["n"], ["e"]], [SenseOccurrence(0, 0, 1, (C,)), SenseOccurrence(1, 0, 1, (B,))]
    )
    data = dataclasses.replace(DATA, targets=targets, entries=[("x", "NOUN")] * 2)
    assert sense_accuracy(plane_and_constant, data).layers == (1.0, 0.5)


def test_rounding_errors_do_not_break_ties_between_senses():
    """The sums of B and C differ only in the order of summation, so B, the first one, must win."""
    sentences = [["e", "nne"], ["nne", "e"]]
    rng = np.random.default_rng(0)
    vectors = {word: rng.normal(size=512).astype(np.float32) for word in ("e", "nne", "n")}

    def encode(texts):
        return [np.stack([vectors[word] for word in words])[None] for words in texts]

    occurrences_of_c = [
        SenseOccurrence(0, 0, 2, (C,)),
        SenseOccurrence(0, 0, 1, (C,)),
        SenseOccurrence(0, 1, 2, (C,)),
    ]
    occurrences_of_b = [
        SenseOccurrence(1, 0, 1, (B,)),
        SenseOccurrence(1, 1, 2, (B,)),
        SenseOccurrence(1, 0, 2, (B,)),
    ]
    occurrences = [*occurrences_of_c * 30, *occurrences_of_b * 30]
    index = SenseIndex.of(encode, TaggedWords(sentences, occurrences), DATA.wordnet)
    for _ in range(200):
        query = rng.normal(size=(1, 512)).astype(np.float32)
        assert index.nearest([B, C], query / np.linalg.norm(query)) == [B]


def test_target_with_lemma_unknown_to_wordnet_counts_as_wrong():
    targets = TaggedWords([["e"]], [SenseOccurrence(0, 0, 1, ("q%1:00:00::",))])
    data = dataclasses.replace(DATA, targets=targets, entries=[("q", "NOUN")])
    result = sense_accuracy(plane, data)
    assert result.layers == (0.0, 0.0)
    assert (result.first_sense, result.n_unseen, result.n_senses) == (0.0, 1, 0)


# ----------------------------------------------------------------------------- damaged files


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("<wf cmd=done pos=NN>open", r"br-a01, line 5: .*\(got '<wf cmd=done"),
        ("some text", r"br-a01, line 5: expected SemCor's SGML .*\(got 'some text'\)"),
        (
            "<wf lemma=a wnsn=1 lexsn=1:03:00::;1:04:00::>a</wf>",
            r"line 5: .* same number of wnsn and lexsn values \(got 'lemma=a",
        ),
        ("<wf wnsn=1 lexsn=1:03:00::>a</wf>", r"line 5: expected a lemma"),
        ("<wf lemma=a wnsn=1 lexsn=>a</wf>", r"line 5: expected a lemma"),
    ],
)
def test_read_semcor_rejects_damaged_line(folder, line, message):
    lines = SEMCOR.splitlines()
    lines.insert(4, line)
    path = folder / "semcor3.0/brown1/tagfiles/br-a01"
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(FormatError, match=message):
        read_semcor(folder / "semcor3.0")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            SEMCOR[: SEMCOR.index("<s snum=2>") + 11],
            "br-a01 is truncated: it ends in line 10 with '<s snum=2>' instead of </contextfile>",
        ),
        (SEMCOR[: SEMCOR.index("</s>")], "truncated: it ends in line 8 with '<punc>.</punc>'"),
        (SEMCOR[: SEMCOR.index("</contextfile>")], "ends in line 18 with '</context>'"),
        ("", "br-a01 is truncated: it ends in line 0 with ''"),
        (
            SEMCOR.replace("</s>\n", "", 1),
            r"br-a01, line 9: .* between <s> and </s> \(got '<s snum=2>'\)",
        ),
        (
            SEMCOR.replace("</p>", "</s>"),
            r"br-a01, line 17: expected SemCor's SGML .*\(got '</s>'\)",
        ),
        (SEMCOR.replace("</s>\n</p>", "</p>"), r"br-a01, line 16: .*\(got '</p>'\)"),
    ],
)
def test_read_semcor_rejects_truncated_file(folder, text, message):
    (folder / "semcor3.0/brown1/tagfiles/br-a01").write_text(text, encoding="utf-8")
    with pytest.raises(FormatError, match=message):
        read_semcor(folder / "semcor3.0")


def test_read_semcor_rejects_words_outside_sentence(folder):
    path = folder / "semcor3.0/brown1/tagfiles/br-a01"
    path.write_text("<punc>.</punc>\n", encoding="utf-8")
    with pytest.raises(FormatError, match=r"line 1: .* words between <s> and </s>"):
        read_semcor(folder / "semcor3.0")


def test_read_semcor_rejects_folder_without_tagfiles(tmp_path):
    with pytest.raises(FormatError, match=r"has no files \*/tagfiles/\*\. Expected .* SemCor 3.0"):
        read_semcor(tmp_path)


def test_read_wordnet_rejects_damaged_line(tmp_path):
    (tmp_path / "index.sense").write_text(INDEX + "bank 08420278 2 20\n", encoding="utf-8")
    message = r"index.sense, line 9: expected a sense key.*\(got 'bank 08420278 2 20'\)"
    with pytest.raises(FormatError, match=message):
        read_wordnet(tmp_path / "index.sense")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("data.xml", XML[:-30], r"ALL.data.xml is not valid XML: "),
        ("data.xml", XML.replace("owls", ""), r"instance 'd0.s1.t0' has no words"),
        ("gold.key.txt", KEYS + "d0.s1.t1\n", r"gold.key.txt, line 4 has no sense key"),
        ("gold.key.txt", KEYS[:39], r"instance 'd0.s0.t1' has no words, or no sense key"),
        (
            "gold.key.txt",
            KEYS.replace("owl%1", "owl"),
            r"line 3: expected a sense key .*\(got 'owl:05:00::'\)",
        ),
        ("data.xml", XML.replace('lemma="owl" ', ""), r"instance 'd0.s1.t0' has lemma ''"),
        (
            "data.xml",
            XML.replace("VERB", "X"),
            r"'d0.s0.t1' has .* speech 'X'\. .* one of these parts of speech: NOUN, VERB, ADJ",
        ),
        ("gold.key.txt", KEYS + "d9 a%1:00:00::\n", r"has 3 instances, but .* sense keys for 4"),
    ],
)
def test_read_targets_rejects_damaged_and_missing_files(folder, name, text, message):
    all_sets = folder / "Evaluation_Datasets/ALL"
    (all_sets / f"ALL.{name}").write_text(text, encoding="utf-8")
    with pytest.raises(FormatError, match=message):
        read_targets(all_sets)
    (all_sets / f"ALL.{name}").unlink()
    with pytest.raises(FormatError, match=f"Cannot read .*ALL.{name}"):
        read_targets(all_sets)


# ----------------------------------------------------------------------------- real data


def test_first_sense_accuracy_equals_published_value(shared_data, tmp_path):
    """Raganato et al. (2017) report 7,253 instances and 65.2 for WordNet's first sense."""
    names = ("/index.sense", "/ALL.data.xml", "/ALL.gold.key.txt", "/brown1/tagfiles/br-a01")
    with tarfile.open(shared_data / "wsd.tar.xz") as archive:
        for member in archive:
            if member.name.endswith(names):
                archive.extract(member, tmp_path, filter="data")
    data = SenseData.read(tmp_path / "wsd")
    assert len(data.entries) == 7253
    assert round(100 * first_sense_accuracy(data), 1) == 65.2
    known = {sense for senses in data.wordnet.values() for sense in senses}
    tagged = {sense for occurrence in data.semcor.occurrences for sense in occurrence.senses}
    assert len(tagged) > 400
    assert tagged <= known
