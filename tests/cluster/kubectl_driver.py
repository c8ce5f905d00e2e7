"""Run kubectl against the real and the embedded server, and compare the outcomes."""

import asyncio
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec.structs import replace

from tinykube.testing.api_server import DEFAULT_SETTINGS, ApiServerAccess, running_api_server
from tinykube.testing.control_plane import ControlPlane
from tinykube.testing.kubeconfig import write_kubeconfig

SETTINGS = replace(DEFAULT_SETTINGS, user="admin", lifecycle=False)
COMMAND_SECONDS = 20.0
AT_ONCE = 4
"""Concurrent commands per server: kubectl needs 50 ms of CPU to start and waits most of the time."""

_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.MULTILINE), put)
    for pattern, put in (
        (r"^[IWE]\d{4} [^\n]* reflector\.go:[^\n]*\n", ""),  # from a watch that ended by its timeout
        (r"^[IWE]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ", "LOG "),  # before a process id is mistaken for a port
        (
            r"^[^\n]* ipallocator-repair-controller [^\n]*\n",
            "",
        ),  # kube-apiserver's repair loops run at any time
        (r"^Events:\n  Type [^\n]*\n  ---- [^\n]*\n(?!  )", "Events:  <none>\n"),
        (r"https://127\.0\.0\.1:\d+", "SERVER"),
        (r"127\.0\.0\.1:\d+", "HOST"),
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
        (r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "TIME"),
        (r"\b10\.96\.\d+\.\d+\b", "CLUSTER-IP"),
        (r"\bfd00:10:96::[0-9a-f:]+\b", "CLUSTER-IP6"),
        (r"\b3[0-2]\d{3}\b", "NODE-PORT"),
        (r"/tmp/(LIVE|MERGED)-\d+", r"\1"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}", "TIME"),
        (r"(resourceVersion\\?\"?: *\\?|Resource Version: +)\"?\d+(\\?\")?", r"\1RV"),
        (r"(?<![\w.=-])\d+(m\d+)?[sm](?![\w.-])", "AGE"),
        (r"(?<=\S) {2,}", "  "),
        (r" +$", ""),
        (r"(\w-)[bcdfghjklmnpqrstvwxz2456789]{5}\b(?!-)", r"\1RANDOM"),
    )
)


class Step(msgspec.Struct, frozen=True):
    """One command line without the leading ``kubectl``.

    ``document`` is its standard input. ``differs`` is the reason (a key of
    :data:`tests.cluster.kubectl_differences.REASONS`) why the two servers answer differently; then they must.
    """

    line: str
    document: str | None = None
    differs: str = ""
    exit_code_only: bool = False
    unsorted: bool = False


class Case(msgspec.Struct, frozen=True):
    """Consecutive steps, in a separate namespace unless ``namespace`` is false. Cases are independent."""

    name: str
    steps: tuple[Step, ...]
    namespace: bool = True


def case(name: str, *steps: str | Step, namespace: bool = True) -> Case:
    """Return a case of command lines, or of steps with more details."""
    return Case(name, tuple(Step(step) if isinstance(step, str) else step for step in steps), namespace)


class Outcome(msgspec.Struct, frozen=True):
    """The comparable outcome of a command."""

    exit_code: int
    out: str
    error: str

    def __str__(self) -> str:
        """Return the outcome as comparable lines."""
        return f"exit code {self.exit_code}\n{self.out}--- standard error\n{self.error}"


def comparable(text: str, home: Path) -> str:
    """Return a text without values that differ between servers: uids, times, ages, addresses, random names."""
    text = text.replace(str(home), "HOME")
    for pattern, put in _RULES:
        text = pattern.sub(put, text)
    return text


class Kubectl:
    """kubectl for one server: a home folder for its caches, a kubeconfig per namespace, and input files."""

    def __init__(
        self,
        program: Path,
        home: Path,
        server: ControlPlane | ApiServerAccess,
        token: str,
        files: Mapping[str, str],
    ) -> None:
        self._program = program
        self._home = home
        self._server = server
        self._token = token
        self._slots = asyncio.Semaphore(AT_ONCE)
        for name, text in files.items():
            path = home / name
            path.write_text(text)
            path.chmod(0o700)

    def enter(self, namespace: str) -> Path:
        """Write a kubeconfig for a namespace; return its path."""
        path = self._home / f"{namespace}.kubeconfig"
        write_kubeconfig(
            path,
            server=self._server.url,
            certificate_authority=self._server.certificate_authority,
            token=self._token,
            user="admin",
        )
        config = msgspec.json.decode(path.read_bytes())
        config["contexts"][0]["context"]["namespace"] = namespace
        path.write_bytes(msgspec.json.encode(config))
        return path

    async def __call__(self, step: Step, namespace: str) -> Outcome:
        """Run one command and wait for its end."""
        async with self._slots:
            child = await asyncio.create_subprocess_exec(
                str(self._program),
                *shlex.split(step.line),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=self._home,
                env={
                    "PATH": os.environ["PATH"],
                    "HOME": str(self._home),
                    "KUBECONFIG": str(self._home / f"{namespace}.kubeconfig"),
                    "KUBE_EDITOR": str(self._home / "editor"),
                    "TZ": "UTC",
                },
            )
            document = None if step.document is None else step.document.encode()
            try:
                async with asyncio.timeout(COMMAND_SECONDS):
                    out, error = await child.communicate(document)
            except TimeoutError:
                child.kill()
                await child.wait()
                return Outcome(-1, "", f"did not end within {COMMAND_SECONDS:g} s")
        assert child.returncode is not None
        if step.exit_code_only:
            return Outcome(child.returncode, "", "")
        shown = comparable(out.decode(), self._home)
        if step.unsorted:
            shown = "".join(sorted(shown.splitlines(keepends=True)))
        return Outcome(child.returncode, shown, comparable(error.decode(), self._home))


class Pair(msgspec.Struct, frozen=True):
    """The outcomes of one step."""

    case: str
    step: Step
    real: Outcome
    ours: Outcome


@contextmanager
def kubectl_on_both(
    plane: ControlPlane, folder: Path, files: Mapping[str, str]
) -> Iterator[tuple[Kubectl, Kubectl]]:
    """Yield kubectl for the real server, and for an embedded one that runs during the block; homes are in ``folder``."""
    program = plane.assets / "kubectl"
    homes = folder / "real", folder / "ours"
    for home in homes:
        home.mkdir()
    # In a separate thread, so that it responds to kubectl while this loop is busy.
    with running_api_server(SETTINGS) as server:
        yield (
            Kubectl(program, homes[0], plane, plane.admin_token, files),
            Kubectl(program, homes[1], server, server.token, files),
        )


async def run_case(case: Case, real: Kubectl, ours: Kubectl) -> list[Pair]:
    """Run the steps of a case in order, each on both servers concurrently."""
    namespace = f"k-{case.name}" if case.namespace else "default"
    pairs = []
    for kubectl in (real, ours):
        kubectl.enter(namespace)
    steps = (Step(f"create namespace {namespace}"), *case.steps) if case.namespace else case.steps
    for step in steps:
        theirs, mine = await asyncio.gather(real(step, namespace), ours(step, namespace))
        pairs.append(Pair(case.name, step, theirs, mine))
    return pairs


async def run_cases(cases: Iterable[Case], real: Kubectl, ours: Kubectl) -> list[Pair]:
    """Run cases concurrently."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run_case(case, real, ours), name=f"kubectl {case.name}") for case in cases]
    return [pair for task in tasks for pair in task.result()]
