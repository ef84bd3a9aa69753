"""Translation of the command `allennlp elmo` to `elmo embed`."""

import shlex
from collections.abc import Sequence

# Switches, with their replacement.
_SWITCHES = {
    "--all": ["--layers", "all"],
    "--top": ["--layers", "top"],
    "--average": ["--layers", "average"],
}
# Options with a value, with the name of the replacement.
_VALUES = {
    "--options-file": "--options",
    "--weight-file": "--model",
    "--cuda-device": "--device",
}
# Options without a replacement, with a remark.
_UNSUPPORTED = {
    "--vocab-path": "--vocab-path is not needed, because token vectors are cached automatically.",
    "--use-sentence-keys": "For --use-sentence-keys, use ElmoEmbedder.embed_file of "
    "elmo.compat.allennlp in Python.",
}
# Options without which the vectors would not be those of AllenNLP.
_SAME_VECTORS = {"--state": ["--state", "carry"], "--pretokenized": ["--pretokenized"]}
FLAGS = (*_SWITCHES, *_VALUES, *_UNSUPPORTED)


def allennlp_flags(arguments: Sequence[str]) -> list[str]:
    """Return the options of `allennlp elmo` in command-line arguments that `embed` lacks."""
    flags = [word.split("=")[0] for word in arguments]
    return [flag for flag in dict.fromkeys(flags) if flag in FLAGS]


def explain_allennlp(arguments: Sequence[str]) -> str:
    """Return the command `elmo embed` with the same result as `allennlp elmo`, with remarks."""
    words = ["elmo", "embed"]
    remarks = []
    remaining = list(arguments)
    while remaining:
        flag, equals, value = remaining.pop(0).partition("=")
        takes_value = flag in _VALUES or flag == "--vocab-path"
        if takes_value and not equals:
            value = remaining.pop(0) if remaining else flag.strip("-").upper()
        if flag in _SWITCHES:
            words += _SWITCHES[flag]
        elif flag in _VALUES:
            words += [_VALUES[flag], _device(value) if flag == "--cuda-device" else value]
        elif flag in _UNSUPPORTED:
            remarks.append(f"{_UNSUPPORTED[flag]} ")
        else:
            words.append(f"{flag}{equals}{value}")
    for flag, addition in _SAME_VECTORS.items():
        if flag not in words:
            words += addition
    return f"{''.join(remarks)}For the same vectors, run: {shlex.join(words)}"


def _device(number: str) -> str:
    """Return the name of the device that has a number in AllenNLP."""
    return "cpu" if number.startswith("-") else f"cuda:{number}"
