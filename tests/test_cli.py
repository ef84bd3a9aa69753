"""The command line: exit codes, messages, help, and options made from dataclasses."""

import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import types

import numpy as np
import pytest
import typer
from conftest import random_model
from typer.testing import CliRunner

from elmo import cli
from elmo.config import (
    ConvertConfig,
    EmbedConfig,
    EvaluateConfig,
    FinetuneConfig,
    LSTMConfig,
    PrepareConfig,
    PretrainConfig,
    VocabConfig,
)
from elmo.config.serialization import leaves, load_config, presets
from elmo.embed.embedder import ELMo

RUNNER = CliRunner()


@pytest.fixture
def model(tmp_path):
    ELMo(random_model()).save_pretrained(tmp_path / "model")
    return str(tmp_path / "model")


def elmo(*words):
    return RUNNER.invoke(cli.application(), list(words))


def test_help_of_every_verb_has_examples_and_every_field():
    assert elmo("--help").exit_code == 0
    for word, verb in cli.COMMANDS.items():
        shown = elmo(*word.split(), "--help")
        assert shown.exit_code == 0
        assert f"elmo {word}" in shown.output
        for leaf in leaves(verb.config):
            assert (leaf.name if leaf.name in verb.positional else leaf.flag) in shown.output


@pytest.mark.parametrize("word", list(cli.COMMANDS))
def test_every_flag_is_one_field(word):
    names = [leaf.name for leaf in leaves(cli.COMMANDS[word].config)]
    assert len(set(names)) == len(names)
    assert not {"config", "debug", "help"} & set(names)


def test_help_shows_sections_choices_and_defaults():
    shown = elmo("pretrain", "--help").output
    for text in (
        "The LSTM stacks (lstm):",
        "--order <shuffled|text>",
        "--cell-clip <float|null>",
        "--residual / --no-residual",
        "--config <preset|file>",
        "[default: 4096]",
        "[may be",
    ):
        assert text in shown
    assert "(corpus.reading)" not in elmo("prepare", "--help").output
    assert "wikitext-2" not in elmo("finetune", "--help").output


def test_version():
    assert elmo("--version").output.startswith("elmo-torch ")


def test_embed_info_convert(tmp_path, model):
    (tmp_path / "in.txt").write_text("one two\n")
    done = elmo("embed", str(tmp_path / "in.txt"), str(tmp_path / "o.h5"), "--model", model)
    assert done.exit_code == 0
    assert "1 sentence, 2 words" in done.stdout
    told = elmo("info", model)
    assert "vector dimension  16" in told.stdout
    parsed = json.loads(elmo("info", model, "--json").stdout)
    assert parsed["config"]["lstm"]["cell_dim"] == 16
    done = elmo("convert", model, str(tmp_path / "old"), "--to", "allennlp")
    assert done.exit_code == 0
    assert (tmp_path / "old" / "weights.hdf5").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["embed"],
        ["embed", "a", "b.h5", "--state", "keep"],
        ["embed", "a", "b.h5", "--batch-size", "many"],
        ["embed", "a", "b.h5", "--no-such-flag"],
        ["nonsense"],
        ["convert", "a", "b", "--to", "pickle"],
        ["convert", "a", "b", "--dtype", "int4"],
    ],
)
def test_wrong_usage_exits_with_2(words):
    assert elmo(*words).exit_code == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["info", "no-such-model"], "No file or folder no-such-model exists"),
        (["embed", "missing.txt", "b.h5", "--model", "m"], "cannot read missing.txt"),
    ],
)
def test_failures_are_one_line_and_exit_with_1(words, message):
    done = elmo(*words)
    assert done.exit_code == 1
    assert done.stderr.startswith("elmo: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["embed", "IN", "OUT", "--model", "MODEL", "--layers", "9"], "number from 0 to 2"),
        (["embed", "IN", "OUT", "--model", "MODEL", "--batch-size", "0"], "at least 1"),
        (["embed", "IN", "x.csv", "--model", "MODEL"], "no known format"),
        (["convert", "MODEL", "x", "--tokenizer", "klingon"], "klingon"),
    ],
)
def test_wrong_values_exit_with_2(tmp_path, model, words, message):
    (tmp_path / "in.txt").write_text("a b\n")
    places = {"IN": tmp_path / "in.txt", "OUT": tmp_path / "o.h5", "MODEL": model}
    done = elmo(*(str(places.get(word, word)) for word in words))
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_bundled_model_is_a_model_to_every_verb(tmp_path, models, model):
    (tmp_path / "in.txt").write_text("a b\n")
    embedding = ["embed", str(tmp_path / "in.txt"), str(tmp_path / "out.npz")]
    verbs = (embedding, ["info", "small-en"], ["convert", "small-en", str(tmp_path / "o")])
    for words in verbs:
        done = elmo(*words)
        assert done.exit_code == 1
        assert done.stderr.startswith(
            "elmo: small-en is the name of a bundled model, but it is not"
        )
        assert done.stderr.count("\n") == 1
    shutil.copytree(model, models / "small-en")
    for words in verbs:
        assert elmo(*words).exit_code == 0
    with np.load(tmp_path / "out.npz") as vectors:
        expected = ELMo.from_pretrained(model).encode([["a", "b"]])[0]
        np.testing.assert_array_equal(vectors["0"], expected)


def test_debug_shows_a_traceback():
    done = elmo("info", "no-such-model", "--debug")
    assert done.exit_code == 1
    assert "Traceback" in done.stderr


def test_unforeseen_errors_are_one_line_too(monkeypatch):
    monkeypatch.setattr("elmo.formats.info_and_convert.read", lambda *_, **__: 1 / 0)
    done = elmo("info", "x")
    assert done.exit_code == 1
    assert done.stderr == "elmo: ZeroDivisionError: division by zero (--debug shows where)\n"


def test_interrupt_exits_with_130(monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("elmo.formats.info_and_convert.read", interrupt)
    assert elmo("info", "x").exit_code == cli.INTERRUPTED


@pytest.fixture
def embedding(tmp_path, model):
    """A run in the middle of its work, which would go on for as long as lines come."""
    out = tmp_path / "out.h5"
    carry = ["--state", "carry", "--batch-size", "2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "elmo", "embed", "-", str(out), "--model", model, *carry],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell that runs the tests in the background has Ctrl-C ignored, children included.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    process.stdin.write("a line of words\n" * 5000)
    process.stdin.flush()
    deadline = time.monotonic() + 120
    while not any(tmp_path.glob(".out.h5*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(2)
    yield process
    process.kill()
    process.communicate()


@pytest.mark.parametrize(
    ("number", "code", "message"),
    [
        (signal.SIGINT, 130, "elmo: interrupted; nothing was left half-written\n"),
        (signal.SIGTERM, 143, ""),
    ],
)
def test_a_signal_while_embedding_leaves_nothing(tmp_path, embedding, number, code, message):
    embedding.send_signal(number)
    _, errors = embedding.communicate(timeout=120)
    assert embedding.returncode == code, errors
    assert errors == message
    assert sorted(os.listdir(tmp_path)) == ["model"]


def test_a_second_sigterm_does_not_stop_the_clearing_up(monkeypatch):
    calls = []
    monkeypatch.setattr(signal, "signal", lambda *arguments: calls.append(arguments))
    with pytest.raises(SystemExit) as stopped:
        cli._terminate(signal.SIGTERM, None)
    assert stopped.value.code == 143
    assert calls == [(signal.SIGTERM, signal.SIG_IGN)]


def test_closed_standard_input_is_one_line(tmp_path):
    command = f"exec {sys.executable} -m elmo embed - {tmp_path / 'out.h5'} --model m <&-"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "elmo: cannot read standard input: it is closed\n"
    assert os.listdir(tmp_path) == []


@pytest.fixture
def seen(monkeypatch):
    """Configs that verbs were called with, in place of the verbs."""
    configs = []
    module = types.SimpleNamespace()
    for verb in cli.COMMANDS.values():
        setattr(module, verb.home.split(":")[1], configs.append)
    monkeypatch.setattr(cli, "import_module", lambda _: module)
    return configs


@pytest.mark.parametrize(
    ("words", "config"),
    [
        ("embed a b.h5", EmbedConfig("a", "b.h5")),
        ("embed a b.h5 --raw", EmbedConfig("a", "b.h5", raw=True)),
        ("embed a b.h5", EmbedConfig("a", "b.h5", model="small-en")),
        ("convert a b --dtype int8", ConvertConfig("a", "b", dtype="int8")),
        ("vocab a b --out v", VocabConfig(("a", "b"), "v")),
        ("prepare a --valid v --valid w --out o", PrepareConfig(("a",), "o", valid=("v", "w"))),
        ("evaluate --model m a b", EvaluateConfig(("a", "b"), "m")),
        ("pretrain --data a --data b --out o", PretrainConfig(("a", "b"), "o")),
        ("finetune --model m --data a --out o", FinetuneConfig("m", ("a",), "o")),
        (
            "pretrain --data a --out o --no-residual --cell-clip null --cell-dim 8",
            PretrainConfig(
                ("a",), "o", lstm=LSTMConfig(cell_dim=8, cell_clip=None, residual=False)
            ),
        ),
    ],
)
def test_flags_become_fields(seen, words, config):
    done = elmo(*words.split())
    assert done.exit_code == 0, done.stderr
    assert seen == [config]


def test_flags_win_over_the_file(seen, tmp_path):
    given = {"data": ("a",), "out": "o"}
    assert elmo("pretrain", "--config", "tiny", "--data", "a", "--out", "o").exit_code == 0
    tiny = load_config(PretrainConfig, "tiny", given, presets())
    file = tmp_path / "x.yaml"
    file.write_text("data: [a]\nout: there\nregular: {locked: true}\nstream: {unroll: 5}\n")
    words = ["--config", str(file), "--out", "here", "--no-locked", "--filters", "[[1,2]]"]
    assert elmo("pretrain", *words).exit_code == 0
    assert seen[0] == tiny
    assert (seen[1].out, seen[1].data, seen[1].stream.unroll) == ("here", ("a",), 5)
    assert not seen[1].regularization.locked
    assert seen[1].input.filters == ((1, 2),)


@pytest.mark.usefixtures("seen")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("pretrain --data a", "--out is not given"),
        ("pretrain --config tiny --out o", "--data is not given, nor does tiny set data"),
        ("pretrain --config huge", "presets: medium, original, ptb, small, tiny, wikitext-2"),
        ("finetune --data a --out o", "--model is not given"),
        ("finetune --config tiny", "there is no file tiny"),
        ("evaluate a", "--model is not given"),
        ("pretrain --data a --out o --reset 3", "reset is 3.0"),
        ("pretrain --data a --out o --unroll x", "--unroll: found str 'x', expected int"),
    ],
)
def test_wrong_settings_exit_with_2(words, message):
    done = elmo(*words.split())
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_wrong_flags_are_refused_before_torch_is_loaded():
    code = (
        "import sys\nfrom elmo.cli import main\nsys.argv = ['elmo', 'pretrain']\n"
        "try: main()\nexcept SystemExit: assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_main_runs_the_application(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["elmo", "--version"])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(gc, "disable", lambda: None)
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 0
    assert isinstance(cli.application(), typer.Typer)


def test_garbage_is_collected_while_a_verb_runs_but_not_among_imports():
    code = """
import gc, sys, types
from elmo import cli

def import_module(name):
    print(gc.isenabled())
    return types.SimpleNamespace(info=info)

def info(config):
    return f"{gc.isenabled()} {gc.get_freeze_count() > len(gc.get_objects())}"

cli.import_module = import_module
sys.argv = ["elmo", "info", "x"]
cli.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\nTrue True\n"


@pytest.mark.usefixtures("seen")
def test_a_command_inside_another_program_leaves_its_garbage_alone():
    before = gc.get_freeze_count()
    assert elmo("info", "x").exit_code == 0
    assert (gc.isenabled(), gc.get_freeze_count()) == (True, before)


def test_kernels_are_compiled_aside_where_they_will_be_wanted(tmp_path, model, monkeypatch):
    asked = []
    monkeypatch.setattr(cli, "library", lambda: asked.append(threading.current_thread()))
    assert elmo("info", model).exit_code == 0
    assert asked == []
    (tmp_path / "one.txt").write_text("a few words\n")
    words = (str(tmp_path / "one.txt"), str(tmp_path / "one.parquet"), "--model", model)
    assert elmo("embed", *words).exit_code == 0
    (thread,) = asked
    thread.join()
    assert thread is not threading.current_thread()


def test_one_file_is_embedded_without_what_only_others_need():
    code = (
        "import sys\nimport elmo.embed.embed_file\n"
        "assert not {'h5py', 'elmo.embed.sharded_job'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_flags_are_made_for_the_command_that_is_named_alone(monkeypatch):
    made = []
    monkeypatch.setattr(cli, "_command", lambda verb: made.append(verb.home) or (lambda: None))
    for typed, homes in (
        (["embed", "task", "fit"], ["elmo.embed.embed_file:embed"]),
        (["--", "task", "fit", "x"], ["elmo.tasks.fit:fit"]),
        (["task"], []),
        (["--help"], []),
        ([], []),
    ):
        made.clear()
        cli.application(typed)
        assert made == homes
    cli.application()
    assert len(made) == len(cli.COMMANDS)
