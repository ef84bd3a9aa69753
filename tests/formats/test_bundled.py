"""Bundled names, in a folder made for the test; and the models that do come with the package."""

import numpy as np
import pytest
from conftest import random_model
from sources import refused

from elmo.config import EvaluateConfig
from elmo.demo.sense_neighbors import occurrences
from elmo.embed.embedder import ELMo
from elmo.errors import FormatError
from elmo.evaluate.perplexity import evaluate
from elmo.formats import bundled, hub, model_folder
from elmo.formats.load import read
from elmo.formats.training_record import HELDOUT_PERPLEXITY
from elmo.kernels.native_ffi import can_compute

TOKENIZERS = {"small-en": "english", "small-ko": "korean"}
MOST_BYTES, MOST_WEIGHTS, LEAST_WORDS = 32_000_000, 13_600_000, 30_000
LEAST_COSINE = {"bfloat16": 0.999, "int8": 0.99}
# Morphemes, as the tokeniser splits them.
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
        raise FormatError(f"the hub was asked for {name}")

    monkeypatch.setattr(hub, "download", download)


@pytest.fixture(scope="module")
def loaded():
    return {name: ELMo.from_pretrained(bundled.FOLDER / name) for name in bundled.NAMES}


@pytest.fixture
def small(models):
    model_folder.write(random_model(notes=("the bundled one",)), models / "small-en", "int8")
    return models / "small-en"


def test_found_by_name(models, small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert bundled.installed() == {"small-en": small}
    assert read("small-en").notes == ("the bundled one",)
    assert ELMo.from_pretrained("small-en").encode(["a b"])[0].shape == (2, 16)


def test_a_path_comes_first(small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model_folder.write(random_model(notes=("mine",)), tmp_path / "small-en")
    assert read("small-en").notes == ("mine",)


@pytest.mark.parametrize("name", ["owner/name", "owner/small-en", "small-en/small-en"])
def test_a_hub_id_comes_last(models, small, name):
    refused(lambda: read(name), f"the hub was asked for {name}")


@pytest.mark.parametrize("name", bundled.NAMES)
def test_a_name_that_is_not_in_this_installation(models, name):
    refused(
        lambda: read(name), name, "is not in this installation", "bundled: none", "name another"
    )
    for other in ("other", "small"):
        model_folder.write(random_model(), models / other)
    refused(lambda: read(name), name, "is not in this installation", "bundled: other, small)")


def test_an_unknown_name_lists_the_bundled_ones(small):
    refused(lambda: read("small-fr"), "small-fr", "no model of that name", "bundled: small-en)")


def test_no_folder_at_all(models):
    models.rmdir()
    assert bundled.installed() == {}
    refused(lambda: read("small-en"), "bundled: none")


def test_only_folders_of_models_count(models, small):
    (models / "README.md").write_text("models")
    (models / "notes").mkdir()
    assert list(bundled.installed()) == ["small-en"]
    for name in ("notes", "README.md", "../bundled", ".", "*", "small-*", "SMALL-EN"):
        refused(lambda name=name: read(f"{name}"), name)


def test_the_folder_is_inside_the_package():
    assert bundled.FOLDER.parent.name == "elmo"
    assert (bundled.FOLDER.parent / "py.typed").is_file()


class TestTheRealOnes:
    def test_all_that_are_promised_are_there(self):
        assert list(bundled.installed()) == sorted(bundled.NAMES) == sorted(TOKENIZERS)
        expected = {"config.json", "model.safetensors", "vocab.txt", "README.md"}
        for folder in bundled.installed().values():
            assert {path.name for path in folder.iterdir()} == expected

    def test_all_files_together_are_small(self):
        files = [path for path in bundled.FOLDER.rglob("*") if path.is_file()]
        assert sum(path.stat().st_size for path in files) <= MOST_BYTES

    @pytest.mark.parametrize("name", bundled.NAMES)
    def test_what_is_in_them(self, name, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        model = read(name)
        sizes = {key: tensor.numel() for key, tensor in model.weights.items()}
        besides = sum(size for key, size in sizes.items() if not key.startswith("softmax."))
        assert besides <= MOST_WEIGHTS
        assert model.config.n_softmax_words >= LEAST_WORDS
        assert len(model.vocabulary) == model.config.n_softmax_words
        assert model.config.text.tokenizer == TOKENIZERS[name]
        assert model.training[HELDOUT_PERPLEXITY]

    def test_raw_text_and_words(self, loaded):
        for elmo, text in (
            (loaded["small-en"], "She didn't rob a bank."),
            (loaded["small-ko"], "나는 은행에 갔다."),
        ):
            words = elmo.tokenizer.words(text)
            raw, split = elmo.encode([text, words])
            assert raw.shape == (len(words), elmo.config.dim)
            assert np.array_equal(raw, split)

    def test_perplexity_from_the_name_alone(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        lines = ["She opened an account at the bank.", "He was born in 1911.", "It rained all day."]
        (tmp_path / "text.txt").write_text("".join(f"{line}\n" for line in lines))
        found = evaluate(EvaluateConfig(("text.txt",), "small-en", raw=True)).perplexity
        assert found.n_predictions == 19 + 3
        for perplexity in (found.forward, found.backward):
            assert 1 < perplexity < 1000  # 30,000 for one that has learned nothing

    @pytest.mark.parametrize("dtype", LEAST_COSINE)
    @pytest.mark.parametrize("name", bundled.NAMES)
    def test_narrow_arithmetic_is_true_to_float32(self, loaded, name, dtype):
        """Every word in every layer, of thirty English and ten Korean sentences."""
        if not can_compute(dtype):
            pytest.skip(f"no kernel computes in {dtype} here")
        elmo = loaded[name]
        if name == "small-en":
            sentences = [elmo.tokenizer.words(one.sentence) for one in occurrences()[::10]]
        else:
            sentences = [line.split() for line in KOREAN.strip().splitlines()]
        expected = elmo.encode(sentences, layers="all", precision="float32")
        for ours, true in zip(
            elmo.encode(sentences, layers="all", precision=dtype), expected, strict=True
        ):
            lengths = np.linalg.norm(ours, axis=-1) * np.linalg.norm(true, axis=-1)
            assert ((ours * true).sum(axis=-1) / lengths).min() >= LEAST_COSINE[dtype]
            assert (ours != true).any()
