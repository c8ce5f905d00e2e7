"""After any history the incremental state equals one built from the listers, and the plan equals a repack of all pods."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.controllers.endpoints.builders import make_pod, make_service

from aiokube.api.core import NamedPort, Pod, Service, ServicePort
from aiokube.api.endpoints import EndpointSubset
from aiokube.api.meta import NarrowMeta
from endpointd.controllers.endpoints.entries import Entry, PodTranslator
from endpointd.controllers.endpoints.plan import Wanted
from endpointd.controllers.endpoints.state import ServiceState
from endpointd.controllers.endpoints.subsets import truncate
from endpointd.controllers.repack import repack

NAMES = st.sampled_from([f"p{number}" for number in range(6)])
ADDRESSES = st.sampled_from(["10.0.0.1", "10.0.0.2", "10.0.0.10", "10.0.0.9", "fd00::1", "fd00::2", "bad"])
NAMED_PORTS = st.lists(
    st.builds(
        NamedPort, st.sampled_from(["web", "dns"]), st.sampled_from(["TCP", "UDP"]), st.integers(80, 82)
    ),
    max_size=3,
).map(tuple)
TIMES = st.one_of(st.none(), st.integers(0, 9).map("2020-01-01T00:00:0{}Z".format))


@st.composite
def pods(draw: st.DrawFn, name: str | None = None) -> Pod:
    name = name or draw(NAMES)
    return make_pod(
        metadata=NarrowMeta(
            name=name, namespace="ns", uid=f"{name}-{draw(st.integers(0, 1))}", resource_version="1"
        ),
        phase=draw(st.sampled_from(["Running", "Running", "Pending", "Failed"])),
        ready=draw(st.booleans()),
        ready_since=draw(TIMES),
        terminating=draw(st.sampled_from([False, False, True])),
        pod_ips=tuple(draw(st.lists(ADDRESSES, max_size=2))),
        node_name=draw(st.sampled_from(["", "node-1"])),
        hostname=draw(st.sampled_from(["", "host"])),
        subdomain=draw(st.sampled_from(["", "svc"])),
        named_ports=draw(NAMED_PORTS),
    )


SERVICE_PORTS = st.lists(
    st.builds(
        ServicePort,
        st.sampled_from(["a", "b", ""]),
        st.sampled_from(["TCP", "UDP"]),
        st.integers(1, 2),
        st.one_of(st.integers(80, 81), st.sampled_from(["web", "dns"])),
        st.sampled_from([None, "h2c"]),
    ),
    max_size=3,
).map(tuple)


@st.composite
def services(draw: st.DrawFn) -> Service:
    return make_service(
        ports=draw(SERVICE_PORTS),
        publish_not_ready_addresses=draw(st.booleans()),
        ip_families=draw(st.sampled_from([(), ("IPv4",), ("IPv6",), ("IPv6", "IPv4")])),
        cluster_ip=draw(st.sampled_from(["None", "", "10.0.0.1"])),
        labels=draw(st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"))),
    )


def reference(service: Service, members: list[Pod], limit: int) -> Wanted:
    """The upstream algorithm: one subset per pod, all repacked and truncated."""
    translator = PodTranslator(service)
    entries: list[Entry] = [entry for pod in members if (entry := translator.entry_of(pod)) is not None]
    single = (
        EndpointSubset(
            addresses=(entry.address,) if entry.is_ready else None,
            not_ready_addresses=None if entry.is_ready else (entry.address,),
            ports=entry.ports,
        )
        for entry in entries
    )
    subsets, over_capacity = truncate(repack(single), limit)
    return Wanted(subsets, over_capacity)


@given(
    services(),
    st.lists(st.one_of(NAMES, pods(), services()), max_size=30),
    st.integers(1, 8),
)
def test_after_any_history_the_state_equals_a_rebuilt_one(
    service: Service, history: list[str | Pod | Service], limit: int
) -> None:
    members: dict[str, Pod] = {}
    state = ServiceState(service, [])
    for change in history:
        if isinstance(change, Service):
            service = change
            state.service_changed(service, members.values())
        elif isinstance(change, Pod):
            old = members.get(change.metadata.name)
            members[change.metadata.name] = change
            if old is not None and old.metadata.uid != change.metadata.uid:
                state.pod_changed(old, None)  # the store reports another pod with the same name as an update
                old = None
            before = state.desired.wanted(limit)
            touched = state.pod_changed(old, change)
            assert touched or state.desired.wanted(limit) == before
        elif change in members:
            state.pod_changed(members.pop(change), None)
    rebuilt = ServiceState(service, members.values())
    assert state.snapshot() == rebuilt.snapshot()
    assert state.desired.wanted(limit) == reference(service, list(members.values()), limit)
    assert state.plan(None, None) == rebuilt.plan(None, None)


@given(services(), st.lists(pods(), max_size=8))
def test_a_written_object_is_never_written_again(service: Service, drawn: list[Pod]) -> None:
    members = list({pod.metadata.name: pod for pod in drawn}.values())
    state = ServiceState(service, members)
    made = state.plan(None, "2020-01-01T00:00:00Z")
    body = msgspec.json.decode(msgspec.json.encode(made.body), type=type(made.body))  # type: ignore[union-attr]
    assert type(state.plan(body, None)).__name__ == "Nothing"
    # In any order in which another client stored the same content.
    shuffled = tuple(
        msgspec.structs.replace(subset, addresses=subset.addresses[::-1] if subset.addresses else None)
        for subset in (body.subsets or ())[::-1]
    )
    assert type(state.plan(msgspec.structs.replace(body, subsets=shuffled), None)).__name__ == "Nothing"
