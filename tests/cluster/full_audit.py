"""A control plane that audits every request, including reads; and the requests of one user."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import yaml

from tinykube.testing.control_plane import ControlPlane

_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
"""


class Asked(msgspec.Struct, frozen=True):
    """One request in the terms of RBAC."""

    verb: str
    group: str
    resource: str
    """Includes the subresource after a slash."""
    namespace: str
    name: str
    code: int


class FullAudit:
    """All requests of all users to the API server."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def of(self, user: str) -> list[Asked]:
        """Return the requests of a user so far, one entry per request and stage."""
        found = []
        for line in self._path.read_text().splitlines(keepends=True):
            if not line.endswith("\n") or f'"username":"{user}"' not in line:
                continue
            event = json.loads(line)
            at = event.get("objectRef")
            if at is None:
                continue
            parts = (at["resource"], at.get("subresource", ""))
            found.append(
                Asked(
                    verb=event["verb"],
                    group=at.get("apiGroup", ""),
                    resource="/".join(part for part in parts if part),
                    namespace=at.get("namespace", ""),
                    name=at.get("name", ""),
                    code=event.get("responseStatus", {}).get("code", 0),
                )
            )
        return found


@contextmanager
def audited_plane(folder: Path, *flags: str) -> Iterator[tuple[ControlPlane, FullAudit]]:
    """A separate control plane; the folder contains the audit policy and log."""
    policy, log = folder / "policy.yaml", folder / "audit.log"
    policy.write_text(_POLICY)
    log.touch()
    audit = (f"--audit-policy-file={policy}", f"--audit-log-path={log}", "--audit-log-mode=blocking")
    with ControlPlane(apiserver_flags=[*audit, *flags]) as plane:
        yield plane, FullAudit(log)


def config_of(plane: ControlPlane, folder: Path, namespace: str, name: str) -> Path:
    """Write the configuration of a ConfigMap on the cluster to a file and return its path."""
    found = yaml.safe_load(plane.kubectl("-n", namespace, "get", "configmap", name, "-o", "yaml"))
    path = folder / f"{name}.yaml"
    path.write_text(found["data"]["config.yaml"])
    return path
