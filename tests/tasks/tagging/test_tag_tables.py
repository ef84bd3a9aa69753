"""Tests for tables with words and tags separated by spaces."""

import pytest

from elmo.config import ExamplesConfig
from elmo.errors import FormatError
from elmo.tasks.reading.load_examples import read_examples
from elmo.tasks.tagging.tag_tables import read_tag_table

WORDS, TAGS = ("Kim", "left", "."), ("B-PER", "O", "O")


@pytest.mark.parametrize(
    ("header", "config"),
    [
        ("words,tags", ExamplesConfig()),
        ("tokens,ner_tags", ExamplesConfig()),
        ("sentence,labels", ExamplesConfig(text_column="sentence")),
        ("text,gold", ExamplesConfig(label_column="gold")),
        ("a,b", ExamplesConfig(text_column="a", label_column="b")),
    ],
)
def test_table_of_tags_is_recognized_by_header_or_columns(tmp_path, header, config):
    path = tmp_path / "train.csv"
    path.write_text(f"{header}\nKim left .,B-PER O O\n")
    (example,) = read_examples(config, str(path), str.split, task="tagging", is_training=True)
    assert (example.words, example.target) == (WORDS, TAGS)


def test_file_of_columns_with_extension_of_tables_is_still_read(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("Kim\tB-PER\nleft\tO\n.\tO\n\n")
    (example,) = read_examples(ExamplesConfig(), str(path), str.split, task="tagging")
    assert (example.words, example.target) == (WORDS, TAGS)


def test_row_with_another_number_of_tags_raises_error(tmp_path):
    path = tmp_path / "train.csv"
    path.write_text("words,tags\nKim left .,B-PER O O\nHe left .,O O\n")
    with pytest.raises(FormatError, match=r"train\.csv, line 3: there are 3 words but 2 tags"):
        read_tag_table(path)
