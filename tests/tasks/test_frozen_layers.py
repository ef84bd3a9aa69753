"""Layers of a frozen ELMo: the same on the disk as computed, found again, never half-written."""

import shutil

import numpy as np
import pytest
from conftest import random_model
from small_tasks import LABELED

from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError, FormatError, OutputError
from elmo.tasks.frozen_layers import BlankLayers, ComputedLayers, chosen_layers, stored_layers

TEXTS = [example.words for example in LABELED]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def no_encoding(monkeypatch):
    """From here on nothing is computed."""

    def stop():
        def refuse(*arguments):
            raise AssertionError

        monkeypatch.setattr(ComputedLayers, "encode", refuse)

    return stop


@pytest.mark.parametrize("layers", ["all", "top", "1", "2,0"])
def test_stored_layers_are_those_computed(tmp_path, tiny, layers):
    texts = [*TEXTS, ("한국", "😀"), TEXTS[0]]
    stored = stored_layers(tiny, "known", layers, texts, tmp_path / "some" / "where")
    numbers = {"all": [0, 1, 2], "top": [2], "1": [1], "2,0": [0, 2]}[layers]
    for text, one, other in zip(
        texts, stored(texts), ComputedLayers(tiny, layers)(texts), strict=True
    ):
        assert one.dtype == other.dtype == np.float16
        assert one.shape == (len(text), len(numbers), tiny.config.dim)
        np.testing.assert_array_equal(one, other)
    whole = tiny.encode([list(texts[0])], layers="all")[0][numbers].swapaxes(0, 1)
    np.testing.assert_allclose(stored(texts[:1])[0], whole, rtol=1e-3, atol=1e-4)


def test_what_is_there_is_not_computed_again(tmp_path, tiny, no_encoding):
    first = stored_layers(tiny, "known", "all", TEXTS, tmp_path)
    before = first.path.stat()
    no_encoding()
    again = stored_layers(tiny, "known", "all", [*TEXTS[::-1], TEXTS[3]], tmp_path)
    assert again.path == first.path
    assert again.path.stat().st_mtime_ns == before.st_mtime_ns
    np.testing.assert_array_equal(again(TEXTS[:1])[0], first(TEXTS[:1])[0])
    assert names(tmp_path) == [first.path.name]


@pytest.mark.parametrize(
    ("known", "layers", "texts"),
    [
        ("other", "all", TEXTS),
        ("known", "top", TEXTS),
        ("known", "all", TEXTS[1:]),
        ("known", "all", [*TEXTS[:-1], (*TEXTS[-1], "more")]),
    ],
)
def test_anything_else_is_another_file(tmp_path, tiny, known, layers, texts):
    first = stored_layers(tiny, "known", "all", TEXTS, tmp_path)
    second = stored_layers(tiny, known, layers, texts, tmp_path)
    assert first.path != second.path
    assert len(names(tmp_path)) == 2


def test_the_same_letters_cut_in_another_way_are_another_file(tmp_path, tiny):
    cuts = [[("a\tb",)], [("a", "b")], [("a\nb",)], [("a",), ("b",)], [("a b",)], [("a', 'b",)]]
    paths = {stored_layers(tiny, "known", "top", texts, tmp_path).path for texts in cuts}
    assert len(paths) == len(cuts)


def test_top_by_name_and_by_number_share_a_file(tmp_path, tiny):
    paths = {stored_layers(tiny, "known", n, TEXTS, tmp_path).path for n in ("top", "2")}
    assert len(paths) == 1


def test_a_disk_that_is_too_full(tmp_path, tiny, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 9, 1))
    with pytest.raises(OutputError, match=r"words take .* GB left: name another --cache"):
        stored_layers(tiny, "known", "all", TEXTS, tmp_path)
    assert names(tmp_path) == []


def test_a_cache_that_is_a_file(tmp_path, tiny):
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"cannot make the folder .*file"):
        stored_layers(tiny, "known", "all", TEXTS, tmp_path / "file")


@pytest.mark.parametrize("size", [0, 5, 1000])
def test_a_damaged_file(tmp_path, tiny, size):
    path = stored_layers(tiny, "known", "all", TEXTS, tmp_path).path
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(FormatError, match=rf"{path.name} is no whole file of layers: .*remove it"):
        stored_layers(tiny, "known", "all", TEXTS, tmp_path)


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_killed_while_writing(tmp_path, tiny, monkeypatch, error):
    encode = ComputedLayers.encode

    def dying(self, texts):
        encode(self, texts)
        # What is being written has not its final name, in case it is killed for good.
        assert [name.rsplit(".", 1)[1] for name in names(tmp_path)] == ["partial"]
        raise error

    monkeypatch.setattr(ComputedLayers, "encode", dying)
    with pytest.raises(OutputError if error is OSError else error):
        stored_layers(tiny, "known", "all", TEXTS, tmp_path)
    assert names(tmp_path) == []
    monkeypatch.undo()
    stored_layers(tiny, "known", "all", TEXTS, tmp_path)
    assert [name.rsplit(".", 1)[1] for name in names(tmp_path)] == ["npy"]


def test_a_layer_that_is_not_there():
    elmo = ELMo(random_model())
    assert chosen_layers(elmo, "all") == [0, 1, 2]
    for layers in ("3", "0,3"):
        with pytest.raises(ConfigError, match=f"layers is {layers}, but the model has 0 to 2"):
            chosen_layers(elmo, layers)


def test_blank_layers_have_the_same_shape(tiny):
    for layers in ("all", "1"):
        blank, computed = (
            [one.shape for one in source(tiny, layers)(TEXTS)]
            for source in (BlankLayers, ComputedLayers)
        )
        assert blank == computed
