"""Tests that the example program and the id tables in docs/export.md match the package."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from export_models import CONFIGS, WORDS, model_of

from elmo.config import ConvertConfig
from elmo.formats.info_and_convert import convert

PAGE = Path(__file__).parents[2] / "docs" / "export.md"
SENTENCES = [["He", "sat", "on", "the", "river", "bank", "."], ["She", "robbed", "a", "bank", "."]]


def test_documented_program_without_torch_returns_same_vectors_as_encode(tmp_path):
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    elmo = model_of()
    elmo.save_pretrained(tmp_path / "model")
    convert(ConvertConfig(str(tmp_path / "model"), str(tmp_path / "for-others"), to="onnx"))
    before = "import sys\nsys.modules['torch'] = sys.modules['elmo'] = None\n"
    after = "\nnp.savez('vectors.npz', *vectors)"
    command = [sys.executable, "-W", "error", "-c", before + code + after]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "(7, 16)\n"
    vectors = np.load(tmp_path / "vectors.npz")
    for number, expected in enumerate(elmo.encode(SENTENCES)):
        np.testing.assert_allclose(vectors[f"arr_{number}"], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "boundaries"),
    [("code points", ("<bow>", "<eow>")), ("ELMoForManyLangs' characters", ("<eow>", "<bow>"))],
)
def test_documented_ids_of_dictionary_schemes_match_the_package(name, boundaries):
    elmo = model_of(CONFIGS[name])
    raw = elmo.to_pretrained().characters

    def row(symbols):
        ids = [
            raw[boundaries[0]],
            *(raw.get(s, raw["<oov>"]) for s in symbols[:7]),
            raw[boundaries[1]],
        ]
        return np.array(ids + [raw["<pad>"]] * (9 - len(ids))) + 1

    words = ["bank", "qqbankers", ""]
    expected = np.stack([row(["<bos>"]), *map(row, words), row(["<eos>"])])
    assert (elmo.character_ids([words])[0].numpy() == expected).all()


@pytest.mark.parametrize(
    ("name", "unknown"), [("words joined to characters", 3), ("cached words", 0)]
)
def test_documented_word_id_column_matches_the_package(name, unknown):
    elmo = model_of(CONFIGS[name])
    ids = elmo.character_ids([["bank", "river"]])[0, :, -1].tolist()
    assert ids == [WORDS["<S>"] + 1, WORDS["bank"] + 1, unknown, WORDS["</S>"] + 1]
