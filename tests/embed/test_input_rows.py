"""Tests of embedding records: input formats, carried values, pooling and split sentences."""

import datetime
import hashlib
import json
from decimal import Decimal

import numpy as np
import pytest
from tiny_jobs import in_this_process, run_job, write_model

from elmo import open_embeddings
from elmo.embed import sharded_job
from elmo.embed.embedder import ELMo
from elmo.embed.sharded_job import default_shard_words
from elmo.errors import ConfigError, InputError

pyarrow = pytest.importorskip("pyarrow")

RECORDS = [
    {"id": "a1", "review": "Good film. I liked it!", "stars": 5, "user": "kim"},
    {"id": "a2", "review": "", "stars": 1, "user": None},
    {"id": "a3", "review": 'Bad, "very"\nbad. Do not watch.', "stars": 2, "user": "한 별"},
]
OPTIONS = {"text_column": "review", "id_column": "id", "columns": "stars, user"}
INPUTS = ["in.jsonl", "in.csv", "in.tsv", "in.parquet"]
OUTPUTS = [
    "out.h5",
    "out.npz",
    "out.parquet",
    "shards-parquet",
    "shards-hdf5",
    "shards-safetensors",
]


@pytest.fixture(autouse=True)
def _no_processes(monkeypatch):
    monkeypatch.setitem(sharded_job.ENGINES, "local", in_this_process)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("rows") / "model")


@pytest.fixture
def embed(tmp_path, model):
    """Return a function that embeds a file and opens the output."""

    def call(source, out="out.h5", **options):
        if out.startswith("shards-"):
            options = {"format": out.removeprefix("shards-"), "storage": "float32", **options}
        options = {"pretokenized": False, **options}
        run_job(source, tmp_path / out, model, **options)
        return open_embeddings(tmp_path / out)

    return call


def write_records(path):
    """Write the records in the format of the extension; line breaks become spaces in TSV."""
    import csv

    import pyarrow.parquet

    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    elif path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(RECORDS), path)
    elif path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(RECORDS[0]))
            writer.writeheader()
            writer.writerows(RECORDS)
    else:
        rows = [list(RECORDS[0]), *(record.values() for record in RECORDS)]
        lines = [
            "\t".join("" if v is None else str(v).replace("\n", " ") for v in row) for row in rows
        ]
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("out", OUTPUTS)
@pytest.mark.parametrize("name", INPUTS)
def test_records_of_any_format_carry_id_and_columns_to_any_output(
    embed, tmp_path, model, name, out
):
    with embed(write_records(tmp_path / name), out, **OPTIONS) as rows:
        split = ELMo.from_pretrained(model).tokenizer.words
        assert [row.id for row in rows] == ["a1", "a2", "a3"]
        assert [row.words for row in rows] == [split(record["review"]) for record in RECORDS]
        no_user = "" if name in ("in.csv", "in.tsv") else None
        assert [row.columns for row in rows] == [
            {"stars": "5", "user": "kim"},
            {"stars": "1", "user": no_user},
            {"stars": "2", "user": "한 별"},
        ]
        assert rows[0].line is None


@pytest.mark.parametrize("out", ["out.parquet", "shards-parquet"])
def test_dates_and_decimals_of_parquet_are_carried_as_plain_text(embed, tmp_path, out):
    import pyarrow.parquet

    day = datetime.datetime(2026, 11, 1, 9, 30, tzinfo=datetime.UTC)
    columns = {
        "text": ["A bank", "A river"],
        "day": pyarrow.array([day.date(), None]),
        "utc": pyarrow.array([day, None], pyarrow.timestamp("us", "UTC")),
        "local": pyarrow.array([day.replace(tzinfo=None), None], pyarrow.timestamp("ms")),
        "time": pyarrow.array([day.time(), None], pyarrow.time64("us")),
        "price": pyarrow.array([Decimal("1200.50"), None], pyarrow.decimal128(20, 2)),
        "tiny": pyarrow.array([Decimal("0.00000001"), None], pyarrow.decimal128(20, 8)),
        "code": pyarrow.array([b"k\xc3\xb6", None]),
        "days": pyarrow.array([[day.date()], None]),
    }
    source = tmp_path / "in.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns), source)
    names = list(columns)[1:]
    with embed(source, out, columns=",".join(names)) as rows:
        assert rows[0].columns == {
            "day": "2026-11-01",
            "utc": "2026-11-01T09:30:00+00:00",
            "local": "2026-11-01T09:30:00",
            "time": "09:30:00",
            "price": "1200.50",
            "tiny": "0.00000001",
            "code": "kö",
            "days": '["2026-11-01"]',
        }
        assert rows[1].columns == dict.fromkeys(names)


@pytest.mark.parametrize("layers", ["average", "all"])
@pytest.mark.parametrize("pooling", ["mean", "max", "first-last"])
@pytest.mark.parametrize("out", OUTPUTS)
def test_pooled_vectors_are_those_of_encode(embed, tmp_path, model, out, pooling, layers):
    lines = ["He sat on the bank.", "", "A bank"]
    source = tmp_path / "in.txt"
    source.write_text("".join(f"{line}\n" for line in lines))
    expected = ELMo.from_pretrained(model).encode(lines, pooling=pooling, layers=layers)
    with embed(source, out, pooling=pooling, layers=layers) as rows:
        np.testing.assert_allclose([row.vectors for row in rows], expected, rtol=0, atol=1e-6)
        assert [row.words for row in rows][1:] == [[], ["A", "bank"]]
        if out.startswith("shards"):
            assert rows.verify() == 1


@pytest.mark.parametrize("out", OUTPUTS)
def test_split_sentences_keep_the_number_and_id_of_their_record(embed, tmp_path, model, out):
    source = write_records(tmp_path / "in.jsonl")
    with embed(source, out, sentences="split", **OPTIONS) as rows:
        assert [(row.id, row.line) for row in rows] == [
            ("a1", 1), ("a1", 1), ("a2", 2), ("a3", 3), ("a3", 3)
        ]  # fmt: skip
        assert [" ".join(row.words) for row in rows] == [
            *("Good film .", "I liked it !", "", 'Bad , " very " bad .', "Do not watch ."),
        ]
        vectors = ELMo.from_pretrained(model).encode([["I", "liked", "it", "!"]])[0]
        np.testing.assert_allclose(rows[1].vectors, vectors, rtol=0, atol=1e-6)


@pytest.mark.parametrize("out", ["out.parquet", "shards-parquet"])
def test_line_is_an_integer_in_parquet(embed, tmp_path, out):
    import pyarrow.parquet

    embed(write_records(tmp_path / "in.jsonl"), out, sentences="split", **OPTIONS).close()
    path = tmp_path / out
    path = path / "shards" / "00000.parquet" if path.is_dir() else path
    column = pyarrow.parquet.read_table(path)["line"]
    assert column.type == pyarrow.int64()
    assert column.to_pylist() == [1, 1, 2, 3, 3]


def test_file_of_earlier_version_with_line_as_string_is_read(embed, tmp_path):
    import pyarrow.parquet

    source, path = write_records(tmp_path / "in.jsonl"), tmp_path / "out.parquet"
    embed(source, path.name, sentences="split", **OPTIONS).close()
    table = pyarrow.parquet.read_table(path)
    index = table.column_names.index("line")
    text = table["line"].cast(pyarrow.string())
    pyarrow.parquet.write_table(table.set_column(index, "line", text), path)
    with open_embeddings(path) as rows:
        assert [row.line for row in rows] == [1, 1, 2, 3, 3]


def test_job_folder_with_another_input_file_names_both_files(embed, tmp_path):
    embed(write_records(tmp_path / "in.csv"), "shards-parquet", **OPTIONS).close()
    other = tmp_path / "other.csv"
    other.write_text("id,review,stars,user\n1,A bank,5,kim\n")
    with pytest.raises(ConfigError, match=r"planned with .*in\.csv, but .* is .*other\.csv"):
        embed(other, "shards-parquet", **OPTIONS)


def test_planned_words_are_marked_if_they_are_estimated(embed, tmp_path, capsys):
    source = write_records(tmp_path / "in.csv")
    embed(source, "shards-parquet", **OPTIONS).close()
    assert "embed: about " in capsys.readouterr().err
    embed(source, "shards-hdf5", sentences="split", **OPTIONS).close()
    assert "embed: 18 words into 1 shard" in capsys.readouterr().err


def test_job_with_records_is_resumed_and_removes_its_rows(embed, tmp_path, model):
    source = write_records(tmp_path / "in.csv")
    with embed(source, "shards-parquet", shard_words=4, **OPTIONS) as rows:
        assert len(rows.manifest.shards) > 1
    shard = tmp_path / "shards-parquet" / "shards" / "00001.parquet"
    content = shard.read_bytes()
    assert not (tmp_path / "shards-parquet" / "rows.jsonl").exists()
    shard.unlink()
    embed(source, "shards-parquet", **OPTIONS).close()
    assert shard.read_bytes() == content
    source.write_text(source.read_text().replace("Good", "Fine"))
    with pytest.raises(ConfigError, match="has changed since the job was planned"):
        embed(source, "shards-parquet", **OPTIONS)
    with pytest.raises(ConfigError, match="columns was stars, user, now it is None"):
        embed(source, "shards-parquet", **{**OPTIONS, "columns": None})


@pytest.mark.parametrize("out", ["out.h5", "shards-parquet"])
@pytest.mark.parametrize(
    ("name", "content"),
    [("in.txt", ""), ("in.txt", "\n \n"), ("in.jsonl", ""), ("in.csv", ""), ("in.tsv", "")],
)
def test_empty_input_causes_a_warning(embed, tmp_path, caplog, name, content, out):
    (tmp_path / name).write_text(content)
    embed(tmp_path / name, out).close()
    assert caplog.text.count("contains no words, so there are no vectors") == 1


@pytest.mark.parametrize("pooling", [None, "mean"])
def test_shard_of_empty_input_has_the_schema_of_other_shards(embed, tmp_path, pooling):
    import pyarrow.parquet

    schemas = []
    for name, content in [("in.jsonl", None), ("empty.jsonl", "")]:
        source = tmp_path / name
        write_records(source) if content is None else source.write_text(content)
        out = f"shards-{source.stem}"
        options = {**OPTIONS, "sentences": "split", "pooling": pooling, "format": "parquet"}
        embed(source, out, **options).close()
        schemas.append(pyarrow.parquet.read_schema(tmp_path / out / "shards" / "00000.parquet"))
    assert schemas[0] == schemas[1]


def test_safetensors_shard_of_empty_input_has_the_dimension_of_the_model(embed, tmp_path, model):
    from safetensors.numpy import load_file

    (tmp_path / "empty.txt").touch()
    embed(tmp_path / "empty.txt", "shards-safetensors", layers="all").close()
    config = ELMo.from_pretrained(model).config
    vectors = load_file(tmp_path / "shards-safetensors" / "shards" / "00000.safetensors")["vectors"]
    assert vectors.shape == (0, config.n_layers, config.dim)


@pytest.mark.parametrize("out", OUTPUTS)
def test_texts_without_words_are_counted_and_have_zero_vectors(embed, tmp_path, model, out):
    source = tmp_path / "in.jsonl"
    source.write_text('{"text": "a b"}\n{"text": ""}\n{"text": null}\n')
    options = {"format": out.removeprefix("shards-")} if out.startswith("shards-") else {}
    result = run_job(source, tmp_path / out, model, pretokenized=False, pooling="max", **options)
    assert result.n_empty == 2
    assert ": 3 sentences (2 without words), 2 words" in str(result)
    with open_embeddings(tmp_path / out) as rows:
        assert [bool(row.vectors.any()) for row in rows] == [True, False, False]
        assert len({row.vectors.shape for row in rows}) == 1


def test_resumed_job_of_earlier_version_keeps_line_as_string(embed, tmp_path):
    import pyarrow.parquet

    source = write_records(tmp_path / "in.jsonl")
    options = {**OPTIONS, "sentences": "split", "shard_words": 4}
    embed(source, "shards-parquet", **options).close()
    folder = tmp_path / "shards-parquet"
    # The folder of a job that an earlier version has begun and not finished.
    plan = json.loads((folder / "plan.json").read_text())
    assert plan.pop("line_is_integer")
    (folder / "plan.json").write_text(json.dumps(plan))
    (folder / "manifest.json").unlink()
    for record in sorted((folder / "records").iterdir()):
        shard = folder / "shards" / f"{record.stem}.parquet"
        if record.stem != "00000":
            record.unlink()
            shard.unlink()
            continue
        table = pyarrow.parquet.read_table(shard)
        text = table["line"].cast(pyarrow.string())
        table = table.set_column(table.column_names.index("line"), "line", text)
        pyarrow.parquet.write_table(table, shard)
        old = json.loads(record.read_text())
        del old["n_empty"]
        digest = hashlib.sha256(shard.read_bytes()).hexdigest()
        old |= {"n_bytes": shard.stat().st_size, "sha256": digest}
        record.write_text(json.dumps(old))
    with embed(source, "shards-parquet", **options) as rows:
        assert [row.line for row in rows] == [1, 1, 2, 3, 3]
    shards = sorted((folder / "shards").iterdir())
    assert len(shards) > 1
    types = {pyarrow.parquet.read_schema(shard).field("line").type for shard in shards}
    assert types == {pyarrow.string()}


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"text_column": "text"}, InputError, "no field 'text'.* Set --text-column"),
        ({"columns": "stars,stars"}, ConfigError, "'stars' is repeated"),
        ({"columns": "words"}, ConfigError, "'words' is a name in the output"),
        ({"columns": "price"}, InputError, "no field 'price'.* Set --columns"),
        ({"id_column": "key"}, InputError, "no field 'key'.* Set --id-column"),
    ],
)
@pytest.mark.parametrize("out", ["out.h5", "shards-parquet"])
def test_wrong_column_is_reported_before_anything_is_written(
    embed, tmp_path, options, error, message, out
):
    source = write_records(tmp_path / "in.jsonl")
    with pytest.raises(error, match=message):
        embed(source, out, **{**OPTIONS, **options})
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


@pytest.mark.parametrize("options", [{"text_column": "text"}, {"id_column": "id"}])
@pytest.mark.parametrize("out", ["out.h5", "shards-parquet"])
def test_column_of_plain_text_is_an_error_that_names_the_format(embed, tmp_path, options, out):
    source = tmp_path / "ticks.csv.20261118"
    source.write_text("id,text\n1,A bank\n")
    ((name, column),) = options.items()
    flag = f"--{name.replace('_', '-')} {column}"
    message = f"is read as plain text, .* {flag} is given.*--input-format csv"
    with pytest.raises(InputError, match=message):
        embed(source, out, **options)
    assert [path.name for path in tmp_path.iterdir()] == [source.name]
    with embed(source, out, input_format="csv", **options) as rows:
        assert [row.words for row in rows] == [["A", "bank"]]


@pytest.mark.parametrize("options", [{}, {"sentences": "split"}])
@pytest.mark.parametrize("out", ["out.h5", "shards-parquet"])
def test_plain_text_that_looks_like_a_table_causes_a_warning(embed, tmp_path, caplog, options, out):
    source = tmp_path / "ticks.csv.20261118"
    source.write_text("id,text\n1,A bank\n")
    embed(source, out, **options).close()
    assert caplog.text.count("looks like a table with a header") == 1


def test_default_shard_size_is_a_power_of_two_that_shrinks_with_the_model():
    small = ELMo.from_pretrained("small-en")
    size = default_shard_words(small, "cpu")
    assert 2**13 <= size < 2**18
    assert size & (size - 1) == 0
    assert default_shard_words(small, "cuda") == 2**18
