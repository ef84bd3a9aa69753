"""Tests of the command-line interface: exit codes, messages, help and flags."""

import gc
import json
import os
import re
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
from elmo.cli import build_application, run_command, usage
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


def test_help_of_every_command_shows_examples_and_all_fields():
    assert elmo("--help").exit_code == 0
    for word, command in cli.COMMANDS.items():
        shown = elmo(*word.split(), "--help")
        assert shown.exit_code == 0
        assert f"elmo {word}" in shown.output
        for leaf in leaves(command.config):
            name = leaf.name.upper() if leaf.name in command.positional else leaf.flag
            is_shown = re.search(rf"^  {name}\b", shown.output, re.MULTILINE) is not None
            assert is_shown == (leaf.name not in command.hidden), (word, name)


def test_help_lists_commands_in_order_of_use_on_one_line_each():
    listed = elmo("--help").output.split("Commands:\n")[1].splitlines()
    assert [line.split()[0] for line in listed] == [
        *("demo", "embed", "download", "info", "convert", "serve", "task", "lm", "explore"),
        *("gradients", "find-units"),
        *("vocab", "prepare", "pretrain", "finetune", "evaluate"),
    ]
    assert all(line.endswith(".") and not line.endswith("...") for line in listed)


@pytest.mark.parametrize("word", list(cli.COMMANDS))
def test_every_command_has_json_option_and_calls_its_output_out(word):
    names = {leaf.name for leaf in leaves(cli.COMMANDS[word].config)}
    assert not names & {"json", "as_json", "dtype", "output", "arithmetic"}
    shown = elmo(*word.split(), "--help").output
    assert "--json " in shown
    assert ("--out " in shown) == ("out" in names)


def test_help_of_task_fit_shows_the_defaults_of_the_tasks():
    shown = " ".join(elmo("task", "fit", "--help").output.replace("-\n", "-").split())
    epochs = shown.split("--epochs <float>")[1].split("]")[0]
    assert "default: 20; " in epochs
    assert epochs.endswith("tagging: 10")
    batch_size = shown.split("--batch-size <int>")[1].split("]")[0]
    assert batch_size.endswith("[coreference: 1")


def help_of_task(*words):
    arguments = ["task", "fit", *words, "--help"]
    return RUNNER.invoke(cli.application(arguments), arguments).output


def test_help_of_a_task_shows_only_its_options_and_its_defaults():
    shown = {name: help_of_task(name) for name in ("sick", "tagging", "ynat", "wsd", "litbank")}
    for flag, tasks in {
        "--crf": {"tagging"},
        "--metric": {"sick", "ynat"},
        "--char-ngrams": {"ynat"},
        "--indicator-dim": {"sick", "litbank"},
        "--max-mention-words": {"litbank"},
        "--text-column": {"sick", "tagging", "ynat"},
        "--wordnet": {"wsd"},
        "--epochs": {"sick", "tagging", "ynat", "litbank"},
        "--train": set(shown),
    }.items():
        assert {name for name in shown if f"\n  {flag} " in shown[name]} == tasks, flag
    assert "[default: 12]" in shown["sick"].split("--epochs")[1].split("--", 1)[0]
    assert "--reader <auto|coreference|gap>" in shown["litbank"]


def test_help_of_a_task_has_no_examples_of_other_tasks_and_no_flags_of_other_commands():
    shown = help_of_task("sick")
    assert "elmo task fit" in help_of_task()
    assert "elmo task fit" not in shown.partition("\n")[2]
    assert "--unroll" not in shown


def test_help_of_a_task_follows_from_its_config_file_and_flags(tmp_path):
    file = tmp_path / "x.yaml"
    file.write_text("encoder: {crf: false}\ntask: tagging\n")
    assert "--scheme" in help_of_task("--seeds", "2", "--gamma", str(file))
    assert "--wordnet" in help_of_task(str(file), "--task=word_senses")
    # Nothing names a task.
    assert "--wordnet" in help_of_task("--out", "sick")
    assert "--wordnet" in help_of_task("missing.yaml")


def test_flag_of_another_task_is_an_error_that_names_the_task():
    arguments = ["task", "fit", "sick", "--out", "x", "--no-crf"]
    done = RUNNER.invoke(cli.application(arguments), arguments)
    assert done.exit_code == 2
    assert "--crf does not apply to sentence_pairs." in done.stderr


def test_long_list_of_choices_is_shown_in_the_help_text_of_the_option():
    shown = " ".join(elmo("task", "fit", "--help").output.split())
    assert "--reader <name>" in shown
    assert "One of: auto, conll, conll2005," in shown


@pytest.mark.parametrize("word", list(cli.COMMANDS))
def test_flags_of_a_command_are_unique(word):
    names = [leaf.name for leaf in leaves(cli.COMMANDS[word].config)]
    assert len(set(names)) == len(names)
    assert not {"config", "debug", "help"} & set(names)


def test_help_of_prepare_states_that_a_corpus_is_replaced():
    shown = " ".join(elmo("prepare", "--help").output.split())
    assert "An existing corpus is replaced when the new one is complete" in shown


def test_help_shows_sections_choices_and_defaults():
    shown = elmo("pretrain", "--help").output
    for text in (
        "LSTM stacks (lstm):",
        "--order <shuffled|text>",
        "--cell-clip <float|null>",
        "--residual / --no-residual",
        "--config <preset|file>",
        "[default: 4096]",
        "[repeatable",
    ):
        assert text in shown
    assert "(corpus.reading)" not in elmo("prepare", "--help").output
    assert "wikitext-2" not in elmo("finetune", "--help").output


def test_version_option_prints_the_version():
    assert elmo("--version").output.startswith("elmo-torch ")


def test_embed_info_and_convert_succeed(tmp_path, model):
    (tmp_path / "in.txt").write_text("one two\n")
    done = elmo("embed", str(tmp_path / "in.txt"), str(tmp_path / "o.h5"), "--model", model)
    assert done.exit_code == 0
    assert "1 sentence, 2 words" in done.stdout
    shown = elmo("info", model)
    assert "vector dimension  16" in shown.stdout
    parsed = json.loads(elmo("info", model, "--json").stdout)
    assert parsed["vector_dimension"] == 16
    assert parsed["config"]["lstm"]["cell_dim"] == 16
    done = elmo("convert", model, str(tmp_path / "old"), "--to", "allennlp")
    assert done.exit_code == 0
    assert (tmp_path / "old" / "weights.hdf5").exists()


def test_json_option_prints_the_fields_of_the_result(tmp_path, model):
    (tmp_path / "in.txt").write_text("one two\n")
    out = str(tmp_path / "o.h5")
    done = elmo("embed", str(tmp_path / "in.txt"), "--out", out, "--model", model, "--json")
    assert done.exit_code == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["out"], result["n_sentences"], result["n_words"]) == (out, 1, 2)


@pytest.mark.parametrize(
    "words",
    [
        ["embed"],
        ["embed", "a"],
        ["embed", "a", "b.h5", "--out", "c.h5"],
        ["embed", "a", "b.h5", "--state", "keep"],
        ["embed", "a", "b.h5", "--batch-size", "many"],
        ["embed", "a", "b.h5", "--no-such-flag"],
        ["nonsense"],
        ["convert", "a", "b", "--to", "pickle"],
        ["convert", "a", "b", "--storage", "int4"],
    ],
)
def test_wrong_usage_exits_with_code_2(words):
    assert elmo(*words).exit_code == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["info", "no-such-model"], "No file or folder no-such-model exists"),
        (["embed", "missing.txt", "b.h5", "--model", "m"], "Cannot read missing.txt"),
    ],
)
def test_failure_prints_one_line_and_exits_with_code_1(words, message):
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
        (["embed", "IN", "x.csv", "--model", "MODEL"], "Unknown file extension"),
        (["convert", "MODEL", "x", "--tokenizer", "klingon"], "klingon"),
    ],
)
def test_invalid_argument_value_exits_with_code_2(tmp_path, model, words, message):
    (tmp_path / "in.txt").write_text("a b\n")
    paths = {"IN": tmp_path / "in.txt", "OUT": tmp_path / "o.h5", "MODEL": model}
    done = elmo(*(str(paths.get(word, word)) for word in words))
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_embed_info_and_convert_accept_the_name_of_a_bundled_model(tmp_path, models, model):
    (tmp_path / "in.txt").write_text("a b\n")
    embedding = ["embed", str(tmp_path / "in.txt"), str(tmp_path / "out.npz")]
    commands = (embedding, ["info", "small-en"], ["convert", "small-en", str(tmp_path / "o")])
    for words in commands:
        done = elmo(*words)
        assert done.exit_code == 1
        assert done.stderr.startswith("elmo: small-en is a bundled model that is missing")
        assert done.stderr.count("\n") == 1
    shutil.copytree(model, models / "small-en")
    for words in commands:
        assert elmo(*words).exit_code == 0
    with np.load(tmp_path / "out.npz") as vectors:
        expected = ELMo.from_pretrained(model).encode([["a", "b"]])[0]
        # The command computes each word once, in batches of other sizes.
        np.testing.assert_allclose(vectors["0"], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "words", ["info base-en", "convert base-en out", "embed in.txt out.npz --model base-en"]
)
def test_model_in_a_missing_package_is_reported_with_the_install_command(
    tmp_path, site, monkeypatch, words
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.txt").write_text("a b\n")
    done = elmo(*words.split())
    assert done.exit_code == 1
    assert done.stderr.startswith("elmo: base-en is in a package that is not installed. Run: ")
    assert "/models/base-en' (" in done.stderr
    assert done.stderr.count("\n") == 1


def test_debug_option_shows_a_traceback():
    done = elmo("info", "no-such-model", "--debug")
    assert done.exit_code == 1
    assert "Traceback" in done.stderr


def test_unexpected_error_is_reported_in_one_line(monkeypatch):
    monkeypatch.setattr("elmo.formats.info_and_convert.locate", lambda *_, **__: 1 / 0)
    done = elmo("info", "x")
    assert done.exit_code == 1
    assert (
        done.stderr == "elmo: ZeroDivisionError: division by zero (use --debug for a traceback)\n"
    )


def test_keyboard_interrupt_exits_with_code_130(monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("elmo.formats.info_and_convert.locate", interrupt)
    assert elmo("info", "x").exit_code == run_command.INTERRUPTED


@pytest.fixture
def embedding(tmp_path, tmp_path_factory, model):
    """Start an `elmo embed` process on a text that takes it minutes."""
    text = tmp_path_factory.mktemp("text") / "text.txt"
    text.write_text("a line of words\n" * 1_000_000)
    carry = ["--state", "carry", "--batch-size", "2"]
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "elmo",
            "embed",
            text,
            tmp_path / "out.h5",
            "--model",
            model,
            *carry,
        ],
        stderr=subprocess.PIPE,
        text=True,
        # A shell that runs the tests in the background makes all its child processes ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
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
        (signal.SIGINT, 130, "elmo: Interrupted. No incomplete files were left.\n"),
        (signal.SIGTERM, 143, "elmo: Terminated. No incomplete files were left.\n"),
    ],
)
def test_signal_during_embed_leaves_no_files(tmp_path, embedding, number, code, message):
    embedding.send_signal(number)
    _, errors = embedding.communicate(timeout=120)
    assert embedding.returncode == code, errors
    # On a slow machine, progress may have been printed before.
    lines = [line for line in errors.splitlines(keepends=True) if not line.startswith("embed")]
    assert lines == [message]
    assert sorted(os.listdir(tmp_path)) == ["model"]


def test_second_sigterm_is_ignored_during_clean_up(monkeypatch):
    calls = []
    monkeypatch.setattr(signal, "signal", lambda *arguments: calls.append(arguments))
    with pytest.raises(SystemExit) as stopped:
        build_application._terminate(signal.SIGTERM, None)
    assert stopped.value.code == 143
    assert calls == [(signal.SIGTERM, signal.SIG_IGN)]


def test_closed_standard_input_is_reported_in_one_line(tmp_path):
    command = f"exec {sys.executable} -m elmo embed - {tmp_path / 'out.h5'} --model m <&-"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "elmo: Cannot read standard input: it is closed.\n"
    assert os.listdir(tmp_path) == []


@pytest.fixture
def seen(monkeypatch):
    """Replace all commands by stubs, and return a list of the configs they are called with."""
    configs = []
    module = types.SimpleNamespace()
    for command in cli.COMMANDS.values():
        setattr(module, command.function.split(":")[1], lambda config: configs.append(config) or "")
    monkeypatch.setattr(run_command, "import_module", lambda _: module)
    return configs


def test_embed_with_several_inputs_explains_how_to_name_them(seen):
    result = elmo("embed", "a.csv", "b.csv", "c.csv", "out.parquet", "--text-column", "text")
    assert result.exit_code == usage.WRONG_USAGE
    assert "there are 4 arguments without a flag" in result.stderr
    assert "quote the glob" in result.stderr
    assert not seen


@pytest.mark.parametrize("words", [["--text-field", "body"], ["--text-field=body"]])
@pytest.mark.parametrize(
    "arguments",
    [
        ["embed", "in.csv", "out.h5"],
        ["prepare", "in.csv", "--out", "c"],
        ["vocab", "in.csv", "--out", "v"],
        ["pretrain", "--data", "in.csv", "--out", "o"],
        ["finetune", "--model", "m", "--data", "in.csv", "--out", "o"],
        ["evaluate", "--model", "m", "in.csv"],
    ],
)
def test_earlier_name_of_text_column_is_accepted(seen, arguments, words):
    assert elmo(*arguments, *words).exit_code == 0
    assert "text_column='body'" in str(seen[0])
    assert "--text-field" not in elmo(arguments[0], "--help").output


@pytest.mark.parametrize(
    ("arguments", "suggestion"),
    [
        (("task", "fit", "classification", "--lr", "0.1"), "--lr. Did you mean --learning-rate?"),
        (("task", "fit", "tagging", "--random-state=1"), "--random-state. Did you mean --seed?"),
        (("embed", "a", "b", "--bs", "3"), "--bs. Did you mean --batch-size?"),
    ],
)
def test_option_name_of_another_library_suggests_the_name_here(arguments, suggestion):
    done = CliRunner().invoke(cli.application(arguments), arguments)
    assert done.exit_code == usage.WRONG_USAGE
    assert done.stderr == f"elmo: There is no option {suggestion}\n"


@pytest.mark.parametrize("words", ["embed a b.h5", "evaluate --model m a", "task predict m a"])
@pytest.mark.parametrize(("flag", "message"), usage.REMOVED_FLAGS.items())
def test_removed_flag_is_explained_in_one_line(seen, words, flag, message):
    result = CliRunner().invoke(cli.application(), [*words.split(), flag])
    assert (result.exit_code, result.stderr, seen) == (2, f"elmo: {message}\n", [])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "embed a b.h5 --all --options-file=o.json --weight-file w.hdf5 --cuda-device -1",
            "--all, --options-file, --weight-file, --cuda-device are options of allennlp elmo. "
            "For the same vectors, run: elmo embed a b.h5 --layers all --options o.json "
            "--model w.hdf5 --device cpu --state carry --pretokenized",
        ),
        (
            "embed a b.h5 --top --batch-size 8 --state carry",
            "--top is an option of allennlp elmo. For the same vectors, run: "
            "elmo embed a b.h5 --layers top --batch-size 8 --state carry --pretokenized",
        ),
        (
            "elmo a b.h5 --average --vocab-path v.txt",
            "The command allennlp elmo is elmo embed here. --vocab-path is not needed, because "
            "token vectors are cached automatically. For the same vectors, run: elmo embed a b.h5 "
            "--layers average --state carry --pretokenized",
        ),
    ],
)
def test_command_of_allennlp_is_translated_in_one_line(seen, words, message):
    result = elmo(*words.split())
    assert (result.exit_code, result.stderr, seen) == (2, f"elmo: {message}\n", [])


def test_translated_command_of_allennlp_is_accepted(seen):
    words = "a b.h5 --all --options-file o.json --weight-file w.hdf5 --cuda-device 1"
    command = elmo("elmo", *words.split()).stderr.partition("run: elmo ")[2]
    assert elmo(*command.split()).exit_code == 0
    options = {"model": "w.hdf5", "options": "o.json", "layers": "all", "device": "cuda:1"}
    assert seen == [EmbedConfig("a", "b.h5", **options, state="carry", pretokenized=True)]


@pytest.mark.parametrize("words", ["embed a b.h5", "evaluate --model m a", "task predict m a"])
@pytest.mark.parametrize("flag", ["--tokenizer english", "--tokenizer=english"])
def test_tokenizer_of_a_model_is_explained_in_one_line(seen, words, flag):
    result = elmo(*words.split(), *flag.split())
    assert (result.exit_code, result.stderr, seen) == (2, f"elmo: {usage.TOKENIZER_MESSAGE}\n", [])
    assert "elmo convert MODEL NEW --tokenizer NAME" in result.stderr


@pytest.mark.parametrize(
    ("words", "config"),
    [
        ("embed a b.h5", EmbedConfig("a", "b.h5")),
        ("embed a b.h5 --pretokenized", EmbedConfig("a", "b.h5", pretokenized=True)),
        ("embed a b.h5", EmbedConfig("a", "b.h5", model="small-en")),
        ("embed a --out b.h5", EmbedConfig("a", "b.h5")),
        ("convert a b --storage int8", ConvertConfig("a", "b", storage="int8")),
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
def test_flags_set_config_fields(seen, words, config):
    done = elmo(*words.split())
    assert done.exit_code == 0, done.stderr
    assert seen == [config]


def test_flags_override_config_file(seen, tmp_path):
    required = {"data": ("a",), "out": "o"}
    assert elmo("pretrain", "--config", "tiny", "--data", "a", "--out", "o").exit_code == 0
    tiny = load_config(PretrainConfig, "tiny", required, presets())
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
        ("pretrain --data a", "--out is required"),
        ("pretrain --config tiny --out o", "--data is required, and tiny does not set data"),
        ("pretrain --config huge", "presets: medium, original, ptb, small, tiny, wikitext-2"),
        ("finetune --data a --out o", "--model is required"),
        ("finetune --config tiny", "Config file tiny does not exist"),
        ("evaluate a", "--model is required"),
        ("embed a.txt", "The output (OUT) is missing. Example: elmo embed a.txt vectors.h5"),
        ("convert a", "The output (OUT) is missing. Example: elmo convert a my-elmo"),
        ("embed a b.h5 --options o.json", "--options needs --model WEIGHTS"),
        ("pretrain --data a --out o --reset 3", "from 0 to 1 (got 3.0)"),
        ("pretrain --data a --out o --unroll x", "--unroll: expected int (got str 'x')"),
    ],
)
def test_missing_or_invalid_option_exits_with_code_2(words, message):
    done = elmo(*words.split())
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_missing_required_flags_are_reported_before_torch_is_imported():
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


def test_garbage_collection_is_enabled_while_a_command_runs_but_excludes_imports():
    code = """
import gc, sys, types
from elmo import cli

def import_module(name):
    print(gc.isenabled())
    return types.SimpleNamespace(info=info)

def info(config):
    return f"{gc.isenabled()} {gc.get_freeze_count() > len(gc.get_objects())}"

cli.run_command.import_module = import_module
sys.argv = ["elmo", "info", "x"]
cli.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\nTrue True\n"


@pytest.mark.usefixtures("seen")
def test_command_called_from_python_does_not_change_garbage_collection():
    before = gc.get_freeze_count()
    assert elmo("info", "x").exit_code == 0
    assert (gc.isenabled(), gc.get_freeze_count()) == (True, before)


def test_embed_compiles_native_kernels_in_a_background_thread(tmp_path, model, monkeypatch):
    threads = []
    monkeypatch.setattr(run_command, "library", lambda: threads.append(threading.current_thread()))
    assert elmo("info", model).exit_code == 0
    assert threads == []
    (tmp_path / "one.txt").write_text("a few words\n")
    words = (str(tmp_path / "one.txt"), str(tmp_path / "one.parquet"), "--model", model)
    assert elmo("embed", *words).exit_code == 0
    (thread,) = threads
    thread.join()
    assert thread is not threading.current_thread()


def test_importing_embed_file_does_not_import_h5py_or_sharded_job():
    code = (
        "import sys\nimport elmo.embed.embed_file\n"
        "assert not {'h5py', 'elmo.embed.sharded_job'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_flags_are_only_built_for_the_requested_command(monkeypatch):
    built = []
    monkeypatch.setattr(
        build_application,
        "command_function",
        lambda command, flags: built.append(command.function) or (lambda: None),
    )
    for typed, functions in (
        (["embed", "task", "fit"], ["elmo.embed.embed_file:embed"]),
        (["--", "task", "fit", "x"], ["elmo.tasks.training.fit:fit"]),
        (["task"], []),
        (["--help"], []),
        ([], []),
    ):
        built.clear()
        cli.application(typed)
        assert built == functions
    cli.application()
    assert len(built) == len(cli.COMMANDS)
