"""The order of ports and subsets against its definition: the whole text, hashed byte by byte."""

from hypothesis import given
from hypothesis import strategies as st

from aiokube.api import discovery, endpoints
from aiokube.api.meta import ObjectReference
from endpointd.controllers import canonical
from endpointd.controllers.fnv import FnvSuffix, fnv1a_128

TEXT = st.text(max_size=8)
OPTIONAL = st.none() | TEXT


def absent(text: str | None) -> str:
    return "<nil>" if text is None else text


CORE_PORTS = st.builds(endpoints.EndpointPort, OPTIONAL, st.integers(0, 65535), OPTIONAL, OPTIONAL)
DISCOVERY_PORTS = st.builds(discovery.EndpointPort, OPTIONAL, OPTIONAL, st.integers(0, 65535), OPTIONAL)
REFERENCES = st.builds(
    ObjectReference,
    st.sampled_from(["Pod", "Node", None]),
    st.sampled_from(["ns", "other", None]),
    OPTIONAL,
    OPTIONAL,
    st.sampled_from([None, None, "v1"]),
    st.sampled_from([None, None, "", "7"]),
    st.sampled_from([None, None, "spec"]),
)
ADDRESSES = st.builds(
    endpoints.EndpointAddress,
    TEXT,
    st.sampled_from([None, None, "", "host"]),
    st.none() | st.sampled_from(["", "node-1"]),
    st.none() | REFERENCES,
)
ADDRESS_LISTS = st.none() | st.lists(ADDRESSES, max_size=4).map(tuple)
SUBSETS = st.builds(
    endpoints.EndpointSubset,
    ADDRESS_LISTS,
    ADDRESS_LISTS,
    st.none() | st.lists(CORE_PORTS, max_size=3).map(tuple),
)


def text_of_reference(reference: ObjectReference | None) -> str:
    if reference is None:
        return "<nil>"
    fields = (
        ("Kind:(string)", reference.kind),
        ("Namespace:(string)", reference.namespace),
        ("Name:(string)", reference.name),
        ("UID:(types.UID)", reference.uid),
        ("APIVersion:(string)", reference.api_version),
        ("ResourceVersion:(string)", reference.resource_version),
        ("FieldPath:(string)", reference.field_path),
    )
    return "{" + " ".join(f"{name}{value or ''}" for name, value in fields) + "}"


def text_of_addresses(addresses: tuple[endpoints.EndpointAddress, ...] | None) -> str:
    texts = [
        f"{{IP:(string){address.ip} Hostname:(string){address.hostname or ''}"
        f" NodeName:(*string){absent(address.node_name)}"
        f" TargetRef:(*v1.ObjectReference){text_of_reference(address.target_ref)}}}"
        for address in addresses or ()
    ]
    return f"[{' '.join(texts)}]" if texts else "<nil>"


def text_of_subset(subset: endpoints.EndpointSubset) -> str:
    ports = [
        f"{{Name:(string){port.name or ''} Port:(int32){port.port or 0} Protocol:(v1.Protocol){port.protocol or ''}"
        f" AppProtocol:(*string){absent(port.app_protocol)}}}"
        for port in subset.ports or ()
    ]
    return (
        f"(v1.EndpointSubset){{Addresses:([]v1.EndpointAddress){text_of_addresses(subset.addresses)}"
        f" NotReadyAddresses:([]v1.EndpointAddress){text_of_addresses(subset.not_ready_addresses)}"
        f" Ports:([]v1.EndpointPort){'[' + ' '.join(ports) + ']' if ports else '<nil>'}}}"
    )


@given(SUBSETS)
def test_the_hash_of_a_subset_equals_the_hash_of_its_full_text(subset: endpoints.EndpointSubset) -> None:
    assert canonical.hash_of_subset(subset) == f"{fnv1a_128(text_of_subset(subset).encode()):032x}"


@given(st.lists(SUBSETS, max_size=4).map(tuple))
def test_subsets_are_sorted_by_the_hash_of_their_text(
    subsets: tuple[endpoints.EndpointSubset, ...],
) -> None:
    ordered = canonical.sort_subsets(subsets)
    assert list(map(repr, ordered)) == list(
        map(repr, sorted(subsets, key=lambda subset: f"{fnv1a_128(text_of_subset(subset).encode()):032x}"))
    )


@given(st.lists(DISCOVERY_PORTS, max_size=4), st.randoms(use_true_random=False))
def test_order_and_key_of_ports_are_independent_of_input_order(
    ports: list[discovery.EndpointPort], random: object
) -> None:
    shuffled = list(ports)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert canonical.sort_ports_discovery(tuple(ports)) == canonical.sort_ports_discovery(tuple(shuffled))
    assert canonical.port_list_key(tuple(ports)) == canonical.port_list_key(tuple(shuffled))


@given(st.binary(max_size=40), st.binary(max_size=40), st.binary(max_size=40))
def test_a_repeated_suffix_has_the_same_effect_on_the_hash_as_its_bytes(
    before: bytes, endpoint_slice: bytes, after: bytes
) -> None:
    repeated = FnvSuffix(endpoint_slice)
    for _ in range(2):  # computed, then cached
        assert fnv1a_128(after, repeated.after(fnv1a_128(before))) == fnv1a_128(
            before + endpoint_slice + after
        )
