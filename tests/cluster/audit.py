"""Writes to a control plane with their users, read from kube-apiserver's audit log."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from aiokube.api.meta import ObjectKey


class Write(msgspec.Struct, frozen=True):
    """One write request with its response. A create by ``generateName`` has no name here."""

    verb: str
    resource: str
    key: ObjectKey
    user: str
    user_agent: str
    code: int
    received: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource} {self.key} -> {self.code}"


class _Reference(msgspec.Struct, frozen=True, rename="camel"):
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""


class _User(msgspec.Struct, frozen=True):
    username: str = ""


class _Answer(msgspec.Struct, frozen=True):
    code: int = 0


class _Event(msgspec.Struct, frozen=True, rename="camel"):
    verb: str
    stage: str
    request_received_timestamp: str = ""
    user_agent: str = ""
    user: _User = _User()
    object_ref: _Reference = _Reference()
    response_status: _Answer = _Answer()


class AuditLog:
    """Reads a growing audit log: each call of :meth:`new_writes` continues after the previous one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = path.stat().st_size if path.exists() else 0
        self._decoder = msgspec.json.Decoder(_Event)

    def new_writes(self, resources: Iterable[str] = ("endpoints", "endpointslices")) -> list[Write]:
        """Return the writes to these resources that were answered since the last call, in order of the answers."""
        with self._path.open("rb") as log:
            log.seek(self._offset)
            content = log.read()
        complete = content[: content.rfind(b"\n") + 1]
        self._offset += len(complete)
        wanted = set(resources)
        events = [self._decoder.decode(line) for line in complete.splitlines()]
        return [
            _write(event)
            for event in events
            if event.stage == "ResponseComplete" and event.object_ref.resource in wanted
        ]


def _write(event: _Event) -> Write:
    reference = event.object_ref
    resource = (
        f"{reference.resource}/{reference.subresource}" if reference.subresource else reference.resource
    )
    return Write(
        verb=event.verb,
        resource=resource,
        key=ObjectKey(reference.namespace, reference.name),
        user=event.user.username,
        user_agent=event.user_agent,
        code=event.response_status.code,
        received=event.request_received_timestamp,
    )
