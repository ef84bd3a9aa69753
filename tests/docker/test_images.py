"""Tests of the Dockerfiles and the compose file; `make image-steps` runs their steps."""

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
DOCKERFILES = ["Dockerfile", "Dockerfile.gpu"]


def instructions(name):
    """Return the instructions of a Dockerfile, with continued lines joined."""
    text = (DOCKER / name).read_text().replace("\\\n", " ")
    return [line.split(maxsplit=1) for line in text.splitlines() if line and line[0] != "#"]


@pytest.mark.parametrize("name", DOCKERFILES)
def test_dockerfile_runs_steps_that_exist_in_files_that_are_sent(name):
    steps = re.findall(r"sh (docker/\S+) (\w+)", " ".join(body for _, body in instructions(name)))
    assert steps
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    sent = [line[1:] for line in ignored if line.startswith("!")]
    for script, step in steps:
        assert f"\n{step})\n" in (ROOT / script).read_text()
        assert any(fnmatch(script, f"{pattern}*") for pattern in sent)
    assert all((ROOT / path).exists() for path in sent)
    assert {"pyproject.toml", "README.md", "src", "constraints.txt"} <= set(sent)


@pytest.mark.parametrize("name", DOCKERFILES)
def test_image_has_an_unprivileged_user_and_a_health_check(name):
    last = max(i for i, (word, _) in enumerate(instructions(name)) if word == "FROM")
    final = dict(instructions(name)[last:])
    assert final["USER"].isdecimal()
    assert int(final["USER"]) > 0
    assert "/ready" in final["HEALTHCHECK"]
    assert final["ENTRYPOINT"] == '["elmo"]'
    assert final["CMD"] == '["serve", "--host", "0.0.0.0"]'


def test_compose_file_publishes_ports_on_this_machine_only():
    services = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"]
    for service in services.values():
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    elmo, prometheus = services["elmo"], services["prometheus"]
    assert (DOCKER / elmo["build"]["context"] / elmo["build"]["dockerfile"]).exists()
    assert elmo["read_only"] is True
    assert elmo["cap_drop"] == ["ALL"]
    (mount,) = prometheus["volumes"]
    scrape = yaml.safe_load((DOCKER / mount.split(":")[0]).read_text())["scrape_configs"]
    assert scrape[0]["static_configs"] == [{"targets": ["elmo:8000"]}]
