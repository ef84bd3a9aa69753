"""Text to a corpus folder: exact, whatever the workers and flushes; all of it or nothing."""

import json
import lzma
import resource
import signal
import subprocess
import sys
import tarfile

import pytest
from conftest import SHARED
from corpus_texts import LINES, TEXT, expected_table, prepared, sentences, snapshot
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo.config import CorpusConfig, PrepareConfig, ReadingConfig
from elmo.corpus import block_worker, text_sources, word_counts
from elmo.corpus import prepare_corpus as module
from elmo.corpus.prepare_corpus import prepare
from elmo.corpus.shards import Corpus
from elmo.errors import ConfigError, FormatError, InputError, OutputError
from elmo.text.vocabulary import SPECIAL_TOKENS

# ---------------------------------------------------------------------------------- exactness

any_line = st.lists(
    st.sampled_from(["a", "b", "the", "<S>", "<UNK>", "é", "日本", "!!!MAXTERMID"])
    | st.text(st.characters(exclude_categories=["Cs", "Z", "Cc"]), min_size=1, max_size=4),
    max_size=6,
).map(" ".join)
any_text = st.lists(any_line, min_size=1, max_size=20).map("\n".join)


@settings(max_examples=50, deadline=None)
@given(
    text=any_text,
    valid=st.none() | any_text,
    test=st.none() | any_text,
    keep=st.booleans(),
    held=st.sampled_from([0.0, 0.3]),
    limit=st.sampled_from([0, 300, 2**20]),
    block=st.sampled_from([1, 20, 2**20]),
    shard_words=st.sampled_from([1, 7, 2**20]),
)
def test_against_a_plain_count(
    tmp_path_factory, text, valid, test, keep, held, limit, block, shard_words
):
    def plain(content):
        # A file that ends without a newline and one that ends with it hold the same lines.
        lines = [line.split() for line in (content or "").removesuffix("\n").split("\n")]
        return lines if keep and content else [line for line in lines if line]

    given_texts = {"train": plain(text), "valid": plain(valid), "test": plain(test)}
    wanted = [("train", text), ("valid", valid), ("test", test)]
    empty = any(content is not None and not any(given_texts[name]) for name, content in wanted)
    folder = tmp_path_factory.mktemp("prepare")
    dials = {
        "reading": ReadingConfig(keep_blank_lines=keep),
        "held_out": held,
        "shard_words": shard_words,
        "workers": 1,
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(word_counts, "DICTIONARY_BYTES", limit)
        patch.setattr(text_sources, "BLOCK_BYTES", block)
        patch.setattr(block_worker, "LINES", 3)
        if empty:
            with pytest.raises(InputError, match="there is no word"):
                prepared(folder, text, valid, test, **dials)
            assert not (folder / "corpus").exists()
            return
        corpus, result = prepared(folder, text, valid, test, **dials)
    train = given_texts["train"]
    if valid is None and held and len(train) > 1:
        n_held = max(1, round(held * len(train)))
        given_texts["train"], given_texts["valid"] = train[:-n_held], train[-n_held:]
    found = {name: sentences(corpus, name) for name in corpus.splits}
    assert found == {name: content for name, content in given_texts.items() if content}
    words, counts = expected_table(given_texts["train"], given_texts["valid"] + given_texts["test"])
    assert [word for part in corpus.words.parts() for word in part] == words
    assert corpus.counts.tolist() == counts
    seen = [word for word, count in zip(words, counts, strict=True) if count]
    kept = [word for word in seen if word not in (*SPECIAL_TOKENS, "!!!MAXTERMID")]
    assert list(corpus.vocabulary.words) == [*SPECIAL_TOKENS, *kept]
    assert result.n_words == {name: split.n_words for name, split in corpus.splits.items()}
    assert result.n_distinct == len(words)
    assert result.n_vocabulary == len(corpus.vocabulary)


# ---------------------------------------------------------------------------------- vocabulary


@pytest.mark.parametrize(
    ("dials", "expected", "share"),
    [
        ({}, "a <unk> b c é", 0),
        ({"vocab_size": 5}, "a <unk>", 4 / 11),
        ({"min_count": 2}, "a <unk> b", 2 / 11),
        ({"min_count": 2, "vocab_size": 4}, "a", 7 / 11),
        ({"min_count": 9}, "", 1),
        ({"vocab_size": 100}, "a <unk> b c é", 0),
    ],
)
def test_vocabulary(tmp_path, dials, expected, share):
    text = "a a a a <unk>\n<unk> <unk> b b c\né\n"
    corpus, result = prepared(tmp_path, text, held_out=0.0, **dials)
    assert list(corpus.vocabulary.words) == [*SPECIAL_TOKENS, *expected.split()]
    assert result.n_unknown["train"] / result.n_words["train"] == pytest.approx(share)


def test_literal_marks_are_not_repeated(tmp_path):
    text = "<S> <S> <S> </S> <UNK> a a b\n"
    corpus, result = prepared(tmp_path, text, held_out=0.0, vocab_size=4)
    assert list(corpus.vocabulary.words) == [*SPECIAL_TOKENS, "a"]
    assert corpus.words.strings(0, 5) == ["<S>", "a", "</S>", "<UNK>", "b"]
    assert result.n_unknown == {"train": 1}


def test_a_vocabulary_that_is_given(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("<S>\n</S>\n<UNK>\nwords\nelsewhere\n")
    corpus, result = prepared(tmp_path, "some words\nmore words\n", held_out=0.0, vocab=str(path))
    assert list(corpus.vocabulary.words) == [*SPECIAL_TOKENS, "words", "elsewhere"]
    assert (result.n_vocabulary, result.n_unknown) == (5, {"train": 2})
    path.write_text("words\n")
    with pytest.raises(FormatError, match="no <S>, </S>, <UNK>"):
        prepared(tmp_path, "words\n", vocab=str(path))
    with pytest.raises(FormatError, match="cannot read the vocabulary"):
        prepared(tmp_path, "words\n", vocab=str(tmp_path / "missing"))


@pytest.mark.parametrize(
    "dials",
    [
        {"vocab_size": 3},
        {"min_count": 0},
        {"workers": 0},
        {"shard_words": 0},
        {"held_out": 1.0},
        {"vocab": "x", "vocab_size": 10},
        {"vocab": "x", "min_count": 2},
    ],
    ids=str,
)
def test_dials_that_contradict(dials):
    with pytest.raises(ConfigError):
        CorpusConfig(**dials)


# -------------------------------------------------------------------------------------- reading


def test_what_is_recorded(tmp_path):
    reading = ReadingConfig("english", "split", text_field="body")
    corpus, result = prepared(tmp_path, "It's one. It's two.\n", held_out=0.0, reading=reading)
    assert sentences(corpus, "train") == [["It", "'s", "one", "."], ["It", "'s", "two", "."]]
    assert corpus.reading == reading
    assert prepared(tmp_path, "a\n", held_out=0.0)[0].reading.tokenizer == "whitespace"
    head = json.loads((tmp_path / "corpus" / "corpus.json").read_text())
    assert head["n_words"] == {"train": 1}
    assert [line.split()[0] for line in str(result).splitlines()[1:]] == [
        *("train", "distinct", "vocabulary", "time")
    ]
    assert "train       8 words in 2 sentences, 0.00% out of vocabulary" in str(result)


def test_a_tokenizer_nobody_knows(tmp_path):
    with pytest.raises(ConfigError, match="klingon"):
        prepared(tmp_path, "a\n", reading=ReadingConfig("klingon"))
    assert [path.name for path in tmp_path.iterdir()] == ["input.txt"]


def test_stretches_are_held_out(tmp_path):
    corpus, _ = prepared(tmp_path, TEXT, held_out=0.2)
    lines = [line.split() for line in LINES]
    assert sentences(corpus, "valid") == lines[200:300] + lines[700:800]
    assert sentences(corpus, "train") == lines[:200] + lines[300:700] + lines[800:]
    words, counts = expected_table(lines[:200] + lines[300:700] + lines[800:], lines)
    assert corpus.counts.tolist() == counts
    assert corpus.words.strings(0, len(words)) == words


@pytest.mark.parametrize(
    ("inputs", "kind", "message"),
    [
        ({"input": ()}, InputError, "no text was named"),
        ({"input": ("missing.txt",)}, InputError, "missing.txt"),
        ({"input": ("-",), "valid": ("-",)}, InputError, "named twice"),
        ({"input": ("no*match",)}, InputError, "no file matches"),
    ],
)
def test_inputs_that_are_refused(tmp_path, inputs, kind, message):
    with pytest.raises(kind, match=message):
        prepare(PrepareConfig(**inputs, out=str(tmp_path / "corpus")))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("n_workers", [1, 2])
def test_text_that_is_no_text(tmp_path, monkeypatch, n_workers):
    monkeypatch.setattr(text_sources, "BLOCK_BYTES", 1000)
    path = tmp_path / "text.txt"
    path.write_bytes(TEXT.encode() + b"\xff\n" + TEXT.encode())
    config = PrepareConfig(
        (str(path),), str(tmp_path / "c"), corpus=CorpusConfig(workers=n_workers)
    )
    with pytest.raises(InputError, match=r"text.txt is not UTF-8 in line 1001"):
        prepare(config)
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


@pytest.mark.parametrize(
    ("name", "n_pairs", "n_words"),
    [
        ("ptb", {"train": 929_589, "valid": 73_760, "test": 82_430}, 10_000),
        ("wikitext-2", {"train": 2_088_628, "valid": 217_646, "test": 245_569}, 33_278),
    ],
)
def test_official_counts(tmp_path, name, n_pairs, n_words):
    archive = SHARED / "data" / f"{name}.tar.xz"
    if not archive.is_file():
        pytest.skip(f"no data at {archive}; set ELMO_SHARED to its folder")
    with lzma.open(archive) as file, tarfile.open(fileobj=file) as tar:
        tar.extractall(tmp_path, filter="data")
    names = [(str(tmp_path / name / f"{split}.txt"),) for split in n_pairs]
    out = tmp_path / "corpus"
    reading = ReadingConfig(keep_blank_lines=True)
    prepare(PrepareConfig(names[0], str(out), names[1], names[2], CorpusConfig(reading, workers=1)))
    corpus = Corpus.open(out)
    assert {split: found.n_pairs for split, found in corpus.splits.items()} == n_pairs
    # The official vocabularies have a mark for the end of a sentence, ours has three marks.
    assert len(corpus.words) + 1 == len(corpus.vocabulary) - 2 == n_words


# ----------------------------------------------------------------------------- all or nothing


def test_an_older_corpus_is_replaced(tmp_path):
    prepared(tmp_path, TEXT, shard_words=500)
    corpus, _ = prepared(tmp_path, "other words\n", held_out=0.0)
    assert sentences(corpus, "train") == [["other", "words"]]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus", "input.txt"]
    assert sorted(path.name for path in (tmp_path / "corpus").iterdir()) == [
        *("corpus.json", "counts.bin", "train-00000.starts", "train-00000.tokens"),
        *("vocab.txt", "words.bin", "words.idx"),
    ]


@pytest.mark.parametrize("with_corpus", [False, True])
def test_a_folder_that_holds_other_things(tmp_path, with_corpus):
    if with_corpus:
        prepared(tmp_path, TEXT)
    (tmp_path / "corpus").mkdir(exist_ok=True)
    (tmp_path / "corpus" / "thesis.tex").write_text("mine")
    before = snapshot(tmp_path / "corpus")
    with pytest.raises(OutputError, match=r"it holds thesis.tex, which would be lost"):
        prepared(tmp_path, TEXT)
    assert snapshot(tmp_path / "corpus") == before


def test_other_places(tmp_path):
    (tmp_path / "corpus").mkdir()
    prepared(tmp_path, TEXT)
    (tmp_path / "file").write_text("mine")
    for name, message in (("file", "a file of that name"), ("no/where", "make it first")):
        with pytest.raises(OutputError, match=message):
            prepare(PrepareConfig((str(tmp_path / "input.txt"),), str(tmp_path / name)))
    # Part of a corpus is none.
    (tmp_path / "corpus" / "corpus.json").unlink()
    with pytest.raises(OutputError, match="would be lost"):
        prepared(tmp_path, TEXT)


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), OSError(28, "No space left"), MemoryError()]
)
@pytest.mark.parametrize("where", ["count_text", "write_table", "_write_splits", "Head"])
def test_an_accident_leaves_all_as_it_was(tmp_path, monkeypatch, error, where, older):
    if older:
        prepared(tmp_path, "older words\n", held_out=0.0)
    (tmp_path / "input.txt").write_text("")
    before = snapshot(tmp_path)

    def fail(*_, **__):
        raise error

    monkeypatch.setattr(module, where, fail)
    kind = OutputError if isinstance(error, OSError) else type(error)
    with pytest.raises(kind) as caught:
        prepared(tmp_path, TEXT)
    if kind is OutputError:
        assert "No space left; nothing was left behind" in str(caught.value)
    (tmp_path / "input.txt").write_text("")
    assert snapshot(tmp_path) == before
    assert (tmp_path / "corpus").exists() == older


@pytest.mark.parametrize("n_workers", [1, 2])
def test_a_full_disk(tmp_path, monkeypatch, n_workers):
    """The nearest thing to it: the system itself stops the writing half-way."""
    monkeypatch.setattr(text_sources, "BLOCK_BYTES", 4000)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    (tmp_path / "input.txt").write_text(TEXT)
    config = PrepareConfig(
        (str(tmp_path / "input.txt"),), str(tmp_path / "c"), corpus=CorpusConfig(workers=n_workers)
    )
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
        with pytest.raises(OutputError, match="File too large; nothing was left behind"):
            prepare(config)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert [path.name for path in tmp_path.iterdir()] == ["input.txt"]


# ------------------------------------------------------------------------------------- memory

# The peak the system counts for a process begins with that of its parent; VmHWM does not.
MEASURE = """
import re, resource, sys
from elmo.config import CorpusConfig, PrepareConfig
from elmo.corpus import word_counts
from elmo.corpus.prepare_corpus import prepare

counting.DICTIONARY_BYTES = int(sys.argv[3])
prepare(PrepareConfig((sys.argv[1],), sys.argv[2], corpus=CorpusConfig(workers=2)))
own = re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]
print(int(own) // 1024, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)
"""


def write_growing(path, n_bytes):
    """Write lines of 1,500 words, a hundred of them new in each; give the number of new ones."""
    old = " ".join(f"w{number * number % 5_000}" for number in range(1400))
    n_new, written = 0, 0
    with path.open("w") as file:
        while written < n_bytes:
            new = " ".join(f"n{number}" for number in range(n_new, n_new + 100))
            written += file.write(f"{old} {new}\n")
            n_new += 100
    return n_new


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_does_not_grow_with_the_text(tmp_path):
    """From 20 to 100 MB of text with ever more words: dictionaries stay as they are allowed to be.

    In megabytes, this process and the larger of two workers. The table of distinct words is this
    process's to put in order: 60 bytes for each.
    """
    peaks, n_new = [], []
    for n_bytes in (20_000_000, 100_000_000):
        n_new.append(write_growing(tmp_path / "text.txt", n_bytes))
        arguments = [tmp_path / "text.txt", tmp_path / "corpus", str(2**23)]
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", MEASURE, *arguments],
            capture_output=True,
            text=True,
            check=True,
        )
        peaks.append(list(map(int, done.stdout.split())))
    (small, small_worker), (large, large_worker) = peaks
    assert large_worker < small_worker + 15
    assert large < small + 20 + 60 * (n_new[1] - n_new[0]) // 2**20
    assert max(large, large_worker) < 200
