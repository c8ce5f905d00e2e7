"""Effects of injected faults on the caches of Python clients: ``python -m benchmarks.informer_faults``.

Each client watches the ConfigMaps of a namespace on a separate embedded server while one fault is active. Then the faults
end, another object is written, and the client has a minute to reach the server's state. The clients are aiokube's informer,
the official client's SharedInformer, and kr8s, which has no cache: its watch is used as documented.
"""

import asyncio
import contextlib
import importlib
import json
import logging
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import click

from aiokube import CONFIG_MAPS, Client, Informer
from aiokube.clock import SystemClock
from tinykube import Faults, ThreadApiServer, running_api_server

NAMESPACE = "default"
CLOCK = SystemClock()
_LIMIT_SECONDS = 60.0
_POLL_SECONDS = 0.05
_FAULTY_SECONDS = 3.0
_LISTED = 6


State = dict[str, str]
"""The value of each ConfigMap, by name."""


class Follower(Protocol):
    """A client that follows the ConfigMaps. ``notified`` holds each event it reported: its type and the name."""

    notified: list[tuple[str, str]]

    def state(self) -> State:
        """Return the client's view of the objects."""
        ...

    def stop(self) -> None:
        """Stop the client."""
        ...


class Scenario(NamedTuple):
    """A fault, active from before the client starts. ``inject`` gets the number of events of the initial list."""

    name: str
    inject: Callable[[Faults, int], Any]


_READS = ("list", "watch")


SCENARIOS = (
    Scenario("no fault", lambda faults, listed: None),
    Scenario("first two reads: 429, Retry-After 1", lambda f, listed: f.refuse(429, verb=_READS, times=2)),
    Scenario("first read: 504", lambda f, listed: f.refuse(504, verb=_READS, times=1)),
    Scenario("first read: connection lost", lambda f, listed: f.lose_request(verb=_READS, times=1)),
    Scenario("first read: never answered", lambda f, listed: f.hang(verb=_READS, times=1)),
    Scenario("first list answers 10 changes late", lambda f, listed: f.stale_reads(10, verb="list", times=1)),
    Scenario("first watch: 410", lambda f, listed: f.refuse(410, verb="watch", times=1)),
    Scenario("watches: 500, for 6 s", lambda f, listed: f.refuse(500, verb="watch")),
    Scenario("watches break immediately, for 6 s", lambda f, listed: f.drop_watch(verb="watch")),
    Scenario("watch breaks after 2 changes", lambda f, listed: f.drop_watch(listed + 2, times=1)),
    Scenario("watch ends after 2 changes", lambda f, listed: f.end_watch(listed + 2, times=1)),
    Scenario("watch expires (410) after 2 changes", lambda f, listed: f.expire_watch(listed + 2, times=1)),
    Scenario("events arrive twice", lambda f, listed: f.duplicate_events()),
    Scenario("watch goes silent after 2 changes", lambda f, listed: f.stall_watch(listed + 2, times=1)),
)


class Outcome(NamedTuple):
    """The result of one client in one scenario."""

    client: str
    scenario: str
    seconds: float | None
    """From the end of the faults to the right state; None: never, within the limit."""
    injected: int
    """How many requests met the fault."""
    repeated: int
    """Notifications of the kind and object of the one before."""
    wrong: tuple[str, ...]
    """At the end: names that the client has wrong."""


class AiokubeFollower:
    """aiokube's informer, in a loop in a thread."""

    def __init__(self, server: ThreadApiServer) -> None:
        self.notified: list[tuple[str, str]] = []
        self._config = server.client_config()
        self._state: State = {}
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def state(self) -> State:
        return dict(self._state)

    def stop(self) -> None:
        if self._task is not None:
            self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._task = self._loop.create_task(self._follow(), name="follow")
        with contextlib.suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._task)
        self._loop.close()

    async def _follow(self) -> None:
        async with Client.from_config(self._config, clock=CLOCK) as client:
            source = client.source(CONFIG_MAPS, namespace=NAMESPACE)
            informer = Informer(source, name="configmaps", clock=CLOCK, rng=random.Random(1))
            informer.add_handler(self._changed)
            await informer.run()

    def _changed(self, old: Any, new: Any) -> None:
        one = old if new is None else new
        kind = "DELETED" if new is None else "ADDED" if old is None else "MODIFIED"
        self.notified.append((kind, one.metadata.name))
        if new is None:
            self._state.pop(one.metadata.name, None)
        else:
            self._state[one.metadata.name] = (new.data or {}).get("value", "")


class OfficialFollower:
    """The official client's SharedInformer."""

    def __init__(self, server: ThreadApiServer) -> None:
        kubernetes: Any = importlib.import_module("kubernetes")
        informer: Any = importlib.import_module("kubernetes.informer")
        configuration = kubernetes.client.Configuration()
        kubernetes.config.load_kube_config(str(server.kubeconfig_path), client_configuration=configuration)
        self._api = kubernetes.client.CoreV1Api(kubernetes.client.ApiClient(configuration))
        self._informer = informer.SharedInformer(self._api.list_namespaced_config_map, namespace=NAMESPACE)
        self.notified: list[tuple[str, str]] = []
        for kind in ("ADDED", "MODIFIED", "DELETED"):
            self._informer.add_event_handler(kind, lambda one, kind=kind: self._note(kind, one))
        self._informer.start()

    def state(self) -> State:
        return {one.metadata.name: (one.data or {}).get("value", "") for one in self._informer.cache.list()}

    def stop(self) -> None:
        # Its own stop() waits for the watch, which may never end.
        threading.Thread(target=self._informer.stop, daemon=True).start()

    def _note(self, kind: str, one: Any) -> None:
        self.notified.append((kind, one.metadata.name))


class Kr8sFollower:
    """kr8s: list, then `watch()` in a loop, started again after an error."""

    def __init__(self, server: ThreadApiServer) -> None:
        self._kr8s: Any = importlib.import_module("kr8s.asyncio")
        self.notified: list[tuple[str, str]] = []
        self._path = str(server.kubeconfig_path)
        self._state: State = {}
        self._ends = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._follow()), daemon=True)
        self._thread.start()

    def state(self) -> State:
        return dict(self._state)

    def stop(self) -> None:
        self._ends.set()

    async def _follow(self) -> None:
        while not self._ends.is_set():
            try:
                api = await self._kr8s.api(kubeconfig=self._path)
                async for kind, one in api.watch("configmaps", namespace=NAMESPACE):
                    self.notified.append((kind, one.name))
                    if kind == "DELETED":
                        self._state.pop(one.name, None)
                    elif kind in ("ADDED", "MODIFIED"):
                        self._state[one.name] = one.raw.get("data", {}).get("value", "")
            except Exception:  # noqa: BLE001 - a program would restart after any error
                await asyncio.sleep(1.0)


CLIENTS: dict[str, tuple[str, Callable[[ThreadApiServer], Follower], bool]] = {
    "aiokube": ("aiokube", AiokubeFollower, False),
    "kubernetes": ("kubernetes.informer", OfficialFollower, True),
    "kr8s": ("kr8s", Kr8sFollower, False),
}
"""The module, the follower, and whether it lists before it watches: the others get the list as the first events."""


def run(client: str, scenario: Scenario, limit_seconds: float) -> Outcome:
    """Run one scenario and return its outcome."""
    with running_api_server() as server:
        for number in range(5):
            server.apply(_config_map(f"old-{number}", "1"))
        for number in range(12):  # a past to lag behind
            server.apply(_config_map("busy", str(number)))
        _, start, lists = CLIENTS[client]
        scenario.inject(server.faults, 0 if lists else _LISTED)
        follower = start(server)
        try:
            _until(lambda: len(follower.state()) == _LISTED, _FAULTY_SECONDS)
            server.apply(_config_map("old-0", "2"), _config_map("new", "1"))
            server.delete("v1", "ConfigMap", "old-1")
            server.apply(_config_map("old-2", "2"))
            _until(lambda: False, _FAULTY_SECONDS)
            injected = len(server.faults.log)
            # Silent watches and unanswered lists stay that way: their connections remain open.
            server.faults.clear()
            server.apply(_config_map("last", "1"))
            expected = _expected(server)
            began = time.perf_counter()
            arrived = _until(lambda: follower.state() == expected, limit_seconds)
            seconds = time.perf_counter() - began if arrived else None
            found = follower.state()
            wrong = tuple(
                sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name))
            )
            return Outcome(client, scenario.name, seconds, injected, _repeats(follower.notified), wrong)
        finally:
            follower.stop()


def _repeats(notified: list[tuple[str, str]]) -> int:
    """Count repeated additions and deletions of an object without the opposite in between."""
    there: dict[str, bool] = {}
    count = 0
    for kind, name in notified:
        if kind == "MODIFIED":
            continue
        count += there.get(name) == (kind == "ADDED")
        there[name] = kind == "ADDED"
    return count


def _expected(server: ThreadApiServer) -> State:
    found = server.list_all("v1", "ConfigMap", NAMESPACE)
    return {one["metadata"]["name"]: one.get("data", {}).get("value", "") for one in found}


def _until(condition: Callable[[], bool], seconds: float) -> bool:
    ends = time.perf_counter() + seconds
    while time.perf_counter() < ends:
        if condition():
            return True
        threading.Event().wait(_POLL_SECONDS)
    return condition()


def _config_map(name: str, value: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "data": {"value": value},
    }


def table(outcomes: list[Outcome]) -> str:
    """Return a Markdown table: a row for each scenario, a column for each client."""
    clients = list(dict.fromkeys(one.client for one in outcomes))
    lines = [f"| fault | {' | '.join(clients)} |", f"|---|{'---|' * len(clients)}"]
    for scenario in dict.fromkeys(one.scenario for one in outcomes):
        cells = {one.client: _cell(one) for one in outcomes if one.scenario == scenario}
        lines.append(f"| {scenario} | {' | '.join(cells.get(client, '') for client in clients)} |")
    return "\n".join(lines)


def _cell(one: Outcome) -> str:
    if not one.injected and one.scenario != SCENARIOS[0].name:
        return "not met"
    if one.seconds is None:
        text = f"**wrong after {_LIMIT_SECONDS:.0f} s**"
    else:
        text = "at once" if one.seconds < 0.5 else f"{one.seconds:.0f} s"
    extras = []
    if one.injected > 5:
        extras.append(f"{one.injected} requests")
    if one.repeated:
        extras.append(f"{one.repeated} reported twice")
    return f"{text} ({', '.join(extras)})" if extras else text


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence the clients' logs about the faults."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


@click.command(help=__doc__)
@click.option(
    "--client", "clients", multiple=True, type=click.Choice(list(CLIENTS)), help="Default: all installed."
)
@click.option("--scenario", default="", help="Run only scenarios whose name contains this.")
@click.option(
    "--seconds", default=_LIMIT_SECONDS, show_default=True, help="How long a client may take to recover."
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the outcomes as JSON.")
def main(clients: tuple[str, ...], scenario: str, seconds: float, output: Path | None) -> None:
    """Run the scenarios, and print the table."""
    outcomes = []
    for client in clients or CLIENTS:
        try:
            importlib.import_module(CLIENTS[client][0])
        except ImportError:
            click.echo(f"{client} is not installed: pip install {client}", err=True)
            continue
        for one in SCENARIOS:
            if scenario in one.name:
                with _quiet():
                    outcome = run(client, one, seconds)
                click.echo(f"{client:12} {one.name:45} {_cell(outcome)}", err=True)
                outcomes.append(outcome)
    click.echo(table(outcomes))
    if output is not None:
        output.write_text(json.dumps([one._asdict() for one in outcomes], indent=1))


if __name__ == "__main__":
    main()
    sys.stdout.flush()
