"""Tests of the location of the cache folder."""

from pathlib import Path

from elmo.cache_folder import cache_folder


def test_cache_folder_follows_elmo_home_then_xdg_cache_home_then_the_home_folder(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    monkeypatch.setenv("ELMO_HOME", "~/elmo")
    assert cache_folder() == tmp_path / "elmo"
    monkeypatch.delenv("ELMO_HOME")
    assert cache_folder() == Path("/xdg/elmo-torch")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == tmp_path / ".cache" / "elmo-torch"
