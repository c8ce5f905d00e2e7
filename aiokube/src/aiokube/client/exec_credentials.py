"""Credentials from exec plugins: ``client.authentication.k8s.io`` v1 and v1beta1."""

import asyncio
import logging
import os
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import msgspec

from aiokube.client.bounded import output_of
from aiokube.client.credentials import (
    CertificateData,
    ClientCertificate,
    Credential,
    RenewableCredentials,
    bearer,
)
from aiokube.client.errors import ConfigError, CredentialError
from aiokube.clock import Clock
from aiokube.process.redaction import redact

log = logging.getLogger(__name__)

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
TIMEOUT_SECONDS = 60.0

_MODES = ("Never", "IfAvailable", "Always")
_TAIL_LINES = 5
_TAIL_CHARACTERS = 600


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A plugin's command and options; ``where`` describes the place of its definition."""

    where: str
    command: str
    arguments: tuple[str, ...] = field(default=(), repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    api_version: str = API_VERSIONS[0]
    install_hint: str = ""
    interactive_mode: str = "IfAvailable"

    @classmethod
    def checked(
        cls,
        *,
        where: str,
        command: str,
        arguments: tuple[str, ...],
        environment: Mapping[str, str],
        api_version: str,
        install_hint: str,
        interactive_mode: str,
    ) -> Self:
        """Return a validated plugin. Raises ConfigError."""
        if not command:
            raise ConfigError(f"{where} has no command: add it")
        if api_version not in API_VERSIONS:
            known = " or ".join(API_VERSIONS)
            raise ConfigError(f"{where} has the apiVersion {api_version!r}: it must be {known}")
        if not interactive_mode:
            if api_version == API_VERSIONS[0]:
                raise ConfigError(
                    f"{where} has no interactiveMode, which v1 requires: add Never, IfAvailable or Always"
                )
            interactive_mode = "IfAvailable"
        if interactive_mode not in _MODES:
            raise ConfigError(
                f"{where} has an unknown interactiveMode: it must be one of {', '.join(_MODES)}"
            )
        if any(not name for name in environment):
            raise ConfigError(f"{where} has a variable without a name under env: name it")
        return cls(where, command, arguments, environment, api_version, install_hint, interactive_mode)


class _ExecStatus(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    status: _ExecStatus | None = None


_decoder = msgspec.json.Decoder(_ExecCredential)


class ExecCredentials(RenewableCredentials):
    """Runs a plugin when credentials are first needed, when they expire, and when a server refuses them.

    Concurrent callers share one run. A plugin that does not use the terminal has a minute. Its credentials
    are cached in memory until ``expirationTimestamp``, or indefinitely without one. ``certificate``
    accompanies a token if the plugin returns no certificate. ``cluster`` is passed to the plugin
    (``provideClusterInfo``).

    Raises ConfigError if the plugin cannot be started, and CredentialError, with the redacted last lines of
    its standard error, if it fails or prints more than 1 MiB; its standard output is never shown.
    """

    def __init__(
        self,
        plugin: ExecPlugin,
        *,
        clock: Clock,
        certificate: ClientCertificate | None = None,
        cluster: Mapping[str, Any] | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        super().__init__(clock)
        self._plugin = plugin
        self._certificate = certificate
        self._cluster = cluster
        self._timeout_seconds = timeout_seconds

    def __repr__(self) -> str:
        return f"ExecCredentials({self._plugin.command!r})"

    async def _renew(self) -> Credential:
        plugin = self._plugin
        status = self._status_of(await self._run())
        certificate = self._certificate
        if status.client_certificate_data and status.client_key_data:
            certificate = CertificateData(
                status.client_certificate_data.encode(), status.client_key_data.encode()
            )
        made = Credential(bearer(status.token) if status.token else None, certificate)
        expires = status.expiration_timestamp
        self._expires = (
            expires.replace(tzinfo=UTC) if expires is not None and expires.tzinfo is None else expires
        )
        if self._credential is not None and made == self._credential:
            return self._credential  # the same object: there is nothing newer
        self._credential = made
        log.debug(
            "exec plugin returned new credentials: command=%s expires=%s", plugin.command, self._expires
        )
        return made

    def _status_of(self, output: bytes) -> _ExecStatus:
        plugin = self._plugin
        try:
            printed = _decoder.decode(output)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            problem = str(error) if isinstance(error, msgspec.ValidationError) else "it is not JSON"
            raise CredentialError(
                f"{plugin.where}: {plugin.command} printed no ExecCredential: {problem}"
            ) from None
        if printed.kind != "ExecCredential" or printed.api_version != plugin.api_version:
            raise ConfigError(
                f"{plugin.where}: {plugin.command} printed no ExecCredential of {plugin.api_version}: "
                "set apiVersion to the version of the plugin"
            )
        status = printed.status
        if status is None or not (
            status.token or (status.client_certificate_data and status.client_key_data)
        ):
            raise CredentialError(
                f"{plugin.where}: {plugin.command} returned neither a token nor a certificate with its key"
            )
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise CredentialError(
                f"{plugin.where}: {plugin.command} returned only one half of a client certificate"
            )
        return status

    async def _run(self) -> bytes:
        plugin = self._plugin
        has_terminal = sys.stdin is not None and sys.stdin.isatty()
        if plugin.interactive_mode == "Always" and not has_terminal:
            raise ConfigError(
                f"{plugin.where}: {plugin.command} needs a terminal, which this process lacks: "
                "use non-interactive credentials"
            )
        is_interactive = has_terminal and plugin.interactive_mode != "Never"
        environment = {**os.environ, **plugin.environment, "KUBERNETES_EXEC_INFO": self._info(is_interactive)}
        program = self._program(environment)
        try:
            process = await asyncio.create_subprocess_exec(
                program,
                *plugin.arguments,
                env=environment,
                stdin=None if is_interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=None if is_interactive else asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise ConfigError(f"{plugin.where}: {program} cannot be run: {error.strerror}") from None
        try:
            async with asyncio.timeout(None if is_interactive else self._timeout_seconds):
                output, errors = await output_of(process)
        except ValueError as error:
            raise CredentialError(f"{plugin.where}: {plugin.command}: {error} and was killed") from None
        except TimeoutError:
            raise CredentialError(
                f"{plugin.where}: {plugin.command} did not exit within {self._timeout_seconds:g} s and was killed"
            ) from None
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                # Process.wait returns only after the pipes are closed, and pipes with unread output stay
                # open.
                process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001
                await process.wait()
        if process.returncode != 0:
            raise CredentialError(
                f"{plugin.where}: {plugin.command} failed with exit code {process.returncode}{_tail(errors)}"
            )
        return output

    def _program(self, environment: Mapping[str, str]) -> str:
        plugin = self._plugin
        found = shutil.which(plugin.command, path=environment.get("PATH"))
        if found is None:
            hint = f" {' '.join(plugin.install_hint.split())}" if plugin.install_hint else ""
            is_there = "/" in plugin.command and Path(plugin.command).exists()
            problem = "is not executable" if is_there else "is not installed, or not in PATH"
            raise ConfigError(f"{plugin.where}: {plugin.command} {problem}.{hint}")
        return found

    def _info(self, is_interactive: bool) -> str:
        spec: dict[str, Any] = {"interactive": is_interactive}
        if self._cluster is not None:
            spec["cluster"] = self._cluster
        info = {"apiVersion": self._plugin.api_version, "kind": "ExecCredential", "spec": spec}
        return msgspec.json.encode(info).decode()


def _tail(errors: bytes | None) -> str:
    """Return the end of a plugin's standard error in one line, redacted."""
    lines = [line.strip() for line in (errors or b"").decode(errors="replace").splitlines() if line.strip()]
    words = redact(" | ".join(lines[-_TAIL_LINES:]))[-_TAIL_CHARACTERS:]
    return f": {words}" if words else ""
