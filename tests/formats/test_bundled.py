"""Tests for the lookup of bundled models by name, and for the installed models themselves."""

import numpy as np
import pytest
from conftest import random_model
from sources import assert_error

from elmo.config import EvaluateConfig
from elmo.demo.sense_neighbors import load_occurrences
from elmo.embed.embedder import ELMo
from elmo.errors import FormatError
from elmo.evaluate.evaluate_model import evaluate
from elmo.formats import bundled, hub, model_folder
from elmo.formats.load import read
from elmo.formats.training_record import HELDOUT_PERPLEXITY
from elmo.kernels.native_ffi import can_compute

TOKENIZERS = {"small-en": "english", "small-ko": "korean"}
MAX_BYTES, MAX_WEIGHTS, MIN_WORDS = 32_000_000, 13_600_000, 30_000
MIN_COSINE = {"bfloat16": 0.999, "int8": 0.99}
# Split into morphemes, like the output of the tokenizer.
KOREAN = """
나 는 어제 은행 에 가서 돈 을 찾 았 다 .
배 를 먹 고 배 를 타 고 강 을 건넜 다 .
눈 이 내려서 길 이 하얗 게 변했 다 .
그 는 눈 을 감 고 음악 을 들 었 다 .
정부 는 새로운 경제 정책 을 발표 했 다 .
1950 년 6 월 25 일 에 한국 전쟁 이 일어났 다 .
서울 특별시 는 대한민국 의 수도 이 며 최대 도시 이 다 .
이 영화 는 정말 재미있 고 감동 적 이 에요 !
컴퓨터 가 고장 나서 수리 점 에 맡겼 습니다 .
내일 비 가 오 면 경기 는 취소 될 것 이 다 .
"""


@pytest.fixture(autouse=True)
def no_hub(monkeypatch):
    def download(name):
        raise FormatError(f"hub download of {name}")

    monkeypatch.setattr(hub, "download", download)


@pytest.fixture(scope="module")
def loaded():
    return {name: ELMo.from_pretrained(bundled.FOLDER / name) for name in bundled.NAMES}


@pytest.fixture
def small(models):
    model_folder.write(random_model(notes=("the bundled model",)), models / "small-en", "int8")
    return models / "small-en"


def test_read_finds_bundled_model_by_name(models, small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert bundled.installed() == {"small-en": small}
    assert read("small-en").notes == ("the bundled model",)
    assert ELMo.from_pretrained("small-en").encode(["a b"])[0].shape == (2, 16)


def test_path_takes_precedence_over_bundled_name(small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model_folder.write(random_model(notes=("mine",)), tmp_path / "small-en")
    assert read("small-en").notes == ("mine",)


@pytest.mark.parametrize("name", ["owner/name", "owner/small-en", "small-en/small-en"])
def test_name_with_slash_is_read_as_hub_id(models, small, name):
    assert_error(lambda: read(name), f"hub download of {name}")


@pytest.mark.parametrize("name", bundled.NAMES)
def test_read_rejects_bundled_model_that_is_not_installed(models, name):
    assert_error(
        lambda: read(name), name, "missing from this installation", "installed: none", "use another"
    )
    for other in ("other", "small"):
        model_folder.write(random_model(), models / other)
    assert_error(
        lambda: read(name), name, "missing from this installation", "installed: other, small)"
    )


def test_error_for_unknown_name_lists_bundled_models(small):
    assert_error(
        lambda: read("small-fr"),
        "small-fr",
        "no model of that name is installed",
        "installed: small-en)",
    )


def test_installed_is_empty_without_models_folder(models):
    models.rmdir()
    assert bundled.installed() == {}
    assert_error(lambda: read("small-en"), "installed: none")


def test_unrelated_files_are_not_listed_as_bundled_models(models, small):
    (models / "README.md").write_text("models")
    (models / "notes").mkdir()
    assert list(bundled.installed()) == ["small-en"]
    for name in ("notes", "README.md", "../bundled", ".", "*", "small-*", "SMALL-EN"):
        assert_error(lambda name=name: read(f"{name}"), name)


def test_bundled_models_folder_is_inside_the_package():
    assert bundled.FOLDER.parent.name == "elmo"
    assert (bundled.FOLDER.parent / "py.typed").is_file()


class TestInstalledModels:
    def test_all_bundled_models_are_installed(self):
        assert list(bundled.installed()) == sorted(bundled.NAMES) == sorted(TOKENIZERS)
        expected = {"config.json", "model.safetensors", "vocab.txt", "README.md"}
        for folder in bundled.installed().values():
            assert {path.name for path in folder.iterdir()} == expected

    def test_total_size_of_bundled_models_is_below_limit(self):
        files = [path for path in bundled.FOLDER.rglob("*") if path.is_file()]
        assert sum(path.stat().st_size for path in files) <= MAX_BYTES

    @pytest.mark.parametrize("name", bundled.NAMES)
    def test_bundled_model_has_expected_size_and_metadata(self, name, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        model = read(name)
        sizes = {key: tensor.numel() for key, tensor in model.weights.items()}
        n_weights = sum(size for key, size in sizes.items() if not key.startswith("softmax."))
        assert n_weights <= MAX_WEIGHTS
        assert model.config.n_softmax_words >= MIN_WORDS
        assert len(model.vocabulary) == model.config.n_softmax_words
        assert model.config.text.tokenizer == TOKENIZERS[name]
        assert model.training[HELDOUT_PERPLEXITY]

    def test_encoding_raw_text_equals_encoding_its_words(self, loaded):
        for elmo, text in (
            (loaded["small-en"], "She didn't rob a bank."),
            (loaded["small-ko"], "나는 은행에 갔다."),
        ):
            words = elmo.tokenizer.words(text)
            raw, split = elmo.encode([text, words])
            assert raw.shape == (len(words), elmo.config.dim)
            assert np.array_equal(raw, split)

    def test_evaluate_accepts_bundled_model_name(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        lines = ["She opened an account at the bank.", "He was born in 1911.", "It rained all day."]
        (tmp_path / "text.txt").write_text("".join(f"{line}\n" for line in lines))
        result = evaluate(EvaluateConfig(("text.txt",), "small-en")).perplexity
        assert result.n_predictions == 19 + 3
        for perplexity in (result.forward, result.backward):
            assert 1 < perplexity < 1000  # an untrained model has 30,000

    @pytest.mark.parametrize("dtype", MIN_COSINE)
    @pytest.mark.parametrize("name", bundled.NAMES)
    def test_low_precision_vectors_are_close_to_float32(self, loaded, name, dtype):
        """Compare every word and layer of thirty English or ten Korean sentences."""
        if not can_compute(dtype):
            pytest.skip(f"no kernel computes in {dtype} here")
        elmo = loaded[name]
        if name == "small-en":
            sentences = [
                elmo.tokenizer.words(occurrence.sentence) for occurrence in load_occurrences()[::10]
            ]
        else:
            sentences = [line.split() for line in KOREAN.strip().splitlines()]
        expected = elmo.encode(sentences, layers="all", precision="float32")
        for actual, exact in zip(
            elmo.encode(sentences, layers="all", precision=dtype), expected, strict=True
        ):
            lengths = np.linalg.norm(actual, axis=-1) * np.linalg.norm(exact, axis=-1)
            assert ((actual * exact).sum(axis=-1) / lengths).min() >= MIN_COSINE[dtype]
            assert (actual != exact).any()
