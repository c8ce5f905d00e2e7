"""After any changes of services and pods, the membership equals one computed from all of them."""

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from aiokube.api.core import Pod, Service
from aiokube.api.meta import KubernetesObject, ObjectKey, key_of
from aiokube.api.selectors import matches
from aiokube.testing.builders import make_pod, make_service
from endpointd.controllers.membership import Membership

NAMESPACES = st.sampled_from(["one", "two"])
PODS = st.sampled_from(["a", "b", "c"])
SERVICES = st.sampled_from(["x", "y", "z"])
LABELS = st.dictionaries(st.sampled_from("klm"), st.sampled_from("12"), max_size=3)
NODES = st.sampled_from(["", "n1", "n2"])


class Lister(dict[ObjectKey, KubernetesObject]):
    """A lister over a plain dictionary."""

    def in_namespace(self, namespace: str) -> list[KubernetesObject]:
        return [item for key, item in self.items() if key.namespace == namespace]


class MembershipMachine(RuleBasedStateMachine):
    """Changes arrive one by one; a listener keeps its own record only from the calls it receives."""

    @initialize(
        services=st.dictionaries(st.tuples(NAMESPACES, SERVICES), LABELS, max_size=3),
        pods=st.dictionaries(st.tuples(NAMESPACES, PODS), LABELS, max_size=3),
    )
    def start(
        self, services: dict[tuple[str, str], dict[str, str]], pods: dict[tuple[str, str], dict[str, str]]
    ) -> None:
        self.services = Lister()
        self.pods = Lister()
        self.version = 0
        self.told: dict[ObjectKey, dict[str, Pod]] = {}
        for (namespace, name), selector in services.items():
            key = ObjectKey(namespace, name)
            self.services[key] = make_service(name, namespace=namespace, selector=selector or None)
        for (namespace, name), labels in pods.items():
            self.pods[ObjectKey(namespace, name)] = make_pod(name, namespace=namespace, labels=labels)
        self.membership = Membership(self.services, self.pods)  # type: ignore[arg-type]
        self.membership.start()
        self.membership.subscribe(self)
        for key in self.services:
            self.rescan(key)

    def rescan(self, service: ObjectKey) -> None:
        self.told[service] = {pod.metadata.name: pod for pod in self.membership.pods_of(service)}

    def service_changed(self, old: Service | None, new: Service | None) -> None:
        if new is not None:
            self.rescan(key_of(new))
        elif old is not None:
            del self.told[key_of(old)]

    def pod_changed(self, service: ObjectKey, old: Pod | None, new: Pod | None) -> None:
        members = self.told[service]
        pod = new if new is not None else old
        assert pod is not None
        name = pod.metadata.name
        assert (name in members) is (old is not None), "reported a join or leave that did not happen"
        if new is None:
            del members[name]
        else:
            members[name] = new

    @rule(namespace=NAMESPACES, name=SERVICES, selector=st.none() | LABELS, headless=st.booleans())
    def put_service(self, namespace: str, name: str, selector: dict[str, str] | None, headless: bool) -> None:
        self.version += 1
        key = ObjectKey(namespace, name)
        old = self.services.get(key)
        new = make_service(
            name,
            namespace=namespace,
            selector=selector or None,
            cluster_ip="None" if headless else "10.96.0.1",
            resource_version=str(self.version),
        )
        self.services[key] = new
        self.membership.service_changed(old, new)  # type: ignore[arg-type]

    @rule(namespace=NAMESPACES, name=SERVICES)
    def remove_service(self, namespace: str, name: str) -> None:
        old = self.services.pop(ObjectKey(namespace, name), None)
        self.membership.service_changed(old, None)  # type: ignore[arg-type]

    @rule(namespace=NAMESPACES, name=PODS, labels=LABELS, node=NODES, ready=st.booleans())
    def put_pod(self, namespace: str, name: str, labels: dict[str, str], node: str, ready: bool) -> None:
        self.version += 1
        key = ObjectKey(namespace, name)
        old = self.pods.get(key)
        new = make_pod(
            name,
            namespace=namespace,
            labels=labels,
            node_name=node,
            ready=ready,
            resource_version=str(self.version),
        )
        self.pods[key] = new
        self.membership.pod_changed(old, new)  # type: ignore[arg-type]

    @rule(namespace=NAMESPACES, name=PODS)
    def remove_pod(self, namespace: str, name: str) -> None:
        old = self.pods.pop(ObjectKey(namespace, name), None)
        self.membership.pod_changed(old, None)  # type: ignore[arg-type]

    @invariant()
    def members_are_the_matching_pods(self) -> None:
        for key, service in self.services.items():
            assert isinstance(service, Service)
            expected = {
                pod_key.name: pod
                for pod_key, pod in self.pods.items()
                if isinstance(pod, Pod)
                and pod_key.namespace == key.namespace
                and service.selector
                and matches(service.selector, pod.labels)
            }
            assert {pod.metadata.name: pod for pod in self.membership.pods_of(key)} == expected
            told = self.told[key]
            assert told.keys() == expected.keys()
            assert all(not told[name].differs_from(pod) for name, pod in expected.items())
        assert self.told.keys() == self.services.keys()

    @invariant()
    def reverse_lookup_agrees(self) -> None:
        for pod in self.pods.values():
            assert isinstance(pod, Pod)
            services = self.membership.services_of(pod)
            assert len(services) == len(set(services))
            assert set(services) == {
                key
                for key, members in self.told.items()
                if key.namespace == pod.metadata.namespace and pod.metadata.name in members
            }

    @invariant()
    def the_audit_finds_nothing(self) -> None:
        assert [key for key in self.membership.audited_keys() if self.membership.audit(key)] == []

    def teardown(self) -> None:
        for key in list(self.services):
            self.remove_service(*key)
        for key in list(self.pods):
            self.remove_pod(*key)
        held = self.membership
        assert (held._members, held._indexes) == ({}, {}), "the membership leaked state"


TestMembership = MembershipMachine.TestCase
TestMembership.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
