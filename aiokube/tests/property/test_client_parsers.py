"""The client's parsers accept or refuse any bytes, for any chunk boundaries: watch lines, lists, kubeconfigs.

A bounded run in ``make test``; ``make fuzz`` runs for as long as FUZZ_EXAMPLES says.
"""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiokube.api.core import PODS, SERVICES
from aiokube.api.discovery import ENDPOINT_SLICES
from aiokube.api.resource import Resource
from aiokube.client.errors import ConfigError, TransportError
from aiokube.client.kubeconfig import config_of
from aiokube.client.kubeconfig_file import merge, read_kubeconfig
from aiokube.client.liststream import ListStream
from aiokube.client.watch import Watch
from aiokube.testing.virtual_time import ManualClock

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "60"))
bounded = settings(
    max_examples=EXAMPLES,
    derandomize="FUZZ_EXAMPLES" not in os.environ,
    deadline=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
    ],
)
RESOURCES: tuple[Resource[Any], ...] = (PODS, SERVICES, ENDPOINT_SLICES)
NAMES = (
    "kind", "apiVersion", "metadata", "name", "namespace", "resourceVersion", "labels", "annotations", "items", "spec", "status",
    "endpoints", "addresses", "conditions", "ready", "ports", "port", "podIPs", "ip", "type", "object", "selector", "continue", "uid",
)  # fmt: skip
LEAVES = (
    None, True, 0, -1, 2**63, 2**64, 10**30, 1e308, "", "a", "1", "ADDED", "BOOKMARK", "ERROR", "x" * 300, "\x00", "é", "\ud7ff",
)  # fmt: skip
values = st.recursive(
    st.sampled_from(LEAVES) | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=6),
    max_leaves=25,
)
deep = st.builds(
    lambda depth, name: (
        b'{"type":"ADDED","object":{"metadata":{"name":"a"},"%s":%s1%s}}' % (name, b"[" * depth, b"]" * depth)
    ),
    st.integers(1, 5_000),
    st.sampled_from((b"spec", b"unknown", b"status")),
)
events = st.builds(
    lambda kind, item: json.dumps({"type": kind, "object": item}).encode(),
    st.sampled_from(("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", "")),
    st.dictionaries(st.sampled_from(NAMES), values, max_size=5),
)
lines = st.one_of(st.binary(max_size=80), events, deep)
cuts = st.lists(st.integers(1, 400), min_size=1, max_size=20)


def pieces(body: bytes, sizes: list[int]) -> list[bytes]:
    found, at = [], 0
    for number in range(len(body)):
        if at >= len(body):
            break
        size = sizes[number % len(sizes)]
        found.append(body[at : at + size])
        at += size
    return found


@asynccontextmanager
async def arriving(chunks: list[bytes]) -> AsyncIterator[AsyncIterator[bytes]]:
    async def each() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    yield each()


async def read_watch(resource: Resource[Any], chunks: list[bytes]) -> list[str]:
    """Return what a reader of the watch sees: an event's repr, or the kind of its error."""
    seen: list[str] = []
    async with Watch(resource, arriving(chunks)) as watch:
        while True:
            try:
                batch = await anext(watch)
            except StopAsyncIteration:
                return seen
            except TransportError as error:
                seen.append(type(error).__name__)
            else:
                seen += map(repr, batch)


@bounded
@given(st.sampled_from(RESOURCES), st.lists(lines, max_size=6), cuts)
async def test_any_chunking_gives_the_same_watch_events(
    resource: Resource[Any], given_lines: list[bytes], sizes: list[int]
) -> None:
    body = b"".join(line + b"\n" for line in given_lines)
    assert await read_watch(resource, pieces(body, sizes)) == await read_watch(resource, [body])


async def read_list(resource: Resource[Any], chunks: list[bytes]) -> str:
    items: list[Any] = []
    try:
        async with ListStream(resource, "/x", arriving(chunks)) as stream:
            async for some in stream:
                items += some
    except TransportError as error:
        return type(error).__name__
    return repr((items, stream.resource_version, stream.continue_token))


lists = st.builds(
    lambda items, metadata: json.dumps({"kind": "List", "metadata": metadata, "items": items}).encode(),
    st.lists(st.dictionaries(st.sampled_from(NAMES), values, max_size=5), max_size=6),
    st.dictionaries(st.sampled_from(("resourceVersion", "continue")), values, max_size=2),
)


@bounded
@given(st.sampled_from(RESOURCES), lists | st.binary(max_size=60), cuts)
async def test_any_chunking_gives_the_same_list(
    resource: Resource[Any], body: bytes, sizes: list[int]
) -> None:
    assert await read_list(resource, pieces(body, sizes)) == await read_list(resource, [body])


FIELDS = (
    "apiVersion", "kind", "current-context", "clusters", "users", "contexts", "name", "cluster", "user", "context", "server", "namespace",
    "certificate-authority-data", "certificate-authority", "insecure-skip-tls-verify", "proxy-url", "tls-server-name", "token", "tokenFile",
    "client-certificate-data", "client-key-data", "username", "password", "exec", "command", "args", "env", "interactiveMode",
    "auth-provider", "config", "as", "as-groups", "as-user-extra", "extensions",
)  # fmt: skip
TEXTS = (
    "", "a", "https://127.0.0.1:6443", "http://[::1", "https://user:pass@x/", "Config", "v1", "bm90IFBFTQ==", "%%%", "/nowhere", "Never",
    "client.authentication.k8s.io/v1", "socks5://x", "x\ny", "oidc",
)  # fmt: skip
fields = st.recursive(
    st.sampled_from(TEXTS) | st.none() | st.booleans() | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5),
    max_leaves=20,
)
entry = st.dictionaries(st.sampled_from(FIELDS), fields, max_size=5)
kubeconfigs = st.builds(
    lambda cluster, user, context, others: yaml.safe_dump(
        {
            "current-context": "a",
            "clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:6443", **cluster}}],
            "users": [{"name": "a", "user": user}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a", **context}}],
            **others,
        }
    ).encode(),
    entry, entry, entry, st.dictionaries(st.sampled_from(FIELDS), fields, max_size=2),
)  # fmt: skip
hostile = st.sampled_from(
    (
        b"[" * 100_000,
        b"a: &a [*a]",
        b"\n".join(
            b"k%d: &k%d [%s]" % (n, n, b",".join([b"*k%d" % (n - 1)] * 9) if n else b"1") for n in range(9)
        ),
        b"{" * 3000,
        b"- " * 5000,
        b"\xff\xfe",
        b"clusters: {a: b}",
    )
)


@bounded
@given(body=st.binary(max_size=200) | kubeconfigs | hostile)
def test_any_kubeconfig_is_loaded_or_rejected_with_a_config_error(tmp_path: Path, body: bytes) -> None:
    path = tmp_path / "config"
    path.write_bytes(body)
    try:
        config = config_of(merge([read_kubeconfig(path)]), clock=ManualClock(), environ={})
    except ConfigError:
        return  # refused, with the file and the entry
    assert config.server.startswith(("http://", "https://"))


@pytest.mark.parametrize("depth", [100, 1_000, 100_000])
async def test_a_deeply_nested_watch_line_is_one_undecodable_event_and_the_next_is_read(depth: int) -> None:
    body = (
        b'{"type":"ADDED","object":{"metadata":{"name":"a","namespace":"b"},"spec":{"x":%s1%s}}}\n'
        b'{"type":"ADDED","object":{"metadata":{"name":"next"}}}\n' % (b"[" * depth, b"]" * depth)
    )
    seen = await read_watch(SERVICES, [body])
    assert len(seen) == 2
    assert "next" in seen[1]
