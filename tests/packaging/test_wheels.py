"""The wheels of the three packages, each installed into an empty environment with only its declared dependencies.

Nothing is downloaded: the dependencies declared in the wheels' metadata are linked from this environment.
"""

import re
import shlex
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Mapping
from email.message import Message
from email.parser import Parser
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tinykube import running_api_server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

ROOT = Path(__file__).parents[2]
PACKAGES = ("aiokube", "tinykube", "endpointd")
NEED_MORE = {
    "aiokube": (),
    "tinykube": ("tinykube.pytest_plugin",),  # loaded by pytest alone
    "endpointd": ("endpointd.cli.serve", "endpointd.cli.up", "endpointd.cli.up_program"),  # need tinykube
}
"""Modules that need more than their package's own dependencies."""
IMPORT_ALL = """
import importlib, pkgutil, sys
package, *left_out = sys.argv[1:]
names = [found.name for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}.")]
for name in names:
    if name not in left_out and not name.endswith("__main__"):
        importlib.import_module(name)
print(len(names))
"""
RUN_IMPORTS = """
import sys
from endpointd.cli.main import cli
try:
    cli(["run", "--kubeconfig=/nowhere"])
except SystemExit as error:
    code = error.code
print(code, [name for name in sys.modules if name.partition(".")[0] == "tinykube"])
"""


class Environment(NamedTuple):
    folder: Path
    distributions: frozenset[str]

    def run(
        self, *command: str | Path, variables: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of this environment in an empty folder, with nothing else on the path."""
        program = self.folder / "bin" / command[0]
        work = self.folder / "work"
        work.mkdir(exist_ok=True)
        return subprocess.run(
            [program, *command[1:]],
            cwd=work,
            env={"PATH": "/usr/bin:/bin", "HOME": str(work), **(variables or {})},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def output(self, *command: str | Path, variables: Mapping[str, str] | None = None) -> str:
        """Run a program that must succeed, and return its output."""
        done = self.run(*command, variables=variables)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("wheels")
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-index")
    sources = [str(ROOT / package) for package in PACKAGES]
    options = ("--no-deps", "--no-build-isolation", "--wheel-dir", str(folder))
    subprocess.run([*pip, *options, *sources], check=True)
    return {path.name.partition("-")[0]: path for path in folder.glob("*.whl")}


@pytest.fixture(scope="module")
def environments(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Environment]:
    folder = tmp_path_factory.mktemp("environments")
    return {package: install(package, wheels, folder / package) for package in PACKAGES}


def install(package: str, wheels: dict[str, Path], folder: Path) -> Environment:
    """Install a wheel with pip, and link its direct and indirect dependencies into its environment."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    needed = requirements_of(metadata_of(wheels[package]))
    distributions: set[str] = set()
    built = [package]
    while needed:
        name = needed.pop()
        if name in distributions:
            continue
        distributions.add(name)
        if name in wheels:
            built.append(name)
            needed |= requirements_of(metadata_of(wheels[name]))
        else:
            found = metadata.distribution(name)
            needed |= {
                canonicalize_name(requirement.name)
                for requirement in map(Requirement, found.requires or ())
                if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            }
            link(found, folder)
    pip = (sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet")
    files = [str(wheels[name]) for name in built]
    subprocess.run([*pip, "--disable-pip-version-check", "--no-index", "--no-deps", *files], check=True)
    return Environment(folder, frozenset(distributions))


def link(distribution: metadata.Distribution, folder: Path) -> None:
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    tops = {path.parts[0] for path in distribution.files or ()} - {"..", "__pycache__"}
    for top in tops:
        (packages / top).symlink_to(Path(str(distribution.locate_file(top))))


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as file:
        (name,) = (name for name in file.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(file.read(name).decode())


def requirements_of(message: Message) -> set[str]:
    requirements = [Requirement(text) for text in message.get_all("Requires-Dist", [])]
    return {
        canonicalize_name(requirement.name)
        for requirement in requirements
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
    }


def first_block(package: str, language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", (ROOT / package / "README.md").read_text(), re.DOTALL)
    assert found is not None, f"{package}/README.md has no {language} example"
    return found[1]


def test_the_three_wheels_have_one_version_and_pin_each_other(wheels: dict[str, Path]) -> None:
    found = {package: metadata_of(wheel) for package, wheel in wheels.items()}
    assert set(found) == set(PACKAGES)
    (version,) = {message["Version"] for message in found.values()}
    pins = {
        text.partition(";")[0].strip()
        for message in found.values()
        for text in message.get_all("Requires-Dist", [])
        if text.startswith(PACKAGES)
    }
    assert pins == {f"aiokube=={version}", f"tinykube=={version}"}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_wheel_holds_its_sources_types_marker_and_licence_and_no_tests(
    package: str, wheels: dict[str, Path]
) -> None:
    source = ROOT / package / "src"
    expected = {
        str(path.relative_to(source))
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheels[package]) as file:
        names = set(file.namelist())
    assert {name for name in names if ".dist-info/" not in name} == expected
    assert f"{package}/py.typed" in names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_imports_with_the_declared_dependencies_alone(
    package: str, environments: dict[str, Environment]
) -> None:
    modules = environments[package].output("python", "-c", IMPORT_ALL, package, *NEED_MORE[package])
    assert int(modules) > 20


def test_aiokube_installs_no_heavy_package_besides_its_three_dependencies(
    environments: dict[str, Environment],
) -> None:
    assert environments["aiokube"].distributions - {
        "aiohappyeyeballs", "aiosignal", "attrs", "frozenlist", "idna", "multidict", "propcache",
        "typing-extensions", "yarl",
    } == {"aiohttp", "msgspec", "pyyaml"}  # fmt: skip
    assert environments["tinykube"].distributions >= {"aiokube", "click", "cryptography", "google-re2"}
    assert "rich" not in environments["tinykube"].distributions
    assert not environments["endpointd"].distributions & {"tinykube", "cryptography", "google-re2"}


def test_the_first_example_of_aiokube_runs_with_aiokube_alone(environments: dict[str, Environment]) -> None:
    printed = environments["aiokube"].output("python", "-c", first_block("aiokube", "python"))
    assert printed == "{'text': 'hello'}\n"


def test_the_first_example_of_tinykube_runs_with_tinykube_alone(environments: dict[str, Environment]) -> None:
    printed = environments["tinykube"].output("python", "-c", first_block("tinykube", "python"))
    assert len(re.findall(r"^web-\S+ 10\.\S+ on node-[123]$", printed, re.MULTILINE)) == 3


def test_the_first_example_of_endpointd_runs_without_tinykube(environments: dict[str, Environment]) -> None:
    commands = re.findall(r"^\$ (.*)$", first_block("endpointd", "console"), re.MULTILINE)
    assert commands
    for command in commands:
        assert environments["endpointd"].output(*shlex.split(command)).startswith("Usage: endpointd")


def test_endpointd_run_and_query_commands_work_without_tinykube(environments: dict[str, Environment]) -> None:
    endpointd = environments["endpointd"]
    done = endpointd.run("endpointd", "run", "--kubeconfig=/nowhere")
    assert (done.returncode, done.stderr) == (
        2,
        "endpointd: kubeconfig /nowhere cannot be read: No such file or directory\n",
    )
    with running_api_server() as server:
        asked = endpointd.run("endpointd", "check", "--kubeconfig", server.kubeconfig_path)
    assert (asked.returncode, asked.stderr) == (0, "")


@pytest.mark.parametrize("command", ["up", "serve", "plan -f pods.yaml"])
def test_a_command_that_needs_tinykube_names_the_missing_package_in_one_line(
    command: str, environments: dict[str, Environment], tmp_path: Path
) -> None:
    (tmp_path / "pods.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n")
    words = command.replace("pods.yaml", str(tmp_path / "pods.yaml")).split()
    done = environments["endpointd"].run("endpointd", *words)
    expected = f"`endpointd {words[0]}` needs tinykube: pip install 'endpointd[up]'\n"
    assert (done.returncode, done.stdout, done.stderr.removeprefix("Error: ")) == (2, "", expected)


def test_run_does_not_import_an_installed_tinykube() -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN_IMPORTS], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "2 []\n"
