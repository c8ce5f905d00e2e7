"""The Containerfile: every copied file exists, and the started program runs.

With the variable ENDPOINTD_BUILD_IMAGE, its build steps run unchanged in a folder instead of an image: they need a
package index.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "deploy" / "Containerfile").read_text()
INSTRUCTIONS = [
    (line.partition(" ")[0], line.partition(" ")[2])
    for line in TEXT.splitlines()
    if line and not line.startswith("#")
]


def arguments(name: str) -> Iterator[str]:
    return (value for instruction, value in INSTRUCTIONS if instruction == name)


def copied() -> list[str]:
    return [source for value in arguments("COPY") if "--from" not in value for source in value.split()[:-1]]


def test_copied_files_exist_and_are_not_ignored() -> None:
    ignored = (ROOT / "deploy" / "Containerfile.dockerignore").read_text().splitlines()
    assert all((ROOT / source).exists() for source in copied())
    assert {line[1:] for line in ignored if line.startswith("!")} == set(copied())
    assert "*" in ignored


def test_commands_need_no_shell() -> None:
    for name in ("RUN", "ENTRYPOINT", "CMD"):
        assert all(isinstance(json.loads(value), list) for value in arguments(name))


def test_the_image_runs_as_the_user_of_the_deployment() -> None:
    (user,) = arguments("USER")
    deployment = (ROOT / "deploy" / "manifests" / "deployment.yaml").read_text()
    identity, group = user.split(":")
    assert f"runAsUser: {identity}" in deployment
    assert f"runAsGroup: {group}" in deployment


def test_both_stages_have_the_same_debian_and_python() -> None:
    """bookworm is Debian 12 with Python 3.11, which the image without a shell has, too."""
    images = dict(value.split("=", 1) for value in arguments("ARG"))
    assert [value.split()[0] for value in arguments("FROM")] == ["${BUILD_IMAGE}", "${RUNTIME_IMAGE}"]
    build, image = images["BUILD_IMAGE"], images["RUNTIME_IMAGE"]
    assert "python:3.11-slim-bookworm" in build
    assert "python3-debian12" in image


def test_the_entrypoint_takes_the_arguments_of_the_deployment() -> None:
    (entrypoint,) = map(json.loads, arguments("ENTRYPOINT"))
    assert entrypoint[1:] == ["-m", "endpointd"]
    done = subprocess.run(
        [sys.executable, *entrypoint[1:], "run", "--config=/nowhere/config.yaml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.startswith("endpointd: cannot read /nowhere")) == (2, True)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(
    sys.version_info[:2] != (3, 11) or not os.environ.get("ENDPOINTD_BUILD_IMAGE"),
    reason="needs a package index and the Python of the image: set ENDPOINTD_BUILD_IMAGE=1",
)
def test_the_build_steps_produce_a_self_contained_program(tmp_path: Path) -> None:
    """Run COPY and RUN of the first stage in a folder, with a Python that has only pip."""
    home = tmp_path / "src"
    home.mkdir()
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "python"], check=True)
    python = tmp_path / "python" / "bin" / "python"
    for name, value in INSTRUCTIONS[1:]:
        if name == "FROM":
            break
        if name == "COPY":
            *sources, target = value.split()
            for source in sources:
                to = home / (source if target == "./" else target)
                to.parent.mkdir(parents=True, exist_ok=True)
                if (ROOT / source).is_dir():
                    shutil.copytree(ROOT / source, to, ignore=shutil.ignore_patterns("__pycache__", "tests"))
                else:
                    shutil.copy(ROOT / source, to)
        if name == "RUN":
            words = [re.sub(r"(^|=)/", rf"\g<1>{tmp_path}/", word) for word in json.loads(value)]
            assert words[0] == "python"
            subprocess.run([python, *words[1:]], cwd=home, check=True)
    app = tmp_path / "app"
    there = {path.name for path in app.iterdir()}
    assert {"endpointd", "aiokube", "aiohttp", "msgspec", "click", "yaml"} <= there
    assert not {"tinykube", "re2", "cryptography", "hatchling", "pip", "setuptools", "pluggy"} & there
    environment = {"PYTHONPATH": str(app), "PYTHONDONTWRITEBYTECODE": "1"}
    before = {path: path.stat().st_mtime_ns for path in app.rglob("*")}
    done = subprocess.run(
        [python, "-m", "endpointd", "version"], env=environment, capture_output=True, text=True, check=True
    )
    assert "endpointd" in done.stdout
    run = subprocess.run(
        [python, "-m", "endpointd", "run", "--kubeconfig=/nowhere"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 2
    assert "/nowhere" in run.stderr
    assert {path: path.stat().st_mtime_ns for path in app.rglob("*")} == before
