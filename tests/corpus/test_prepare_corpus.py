"""Tests for `prepare`: exact results, atomic output, bounded memory."""

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
from elmo.corpus import block_worker, line_blocks, word_counts
from elmo.corpus import prepare_corpus as module
from elmo.corpus.prepare_corpus import prepare
from elmo.corpus.shards import Corpus
from elmo.errors import ConfigError, ElmoError, FormatError, InputError, OutputError
from elmo.text.vocabulary import SPECIAL_TOKENS

# ---------------------------------------------------------------------------------- exactness

any_line = st.lists(
    st.sampled_from(["a", "b", "the", "<S>", "<UNK>", "é", "日本", "!!!MAXTERMID"])
    | st.text(st.characters(exclude_categories=["Cs", "Z", "Cc"]), min_size=1, max_size=4),
    max_size=6,
).map(" ".join)
any_text = st.lists(any_line, min_size=1, max_size=20).map("\n".join)


@settings(max_examples=30)
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
def test_prepare_matches_simple_reference_implementation(
    tmp_path_factory, text, valid, test, keep, held, limit, block, shard_words
):
    def read(content):
        # A newline at the end of the file does not add a line.
        lines = [line.split() for line in (content or "").removesuffix("\n").split("\n")]
        return lines if keep and content else [line for line in lines if line]

    expected = {"train": read(text), "valid": read(valid), "test": read(test)}
    contents = [("train", text), ("valid", valid), ("test", test)]
    empty = any(content is not None and not any(expected[name]) for name, content in contents)
    folder = tmp_path_factory.mktemp("prepare")
    options = {
        "reading": ReadingConfig(keep_blank_lines=keep),
        "held_out": held,
        "shard_words": shard_words,
        "workers": 1,
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(word_counts, "DICTIONARY_BYTES", limit)
        patch.setattr(line_blocks, "BLOCK_BYTES", block)
        patch.setattr(block_worker, "LINES", 3)
        if empty:
            with pytest.raises(InputError, match="contains no words"):
                prepared(folder, text, valid, test, **options)
            assert not (folder / "corpus").exists()
            return
        corpus, result = prepared(folder, text, valid, test, **options)
    train = expected["train"]
    if valid is None and held and len(train) > 1:
        n_held = max(1, round(held * len(train)))
        expected["train"], expected["valid"] = train[:-n_held], train[-n_held:]
    splits = {name: sentences(corpus, name) for name in corpus.splits}
    assert splits == {name: content for name, content in expected.items() if content}
    words, counts = expected_table(expected["train"], expected["valid"] + expected["test"])
    assert [word for part in corpus.words.parts() for word in part] == words
    assert corpus.counts.tolist() == counts
    counted = [word for word, count in zip(words, counts, strict=True) if count]
    in_vocabulary = [word for word in counted if word not in (*SPECIAL_TOKENS, "!!!MAXTERMID")]
    assert list(corpus.vocabulary.words) == [*SPECIAL_TOKENS, *in_vocabulary]
    assert result.n_words == {name: split.n_words for name, split in corpus.splits.items()}
    assert result.n_distinct == len(words)
    assert result.n_vocabulary == len(corpus.vocabulary)
    assert result.n_characters == {
        name: split.n_characters for name, split in corpus.splits.items()
    }
    # The last line of a text has a line end too, even if it is missing in the file.
    n_train = result.n_characters["train"]
    if valid is None:
        n_train += result.n_characters.get("valid", 0)
    else:
        assert result.n_characters["valid"] == len(valid.removesuffix("\n")) + 1
    assert n_train == len(text.removesuffix("\n")) + 1


@pytest.mark.parametrize("block", [1, 10, 2**20])
def test_blank_lines_count_as_characters_of_the_sentence_before(tmp_path, monkeypatch, block):
    monkeypatch.setattr(line_blocks, "BLOCK_BYTES", block)
    text = "\n\na  b\n\n \nc d e\n\n\nlast\r\n\n\n\n"
    corpus, _ = prepared(tmp_path, text, held_out=0.34)
    assert sentences(corpus, "valid") == [["last"]]
    counts = {name: split.n_characters for name, split in corpus.splits.items()}
    assert counts == {"train": len("\n\na  b\n\n \nc d e\n\n\n"), "valid": len("last\r\n\n\n\n")}
    corpus, _ = prepared(tmp_path, text, held_out=0.0)
    assert corpus.splits["train"].n_characters == len(text)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.jsonl", '{"text": "a b"}\n{"text": "c\\nd\\n"}\n{"text": ""}\n{"text": null}\n'),
        ("t.csv", 'id,text\n1,a b\n2,"c\nd\n"\n3,\n'),
    ],
)
def test_characters_of_records_are_those_of_their_texts_and_line_ends(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    config = PrepareConfig(
        (str(tmp_path / name),), str(tmp_path / "corpus"), corpus=CorpusConfig(held_out=0.0)
    )
    assert prepare(config).n_characters == {"train": len("a b\nc\nd\n")}


# ---------------------------------------------------------------------------------- vocabulary


@pytest.mark.parametrize(
    ("options", "expected", "unknown_rate"),
    [
        ({}, "a <unk> b c é", 0),
        ({"vocab_size": 5}, "a <unk>", 4 / 11),
        ({"min_count": 2}, "a <unk> b", 2 / 11),
        ({"min_count": 2, "vocab_size": 4}, "a", 7 / 11),
        ({"min_count": 9}, "", 1),
        ({"vocab_size": 100}, "a <unk> b c é", 0),
    ],
)
def test_vocab_size_and_min_count_limit_the_vocabulary(tmp_path, options, expected, unknown_rate):
    text = "a a a a <unk>\n<unk> <unk> b b c\né\n"
    corpus, result = prepared(tmp_path, text, held_out=0.0, **options)
    assert list(corpus.vocabulary.words) == [*SPECIAL_TOKENS, *expected.split()]
    assert result.n_unknown["train"] / result.n_words["train"] == pytest.approx(unknown_rate)


def test_special_tokens_in_text_are_not_repeated_in_vocabulary(tmp_path):
    text = "<S> <S> <S> </S> <UNK> a a b\n"
    corpus, result = prepared(tmp_path, text, held_out=0.0, vocab_size=4)
    assert list(corpus.vocabulary.words) == [*SPECIAL_TOKENS, "a"]
    assert corpus.words.strings(0, 5) == ["<S>", "a", "</S>", "<UNK>", "b"]
    assert result.n_unknown == {"train": 1}


def test_prepare_uses_existing_vocabulary_file(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("<S>\n</S>\n<UNK>\nwords\nelsewhere\n")
    corpus, result = prepared(tmp_path, "some words\nmore words\n", held_out=0.0, vocab=str(path))
    assert list(corpus.vocabulary.words) == [*SPECIAL_TOKENS, "words", "elsewhere"]
    assert (result.n_vocabulary, result.n_unknown) == (5, {"train": 2})
    path.write_text("words\n")
    with pytest.raises(FormatError, match="no <S>, </S>, <UNK>"):
        prepared(tmp_path, "words\n", vocab=str(path))
    with pytest.raises(FormatError, match="Cannot read the vocabulary"):
        prepared(tmp_path, "words\n", vocab=str(tmp_path / "missing"))


@pytest.mark.parametrize(
    "options",
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
def test_corpus_config_rejects_invalid_options(options):
    with pytest.raises(ConfigError):
        CorpusConfig(**options)


# -------------------------------------------------------------------------------------- reading


def test_prepare_stores_reading_config_and_counts(tmp_path):
    reading = ReadingConfig("english", "split", text_column="body")
    corpus, result = prepared(tmp_path, "It's one. It's two.\n", held_out=0.0, reading=reading)
    assert sentences(corpus, "train") == [["It", "'s", "one", "."], ["It", "'s", "two", "."]]
    assert corpus.reading == reading
    assert prepared(tmp_path, "a\n", held_out=0.0)[0].reading.tokenizer == "whitespace"
    header = json.loads((tmp_path / "corpus" / "corpus.json").read_text())
    assert header["n_words"] == {"train": 1}
    assert [line.split()[0] for line in str(result).splitlines()[1:]] == [
        *("train", "distinct", "vocabulary", "time")
    ]
    assert "train       8 words in 2 sentences, 0.00% out of vocabulary" in str(result)
    result = prepared(tmp_path, "a\n", held_out=0.0)[1]
    assert "train       1 word in 1 sentence, 0.00% out of vocabulary" in str(result)


def test_prepare_records_but_does_not_apply_tokenizer_of_pretokenized_text(tmp_path, caplog):
    reading = ReadingConfig("english", pretokenized=True)
    text = "<unk> did n't sit .\n"
    corpus, _ = prepared(tmp_path, text, held_out=0.0, reading=reading)
    assert sentences(corpus, "train") == [text.split()]
    assert (corpus.reading.tokenizer, corpus.reading.pretokenized) == ("english", True)
    assert not caplog.records
    prepared(tmp_path, text, held_out=0.0, reading=ReadingConfig(pretokenized=True))
    assert "split raw text at white space. Name the tokenizer" in caplog.text


@pytest.mark.parametrize(
    ("reading", "message"),
    [
        (ReadingConfig(), "Choose a tokenizer with --tokenizer, or use --pretokenized"),
        (ReadingConfig("english", pretokenized=True), "omit --pretokenized"),
        (ReadingConfig("english"), None),
    ],
)
def test_prepare_warns_about_raw_text_that_is_split_at_spaces(tmp_path, caplog, reading, message):
    prepared(tmp_path, "She robbed a bank. Really?\n" * 5, held_out=0.0, reading=reading)
    assert len(caplog.records) == (message is not None)
    assert (message or "") in caplog.text


@pytest.mark.parametrize(
    ("options", "is_reported"),
    [({}, True), ({"sentences": "split"}, False), ({"keep_blank_lines": True}, False)],
)
def test_prepare_warns_about_lines_that_are_paragraphs(tmp_path, caplog, options, is_reported):
    reading = ReadingConfig("english", **options)
    prepared(tmp_path, "She left. He sat. Why?\n" * 5, held_out=0.0, reading=reading)
    assert caplog.text.count("Use --sentences split") == is_reported


@pytest.mark.parametrize(("n_words", "is_reported"), [(999, True), (1000, False)])
def test_prepare_warns_about_a_small_held_out_text(tmp_path, caplog, n_words, is_reported):
    prepared(tmp_path, "a b c\n" * 9, valid="a\n" * n_words)
    assert ("held-out text has only 999 words" in caplog.text) == is_reported
    assert ("hold out more with --held-out" in caplog.text) == is_reported


def test_prepare_reads_json_lines_in_text_file(tmp_path):
    text = '{"text": "a b"}\n{"text": "c"}\n'
    corpus, _ = prepared(tmp_path, text, held_out=0.0)
    assert sentences(corpus, "train") == [["a", "b"], ["c"]]
    reading = ReadingConfig(input_format="text")
    corpus, _ = prepared(tmp_path, text, held_out=0.0, reading=reading)
    assert sentences(corpus, "train")[0] == ['{"text":', '"a', 'b"}']


def test_prepare_rejects_unknown_tokenizer_before_writing_files(tmp_path):
    with pytest.raises(ConfigError, match="klingon"):
        prepared(tmp_path, "a\n", reading=ReadingConfig("klingon"))
    assert [path.name for path in tmp_path.iterdir()] == ["input.txt"]


def test_held_out_ranges_become_the_validation_split(tmp_path):
    corpus, _ = prepared(tmp_path, TEXT, held_out=0.2)
    lines = [line.split() for line in LINES]
    assert sentences(corpus, "valid") == lines[200:300] + lines[700:800]
    assert sentences(corpus, "train") == lines[:200] + lines[300:700] + lines[800:]
    words, counts = expected_table(lines[:200] + lines[300:700] + lines[800:], lines)
    assert corpus.counts.tolist() == counts
    assert corpus.words.strings(0, len(words)) == words


@pytest.mark.parametrize(
    ("inputs", "error_type", "message"),
    [
        ({"input": ()}, InputError, "No input text"),
        ({"input": ("missing.txt",)}, InputError, "missing.txt"),
        ({"input": ("-",), "valid": ("-",)}, InputError, "specified twice"),
        ({"input": ("no*match",)}, InputError, "No file matches"),
    ],
)
def test_prepare_rejects_invalid_inputs(tmp_path, inputs, error_type, message):
    with pytest.raises(error_type, match=message):
        prepare(PrepareConfig(**inputs, out=str(tmp_path / "corpus")))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("n_workers", [1, 2])
def test_prepare_rejects_text_that_is_not_utf8(tmp_path, monkeypatch, n_workers):
    monkeypatch.setattr(line_blocks, "BLOCK_BYTES", 1000)
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
def test_prepare_finds_published_word_counts(tmp_path, name, n_pairs, n_words):
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
    assert {name: split.n_pairs for name, split in corpus.splits.items()} == n_pairs
    # The published vocabularies have one end-of-sentence token; ours have three special tokens.
    assert len(corpus.words) + 1 == len(corpus.vocabulary) - 2 == n_words


# ----------------------------------------------------------------------------- atomic output


def test_prepare_replaces_existing_corpus(tmp_path):
    prepared(tmp_path, TEXT, shard_words=500)
    corpus, _ = prepared(tmp_path, "other words\n", held_out=0.0)
    assert sentences(corpus, "train") == [["other", "words"]]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus", "input.txt"]
    assert sorted(path.name for path in (tmp_path / "corpus").iterdir()) == [
        *("corpus.json", "counts.bin", "train-00000.starts", "train-00000.tokens"),
        *("vocab.txt", "words.bin", "words.idx"),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "no words"), (b"good line\n\xff\n", "UTF-8"), (None, "input.txt")],
)
def test_prepare_keeps_existing_corpus_if_the_input_is_bad(tmp_path, content, message):
    prepared(tmp_path, TEXT)
    before = snapshot(tmp_path / "corpus")
    text = tmp_path / "input.txt"
    if content is None:
        text.unlink()
    else:
        text.write_bytes(content)
    with pytest.raises(ElmoError, match=message):
        prepare(PrepareConfig((str(text),), str(tmp_path / "corpus")))
    assert snapshot(tmp_path / "corpus") == before
    assert {path.name for path in tmp_path.iterdir()} <= {"corpus", "input.txt"}


@pytest.mark.parametrize("with_corpus", [False, True])
def test_prepare_rejects_output_folder_with_unrelated_files(tmp_path, with_corpus):
    if with_corpus:
        prepared(tmp_path, TEXT)
    (tmp_path / "corpus").mkdir(exist_ok=True)
    (tmp_path / "corpus" / "thesis.tex").write_text("mine")
    before = snapshot(tmp_path / "corpus")
    with pytest.raises(OutputError, match=r"the folder contains thesis.tex, which would be lost"):
        prepared(tmp_path, TEXT)
    assert snapshot(tmp_path / "corpus") == before


def test_prepare_rejects_output_that_is_a_file_or_incomplete_corpus(tmp_path):
    (tmp_path / "corpus").mkdir()
    prepared(tmp_path, TEXT)
    (tmp_path / "file").write_text("mine")
    for name, message in (("file", "a file of that name"), ("no/where", "Create it first")):
        with pytest.raises(OutputError, match=message):
            prepare(PrepareConfig((str(tmp_path / "input.txt"),), str(tmp_path / name)))
    # An incomplete corpus is not replaced.
    (tmp_path / "corpus" / "corpus.json").unlink()
    with pytest.raises(OutputError, match="would be lost"):
        prepared(tmp_path, TEXT)


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), OSError(28, "No space left"), MemoryError()]
)
@pytest.mark.parametrize("function", ["count_text", "write_table", "_write_splits", "CorpusHeader"])
def test_prepare_leaves_output_unchanged_on_error(tmp_path, monkeypatch, error, function, exists):
    if exists:
        prepared(tmp_path, "old words\n", held_out=0.0)
    (tmp_path / "input.txt").write_text("")
    before = snapshot(tmp_path)

    def fail(*_, **__):
        raise error

    monkeypatch.setattr(module, function, fail)
    error_type = OutputError if isinstance(error, OSError) else type(error)
    with pytest.raises(error_type) as caught:
        prepared(tmp_path, TEXT)
    if error_type is OutputError:
        assert "No space left. No partial files were left" in str(caught.value)
    (tmp_path / "input.txt").write_text("")
    assert snapshot(tmp_path) == before
    assert (tmp_path / "corpus").exists() == exists


@pytest.mark.parametrize("n_workers", [1, 2])
def test_prepare_removes_its_files_if_disk_is_full(tmp_path, monkeypatch, n_workers):
    """A full disk is simulated by a file size limit of the operating system."""
    monkeypatch.setattr(line_blocks, "BLOCK_BYTES", 4000)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    (tmp_path / "input.txt").write_text(TEXT)
    config = PrepareConfig(
        (str(tmp_path / "input.txt"),), str(tmp_path / "c"), corpus=CorpusConfig(workers=n_workers)
    )
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
        with pytest.raises(OutputError, match=r"File too large\. No partial files were left"):
            prepare(config)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert [path.name for path in tmp_path.iterdir()] == ["input.txt"]


# ------------------------------------------------------------------------------------- memory

# The ru_maxrss of a new process starts at the value of its parent; VmHWM does not.
MEASURE = """
import re, resource, sys
from elmo.config import CorpusConfig, PrepareConfig
from elmo.corpus import word_counts
from elmo.corpus.prepare_corpus import prepare

word_counts.DICTIONARY_BYTES = int(sys.argv[3])
prepare(PrepareConfig((sys.argv[1],), sys.argv[2], corpus=CorpusConfig(workers=2)))
peak = re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]
print(int(peak) // 1024, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)
"""


def write_growing(path, n_bytes):
    """Write lines of 1,500 words, 100 of them new in each line; return the number of new words."""
    old = " ".join(f"w{number * number % 5_000}" for number in range(1400))
    n_new, written = 0, 0
    with path.open("w") as file:
        while written < n_bytes:
            new = " ".join(f"n{number}" for number in range(n_new, n_new + 100))
            written += file.write(f"{old} {new}\n")
            n_new += 100
    return n_new


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_prepare_memory_does_not_grow_with_text_length(tmp_path):
    """Compare peak memory for 15 MB and 60 MB of text with a growing number of distinct words.

    Peaks are in megabytes, for the main process and for the larger of two workers. The main process
    sorts the table of distinct words, which takes 60 bytes per word.
    """
    peaks, n_new = [], []
    for n_bytes in (15_000_000, 60_000_000):
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
