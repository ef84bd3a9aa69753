"""Tests of the probe script on data sets of a few lines."""

import importlib.util
import sys
from pathlib import Path

import pytest

from elmo.errors import ConfigError, FormatError

SCRIPT = Path(__file__).parents[2] / "runs" / "probe.py"
ROW = "{}\t{}\t_\t{}\t{}\t_\t0\t_\t_\t_\n"
TAGGED = ROW.format(1, "a", "DET", "DT") + ROW.format(2, "bank", "NOUN", "NN")
FILES = {
    "ud-ewt/train.conllu": TAGGED,
    "ud-ewt/test.conllu": TAGGED,
    "wsd/wordnet-3.0/index.sense": "bank%1:14:00:: 1 2 0\nbank%1:17:01:: 2 1 0\n",
    "wsd/semcor3.0/brown1/tagfiles/br-a01": "<s snum=1>\n<wf lemma=bank wnsn=2 lexsn=1:14:00::>"
    "bank</wf>\n</s>\n</contextfile>\n",
    "wsd/Evaluation_Datasets/ALL/ALL.data.xml": '<x><sentence><instance id="a" lemma="bank" '
    'pos="NOUN">bank</instance></sentence></x>',
    "wsd/Evaluation_Datasets/ALL/ALL.gold.key.txt": "a bank%1:14:00::\n",
    "lm1b/heldout-00010-00011.txt": "".join(f"bank number {number}\n" for number in range(9)),
}


@pytest.fixture(scope="module")
def probe_module():
    if not SCRIPT.is_file():
        pytest.skip("requires the runs folder of a checkout")
    spec = importlib.util.spec_from_file_location("probe", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["probe"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["probe"]


@pytest.fixture
def data(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "data"


def test_probe_script_prints_table_and_reports_missing_data(
    probe_module, data, tiny, tmp_path, monkeypatch, capsys
):
    tiny.save_pretrained(tmp_path / "model")
    arguments = ["probe.py", str(tmp_path / "model"), "--data", str(data), "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", arguments)
    probe_module.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        "| metric | layer | model | random weights |",
        "| --- | --- | ---: | ---: |",
    ]
    # SemCor has only one of the two senses, and the first sense is the other.
    assert "| word senses, F1 | WordNet's first sense | 0.0% | 0.0% |" in lines
    assert "| word senses, F1 | 2 | 100.0% | 100.0% |" in lines
    assert "| self-similarity | 0 | 1.000 | 1.000 |" in lines
    assert sum(line.startswith("| parts of speech") for line in lines) == 12
    assert "Geometry: cosines" in lines[-1]
    assert "of 2 words with 18 occurrences in 9 sentences" in lines[-1]

    monkeypatch.setattr(sys, "argv", [*arguments, "--no-random", "--probes", "wsd", "--limit", "1"])
    probe_module.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "| metric | layer | model |"
    assert len(lines) == 9
    assert lines[-1].startswith("- Trial run: only the first 1 sentences of each part")
    assert lines[-1].endswith("were read.")

    (data / "wsd/wordnet-3.0/index.sense").unlink()
    with pytest.raises(SystemExit, match=r"probe: The probe wsd requires .*Unpack wsd.tar.xz in"):
        probe_module.main()


def test_probe_rejects_unknown_probe_invalid_limit_and_missing_data(probe_module, data, tiny):
    with pytest.raises(ConfigError, match=r"Unknown probe 'pas'. Expected one of: pos, wsd, geo"):
        probe_module.probe({"model": tiny}, data, probes=["pas"])
    with pytest.raises(ConfigError, match=r"limit must be at least 1 \(got 0\)"):
        probe_module.probe({"model": tiny}, data, limit=0)
    with pytest.raises(FormatError, match=r"Unpack ud-ewt.tar.xz in"):
        probe_module.probe({"model": tiny}, data / "lm1b")


def test_geometry_probe_accepts_a_custom_text(probe_module, data, tiny, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("".join(f"a b c {number}\n" for number in range(6)), encoding="utf-8")
    table = probe_module.probe(
        {"model": tiny}, tmp_path, probes=["geometry"], text=text, device="cpu"
    )
    assert "of 3 words with 18 occurrences in 6 sentences" in str(table)


def test_random_twin_has_same_config_and_weights_that_depend_on_seed(probe_module, tiny):
    twin = probe_module.random_twin(tiny)
    assert twin.config == tiny.config
    assert (twin.encode("a bank") != tiny.encode("a bank")).any()
    assert (twin.encode("a bank") == probe_module.random_twin(tiny).encode("a bank")).all()
    assert (twin.encode("a bank") != probe_module.random_twin(tiny, seed=1).encode("a bank")).any()
