"""Tests for `read`: readers by name, reader detection, and options."""

import gzip

import pytest

from elmo.errors import ConfigError, FormatError
from elmo.tasks.reading.readers import detect_reader, read
from elmo.tasks.registry.task_rows import all_readers, imported

UD = "1\ta\ta\tX\tY\t_\t_\t_\t_\t_\n"


@pytest.mark.parametrize(
    ("name", "text", "reader"),
    [
        ("a.conllu", UD, "conllu"),
        ("a.TSV", "text\tlabel\na\t1\n", "table"),
        ("a.csv", "text,label\na,1\n", "table"),
        ("a.jsonl", "{}", "jsonl"),
        ("a.json", "[]", "jsonl"),
        ("a.txt", "(3 (2 It) (4 's))\n", "sst5"),
        ("a.txt", '{"text": "a"}\n', "jsonl"),
        ("ner.train", "; a b\n$a <b:PS>\n1\ta\tNN\tO\n", "klp"),
        ("ner.dev", "a\tNN\tB_PS\nb\tNN\tI\n\nc\tNN\tO\n", "klp"),
        ("ner.dev", "a\tNN\tB-PS\nb\tNN\tI-PS\n\nc\tNN\tO\n", "conll"),
        ("a.txt", "# sent_id = 1\n" + UD, "conllu"),
        ("a.txt", "1-2\tab\t_\t_\t_\t_\t_\t_\t_\t_\n" + UD, "conllu"),
        ("a.txt", "-DOCSTART- O\n\na O\n", "conll"),
        ("eng.train", "\na NN O\nb NN O\n\nc NN O\n", "conll"),
        ("a.txt", "a\tO\n\nb\tO\n\n\n", "conll"),
        ("a.txt", "( ( O\n3 CD O\n\n[ [ O\n", "conll"),
        ("ratings.txt", "id\tdocument\tlabel\n1\ta\t0\n\n", "table"),
        ("a.words.txt", "a b\n", None),
        ("a.conll", "#begin document (a)\n", None),
        ("a.txt", "just a text\n", None),
        ("a.txt", "just\n\ntexts\n", None),
        ("a.txt", "\n\n", None),
        ("a.txt", "[" * 100_000, None),
    ],
)
def test_detect_reader_uses_file_name_and_content(tmp_path, name, text, reader):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    if reader is None:
        with pytest.raises(FormatError, match=r"Cannot detect the format of .*--reader"):
            detect_reader(path)
    else:
        assert detect_reader(path) == reader
        compressed = tmp_path / f"{name}.gz"
        compressed.write_bytes(gzip.compress(text.encode()))
        assert detect_reader(compressed) == reader


def test_detect_reader_recognizes_parallel_files(tmp_path):
    path = tmp_path / "a.words.txt"
    path.write_text("a b\n")
    path.with_name("a.tags.txt").write_text("O X\n")
    assert detect_reader(path) == "parallel"
    assert read(str(path))[0].target == ("O", "X")


def test_readers_of_all_tasks_exist():
    for row in all_readers().values():
        assert callable(imported(row.place))


def test_read_passes_options_to_reader(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("title\tlabel\nab\t1\n", encoding="utf-16")
    assert read(path, text="title", split=list)[0].words == ("a", "b")
    assert read(path, "table", text="title")[0].words == ("ab",)


def test_read_does_not_split_tokenized_text(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("ab O\n")
    assert read(path, "conll", split=list)[0].words == ("ab",)
    path.write_text("(3 ab)\n")
    assert read(path, "sst5", split=list)[0].words == ("ab",)


# word_senses reads directories.
@pytest.mark.parametrize("reader", sorted(all_readers().keys() - {"word_senses"}))
def test_every_reader_rejects_missing_and_undecodable_files(tmp_path, reader):
    path = tmp_path / "a.words.txt"
    with pytest.raises(FormatError, match=r"Cannot read .*a.words.txt"):
        read(path, reader)
    path.write_bytes(b"\xff\n")
    path.with_name("a.tags.txt").write_bytes(b"O\n")
    with pytest.raises(FormatError, match="line 1: not valid utf-8"):
        read(path, reader)
    with pytest.raises(FormatError, match="line 1: not valid ascii"):
        read(path, reader, encoding="ascii")


def test_read_rejects_unknown_reader_and_option(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("a O\n")
    with pytest.raises(ConfigError, match=r"Unknown reader 'xml'. Expected one of: conll, "):
        read(path, "xml")
    with pytest.raises(
        ConfigError, match=r"'conll' has no option column, text. Its options are: encoding"
    ):
        read(path, "conll", text="a", column=3)


@pytest.mark.parametrize(
    ("task", "name", "text", "reader"),
    [
        ("classification", "a.csv", "text,label\n", "table"),
        ("classification", "a", "text,label\na,b\n", "table"),
        ("classification", "a", '{"text": "a"}\n', "jsonl"),
        ("classification", "a", '[{"text": "a"}]\n', "jsonl"),
        ("tagging", "a.tsv", "a\tO\n\nb\tO\n", "conll"),
        ("tagging", "a.txt", "a O\nb O\n", "conll"),
        ("tagging", "a.jsonl", "", "jsonl"),
        ("sentence_pairs", "a.csv", "a,b\n", "sentence_pairs"),
        ("question_answering", "a.json", "{}", "squad"),
        ("semantic_roles", "a.jsonl", "{}", "propbank"),
        ("semantic_roles", "a", "#begin document x\n", "conll2012"),
        ("semantic_roles", "a", "a - *\n\nb - *\n", "conll2005"),
        ("coreference", "a", "", "coreference"),
        ("word_senses", "a", "", "word_senses"),
        ("nearest_occurrences", "a", "", "occurrences"),
    ],
)
def test_detected_reader_depends_on_the_task(tmp_path, task, name, text, reader):
    path = tmp_path / name
    path.write_text(text)
    assert detect_reader(path, task=task) == reader
