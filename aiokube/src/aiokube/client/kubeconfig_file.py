"""Reading and merging of kubeconfig files.

Files are YAML or JSON. The first file that defines an entry wins; relative paths are resolved against the
folder of the entry's file, so each entry remembers its file. Unknown fields are ignored. Reprs and error
messages contain no values.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from aiokube.client.errors import ConfigError

E = TypeVar("E")

_LARGEST_BYTES = 16 * 1024 * 1024


class _Quiet(msgspec.Struct, frozen=True):
    """A struct whose repr shows no fields, because they may be secret."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return []


class Extension(_Quiet, frozen=True):
    """A named extension of another program."""

    name: str = ""
    extension: Any = None


class ClusterEntry(_Quiet, frozen=True, rename="kebab"):
    """A server and its TLS settings."""

    server: str | None = None
    tls_server_name: str | None = None
    insecure_skip_tls_verify: bool | None = None
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    proxy_url: str | None = None
    disable_compression: bool | None = None
    extensions: list[Extension] | None = None


class ExecVariable(_Quiet, frozen=True):
    """An environment variable of an exec plugin."""

    name: str = ""
    value: str | None = None


class ExecEntry(_Quiet, frozen=True, rename="camel"):
    """An exec plugin, which prints credentials."""

    command: str | None = None
    args: list[str] | None = None
    env: list[ExecVariable] | None = None
    api_version: str | None = None
    install_hint: str | None = None
    provide_cluster_info: bool | None = None
    interactive_mode: str | None = None


class AuthProviderEntry(_Quiet, frozen=True):
    """A built-in authentication provider; ``oidc`` is the only one left."""

    name: str = ""
    config: dict[str, str] | None = None


class UserEntry(_Quiet, frozen=True, rename="kebab"):
    """A user's credentials."""

    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    token: str | None = None
    token_file: str | None = msgspec.field(default=None, name="tokenFile")
    username: str | None = None
    password: str | None = None
    impersonate_user: str | None = msgspec.field(default=None, name="as")
    impersonate_uid: str | None = msgspec.field(default=None, name="as-uid")
    impersonate_groups: list[str] | None = msgspec.field(default=None, name="as-groups")
    impersonate_extra: dict[str, list[str]] | None = msgspec.field(default=None, name="as-user-extra")
    auth_provider: AuthProviderEntry | None = None
    exec: ExecEntry | None = None


class ContextEntry(_Quiet, frozen=True):
    """A cluster, a user, and a default namespace."""

    cluster: str | None = None
    user: str | None = None
    namespace: str | None = None


class Located(NamedTuple, Generic[E]):
    """An entry and its file."""

    entry: E
    file: Path

    def path(self, written: str) -> Path:
        """Resolve a path of the entry."""
        return self.file.parent / written


class Kubeconfig(NamedTuple):
    """One kubeconfig file, or several merged ones."""

    current_context: str
    clusters: dict[str, Located[ClusterEntry]]
    users: dict[str, Located[UserEntry]]
    contexts: dict[str, Located[ContextEntry]]


class _NamedCluster(_Quiet, frozen=True):
    name: str = ""
    cluster: ClusterEntry | None = None


class _NamedUser(_Quiet, frozen=True):
    name: str = ""
    user: UserEntry | None = None


class _NamedContext(_Quiet, frozen=True):
    name: str = ""
    context: ContextEntry | None = None


class _File(_Quiet, frozen=True, rename="kebab"):
    kind: str | None = None
    current_context: str | None = None
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None


def read_kubeconfig(path: Path) -> Kubeconfig:
    """Read one file. Raises ConfigError, which names the file and the line."""
    try:
        with path.open("rb") as opened:
            content = opened.read(_LARGEST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"kubeconfig {path} cannot be read: {error.strerror}") from None
    try:
        file = msgspec.convert(_parse(path, content) or {}, _File, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"kubeconfig {path} is not one: {error}") from None
    if file.kind not in (None, "", "Config"):
        raise ConfigError(f"kubeconfig {path} is not one: its kind is not Config")
    located = path.absolute()
    return Kubeconfig(
        current_context=file.current_context or "",
        clusters=_by_name(
            located,
            "clusters",
            ((one.name, one.cluster or ClusterEntry()) for one in file.clusters or ()),
        ),
        users=_by_name(located, "users", ((one.name, one.user or UserEntry()) for one in file.users or ())),
        contexts=_by_name(
            located,
            "contexts",
            ((one.name, one.context or ContextEntry()) for one in file.contexts or ()),
        ),
    )


def merge(configs: Iterable[Kubeconfig]) -> Kubeconfig:
    """Merge files entry by entry: the first file that defines an entry wins."""
    current = ""
    clusters: dict[str, Located[ClusterEntry]] = {}
    users: dict[str, Located[UserEntry]] = {}
    contexts: dict[str, Located[ContextEntry]] = {}
    for config in configs:
        current = current or config.current_context
        clusters = config.clusters | clusters
        users = config.users | users
        contexts = config.contexts | contexts
    return Kubeconfig(current, clusters, users, contexts)


def _by_name(path: Path, section: str, named: Iterable[tuple[str, E]]) -> dict[str, Located[E]]:
    found: dict[str, Located[E]] = {}
    for name, entry in named:
        if name in found:
            raise ConfigError(f"kubeconfig {path} has two {section} named {name!r}: keep one")
        found[name] = Located(entry, path)
    return found


def _parse(path: Path, content: bytes) -> Any:
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass  # YAML, like nearly every kubeconfig
    from aiokube.yaml_reader import Limits, YamlError, read_document

    try:
        return read_document(content, Limits(max_bytes=_LARGEST_BYTES)).value
    except YamlError as error:  # its message quotes no values
        where = "" if error.line is None else f" in line {error.line}"
        raise ConfigError(f"kubeconfig {path} is neither YAML nor JSON{where}: {error.problem}") from None
