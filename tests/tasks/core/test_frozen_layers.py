"""Tests of the stored layers of a frozen ELMo: values, reuse of files, atomic writes."""

import shutil

import numpy as np
import pytest
from conftest import random_model
from small_tasks import LABELED

from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError, FormatError, OutputError
from elmo.tasks.core.frozen_layers import BlankLayers, ComputedLayers, chosen_layers, stored_layers

TEXTS = [example.words for example in LABELED]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def no_encoding(monkeypatch):
    """Return a function that makes any later encoding fail."""

    def forbid():
        def fail(*arguments):
            raise AssertionError

        monkeypatch.setattr(ComputedLayers, "encode", fail)

    return forbid


@pytest.mark.parametrize("layers", ["all", "top", "1", "2,0"])
def test_stored_layers_equal_computed_layers(tmp_path, tiny, layers):
    texts = [*TEXTS, ("한국", "😀"), TEXTS[0]]
    stored = stored_layers(tiny, "known", layers, texts, tmp_path / "some" / "where")
    numbers = {"all": [0, 1, 2], "top": [2], "1": [1], "2,0": [0, 2]}[layers]
    for text, actual, expected in zip(
        texts, stored(texts), ComputedLayers(tiny, layers)(texts), strict=True
    ):
        assert actual.dtype == expected.dtype == np.float16
        assert actual.shape == (len(text), len(numbers), tiny.config.dim)
        np.testing.assert_array_equal(actual, expected)
    encoded = tiny.encode([list(texts[0])], layers="all")[0][numbers].swapaxes(0, 1)
    np.testing.assert_allclose(stored(texts[:1])[0], encoded, rtol=1e-3, atol=1e-4)


def test_existing_layers_file_is_reused(tmp_path, tiny, no_encoding):
    first = stored_layers(tiny, "known", "all", TEXTS, tmp_path)
    before = first.path.stat()
    no_encoding()
    second = stored_layers(tiny, "known", "all", [*TEXTS[::-1], TEXTS[3]], tmp_path)
    assert second.path == first.path
    assert second.path.stat().st_mtime_ns == before.st_mtime_ns
    np.testing.assert_array_equal(second(TEXTS[:1])[0], first(TEXTS[:1])[0])
    assert names(tmp_path) == [first.path.name]


@pytest.mark.parametrize(
    ("fingerprint", "layers", "texts"),
    [
        ("other", "all", TEXTS),
        ("known", "top", TEXTS),
        ("known", "all", TEXTS[1:]),
        ("known", "all", [*TEXTS[:-1], (*TEXTS[-1], "more")]),
    ],
)
def test_layers_file_depends_on_model_layers_and_texts(tmp_path, tiny, fingerprint, layers, texts):
    first = stored_layers(tiny, "known", "all", TEXTS, tmp_path)
    second = stored_layers(tiny, fingerprint, layers, texts, tmp_path)
    assert first.path != second.path
    assert len(names(tmp_path)) == 2


def test_layers_file_depends_on_word_boundaries(tmp_path, tiny):
    splits = [[("a\tb",)], [("a", "b")], [("a\nb",)], [("a",), ("b",)], [("a b",)], [("a', 'b",)]]
    paths = {stored_layers(tiny, "known", "top", texts, tmp_path).path for texts in splits}
    assert len(paths) == len(splits)


def test_top_layer_selected_by_name_or_number_uses_the_same_file(tmp_path, tiny):
    paths = {stored_layers(tiny, "known", n, TEXTS, tmp_path).path for n in ("top", "2")}
    assert len(paths) == 1


def test_insufficient_disk_space_raises_before_layers_are_written(tmp_path, tiny, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 9, 1))
    with pytest.raises(OutputError, match=r"words need .* GB free\. Use another --cache"):
        stored_layers(tiny, "known", "all", TEXTS, tmp_path)
    assert names(tmp_path) == []


def test_cache_path_that_is_a_file_raises(tmp_path, tiny):
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"Cannot create the folder .*file"):
        stored_layers(tiny, "known", "all", TEXTS, tmp_path / "file")


@pytest.mark.parametrize("size", [0, 5, 1000])
def test_damaged_layers_file_raises(tmp_path, tiny, size):
    path = stored_layers(tiny, "known", "all", TEXTS, tmp_path).path
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(
        FormatError, match=rf"{path.name} is not a complete layers file: .*Remove it"
    ):
        stored_layers(tiny, "known", "all", TEXTS, tmp_path)


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_interrupted_write_leaves_no_layers_file(tmp_path, tiny, monkeypatch, error):
    encode = ComputedLayers.encode

    def interrupted(self, texts):
        encode(self, texts)
        # The file does not have its final name yet, in case the process is killed.
        assert [name.rsplit(".", 1)[1] for name in names(tmp_path)] == ["partial"]
        raise error

    monkeypatch.setattr(ComputedLayers, "encode", interrupted)
    with pytest.raises(OutputError if error is OSError else error):
        stored_layers(tiny, "known", "all", TEXTS, tmp_path)
    assert names(tmp_path) == []
    monkeypatch.undo()
    stored_layers(tiny, "known", "all", TEXTS, tmp_path)
    assert [name.rsplit(".", 1)[1] for name in names(tmp_path)] == ["npy"]


def test_chosen_layers_rejects_layer_number_out_of_range():
    elmo = ELMo(random_model())
    assert chosen_layers(elmo, "all") == [0, 1, 2]
    for layers in ("3", "0,3"):
        with pytest.raises(
            ConfigError, match=f"layers is {layers}, but the model only has layers 0 to 2"
        ):
            chosen_layers(elmo, layers)


def test_blank_layers_have_the_shape_of_computed_layers(tiny):
    for layers in ("all", "1"):
        blank, computed = (
            [vectors.shape for vectors in source(tiny, layers)(TEXTS)]
            for source in (BlankLayers, ComputedLayers)
        )
        assert blank == computed
