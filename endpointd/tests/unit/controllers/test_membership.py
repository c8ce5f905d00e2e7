"""Which pods belong to which services (0.3, S-2, E-2), reported per service, at the cost of the pod's labels."""

from collections.abc import Callable, Iterable

import msgspec

from aiokube.api.core import Labels, Pod, Service
from aiokube.api.meta import KubernetesObject, ObjectKey, key_of
from aiokube.testing.builders import make_pod, make_service
from endpointd.controllers.membership import Membership, SelectorIndex


class Objects(dict[ObjectKey, KubernetesObject]):
    """A lister over a plain dictionary."""

    def in_namespace(self, namespace: str) -> Iterable[Pod]:
        return [item for key, item in self.items() if key.namespace == namespace]  # type: ignore[misc]


class World:
    """Services and pods changed by a test, a membership that follows, and the calls of its listener."""

    def __init__(self) -> None:
        self.services = Objects()
        self.pods = Objects()
        self.membership = Membership(self.services, self.pods)  # type: ignore[arg-type]
        self.membership.subscribe(self)
        self.heard: list[tuple[str, Pod | None, Pod | None]] = []
        self.service_news: list[tuple[Service | None, Service | None]] = []

    def service_changed(self, old: Service | None, new: Service | None) -> None:
        self.service_news.append((old, new))

    def pod_changed(self, service: ObjectKey, old: Pod | None, new: Pod | None) -> None:
        self.heard.append((service.name, old, new))

    def put_service(self, service: Service) -> None:
        old = self.services.get(key_of(service))
        self.services[key_of(service)] = service
        self.membership.service_changed(old, service)  # type: ignore[arg-type]

    def put_pod(self, pod: Pod) -> None:
        old = self.pods.get(key_of(pod))
        self.pods[key_of(pod)] = pod
        self.membership.pod_changed(old, pod)  # type: ignore[arg-type]

    def remove(self, item: Service | Pod) -> None:
        if isinstance(item, Service):
            del self.services[key_of(item)]
            self.membership.service_changed(item, None)
        else:
            del self.pods[key_of(item)]
            self.membership.pod_changed(item, None)

    def members(self, service: str = "web") -> set[str]:
        return {pod.metadata.name for pod in self.membership.pods_of(ObjectKey("default", service))}

    def news(self) -> list[tuple[str, Pod | None, Pod | None]]:
        heard, self.heard = self.heard, []
        return heard


def changed(pod: Pod, **fields: object) -> Pod:
    return msgspec.structs.replace(pod, **fields)


def test_a_pod_belongs_to_every_matching_service_of_its_namespace() -> None:
    world = World()
    world.put_service(make_service("web"))
    world.put_service(make_service("both", selector={"app": "web", "tier": "front"}))
    world.put_service(make_service("elsewhere", namespace="other"))
    world.put_pod(pod := make_pod("a"))
    world.put_pod(front := make_pod("b", labels={"app": "web", "tier": "front", "x": "y"}))
    world.put_pod(make_pod("c", labels={"tier": "front"}))
    assert world.members("web") == {"a", "b"}
    assert world.members("both") == {"b"}
    assert world.news() == [("web", None, pod), ("web", None, front), ("both", None, front)]
    assert list(world.membership.pods_of(ObjectKey("other", "elsewhere"))) == []


def test_a_service_without_a_selector_or_with_an_empty_one_has_no_members() -> None:
    """0.3: the API rejects an empty selector; if one exists it counts as missing."""
    world = World()
    world.put_service(make_service("none", selector=None))
    world.put_service(make_service("empty", selector={}))
    world.put_pod(make_pod("a"))
    assert world.members("none") == set()
    assert world.members("empty") == set()
    assert world.news() == []


def test_a_new_service_selects_existing_pods() -> None:
    world = World()
    world.put_pod(make_pod("a"))
    world.put_pod(make_pod("b", labels={"app": "db"}))
    service = make_service()
    world.put_service(service)
    assert world.members() == {"a"}
    assert world.service_news == [(None, service)]
    assert world.news() == []  # the service's listener reads all its pods


def test_a_selector_change_changes_the_members() -> None:
    world = World()
    world.put_pod(make_pod("a"))
    world.put_pod(db := make_pod("b", labels={"app": "db"}))
    world.put_service(make_service())
    world.put_service(make_service(selector={"app": "db"}, resource_version="2"))
    assert world.members() == {"b"}
    assert world.membership.services_of(db) == [ObjectKey("default", "web")]
    world.put_service(make_service(selector=None, resource_version="3"))
    assert world.members() == set()
    assert world.membership.services_of(db) == []


def test_a_deleted_service_has_no_members_and_its_pods_no_service() -> None:
    world = World()
    world.put_service(service := make_service())
    world.put_pod(pod := make_pod("a"))
    world.remove(service)
    assert world.members() == set()
    assert world.membership.services_of(pod) == []
    assert world.service_news[-1] == (service, None)
    world.membership.service_changed(None, None)
    assert len(world.service_news) == 2


def test_a_version_change_alone_is_not_reported() -> None:
    """0.3: a resync or an irrelevant change ends here."""
    world = World()
    world.put_service(make_service())
    world.put_pod(make_pod("a"))
    world.news()
    world.put_service(make_service(resource_version="2"))
    world.put_pod(make_pod("a", resource_version="2"))
    assert len(world.service_news) == 1
    assert world.news() == []


def test_any_other_change_of_a_service_is_reported_with_the_same_members() -> None:
    """S-1: any change of a service counts."""
    world = World()
    world.put_service(make_service())
    world.put_pod(make_pod("a"))
    world.put_service(make_service(labels={"x": "y"}))
    assert len(world.service_news) == 2
    assert world.members() == {"a"}


def test_all_pod_changes_that_upstream_handles_are_reported() -> None:
    """0.3, the table of pod events, with the fields for which "pod changed" is true."""
    base = make_pod("a", "10.0.0.1")
    for change in (
        {"ready": False},
        {"terminating": True},
        {"pod_ips": ("10.0.0.2",)},
        {"pod_ips": ("10.0.0.1", "fd00::1")},
        {"pod_ips": ()},
    ):
        world = World()
        world.put_service(make_service())
        world.put_pod(base)
        world.news()
        world.put_pod(after := changed(base, **change))
        assert world.news() == [("web", base, after)], change


def test_pod_changes_that_upstream_misses_are_reported_too() -> None:
    """0.3: phase (a not-ready pod that fails), node, ports, hostname; upstream keeps a stale endpoint for these."""
    base = make_pod("a", ready=False)
    for change in (
        {"phase": "Failed"},
        {"node_name": "node-2"},
        {"hostname": "a", "subdomain": "web"},
        {"named_ports": (("http", "TCP", 80),)},
        {"ready_since": "2026-01-01T00:00:09Z"},
    ):
        world = World()
        world.put_service(make_service())
        world.put_pod(base)
        world.news()
        world.put_pod(after := changed(base, **change))
        assert world.news() == [("web", base, after)], change


def test_a_label_change_of_a_pod_is_reported_to_old_and_new_services() -> None:
    """0.3: the services that match before and after, each with its own event."""

    def labels(*names: str) -> Labels:
        return dict.fromkeys(names, "yes")

    world = World()
    for name in ("one", "two", "three"):
        world.put_service(make_service(name, selector=labels(name)))
    world.put_pod(before := make_pod("a", labels=labels("one", "two")))
    world.news()
    world.put_pod(after := make_pod("a", labels=labels("two", "three")))
    assert sorted(world.news(), key=lambda item: item[0]) == [
        ("one", before, None),
        ("three", None, after),
        ("two", before, after),
    ]
    assert [world.members(name) for name in ("one", "two", "three")] == [set(), {"a"}, {"a"}]


def test_a_deleted_pod_leaves_the_services_of_its_last_labels() -> None:
    world = World()
    world.put_service(make_service())
    world.put_pod(pod := make_pod("a"))
    world.news()
    world.remove(pod)
    assert world.members() == set()
    assert world.news() == [("web", pod, None)]


def test_a_start_loads_existing_objects_without_calling_listeners() -> None:
    world = World()
    world.services[ObjectKey("default", "web")] = make_service()
    world.pods[ObjectKey("default", "a")] = make_pod("a")
    world.pods[ObjectKey("default", "b")] = make_pod("b", labels={})
    world.membership.start()
    assert world.members() == {"a"}
    assert world.news() == []
    world.membership.start()
    assert world.members() == {"a"}


def test_a_listener_finds_the_membership_already_changed() -> None:
    world = World()
    world.put_service(make_service())
    seen: list[set[str]] = []

    class Listener:
        def service_changed(self, old: Service | None, new: Service | None) -> None:
            seen.append(world.members())

        def pod_changed(self, service: ObjectKey, old: Pod | None, new: Pod | None) -> None:
            seen.append(world.members())

    world.membership.subscribe(Listener())
    world.put_pod(make_pod("a"))
    world.put_service(make_service(labels={"x": "y"}))
    world.remove(make_pod("a"))
    assert seen == [{"a"}, {"a"}, set()]


def test_events_that_lag_behind_the_lister_are_harmless() -> None:
    """A relist is stored in one step and dispatched object by object: a new service sees the stored objects."""
    world = World()
    gone, stays = make_pod("gone"), make_pod("stays")
    world.put_pod(gone)
    del world.pods[key_of(gone)]
    world.pods[key_of(stays)] = stays
    world.put_service(make_service())
    world.membership.pod_changed(gone, None)
    world.membership.pod_changed(None, stays)
    assert world.members() == {"stays"}


# ------------------------------------------------------------------------------------------------- audit


def test_a_correct_membership_passes_its_audit() -> None:
    world = World()
    world.put_service(make_service())
    world.put_service(make_service("none", selector=None))
    world.put_pod(make_pod("a"))
    key = ObjectKey("default", "web")
    assert set(world.membership.audited_keys()) == {key}
    assert world.membership.audit(key) is None
    assert world.membership.audit(ObjectKey("default", "none")) is None
    assert not world.membership.repair(key)


def test_lost_and_extra_members_are_repaired() -> None:
    key = ObjectKey("default", "web")
    breakages: list[Callable[[Membership], object]] = [
        lambda membership: membership._members[key].discard("a"),
        lambda membership: membership._members[key].add("ghost"),
        lambda membership: membership._members.pop(key),
        lambda membership: membership._indexes.clear(),
        lambda membership: membership._indexes["default"].add(key, {"app": "other"}),
    ]
    for break_it in breakages:
        world = World()
        world.put_service(make_service())
        world.put_pod(pod := make_pod("a"))
        break_it(world.membership)
        assert world.membership.audit(key) is not None
        assert world.members() == {"a"}
        assert world.membership.services_of(pod) == [key]
        assert world.membership.audit(key) is None


def test_the_audit_drops_members_of_a_deleted_service() -> None:
    world = World()
    world.put_service(service := make_service())
    world.put_pod(pod := make_pod("a"))
    del world.services[key_of(service)]
    assert key_of(service) in world.membership.audited_keys()
    assert world.membership.audit(key_of(service)) is not None
    assert world.membership.services_of(pod) == []
    assert key_of(service) not in world.membership.audited_keys()


# ------------------------------------------------------------------------------------------------- index


def test_a_service_is_indexed_under_its_rarest_pair() -> None:
    """A pod in a namespace full of ``app=web`` services must not have to check each of them."""
    index = SelectorIndex()
    for number in range(100):
        index.add(ObjectKey("default", f"s{number}"), {"app": "web", "instance": str(number)})
    assert index.matching({"app": "web", "instance": "7"}) == [ObjectKey("default", "s7")]
    # The first was indexed under the shared pair, before any other service existed; no other is.
    assert max(len(bucket) for bucket in index._buckets.values()) == 1
    assert len(index) == 100


def test_an_emptied_index_keeps_no_entries() -> None:
    index = SelectorIndex()
    key = ObjectKey("default", "web")
    index.add(key, {"a": "1"})
    index.add(key, {"b": "2"})
    assert index.matching({"a": "1"}) == []
    assert index.matching({"b": "2"}) == [key]
    index.remove(key)
    index.remove(key)
    assert (len(index), index._buckets) == (0, {})
