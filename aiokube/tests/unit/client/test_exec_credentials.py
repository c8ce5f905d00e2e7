"""Exec plugins: a real program is run with the documented environment, only when necessary."""

import asyncio
import json
import os
import stat
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aiokube.client.credentials import CertificateData, CertificateFiles
from aiokube.client.errors import ConfigError, CredentialError
from aiokube.client.exec_credentials import API_VERSIONS, ExecCredentials, ExecPlugin
from aiokube.testing.virtual_time import ManualClock

V1, V1BETA1 = API_VERSIONS

Write = Callable[[str], ExecPlugin]


@pytest.fixture
def write_plugin(tmp_path: Path) -> Write:
    """Write a plugin from a few lines of Python; each run appends its KUBERNETES_EXEC_INFO to the file 'runs'."""

    def write(lines: str) -> ExecPlugin:
        script = tmp_path / "plugin.py"
        script.write_text(
            "import json, os, sys\n"
            f"runs = open({str(tmp_path / 'runs')!r}, 'a')\n"
            "runs.write(os.environ['KUBERNETES_EXEC_INFO'] + '\\n'); runs.close()\n"
            f"count = len(open({str(tmp_path / 'runs')!r}).readlines())\n"
            "def give(version=json.loads(os.environ['KUBERNETES_EXEC_INFO'])['apiVersion'], **status):\n"
            "    print(json.dumps({'kind': 'ExecCredential', 'apiVersion': version, 'status': status}))\n"
            + lines
        )
        return ExecPlugin(
            "exec of user 'u' in /kube", sys.executable, ("-S", "-E", str(script)), {"WHO": "me"}
        )

    return write


def runs(tmp_path: Path) -> list[dict[str, Any]]:
    path = tmp_path / "runs"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def test_a_token_is_cached_until_it_expires(
    write_plugin: Write, clock: ManualClock, tmp_path: Path
) -> None:
    plugin = write_plugin(
        "give(token=f'{os.environ[\"WHO\"]}-{count}', expirationTimestamp=f'2026-01-01T00:{count:02}:00Z')"
    )
    credentials = ExecCredentials(plugin, clock=clock)
    first = await credentials.current()
    assert first.authorization == "Bearer me-1"
    clock.advance(59)
    assert await credentials.current() is first
    clock.advance(1)
    assert (await credentials.current()).authorization == "Bearer me-2"
    assert len(runs(tmp_path)) == 2


async def test_a_token_without_an_expiry_is_cached(
    write_plugin: Write, clock: ManualClock, tmp_path: Path
) -> None:
    credentials = ExecCredentials(write_plugin("give(token='t')"), clock=clock)
    first = await credentials.current()
    clock.advance(10**7)
    assert await credentials.current() is first
    assert len(runs(tmp_path)) == 1


async def test_concurrent_callers_share_one_run(
    write_plugin: Write, clock: ManualClock, tmp_path: Path
) -> None:
    credentials = ExecCredentials(write_plugin("give(token=f't{count}')"), clock=clock)
    first, *others = await asyncio.gather(*(credentials.current() for _ in range(5)))
    assert all(other is first for other in others)
    second, *others = await asyncio.gather(*(credentials.renewed(first) for _ in range(5)))
    assert second.authorization == "Bearer t2"
    assert all(other is second for other in others)
    assert len(runs(tmp_path)) == 2


async def test_a_plugin_that_returns_the_same_token_does_not_renew_it(
    write_plugin: Write, clock: ManualClock
) -> None:
    credentials = ExecCredentials(write_plugin("give(token='t')"), clock=clock)
    first = await credentials.current()
    assert await credentials.renewed(first) is first


async def test_the_plugin_receives_the_exec_info_with_the_cluster(
    write_plugin: Write, clock: ManualClock, tmp_path: Path
) -> None:
    plugin = write_plugin("give(token='t')")
    await ExecCredentials(plugin, clock=clock, cluster={"server": "https://x", "config": {"a": 1}}).current()
    await ExecCredentials(replace(plugin, api_version=V1BETA1), clock=clock).current()
    told, plain = runs(tmp_path)
    assert told == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {"server": "https://x", "config": {"a": 1}}},
    }
    assert plain == {"apiVersion": V1BETA1, "kind": "ExecCredential", "spec": {"interactive": False}}


async def test_a_plugin_can_return_a_client_certificate(write_plugin: Write, clock: ManualClock) -> None:
    plugin = write_plugin("give(clientCertificateData='CERT', clientKeyData='KEY')")
    credential = await ExecCredentials(plugin, clock=clock).current()
    assert credential.authorization is None
    assert credential.certificate == CertificateData(b"CERT", b"KEY")


async def test_the_users_certificate_is_used_with_a_plugins_token(
    write_plugin: Write, clock: ManualClock
) -> None:
    own = CertificateFiles(Path("c"), Path("k"))
    credentials = ExecCredentials(write_plugin("give(token='t')"), clock=clock, certificate=own)
    assert (await credentials.current()).certificate is own


@pytest.mark.parametrize(
    ("lines", "kind", "words"),
    [
        (
            "sys.stderr.write('line 1\\n\\nplease log in\\n'); sys.exit(3)",
            CredentialError,
            "exit code 3: line 1 | please log in",
        ),
        ("sys.exit(4)", CredentialError, "exit code 4"),
        ("print('token: very-secret')", CredentialError, "printed no ExecCredential: it is not JSON"),
        ('print(\'{"status": {"token": 12}}\')', CredentialError, "Expected `str | null`, got `int`"),
        (
            "give('client.authentication.k8s.io/v1beta1', token='very-secret')",
            ConfigError,
            "no ExecCredential of client",
        ),
        ("give()", CredentialError, "neither a token nor a certificate"),
        ("give(clientCertificateData='very-secret')", CredentialError, "neither a token nor a certificate"),
        ("give(token='t', clientKeyData='very-secret')", CredentialError, "only one half"),
        ("give(token='t', expirationTimestamp='soon')", CredentialError, "Invalid RFC3339"),
    ],
)
async def test_a_failing_plugin_is_reported_with_its_stderr_but_never_its_stdout(
    write_plugin: Write, clock: ManualClock, lines: str, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind) as raised:
        await ExecCredentials(write_plugin(lines), clock=clock).current()
    assert type(raised.value) is kind
    assert words in str(raised.value)
    assert str(raised.value).startswith("exec of user 'u' in /kube: ")
    assert "very-secret" not in str(raised.value)


async def test_long_plugin_errors_are_truncated(write_plugin: Write, clock: ManualClock) -> None:
    plugin = write_plugin("sys.stderr.write('x' * 10000 + '\\n' + 'line\\n' * 50 + 'the end'); sys.exit(1)")
    with pytest.raises(CredentialError, match=r"the end$") as raised:
        await ExecCredentials(plugin, clock=clock).current()
    assert len(str(raised.value)) < 1000


async def test_a_plugin_failure_is_not_cached(write_plugin: Write, clock: ManualClock) -> None:
    credentials = ExecCredentials(write_plugin("give(token='t') if count == 2 else sys.exit(1)"), clock=clock)
    with pytest.raises(CredentialError):
        await credentials.current()
    assert (await credentials.current()).authorization == "Bearer t"


async def test_a_plugin_that_hangs_is_killed(write_plugin: Write, clock: ManualClock) -> None:
    plugin = write_plugin("import signal; signal.pause()")
    with pytest.raises(CredentialError, match="was killed"):
        await ExecCredentials(plugin, clock=clock, timeout_seconds=0.0).current()


async def test_a_plugin_is_killed_when_all_callers_are_cancelled(
    write_plugin: Write, clock: ManualClock, tmp_path: Path
) -> None:
    fifo = tmp_path / "alive"
    os.mkfifo(fifo)
    plugin = write_plugin(f"pipe = open({str(fifo)!r}, 'w'); import signal; signal.pause()")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(ExecCredentials(plugin, clock=clock).current(), name="asks")
        pipe = await asyncio.to_thread(fifo.open)  # returns when the plugin has opened the other end
        task.cancel()
    with pipe:
        assert await asyncio.to_thread(pipe.read) == ""  # returns when the plugin has ended
    assert task.cancelled()


async def test_a_missing_plugin_is_reported_with_its_install_hint(clock: ManualClock) -> None:
    plugin = ExecPlugin("exec of x", "no-such-plugin-here", install_hint="Run:\n  get it")
    with pytest.raises(
        ConfigError, match=r"no-such-plugin-here is not installed, or not in PATH\. Run: get it"
    ):
        await ExecCredentials(plugin, clock=clock).current()


async def test_a_file_that_is_not_executable_is_reported(clock: ManualClock, tmp_path: Path) -> None:
    script = tmp_path / "plugin"
    script.write_text("#!/bin/sh\n")
    with pytest.raises(ConfigError, match="is not executable"):
        await ExecCredentials(ExecPlugin("exec of x", str(script)), clock=clock).current()


async def test_a_plugin_with_an_invalid_executable_format_is_reported(
    clock: ManualClock, tmp_path: Path
) -> None:
    script = tmp_path / "plugin"
    script.write_text("nonsense")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(ConfigError, match="cannot be run: Exec format error"):
        await ExecCredentials(ExecPlugin("exec of x", str(script)), clock=clock).current()


async def test_a_plugin_that_needs_a_terminal_is_rejected_without_one(
    write_plugin: Write, clock: ManualClock, tmp_path: Path
) -> None:
    plugin = replace(write_plugin("give(token='t')"), interactive_mode="Always")
    with pytest.raises(ConfigError, match="needs a terminal"):
        await ExecCredentials(plugin, clock=clock).current()
    assert runs(tmp_path) == []


async def test_a_plugin_can_prompt_if_a_terminal_is_available(
    write_plugin: Write, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal())
    plugin = write_plugin("give(token='t')")
    await ExecCredentials(plugin, clock=clock).current()
    await ExecCredentials(replace(plugin, interactive_mode="Never"), clock=clock).current()
    assert [run["spec"]["interactive"] for run in runs(tmp_path)] == [True, False]


GOOD: dict[str, Any] = {
    "where": "exec of x",
    "command": "plugin",
    "arguments": (),
    "environment": {},
    "api_version": V1,
    "install_hint": "",
    "interactive_mode": "Never",
}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"command": ""}, "has no command"),
        (
            {"api_version": "client.authentication.k8s.io/v1alpha1"},
            "it must be client.authentication.k8s.io/v1 or",
        ),
        ({"api_version": ""}, "has the apiVersion ''"),
        ({"interactive_mode": ""}, "has no interactiveMode, which v1 requires"),
        ({"interactive_mode": "Sometimes"}, "unknown interactiveMode"),
        ({"environment": {"": "x"}}, "variable without a name"),
    ],
)
def test_an_invalid_exec_entry_is_rejected_on_load(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=r"^exec of x ") as raised:
        ExecPlugin.checked(**{**GOOD, **wrong})
    assert words in str(raised.value)


def test_the_interactive_mode_defaults_to_if_available_for_v1beta1() -> None:
    plugin = ExecPlugin.checked(**{**GOOD, "api_version": V1BETA1, "interactive_mode": ""})
    assert plugin.interactive_mode == "IfAvailable"
