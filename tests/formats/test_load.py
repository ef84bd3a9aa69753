"""Tests of finding out what a path holds: every format there and back, detection, damage."""

import json
import shutil

import builders
import numpy as np
import pytest
import torch
from builders import (
    SENTENCES,
    VOCABULARY,
    bilm_arrays,
    checkpoint_folder,
    damaged,
    hdf5_folder,
    make_options,
    many_langs_folder,
    serialization_folder,
    tagger_state,
    torch_bytes,
    write_hdf5,
    write_tar,
    write_zip,
    zip_folder,
)
from sources import (
    ARCHIVE,
    CHECKPOINT,
    HDF5,
    MANY_LANGS,
    SOURCES,
    archive,
    assert_same_model,
    many_langs,
    own_folder,
    refused,
    snapshot,
    state_file,
)

from elmo.embed.embedder import ELMo
from elmo.errors import ElmoError, FormatError
from elmo.formats import hub
from elmo.formats.load import READABLE, read

every_source = pytest.mark.parametrize("name", SOURCES)


class TestThereAndBack:
    @every_source
    def test_saved_and_loaded_again_it_is_the_same_model(self, tmp_path, name):
        origin, make = SOURCES[name]
        first = ELMo.from_pretrained(**make(tmp_path), tokenizer="english")
        assert first.origin == origin
        assert first.tokenizer.name == "english"
        first.save_pretrained(tmp_path / "saved")
        second = ELMo.from_pretrained(tmp_path / "saved")
        assert_same_model(second, first)
        second.save_pretrained(tmp_path / "again")
        assert snapshot(tmp_path / "again") == snapshot(tmp_path / "saved")

    @every_source
    def test_reading_changes_no_file_and_ends_in_numbers(self, tmp_path, name):
        source = SOURCES[name].make(tmp_path)
        before = snapshot(tmp_path)
        elmo = ELMo.from_pretrained(**source)
        assert snapshot(tmp_path) == before
        for sentence, vectors in zip(SENTENCES, elmo.encode(SENTENCES, layers="all"), strict=True):
            assert vectors.shape == (elmo.config.n_layers, len(sentence), 16)
            assert np.isfinite(vectors).all()
            assert not sentence or vectors.std() > 0.01

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("hdf5, plain", "hdf5, options apart"),
            ("NLPL folder", "NLPL folder, gzipped words"),
            ("NLPL folder", "NLPL zip"),
            ("NLPL zip", "NLPL zip, top folder"),
            ("archive", "archive, old pickle"),
            ("archive", "archive, not compressed"),
            ("archive", "serialization folder"),
            ("archive", "serialization folder, packed"),
            ("best.th", "archive"),
            ("best.th, old pickle", "best.th"),
            ("many langs", "many langs, zip"),
            ("many langs", "many langs, zip, top folder"),
            ("many langs", "many langs, new pickle"),
        ],
    )
    def test_the_wrapping_changes_nothing(self, tmp_path, one, other):
        models = []
        for number, name in enumerate((one, other)):
            (tmp_path / str(number)).mkdir()
            models.append(ELMo.from_pretrained(**SOURCES[name].make(tmp_path / str(number))))
        assert_same_model(*models)

    def test_checkpoint_holds_what_its_dump_holds(self, tmp_path):
        arrays = bilm_arrays(make_options(), n_softmax=len(VOCABULARY))
        dump = ELMo.from_pretrained(hdf5_folder(tmp_path / "dump", arrays=arrays))
        run = ELMo.from_pretrained(checkpoint_folder(tmp_path / "run"))
        for name, tensor in dump.to_pretrained().weights.items():
            assert run.to_pretrained().weights[name].equal(tensor), name


class TestDetection:
    @pytest.mark.parametrize("name", ["model.ckpt-7", "model.ckpt-7.index", "checkpoint", ""])
    def test_checkpoint_by_any_of_its_names(self, tmp_path, name):
        folder = checkpoint_folder(tmp_path / "run")
        model = read(folder / name)
        assert model.origin == CHECKPOINT
        assert len(model.vocabulary) == model.config.n_softmax_words == 8

    def test_checkpoint_by_its_data_file(self, tmp_path):
        folder = checkpoint_folder(tmp_path / "run")
        assert read(folder / "model.ckpt-7.data-00000-of-00001").origin == CHECKPOINT

    @pytest.mark.parametrize("name", ["weights.hdf5", "options.json", ""])
    def test_pair_by_folder_or_either_file(self, tmp_path, name):
        folder = hdf5_folder(tmp_path / "model", vocab="vocab.txt")
        model = read(folder / name)
        assert model.origin == HDF5
        assert tuple(model.vocabulary.words) == VOCABULARY

    def test_the_words_of_a_word_id_model_are_found_beside_its_weights(self, tmp_path):
        options = make_options(characters=False)
        arrays = bilm_arrays(options, n_words=8)
        folder = hdf5_folder(tmp_path / "model", options, arrays, vocab="vocab.txt.gz")
        assert read(folder / "weights.hdf5").words["cat"] == 4

    @pytest.mark.parametrize("by_folder", [True, False])
    def test_options_of_the_same_stem_come_first(self, tmp_path, by_folder):
        stem = "elmo_2x16_8_20cnn_1xhighway"
        folder = hdf5_folder(
            tmp_path / "model",
            weights=f"{stem}_weights.hdf5",
            options_name=f"{stem}_options.json",
        )
        (folder / "elmo_other_options.json").write_text(json.dumps(make_options(dim=99)))
        (folder / "options.json").write_text(json.dumps(make_options(dim=98)))
        model = read(folder if by_folder else folder / f"{stem}_weights.hdf5")
        assert model.config.lstm.cell_dim == 16

    def test_of_several_options_the_plainly_named_ones_count(self, tmp_path):
        folder = hdf5_folder(tmp_path / "model", weights="model.hdf5")
        (folder / "training_options.json").write_text(json.dumps(make_options(dim=99)))
        assert read(folder).config.lstm.cell_dim == 16

    def test_two_models_in_a_folder_are_told_apart_by_file_only(self, tmp_path):
        for stem, dim in (("small", 16), ("medium", 32)):
            options = make_options(dim=dim)
            hdf5_folder(
                tmp_path / "both",
                options,
                bilm_arrays(options),
                weights=f"elmo_{stem}_weights.hdf5",
                options_name=f"elmo_{stem}_options.json",
            )
        message = refused(lambda: read(tmp_path / "both"), "several weight files", "name one")
        assert "elmo_small_weights.hdf5" in message
        assert "elmo_medium_weights.hdf5" in message
        assert read(tmp_path / "both" / "elmo_medium_weights.hdf5").config.lstm.cell_dim == 32
        assert read(tmp_path / "both" / "elmo_small_weights.hdf5").config.lstm.cell_dim == 16

    @pytest.mark.parametrize("weights", ["weights.HDF5", "elmo_weights.H5", "x.Hdf5"])
    @pytest.mark.parametrize("zipped", [True, False])
    def test_endings_in_capital_letters(self, tmp_path, weights, zipped):
        folder = hdf5_folder(tmp_path / "model", weights=weights)
        expected = read(folder / weights).weights
        found = read(zip_folder(folder, tmp_path / "model.zip") if zipped else folder).weights
        assert all(torch.equal(value, expected[name]) for name, value in found.items())

    def test_vectors_beside_the_weights_are_not_taken_for_them(self, tmp_path):
        folder = hdf5_folder(tmp_path / "model", weights="lm_weights.hdf5")
        write_hdf5(folder / "lm_embeddings_0.hdf5", {"0": np.zeros((2, 3, 8), np.float32)})
        assert read(folder).origin == HDF5

    @pytest.mark.parametrize("extra", [[], ["a_options.json", "b_options.json"]])
    def test_options_missing_or_several(self, tmp_path, extra):
        folder = hdf5_folder(tmp_path / "model")
        (folder / "options.json").unlink()
        for name in extra:
            (folder / name).write_text("{}")
        found = "a_options.json, b_options.json" if extra else "found none"
        for source in (folder, folder / "weights.hdf5"):
            refused(lambda source=source: read(source), "one options.json", found, "pass options=")
        apart = tmp_path / "mine.json"
        apart.write_text(json.dumps(make_options()))
        assert read(folder, options=apart).origin == HDF5

    def test_our_own_format_comes_first(self, tmp_path):
        folder = own_folder(tmp_path)["source"]
        hdf5_folder(folder)
        assert read(folder).origin == "random model"

    def test_a_zip_that_holds_a_checkpoint_too_is_read_by_its_weights(self, tmp_path):
        folder = checkpoint_folder(tmp_path / "run")
        write_hdf5(folder / "model.hdf5", bilm_arrays(make_options()))
        assert read(zip_folder(folder, tmp_path / "full.zip")).origin == HDF5

    def test_what_needs_a_folder_is_not_read_from_a_zip(self, tmp_path):
        run = zip_folder(checkpoint_folder(tmp_path / "run"), tmp_path / "run.zip")
        members = {"model.tar.gz": write_tar(tmp_path / "model.tar.gz", {}).read_bytes()}
        packed = write_zip(tmp_path / "packed.zip", members)
        for path in (run, packed):
            refused(lambda path=path: read(path), "unpack it", str(path))

    def test_a_zip_of_a_serialization_folder(self, tmp_path):
        folder = serialization_folder(tmp_path / "run")
        shutil.rmtree(folder / "vocabulary")
        assert read(zip_folder(folder, tmp_path / "run.zip")).origin == ARCHIVE

    def test_endings_do_not_decide(self, tmp_path):
        hdf5_folder(tmp_path, weights="weights.bin")
        assert read(tmp_path / "weights.bin").origin == HDF5
        (tmp_path / "state.hdf5").write_bytes(torch_bytes(tagger_state()))
        assert read(tmp_path / "state.hdf5").origin == ARCHIVE
        many_langs_folder(tmp_path / "model")
        zip_folder(tmp_path / "model", tmp_path / "model.tar.gz")
        assert read(tmp_path / "model.tar.gz").origin == MANY_LANGS

    def test_home_is_expanded(self, tmp_path, monkeypatch):
        monkeypatch.setenv("HOME", str(tmp_path))
        hdf5_folder(tmp_path / "model")
        assert read("~/model", options="~/model/options.json").origin == HDF5

    def test_transformer_is_refused_by_name(self, golden_path):
        path = golden_path("allennlp/language_model_v0.9.0/model.tar.gz")
        refused(
            lambda: read(path),
            "language_model",
            "bidirectional_language_model_transformer",
            "not an ELMo",
            kind=FormatError,
        )


class TestNames:
    @pytest.fixture
    def downloads(self, monkeypatch):
        asked = []

        def download(name):
            asked.append(name)
            raise FormatError("the hub was asked")

        monkeypatch.setattr(hub, "download", download)
        return asked

    @pytest.mark.parametrize("name", ["original", "small", "no-such-model", "x" * 300, "a\0b"])
    def test_unknown_name(self, downloads, name):
        refused(lambda: read(name), name, "no model of that name", READABLE, "owner/name")
        assert not downloads

    @pytest.mark.parametrize("name", ["/no/such/folder", "./no/such/weights.hdf5", "a/b/c"])
    def test_missing_path(self, downloads, name):
        refused(lambda: read(name), name, "there is no file or folder")
        assert not downloads

    @pytest.mark.parametrize("name", ["https://x.org/w.hdf5", "s3://bucket/elmo", "http://x"])
    def test_address(self, downloads, name):
        refused(lambda: read(name), name, "is an address", "download the file first")
        assert not downloads

    def test_unknown_home(self, downloads):
        refused(lambda: read("~nobody-of-that-name/x"), "~nobody-of-that-name/x")

    def test_hub_id(self, downloads, tmp_path, monkeypatch):
        refused(lambda: read("owner/name"), "the hub was asked")
        assert downloads == ["owner/name"]
        monkeypatch.chdir(tmp_path)
        hdf5_folder(tmp_path / "owner" / "name")
        assert read("owner/name").origin == HDF5
        assert downloads == ["owner/name"]
        monkeypatch.setattr(hub, "download", lambda name: tmp_path / "owner" / "name")
        assert read("other/name").origin == HDF5

    def test_a_model_is_named_once(self, tmp_path):
        refused(lambda: read(tmp_path, weights=tmp_path), "name the model once")
        refused(lambda: read(), "no model was named")
        refused(lambda: read(""), "no model was named")
        refused(lambda: read(options=tmp_path / "options.json"), "no model was named")

    @pytest.mark.parametrize("argument", ["options", "vocab", "softmax", "token_embeddings"])
    @pytest.mark.parametrize("what", ["missing", "a folder", "empty", "too long"])
    def test_files_beside_the_model(self, tmp_path, argument, what):
        folder = hdf5_folder(tmp_path / "model")
        path = tmp_path / ("x" * 300 if what == "too long" else "beside")
        if what == "a folder":
            path.mkdir()
        elif what == "empty":
            path.touch()
        if argument == "token_embeddings":
            (folder / "vocab.txt").write_bytes(builders.vocabulary_bytes())
        word = argument if what in ("missing", "too long") else path.name
        refused(lambda: read(folder, **{argument: path}), word, kind=FormatError)


class TestNoModel:
    @pytest.mark.parametrize("whole_folder", [True, False])
    @pytest.mark.parametrize("options", [True, False])
    def test_a_token_embedding_file_is_named_for_what_it_is(self, tmp_path, whole_folder, options):
        arrays = {"embedding": np.ones((1200, 8), np.float32)}
        folder = hdf5_folder(tmp_path / "model", arrays=arrays)
        if not options:
            (folder / "options.json").unlink()
        source = folder if whole_folder else folder / "weights.hdf5"
        refused(
            lambda: read(source),
            "weights.hdf5 is a token-embedding file (1,200 x 8: words x dim), no model",
            "token_embeddings=",
            kind=FormatError,
        )

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "is empty"),
            (b"hello, world", "begins with b'hello, w'"),
            (b"\0" * 600, "no model file"),
            (b"version https://git-lfs.github.com/spec/v1\n", "no model file"),
            (b"<!DOCTYPE html><html>", "no model file"),
        ],
    )
    @pytest.mark.parametrize("name", ["weights.hdf5", "model.zip", "vocab.txt"])
    def test_a_file_of_no_kind(self, tmp_path, content, message, name):
        path = tmp_path / name
        path.write_bytes(content)
        refused(lambda: read(path), str(path), message, READABLE, kind=FormatError)

    @pytest.mark.parametrize("name", ["model.tar", "model.tgz", "best.th", "elmo.pt", "x.bin"])
    def test_an_empty_file_of_a_known_ending(self, tmp_path, name):
        (tmp_path / name).touch()
        refused(lambda: read(tmp_path / name), name, "not a whole", kind=FormatError)

    def test_an_empty_folder_and_a_full_one(self, tmp_path):
        (tmp_path / "empty").mkdir()
        refused(lambda: read(tmp_path / "empty"), "holds no model", "no files", READABLE)
        for number in range(12):
            (tmp_path / f"photo_{number:02}.jpg").touch()
        refused(lambda: read(tmp_path), "photo_00.jpg", "photo_07.jpg and 4 more")

    def test_an_empty_zip(self, tmp_path):
        path = write_zip(tmp_path / "empty.zip", {})
        refused(lambda: read(path), "holds no model", "no files")

    def test_a_folder_named_like_a_weight_file(self, tmp_path):
        folder = hdf5_folder(tmp_path / "model")
        (folder / "weights.hdf5").unlink()
        (folder / "weights.hdf5").mkdir()
        refused(lambda: read(folder), "holds no model", "options.json")
        refused(lambda: read(folder / "weights.hdf5"), "holds no model", "no files")
        refused(lambda: read(options=folder / "options.json", weights=folder / "weights.hdf5"))

    def test_some_other_json(self, tmp_path):
        (tmp_path / "config.json").write_text('{"lstm": 1}')
        refused(lambda: read(tmp_path / "config.json"), "no model file")
        refused(lambda: read(tmp_path), "holds no model", "config.json")

    def test_only_the_vocabulary_gzipped(self, tmp_path):
        folder = hdf5_folder(tmp_path / "model", vocab="vocab.txt.gz")
        refused(lambda: read(folder / "vocab.txt.gz"), "not a whole tar archive")

    @pytest.mark.parametrize("name", ["encoder.pkl", "token_embedder.pkl"])
    def test_half_of_many_langs(self, tmp_path, name):
        folder = many_langs_folder(tmp_path / "model")
        refused(lambda: read(folder / name), name, "not an ELMo")
        (folder / name).unlink()
        refused(lambda: read(folder), "holds no model", "char.dic")


# What to break, by name: makes a model and gives the file to break with the source to read.


def _inside(make, file):
    def build(folder):
        source = make(folder)["source"]
        return (source / file if source.is_dir() else source), source

    return build


def _saved_many_langs(folder):
    ELMo.from_pretrained(**many_langs().make(folder)).save_pretrained(folder / "saved")
    return {"source": folder / "saved"}


BREAKABLE = {
    "weights.hdf5": _inside(SOURCES["hdf5, plain"].make, "weights.hdf5"),
    "options.json": _inside(SOURCES["hdf5, plain"].make, "options.json"),
    "zip": _inside(SOURCES["NLPL zip"].make, ""),
    "checkpoint index": _inside(SOURCES["checkpoint"].make, "model.ckpt-7.index"),
    "checkpoint data": _inside(SOURCES["checkpoint"].make, "model.ckpt-7.data-00000-of-00001"),
    "model.tar.gz": _inside(archive(options=make_options()).make, ""),
    "best.th": _inside(state_file().make, ""),
    "best.th, old": _inside(state_file(legacy=True).make, ""),
    "encoder.pkl": _inside(many_langs().make, "encoder.pkl"),
    "token_embedder.pkl": _inside(many_langs(legacy=False).make, "token_embedder.pkl"),
    "architecture": _inside(many_langs().make, builders.ARCHITECTURE),
    "model.safetensors": _inside(own_folder, "model.safetensors"),
    "config.json": _inside(own_folder, "config.json"),
    "words.json": _inside(_saved_many_langs, "words.json"),
    "vocab.txt.gz": _inside(SOURCES["NLPL folder, gzipped words"].make, "vocab.txt.gz"),
}
# These can be shorter or other than they were and still be valid.
BENDABLE = {
    "model.tar": _inside(archive("model.tar", "w").make, ""),
    "vocab.txt": _inside(own_folder, "vocab.txt"),
    "char.dic": _inside(many_langs().make, "char.dic"),
    "word.dic": _inside(many_langs().make, "word.dic"),
    "config.json of many langs": _inside(many_langs().make, "config.json"),
}


class TestDamage:
    @pytest.mark.parametrize("name", BREAKABLE)
    def test_cut_short_it_is_refused(self, tmp_path, name):
        file, source = BREAKABLE[name](tmp_path)
        data = file.read_bytes()
        for part in range(16):
            file.write_bytes(data[: len(data) * part // 16])
            refused(lambda: read(source), kind=FormatError)
        file.write_bytes(data)
        assert read(source)

    @pytest.mark.parametrize("name", BREAKABLE)
    def test_missing_it_is_refused(self, tmp_path, name):
        file, source = BREAKABLE[name](tmp_path)
        file.unlink()
        if name == "vocab.txt.gz":
            assert read(source).vocabulary is None
        else:
            refused(lambda: read(source), kind=FormatError)

    @pytest.mark.parametrize("name", [*BREAKABLE, *BENDABLE])
    def test_broken_anywhere_it_is_refused_or_read(self, tmp_path, name):
        file, source = {**BREAKABLE, **BENDABLE}[name](tmp_path)
        messages = []
        for what, content in damaged(file.read_bytes(), 60, seed=len(name)):
            file.write_bytes(content)
            try:
                ELMo.from_pretrained(source).encode(SENTENCES[:2])
            except ElmoError as error:
                messages.append(str(error))
            except Exception as error:
                pytest.fail(f"{what}: {error!r}")
        assert messages
        assert not any("\n" in message for message in messages)

    @pytest.mark.parametrize("name", ["zip", "model.tar.gz", "checkpoint data", "vocab.txt.gz"])
    def test_what_has_checksums_is_never_read_with_changed_weights(self, tmp_path, name):
        file, source = BREAKABLE[name](tmp_path)
        data = file.read_bytes()
        middle = len(data) // 2
        for bit in range(8):
            broken = bytearray(data)
            broken[middle + bit] ^= 1 << bit
            file.write_bytes(bytes(broken))
            refused(lambda: read(source), kind=FormatError)
