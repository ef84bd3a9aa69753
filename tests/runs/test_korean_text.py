"""Tests of the script that writes the Korean training text."""

import json
import lzma

import pytest


@pytest.fixture
def data(tmp_path):
    for name in ("petitions", "klue-ynat", "nsmc", "klue-nli"):
        (tmp_path / name).mkdir()
    wikipedia = "= 은행 =\n은행은  기관이다.\n\n"
    (tmp_path / "ko-1.txt.xz").write_bytes(lzma.compress(wikipedia.encode()))
    petition = {"title": "제목", "content": "첫째 줄\n\n둘째 줄"}
    (tmp_path / "petitions" / "petitions_2019-04").write_text(json.dumps(petition) + "\n")
    (tmp_path / "klue-ynat" / "train.tsv").write_text('title\tlabel\n기사 "제목\n')
    (tmp_path / "nsmc" / "ratings_train.txt").write_text("id\tdocument\tlabel\n1\t좋다\t1\n")
    pairs = [{"premise": "전제", "hypothesis": "가설", "gold_label": "neutral"}]
    (tmp_path / "klue-nli" / "klue-nli-v1.1_train.json").write_text(json.dumps(pairs))
    return tmp_path


def test_text_of_all_sources_has_neither_titles_of_articles_nor_labels(script, data):
    tasks = '기사 "제목\n좋다\n전제\n가설\n'
    petitions = "제목\n첫째 줄\n둘째 줄\n"
    assert script("korean_text.py", data) == "은행은 기관이다.\n" + petitions + tasks
    assert script("korean_text.py", data, "petitions", "tasks") == petitions + tasks
    with pytest.raises(SystemExit):
        script("korean_text.py", data, "news")


def test_missing_petitions_are_an_error(script, data):
    (data / "petitions" / "petitions_2019-04").unlink()
    with pytest.raises(SystemExit, match=r"petitions has no files petitions_\*"):
        script("korean_text.py", data, "petitions", "tasks")
