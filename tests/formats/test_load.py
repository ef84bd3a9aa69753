"""Tests for loading models: format detection, model names and paths, damaged files."""

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
    assert_error,
    assert_same_model,
    many_langs,
    model_folder_source,
    snapshot,
    state_file,
)

from elmo.embed.embedder import ELMo
from elmo.errors import ElmoError, FormatError
from elmo.formats import hub
from elmo.formats.load import READABLE, read

every_source = pytest.mark.parametrize("name", SOURCES)


class TestRoundTrip:
    @every_source
    def test_save_and_load_preserves_model_of_every_format(self, tmp_path, name):
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
    def test_read_changes_no_files_and_vectors_are_finite(self, tmp_path, name):
        source = SOURCES[name].make(tmp_path)
        before = snapshot(tmp_path)
        elmo = ELMo.from_pretrained(**source)
        assert snapshot(tmp_path) == before
        for sentence, vectors in zip(SENTENCES, elmo.encode(SENTENCES, layers="all"), strict=True):
            assert vectors.shape == (elmo.config.n_layers, len(sentence), 16)
            assert np.isfinite(vectors).all()
            assert not sentence or vectors.std() > 0.01

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            ("hdf5, plain", "hdf5, options elsewhere"),
            ("NLPL folder", "NLPL folder, gzipped vocabulary"),
            ("NLPL folder", "NLPL zip"),
            ("NLPL zip", "NLPL zip, top folder"),
            ("archive", "archive, old pickle"),
            ("archive", "archive, uncompressed"),
            ("archive", "serialization folder"),
            ("archive", "serialization folder, packed"),
            ("best.th", "archive"),
            ("best.th, old pickle", "best.th"),
            ("many langs", "many langs, zip"),
            ("many langs", "many langs, zip, top folder"),
            ("many langs", "many langs, new pickle"),
        ],
    )
    def test_same_model_in_different_packaging_loads_equally(self, tmp_path, first, second):
        models = []
        for number, name in enumerate((first, second)):
            (tmp_path / str(number)).mkdir()
            models.append(ELMo.from_pretrained(**SOURCES[name].make(tmp_path / str(number))))
        assert_same_model(*models)

    def test_checkpoint_equals_its_hdf5_dump(self, tmp_path):
        arrays = bilm_arrays(make_options(), n_softmax=len(VOCABULARY))
        dump = ELMo.from_pretrained(hdf5_folder(tmp_path / "dump", arrays=arrays))
        run = ELMo.from_pretrained(checkpoint_folder(tmp_path / "run"))
        for name, tensor in dump.to_pretrained().weights.items():
            assert run.to_pretrained().weights[name].equal(tensor), name


class TestDetection:
    @pytest.mark.parametrize("name", ["model.ckpt-7", "model.ckpt-7.index", "checkpoint", ""])
    def test_read_finds_checkpoint_by_prefix_index_or_folder(self, tmp_path, name):
        folder = checkpoint_folder(tmp_path / "run")
        model = read(folder / name)
        assert model.origin == CHECKPOINT
        assert len(model.vocabulary) == model.config.n_softmax_words == 8

    def test_read_finds_checkpoint_by_data_file(self, tmp_path):
        folder = checkpoint_folder(tmp_path / "run")
        assert read(folder / "model.ckpt-7.data-00000-of-00001").origin == CHECKPOINT

    @pytest.mark.parametrize("name", ["weights.hdf5", "options.json", ""])
    def test_read_finds_options_and_weights_by_folder_or_file(self, tmp_path, name):
        folder = hdf5_folder(tmp_path / "model", vocab="vocab.txt")
        model = read(folder / name)
        assert model.origin == HDF5
        assert tuple(model.vocabulary.words) == VOCABULARY

    def test_read_finds_vocabulary_next_to_weights(self, tmp_path):
        options = make_options(characters=False)
        arrays = bilm_arrays(options, n_words=8)
        folder = hdf5_folder(tmp_path / "model", options, arrays, vocab="vocab.txt.gz")
        assert read(folder / "weights.hdf5").words["cat"] == 4

    @pytest.mark.parametrize("by_folder", [True, False])
    def test_options_file_matching_weight_file_name_takes_precedence(self, tmp_path, by_folder):
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

    def test_options_json_is_preferred_over_other_options_files(self, tmp_path):
        folder = hdf5_folder(tmp_path / "model", weights="model.hdf5")
        (folder / "training_options.json").write_text(json.dumps(make_options(dim=99)))
        assert read(folder).config.lstm.cell_dim == 16

    def test_read_rejects_folder_with_two_models(self, tmp_path):
        for stem, dim in (("small", 16), ("medium", 32)):
            options = make_options(dim=dim)
            hdf5_folder(
                tmp_path / "both",
                options,
                bilm_arrays(options),
                weights=f"elmo_{stem}_weights.hdf5",
                options_name=f"elmo_{stem}_options.json",
            )
        message = assert_error(
            lambda: read(tmp_path / "both"), "several weight files", "Pass the path"
        )
        assert "elmo_small_weights.hdf5" in message
        assert "elmo_medium_weights.hdf5" in message
        assert read(tmp_path / "both" / "elmo_medium_weights.hdf5").config.lstm.cell_dim == 32
        assert read(tmp_path / "both" / "elmo_small_weights.hdf5").config.lstm.cell_dim == 16

    @pytest.mark.parametrize("weights", ["weights.HDF5", "elmo_weights.H5", "x.Hdf5"])
    @pytest.mark.parametrize("zipped", [True, False])
    def test_file_extensions_are_case_insensitive(self, tmp_path, weights, zipped):
        folder = hdf5_folder(tmp_path / "model", weights=weights)
        expected = read(folder / weights).weights
        actual = read(zip_folder(folder, tmp_path / "model.zip") if zipped else folder).weights
        assert all(torch.equal(value, expected[name]) for name, value in actual.items())

    def test_unrelated_hdf5_files_are_not_read_as_weights(self, tmp_path):
        folder = hdf5_folder(tmp_path / "model", weights="lm_weights.hdf5")
        write_hdf5(folder / "lm_embeddings_0.hdf5", {"0": np.zeros((2, 3, 8), np.float32)})
        assert read(folder).origin == HDF5

    @pytest.mark.parametrize("extra", [[], ["a_options.json", "b_options.json"]])
    def test_missing_or_ambiguous_options_are_rejected(self, tmp_path, extra):
        folder = hdf5_folder(tmp_path / "model")
        (folder / "options.json").unlink()
        for name in extra:
            (folder / name).write_text("{}")
        listing = "a_options.json, b_options.json" if extra else "found none"
        for source in (folder, folder / "weights.hdf5"):
            assert_error(
                lambda source=source: read(source), "one options.json", listing, "Pass options="
            )
        options_path = tmp_path / "mine.json"
        options_path.write_text(json.dumps(make_options()))
        assert read(folder, options=options_path).origin == HDF5

    def test_model_folder_takes_precedence_over_hdf5_files_in_same_folder(self, tmp_path):
        folder = model_folder_source(tmp_path)["source"]
        hdf5_folder(folder)
        assert read(folder).origin == "random model"

    def test_zip_with_checkpoint_and_weights_uses_weights(self, tmp_path):
        folder = checkpoint_folder(tmp_path / "run")
        write_hdf5(folder / "model.hdf5", bilm_arrays(make_options()))
        assert read(zip_folder(folder, tmp_path / "full.zip")).origin == HDF5

    def test_checkpoint_or_archive_inside_zip_is_rejected(self, tmp_path):
        run = zip_folder(checkpoint_folder(tmp_path / "run"), tmp_path / "run.zip")
        members = {"model.tar.gz": write_tar(tmp_path / "model.tar.gz", {}).read_bytes()}
        packed = write_zip(tmp_path / "packed.zip", members)
        for path in (run, packed):
            assert_error(lambda path=path: read(path), "Unpack it", str(path))

    def test_zip_of_allennlp_serialization_folder_is_read(self, tmp_path):
        folder = serialization_folder(tmp_path / "run")
        shutil.rmtree(folder / "vocabulary")
        assert read(zip_folder(folder, tmp_path / "run.zip")).origin == ARCHIVE

    def test_format_is_detected_from_content_not_file_extension(self, tmp_path):
        hdf5_folder(tmp_path, weights="weights.bin")
        assert read(tmp_path / "weights.bin").origin == HDF5
        (tmp_path / "state.hdf5").write_bytes(torch_bytes(tagger_state()))
        assert read(tmp_path / "state.hdf5").origin == ARCHIVE
        many_langs_folder(tmp_path / "model")
        zip_folder(tmp_path / "model", tmp_path / "model.tar.gz")
        assert read(tmp_path / "model.tar.gz").origin == MANY_LANGS

    def test_tilde_in_paths_is_expanded_to_home_directory(self, tmp_path, monkeypatch):
        monkeypatch.setenv("HOME", str(tmp_path))
        hdf5_folder(tmp_path / "model")
        assert read("~/model", options="~/model/options.json").origin == HDF5

    def test_error_for_transformer_archive_names_the_model_type(self, golden_path):
        path = golden_path("allennlp/language_model_v0.9.0/model.tar.gz")
        assert_error(
            lambda: read(path),
            "language_model",
            "bidirectional_language_model_transformer",
            "not an ELMo",
            error_type=FormatError,
        )


class TestNames:
    @pytest.fixture
    def downloads(self, monkeypatch):
        requested = []

        def download(name):
            requested.append(name)
            raise FormatError("hub download")

        monkeypatch.setattr(hub, "download", download)
        return requested

    @pytest.mark.parametrize("name", ["original", "small", "no-such-model", "x" * 300, "a\0b"])
    def test_unknown_model_name_is_rejected(self, downloads, name):
        assert_error(
            lambda: read(name), name, "no model of that name is installed", READABLE, "owner/name"
        )
        assert not downloads

    @pytest.mark.parametrize(
        "name",
        [
            "/no/such/folder",
            "./missing",
            "../missing",
            "~/missing",
            "missing/",
            "./a/b.h5",
            "a/b.hdf5",
        ],
    )
    def test_missing_path_is_not_a_hub_id(self, downloads, name):
        assert_error(lambda: read(name), f"The file or folder {name} does not exist.")
        assert not downloads

    def test_missing_model_that_is_neither_path_nor_hub_id_is_rejected(self, downloads):
        assert_error(lambda: read("a/b/c"), "No file or folder a/b/c exists")
        assert not downloads

    @pytest.mark.parametrize("name", ["small-eng", "Small_EN", "smal-en"])
    def test_error_for_unknown_model_suggests_a_bundled_one(self, models, name):
        for bundled_name in ("small-en", "small-ko"):
            (models / bundled_name).mkdir()
            (models / bundled_name / "config.json").touch()
        assert_error(lambda: read(name), name, "Did you mean small-en?")
        with pytest.raises(FormatError) as caught:
            read("no-such-model")
        assert "Did you mean" not in str(caught.value)

    @pytest.mark.parametrize("name", ["ai2-orignal", "AI2_original", "original"])
    def test_error_for_unknown_model_suggests_a_published_one(self, downloads, name):
        assert_error(lambda: read(name), name, "Did you mean ai2-original?", "elmo download --list")

    @pytest.mark.parametrize("name", ["https://x.org/w.hdf5", "s3://bucket/elmo", "http://x"])
    def test_url_is_rejected_as_model_source(self, downloads, name):
        assert_error(lambda: read(name), name, "is a URL", "Download the file first")
        assert_error(lambda: read(weights=name), name, "is a URL", "Download the file first")
        assert not downloads

    def test_error_for_url_of_a_published_model_names_the_model(self):
        stem = "2x4096_512_2048cnn_2xhighway"
        url = f"https://other.host/models/elmo/{stem}/elmo_{stem}_weights.hdf5"
        assert_error(lambda: read(url), "elmo download ai2-original. Then load the model by its")
        assert_error(lambda: read(weights=url), "elmo download ai2-original")

    @pytest.mark.parametrize("name", ["missing/weights.hdf5", "owner/name", "ai2-original"])
    def test_missing_weights_are_neither_names_nor_hub_ids(self, downloads, tmp_path, name):
        options = hdf5_folder(tmp_path) / "options.json"
        message = f"weights: the file {name} does not exist"
        assert_error(lambda: read(options=options, weights=name), message)
        assert_error(lambda: ELMo.from_pretrained(options=options, weights=name), message)
        assert not downloads

    def test_weights_can_be_a_checkpoint_prefix(self, tmp_path):
        folder = checkpoint_folder(tmp_path / "checkpoint")
        prefix = next(folder.glob("*.index")).with_suffix("")
        assert read(weights=prefix).origin == CHECKPOINT

    def test_path_in_home_of_unknown_user_is_rejected(self, downloads):
        assert_error(lambda: read("~nobody-of-that-name/x"), "~nobody-of-that-name/x")

    def test_hub_id_is_downloaded_unless_path_exists(self, downloads, tmp_path, monkeypatch):
        assert_error(lambda: read("owner/name"), "hub download")
        assert downloads == ["owner/name"]
        monkeypatch.chdir(tmp_path)
        hdf5_folder(tmp_path / "owner" / "name")
        assert read("owner/name").origin == HDF5
        assert downloads == ["owner/name"]
        monkeypatch.setattr(hub, "download", lambda name: tmp_path / "owner" / "name")
        assert read("other/name").origin == HDF5

    def test_exactly_one_of_source_and_weights_is_required(self, tmp_path):
        assert_error(lambda: read(tmp_path, weights=tmp_path), "Pass only one")
        assert_error(lambda: read(), "No model was given")
        assert_error(lambda: read(""), "No model was given")
        assert_error(lambda: read(options=tmp_path / "options.json"), "No model was given")

    @pytest.mark.parametrize("argument", ["options", "vocab", "softmax", "token_embeddings"])
    @pytest.mark.parametrize("state", ["missing", "a folder", "empty", "too long"])
    def test_invalid_options_vocab_and_softmax_files_are_rejected(self, tmp_path, argument, state):
        folder = hdf5_folder(tmp_path / "model")
        path = tmp_path / ("x" * 300 if state == "too long" else "additional")
        if state == "a folder":
            path.mkdir()
        elif state == "empty":
            path.touch()
        if argument == "token_embeddings":
            (folder / "vocab.txt").write_bytes(builders.vocabulary_bytes())
        phrase = argument if state in ("missing", "too long") else path.name
        assert_error(lambda: read(folder, **{argument: path}), phrase, error_type=FormatError)


class TestOtherFiles:
    @pytest.mark.parametrize("whole_folder", [True, False])
    @pytest.mark.parametrize("options", [True, False])
    def test_token_embedding_file_is_rejected_as_model(self, tmp_path, whole_folder, options):
        arrays = {"embedding": np.ones((1200, 8), np.float32)}
        folder = hdf5_folder(tmp_path / "model", arrays=arrays)
        if not options:
            (folder / "options.json").unlink()
        source = folder if whole_folder else folder / "weights.hdf5"
        assert_error(
            lambda: read(source),
            "weights.hdf5 contains token embeddings (1,200 x 8: words x dim), not a model",
            "token_embeddings=",
            error_type=FormatError,
        )

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "is empty"),
            (b"hello, world", "starts with b'hello, w'"),
            (b"\0" * 600, "not a model file"),
            (b"version https://git-lfs.github.com/spec/v1\n", "not a model file"),
            (b"<!DOCTYPE html><html>", "not a model file"),
        ],
    )
    @pytest.mark.parametrize("name", ["weights.hdf5", "model.zip", "vocab.txt"])
    def test_files_that_are_not_models_are_rejected(self, tmp_path, content, message, name):
        path = tmp_path / name
        path.write_bytes(content)
        assert_error(lambda: read(path), str(path), message, READABLE, error_type=FormatError)

    @pytest.mark.parametrize("name", ["model.tar", "model.tgz", "best.th", "elmo.pt", "x.bin"])
    def test_empty_file_with_known_extension_is_rejected(self, tmp_path, name):
        (tmp_path / name).touch()
        assert_error(lambda: read(tmp_path / name), name, "not a complete", error_type=FormatError)

    def test_folder_without_model_is_rejected(self, tmp_path):
        (tmp_path / "empty").mkdir()
        assert_error(lambda: read(tmp_path / "empty"), "contains no model", "no files", READABLE)
        for number in range(12):
            (tmp_path / f"photo_{number:02}.jpg").touch()
        assert_error(lambda: read(tmp_path), "photo_00.jpg", "photo_07.jpg and 4 more")

    def test_empty_zip_is_rejected_as_model(self, tmp_path):
        path = write_zip(tmp_path / "empty.zip", {})
        assert_error(lambda: read(path), "contains no model", "no files")

    def test_folder_named_like_weight_file_is_rejected(self, tmp_path):
        folder = hdf5_folder(tmp_path / "model")
        (folder / "weights.hdf5").unlink()
        (folder / "weights.hdf5").mkdir()
        assert_error(lambda: read(folder), "contains no model", "options.json")
        assert_error(lambda: read(folder / "weights.hdf5"), "contains no model", "no files")
        assert_error(lambda: read(options=folder / "options.json", weights=folder / "weights.hdf5"))

    def test_json_file_that_is_not_options_is_rejected(self, tmp_path):
        (tmp_path / "config.json").write_text('{"lstm": 1}')
        assert_error(lambda: read(tmp_path / "config.json"), "not a model file")
        assert_error(lambda: read(tmp_path), "contains no model", "config.json")

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            (
                "elmo-torch-task",
                "is a task model, not an ELMo model. Use the commands of elmo task",
            ),
            ("elmo-torch language model", "is a recurrent language model, not an ELMo model"),
        ],
    )
    def test_model_of_another_kind_is_named(self, tmp_path, name, text):
        (tmp_path / "config.json").write_text(json.dumps({"format": name}))
        assert_error(lambda: read(tmp_path), text)

    def test_gzipped_vocabulary_is_rejected_as_model(self, tmp_path):
        folder = hdf5_folder(tmp_path / "model", vocab="vocab.txt.gz")
        assert_error(lambda: read(folder / "vocab.txt.gz"), "not a complete tar archive")

    @pytest.mark.parametrize("name", ["encoder.pkl", "token_embedder.pkl"])
    def test_single_pickle_of_many_langs_model_is_rejected(self, tmp_path, name):
        folder = many_langs_folder(tmp_path / "model")
        assert_error(lambda: read(folder / name), name, "not an ELMo")
        (folder / name).unlink()
        assert_error(lambda: read(folder), "contains no model", "char.dic")


# Functions that write a model and return the file to damage and the source to read, by name.


def _part_of(make, file):
    def build(folder):
        source = make(folder)["source"]
        return (source / file if source.is_dir() else source), source

    return build


def _converted_many_langs(folder):
    ELMo.from_pretrained(**many_langs().make(folder)).save_pretrained(folder / "saved")
    return {"source": folder / "saved"}


STRICT_FORMATS = {
    "weights.hdf5": _part_of(SOURCES["hdf5, plain"].make, "weights.hdf5"),
    "options.json": _part_of(SOURCES["hdf5, plain"].make, "options.json"),
    "zip": _part_of(SOURCES["NLPL zip"].make, ""),
    "checkpoint index": _part_of(SOURCES["checkpoint"].make, "model.ckpt-7.index"),
    "checkpoint data": _part_of(SOURCES["checkpoint"].make, "model.ckpt-7.data-00000-of-00001"),
    "model.tar.gz": _part_of(archive(options=make_options()).make, ""),
    "best.th": _part_of(state_file().make, ""),
    "best.th, old": _part_of(state_file(legacy=True).make, ""),
    "encoder.pkl": _part_of(many_langs().make, "encoder.pkl"),
    "token_embedder.pkl": _part_of(many_langs(legacy=False).make, "token_embedder.pkl"),
    "architecture": _part_of(many_langs().make, builders.ARCHITECTURE),
    "model.safetensors": _part_of(model_folder_source, "model.safetensors"),
    "config.json": _part_of(model_folder_source, "config.json"),
    "words.json": _part_of(_converted_many_langs, "words.json"),
    "vocab.txt.gz": _part_of(SOURCES["NLPL folder, gzipped vocabulary"].make, "vocab.txt.gz"),
}
# These files can be truncated or changed and still be valid.
LENIENT_FORMATS = {
    "model.tar": _part_of(archive("model.tar", "w").make, ""),
    "vocab.txt": _part_of(model_folder_source, "vocab.txt"),
    "char.dic": _part_of(many_langs().make, "char.dic"),
    "word.dic": _part_of(many_langs().make, "word.dic"),
    "config.json of many langs": _part_of(many_langs().make, "config.json"),
}


class TestDamage:
    @pytest.mark.parametrize("name", STRICT_FORMATS)
    def test_truncated_model_file_is_rejected(self, tmp_path, name):
        file, source = STRICT_FORMATS[name](tmp_path)
        data = file.read_bytes()
        for sixteenth in range(16):
            file.write_bytes(data[: len(data) * sixteenth // 16])
            assert_error(lambda: read(source), error_type=FormatError)
        file.write_bytes(data)
        assert read(source)

    @pytest.mark.parametrize("name", STRICT_FORMATS)
    def test_model_with_missing_file_is_rejected(self, tmp_path, name):
        file, source = STRICT_FORMATS[name](tmp_path)
        file.unlink()
        if name == "vocab.txt.gz":
            assert read(source).vocabulary is None
        else:
            assert_error(lambda: read(source), error_type=FormatError)

    @pytest.mark.parametrize("name", [*STRICT_FORMATS, *LENIENT_FORMATS])
    def test_damaged_model_file_raises_only_elmo_errors(self, tmp_path, name):
        file, source = {**STRICT_FORMATS, **LENIENT_FORMATS}[name](tmp_path)
        messages = []
        for description, content in damaged(file.read_bytes(), 60, seed=len(name)):
            file.write_bytes(content)
            try:
                ELMo.from_pretrained(source).encode(SENTENCES[:2])
            except ElmoError as error:
                messages.append(str(error))
            except Exception as error:
                pytest.fail(f"{description}: {error!r}")
        assert messages
        assert not any("\n" in message for message in messages)

    @pytest.mark.parametrize("name", ["zip", "model.tar.gz", "checkpoint data", "vocab.txt.gz"])
    def test_flipped_bits_in_model_files_are_detected_by_checksums(self, tmp_path, name):
        file, source = STRICT_FORMATS[name](tmp_path)
        data = file.read_bytes()
        middle = len(data) // 2
        for bit in range(8):
            broken = bytearray(data)
            broken[middle + bit] ^= 1 << bit
            file.write_bytes(bytes(broken))
            assert_error(lambda: read(source), error_type=FormatError)
