"""Tests for the readers on published data sets: example counts, perfect scores for gold labels."""

import tarfile
from collections import Counter

import pytest
from conftest import SHARED

from elmo.tasks.coreference.coreference_scores import cluster_scores
from elmo.tasks.coreference.pronoun_scores import pronoun_scores
from elmo.tasks.question_answering.question_answering_scores import answer_scores
from elmo.tasks.reading.readers import read
from elmo.tasks.semantic_roles.semantic_role_scores import role_scores
from elmo.tasks.tagging.span_scores import span_scores
from elmo.tasks.tagging.spans import BIOES, IOB1, IOB2, NONE, convert, detect_scheme, is_well_formed
from elmo.text.tokenizer import EnglishTokenizer

# Every test of this file needs a data set that is too large, or not licensed, for the repository.
if not (SHARED / "data").is_dir():
    pytest.skip(f"no data sets at {SHARED / 'data'}; set ELMO_SHARED", allow_module_level=True)


@pytest.fixture(scope="module")
def unpacked(shared_data, tmp_path_factory):
    """Return a function that unpacks a data set and returns its directory."""
    folders = {}

    def unpack(name):
        if name not in folders:
            path = shared_data / f"{name}.tar.xz"
            if not path.is_file():
                pytest.skip(f"{path} does not exist")
            folder = tmp_path_factory.mktemp(name)
            with tarfile.open(path) as archive:
                archive.extractall(folder, filter="data")
            # The directory in the archive can have another name.
            (folders[name],) = folder.iterdir()
        return folders[name]

    return unpack


def tag_lists(examples):
    return [list(example.target) for example in examples]


@pytest.mark.parametrize(
    ("part", "n_sentences", "n_words", "n_spans"),
    [
        ("train", 14041, 203621, 23499),
        ("valid", 3250, 51362, 5942),
        ("test", 3453, 46435, 5648),
    ],
)
def test_read_conll2003_finds_published_counts(unpacked, part, n_sentences, n_words, n_spans):
    """The expected counts are from Tjong Kim Sang and De Meulder (2003)."""
    examples = read(unpacked("conll2003") / f"{part}.txt")
    assert len(examples) == n_sentences
    assert sum(len(example.words) for example in examples) == n_words
    gold = tag_lists(examples)
    assert detect_scheme(gold) == IOB2
    scores = span_scores(gold, gold, IOB2)
    assert (scores.total.gold, scores.total.f1) == (n_spans, 1.0)
    assert set(scores.labels) == {"LOC", "MISC", "ORG", "PER"}


@pytest.mark.parametrize("scheme", [IOB1, BIOES])
def test_conll2003_tags_round_trip_through_other_schemes(unpacked, scheme):
    gold = tag_lists(read(unpacked("conll2003") / "test.txt", "conll"))
    other = [convert(sentence, IOB2, scheme) for sentence in gold]
    assert detect_scheme(other) == scheme
    assert all(is_well_formed(sentence, scheme) for sentence in other)
    assert [convert(sentence, scheme, IOB2) for sentence in other] == gold


@pytest.mark.parametrize(
    ("part", "n_sentences"), [("train", 15978), ("testa", 2662), ("testb", 5324)]
)
def test_read_kmou_ner_finds_all_sentences_and_labels(unpacked, part, n_sentences):
    examples = read(unpacked("kmou-ner") / f"{part}.words.txt")
    assert len(examples) == n_sentences
    gold = tag_lists(examples)
    assert detect_scheme(gold) == IOB2
    assert len(span_scores(gold, gold, IOB2).labels) == 10


@pytest.mark.parametrize(("part", "n_sentences"), [("train", 2928), ("dev", 366), ("test", 366)])
def test_read_klp2016_finds_all_sentences_and_labels(unpacked, part, n_sentences):
    examples = read(unpacked("kmou-ner") / f"klp2016/ner.{part}")
    assert len(examples) == n_sentences
    gold = tag_lists(examples)
    assert all(is_well_formed(sentence, IOB2) for sentence in gold)
    assert set(span_scores(gold, gold, IOB2).labels) == {"DT", "LC", "OG", "PS", "TI"}


@pytest.mark.parametrize(
    ("part", "five", "two"), [("train", 8544, 6920), ("dev", 1101, 872), ("test", 2210, 1821)]
)
def test_read_sst_finds_all_sentences(unpacked, part, five, two):
    path = unpacked("sst") / f"{part}.txt"
    assert len(read(path)) == len(read(path, "sst5")) == five
    examples = read(path, "sst2")
    assert len(examples) == two
    assert set(Counter(example.target for example in examples)) == {"negative", "positive"}


def test_read_sst_with_phrases_returns_every_node(unpacked):
    """A binary tree of n words has 2n - 1 nodes."""
    path = unpacked("sst") / "dev.txt"
    n_nodes = sum(2 * len(example.words) - 1 for example in read(path, "sst5"))
    phrases = read(path, "sst5", phrases=True)
    assert len(phrases) == n_nodes
    assert len({example.target for example in phrases}) == 5


@pytest.mark.parametrize(("part", "n"), [("train", 36547), ("dev", 9107)])
def test_read_ynat_finds_all_examples_and_labels(unpacked, part, n):
    examples = read(unpacked("klue-ynat") / f"{part}.tsv", text="title")
    assert len(examples) == n
    assert len({example.target for example in examples}) == 7


@pytest.mark.parametrize(("part", "n", "n_empty"), [("train", 150_000, 5), ("test", 50_000, 3)])
def test_read_nsmc_finds_all_examples_and_empty_texts(unpacked, part, n, n_empty):
    path = unpacked("nsmc") / f"ratings_{part}.txt"
    examples = read(path, text="document", id="id", empty="keep")
    assert len(examples) == len({example.id for example in examples}) == n
    assert {example.target for example in examples} == {"0", "1"}
    assert n - len(read(path, text="document", empty="skip")) == n_empty


@pytest.mark.parametrize(("part", "n_sentences"), [("train", 12544), ("dev", 2001), ("test", 2077)])
def test_read_ud_ewt_finds_all_sentences_and_tags(unpacked, part, n_sentences):
    path = unpacked("ud-ewt") / f"{part}.conllu"
    examples = read(path)
    assert len(examples) == len({example.id for example in examples}) == n_sentences
    upos = {tag for example in examples for tag in example.target}
    assert len(upos) == 17
    assert detect_scheme(tag_lists(examples)) == NONE
    xpos = read(path, tags="xpos")
    assert [example.words for example in xpos] == [example.words for example in examples]
    assert {"NN", "-LRB-"} <= {tag for example in xpos for tag in example.target}


@pytest.mark.parametrize(
    ("name", "path", "n"),
    [
        ("sick", "SICK_train.txt", 4500),
        ("sick", "SICK_trial.txt", 500),
        ("sick", "SICK_test_annotated.txt", 4927),
        ("klue-nli", "klue-nli-v1.1_train.json", 24_998),
        ("klue-nli", "klue-nli-v1.1_dev.json", 3000),
        ("snli-eval", "dev.tsv", 9842),
        ("snli-eval", "test.tsv", 9824),
    ],
)
def test_read_sentence_pairs_finds_all_pairs_and_labels(unpacked, name, path, n):
    examples = read(unpacked(name) / path, "sentence_pairs")
    assert len(examples) == n
    assert len({example.target for example in examples}) == 3
    assert all(len(example.texts) == 2 for example in examples)


@pytest.mark.parametrize(
    ("path", "n", "n_passages"),
    [("squad_v1_train_sample4330.json", 4330, 3902), ("xquad.en.json", 1190, 240)],
)
def test_read_squad_targets_match_gold_answers(unpacked, path, n, n_passages):
    """The target words are the gold answer, unless the gold answer starts or ends inside a word."""
    examples = read(unpacked("squad-part") / path, "squad", split=EnglishTokenizer().words)
    assert len(examples) == n
    assert len({example.extra.text for example in examples}) == n_passages
    answers = [example.extra.text_of(example.target.word_range) for example in examples]
    scores = answer_scores([example.target.texts for example in examples], answers)
    assert scores.f1 > 0.99
    assert scores.exact_match > 0.98


@pytest.mark.parametrize(
    ("part", "n", "n_sentences"),
    [("train", 40_068, 12_428), ("dev", 4939, 1955), ("test", 4780, 2044)],
)
def test_read_propbank_finds_all_sentences_and_frames(unpacked, part, n, n_sentences):
    examples = read(unpacked("propbank-ewt") / f"{part}.jsonl", "propbank")
    assert len(examples) == len({example.id for example in examples}) == n_sentences
    frames = [frame.tags for example in examples for frame in example.target]
    assert len(frames) == n
    gold = frames[:2000]
    assert detect_scheme(gold) == IOB2
    scores = role_scores(gold, gold, IOB2)
    assert scores.total.f1 == 1
    assert "V" not in scores.labels


def test_read_litbank_splits_documents_and_finds_all_mentions(unpacked):
    """Sorted by name, 80 files are for training, 10 for development and 10 for test."""
    folder = unpacked("litbank-coref") / "coref-conll"
    parts = [read(folder / part, "coreference") for part in ("train", "dev", "test")]
    assert list(map(len, parts)) == [80, 10, 10]
    examples = [example for part in parts for example in part]
    names = [example.id for example in examples]
    assert names == sorted(names)
    clusters = [example.target for example in examples]
    assert sum(len(cluster) for document in clusters for cluster in document) == 29_103
    assert cluster_scores(clusters, clusters).mean_f1 == 1


@pytest.mark.parametrize(
    ("part", "n"), [("development", 2000), ("validation", 454), ("test", 2000)]
)
def test_read_gap_finds_all_pronouns(unpacked, part, n):
    examples = read(unpacked("gap") / f"gap-{part}.tsv", "gap", split=EnglishTokenizer().words)
    assert len(examples) == n
    genders = [example.extra.gender for example in examples]
    assert genders.count("feminine") == n / 2
    gold = [example.target for example in examples]
    assert not any(all(references) for references in gold)
    scores = pronoun_scores(gold, gold, genders)
    assert (scores.f1, scores.bias) == (1, 1)
