"""Tests of the options of `elmo serve`."""

import pytest

from elmo.config.serve import ServeConfig
from elmo.errors import ConfigError


def test_models_have_names_and_sources():
    config = ServeConfig(model=("small-en", "mine=./a=b"), task=("sst=runs/sst",))
    assert config.models() == {"small-en": "small-en", "mine": "./a=b"}
    assert config.tasks() == {"sst": "runs/sst"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": ()}, "--model is missing"),
        ({"model": ("owner/name",)}, "Use --model NAME=owner/name."),
        ({"model": ("./folder",)}, "Use --model NAME=./folder."),
        ({"model": ("a", "a=b")}, "the name a is used twice"),
        ({"model": ("a=",)}, "the source after the equals sign is missing"),
        ({"task": ("folder",)}, "--task must be NAME=FOLDER"),
        ({"task": ("a/b=folder",)}, "is not a name"),
        ({"max_sentences": 0}, "max_sentences must be at least 1"),
        ({"timeout": 0.0}, "timeout must be above 0"),
        ({"port": 65536}, "port must be between 0 and 65535"),
        ({"max_sentence_words": 4095}, "must fit into --batch-words"),
        ({"queue_words": 18_431}, "must fit into --queue-words"),
    ],
)
def test_wrong_options_are_rejected(options, message):
    with pytest.raises(ConfigError, match=message):
        ServeConfig(**options)


def test_names_of_a_local_server_are_checked():
    assert ServeConfig().is_local
    assert "localhost" in ServeConfig().host_names
    assert ServeConfig(host="0.0.0.0").host_names == ()
    assert ServeConfig(allowed_host=("a.example",)).host_names == ("a.example",)
