"""Which pods belong to which services, both ways, kept as they change.

A service is filed under one pair of its selector: the one that the fewest services of its namespace stand
under. A pod looks up its own pairs and verifies the candidates, so that its change costs O(its labels), not
O(services in the namespace). A new or re-selected service looks through its namespace once.
"""

import itertools
import logging
from collections.abc import Iterable, Iterator
from typing import Protocol

from aiokube.api.core import Labels, Pod, Service
from aiokube.api.meta import ObjectKey, key_of
from aiokube.api.selectors import matches
from aiokube.runtime.pacing import STEPS_A_YIELD, Steps, run_at_once

log = logging.getLogger(__name__)

LabelPair = tuple[str, str]


class PodLister(Protocol):
    """The pods there are."""

    def get(self, key: ObjectKey) -> Pod | None:
        """Return one pod."""
        ...

    def in_namespace(self, namespace: str) -> Iterable[Pod]:
        """Return the pods of a namespace."""
        ...

    def values(self) -> Iterable[Pod]:
        """Return all pods."""
        ...


class ServiceLister(Protocol):
    """The services there are."""

    def get(self, key: ObjectKey) -> Service | None:
        """Return one service."""
        ...

    def values(self) -> Iterable[Service]:
        """Return all services."""
        ...


class MembershipListener(Protocol):
    """Is told of changes; each call comes in the same loop turn as the change, after the membership has changed.

    A listener that raises has to see to its own state: it is not told again.
    """

    def service_changed(self, old: Service | None, new: Service | None) -> None:
        """Hear of a service that came, went or changed in more than its version: look at all its pods anew."""
        ...

    def pod_changed(self, service: ObjectKey, old: Pod | None, new: Pod | None) -> None:
        """Hear of a pod that joined (no old), left (no new) or changed within a service."""
        ...


class SelectorIndex:
    """The selectors of one namespace's services, each filed under one of its pairs."""

    __slots__ = ("_buckets", "_filed")

    def __init__(self) -> None:
        self._buckets: dict[LabelPair, dict[ObjectKey, Labels]] = {}
        self._filed: dict[ObjectKey, LabelPair] = {}

    def __len__(self) -> int:
        return len(self._filed)

    def file(self, service: ObjectKey, selector: Labels) -> None:
        """File a service anew; it must have at least one pair."""
        self.remove(service)
        buckets = self._buckets
        pair = min(selector.items(), key=lambda item: len(buckets.get(item, ())))
        buckets.setdefault(pair, {})[service] = selector
        self._filed[service] = pair

    def selector_of(self, service: ObjectKey) -> Labels | None:
        """Return the selector under which a service is filed, None where it is not."""
        pair = self._filed.get(service)
        return self._buckets[pair].get(service) if pair is not None else None

    def remove(self, service: ObjectKey) -> None:
        """Forget a service; one that is not filed is no error."""
        pair = self._filed.pop(service, None)
        if pair is None:
            return
        bucket = self._buckets[pair]
        del bucket[service]
        if not bucket:
            del self._buckets[pair]

    def matching(self, labels: Labels) -> list[ObjectKey]:
        """Return the services whose selector these labels satisfy."""
        found: list[ObjectKey] = []
        buckets = self._buckets
        for pair in labels.items():
            bucket = buckets.get(pair)
            if bucket is not None:
                found.extend(service for service, selector in bucket.items() if matches(selector, labels))
        return found


class Membership:
    """The pods of every service that has a selector.

    Feed :meth:`service_changed` and :meth:`pod_changed` from the stores after :meth:`start`. Between the calls
    it holds exactly: a pod is a member of a service if and only if they share a namespace and the service's
    selector matches the pod's labels. A service without selector, or with an empty one, has no members (0.3).
    """

    def __init__(self, services: ServiceLister, pods: PodLister) -> None:
        self._services = services
        self._pods = pods
        self._indexes: dict[str, SelectorIndex] = {}
        self._members: dict[ObjectKey, set[str]] = {}
        self._listeners: list[MembershipListener] = []
        self.listener_failures = 0
        """How often a listener raised. It is logged, and the other listeners are told all the same."""

    def subscribe(self, listener: MembershipListener) -> None:
        """Tell a listener of all that changes from now on."""
        self._listeners.append(listener)

    def start(self) -> None:
        """Do all of :meth:`start_steps` at once."""
        run_at_once(self.start_steps())

    def start_steps(self) -> Steps[None]:
        """Take in what the listers hold: services first, then each pod once, O(pods) in all.

        Where other work runs between the steps, feed the changes of the stores from before the first step on. Nobody is
        told of what is found: a listener builds from :meth:`pods_of` when it starts.
        """
        self._indexes.clear()
        self._members.clear()
        for count, each in enumerate(self._services.values(), 1):
            service = self._services.get(key_of(each))
            if service is not None and service.selector and key_of(service) not in self._members:
                self._file(key_of(service), service.selector)
            if count % STEPS_A_YIELD == 0:
                yield STEPS_A_YIELD
        for count, listed in enumerate(self._pods.values(), 1):
            pod = self._pods.get(key_of(listed))
            if pod is not None:
                for service_key in self.services_of(pod):
                    self._members[service_key].add(pod.metadata.name)
            if count % STEPS_A_YIELD == 0:
                yield STEPS_A_YIELD

    # ------------------------------------------------------------------------------------------ reading

    def services_of(self, pod: Pod) -> list[ObjectKey]:
        """Return the services whose selector matches the pod as given: O(labels of the pod)."""
        index = self._indexes.get(pod.metadata.namespace)
        return index.matching(pod.labels) if index is not None else []

    def is_member(self, service: ObjectKey, pod: str) -> bool:
        """Return whether a service has a member of this name."""
        return pod in self._members.get(service, ())

    def pods_of(self, service: ObjectKey) -> Iterator[Pod]:
        """Yield the members of a service, in no order.

        Each is looked up when it is asked for, so the caller may pause: pods that have left meanwhile are left out, and
        of those that have joined the listeners are told.
        """
        get = self._pods.get
        namespace = service.namespace
        for name in tuple(self._members.get(service, ())):
            pod = get(ObjectKey(namespace, name))
            if pod is not None and name in self._members.get(service, ()):
                yield pod

    # ----------------------------------------------------------------------------------------- changing

    def service_changed(self, old: Service | None, new: Service | None) -> None:
        """Take in a change of the service store, then tell the listeners."""
        if new is None:
            if old is None:
                return
            self._unfile(key_of(old))
        elif old is None or old.selector != new.selector:
            key = key_of(new)
            self._unfile(key)
            if new.selector:
                self._file(key, new.selector)
                self._members[key].update(self._select(new))
        elif not new.differs_from(old):
            return
        for listener in self._listeners:
            try:
                listener.service_changed(old, new)
            except Exception:
                self.listener_failures += 1
                log.exception("a listener failed: %s on service %s", type(listener).__name__, _key(old, new))

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Take in a change of the pod store, then tell the listeners, service by service.

        A change that no rule looks at (another version of the same facts) ends here.
        """
        if old is not None and new is not None and not new.differs_from(old):
            return
        before = self.services_of(old) if old is not None else []
        after = before if _same_labels(old, new) else self.services_of(new) if new is not None else []
        changes: list[tuple[ObjectKey, Pod | None, Pod | None]] = []
        for service in after:
            if before is after or service in before:
                changes.append((service, old, new))
            elif new is not None:
                self._members[service].add(new.metadata.name)
                changes.append((service, None, new))
        if before is not after and old is not None:
            for service in before:
                if service not in after:
                    self._members[service].discard(old.metadata.name)
                    changes.append((service, old, None))
        for listener in self._listeners:
            for service, was, now in changes:
                try:
                    listener.pod_changed(service, was, now)
                except Exception:
                    self.listener_failures += 1
                    name = type(listener).__name__
                    log.exception(
                        "a listener failed: %s on pod %s of service %s", name, _key(old, new), service
                    )

    # ----------------------------------------------------------------------------------------- auditing

    def audited_keys(self) -> list[ObjectKey]:
        """Return the services that have members, or should."""
        selecting = {key_of(service) for service in self._services.values() if service.selector}
        return list(selecting | self._members.keys())

    def audit(self, key: ObjectKey) -> str | None:
        """Do all of :meth:`audit_steps` at once."""
        return run_at_once(self.audit_steps(key))

    def audit_steps(self, key: ObjectKey) -> Steps[str | None]:
        """Compare a service's members with its namespace, O(pods of the namespace).

        Repairs what is wrong, in one step, and returns what it was. Listeners are not told: each audits by itself what it
        made of the members.
        """
        return "the members" if (yield from self._is_wrong(key)) and self.repair(key) else None

    def _is_wrong(self, service: ObjectKey) -> Steps[bool]:
        current = self._services.get(service)
        if current is None or not current.selector or service not in self._members:
            return True  # there is next to nothing to compare
        listed = (pod.metadata.name for pod in self._pods.in_namespace(service.namespace))
        names = itertools.chain(listed, tuple(self._members[service]))
        for count, name in enumerate(names, 1):
            current = self._services.get(service)
            members = self._members.get(service)
            if current is None or not current.selector or members is None:
                return True
            pod = self._pods.get(ObjectKey(service.namespace, name))
            belongs = pod is not None and matches(current.selector, pod.labels)
            if belongs is not (name in members):
                return True
            if count % STEPS_A_YIELD == 0:
                yield STEPS_A_YIELD
        index = self._indexes.get(service.namespace)
        return index is None or index.selector_of(service) != current.selector

    def repair(self, service: ObjectKey) -> bool:
        """Compare a service's members with its namespace, O(pods of the namespace); mend and tell whether wrong."""
        current = self._services.get(service)
        selector = (current.selector or None) if current is not None else None
        wanted = set(self._select(current)) if current is not None and selector else None
        index = self._indexes.get(service.namespace)
        filed = index.selector_of(service) if index is not None else None
        if self._members.get(service) == wanted and filed == selector:
            return False
        self._unfile(service)
        if wanted is not None and selector is not None:
            self._file(service, selector)
            self._members[service].update(wanted)
        return True

    def _select(self, service: Service) -> Iterator[str]:
        selector = service.selector
        if selector:
            for pod in self._pods.in_namespace(service.metadata.namespace):
                if matches(selector, pod.labels):
                    yield pod.metadata.name

    def _file(self, service: ObjectKey, selector: Labels) -> None:
        self._indexes.setdefault(service.namespace, SelectorIndex()).file(service, selector)
        self._members[service] = set()

    def _unfile(self, service: ObjectKey) -> None:
        self._members.pop(service, None)
        index = self._indexes.get(service.namespace)
        if index is not None:
            index.remove(service)
            if not len(index):
                del self._indexes[service.namespace]


def _same_labels(old: Pod | None, new: Pod | None) -> bool:
    return old is not None and new is not None and (old.labels is new.labels or old.labels == new.labels)


def _key(old: Pod | Service | None, new: Pod | Service | None) -> ObjectKey | None:
    item = new if new is not None else old
    return key_of(item) if item is not None else None
