"""Tracks which pods belong to which services, in both directions, as they change.

A service is indexed under one pair of its selector: the pair shared by the fewest services of its namespace.
A pod looks up its own pairs and verifies the candidates, so its change costs O(its labels), not O(services in
the namespace). A new or changed selector scans its namespace once.
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
    """A lister of pods."""

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
    """A lister of services."""

    def get(self, key: ObjectKey) -> Service | None:
        """Return one service."""
        ...

    def values(self) -> Iterable[Service]:
        """Return all services."""
        ...


class MembershipListener(Protocol):
    """Receives changes in the loop turn of the change, after the membership has been updated.

    A listener that raises must recover its own state: the call is not repeated.
    """

    def service_changed(self, old: Service | None, new: Service | None) -> None:
        """Handle a service that was created, deleted or changed in more than its version; all its pods may be affected."""
        ...

    def pod_changed(self, service: ObjectKey, old: Pod | None, new: Pod | None) -> None:
        """Handle a pod that joins (no old), leaves (no new) or changes within a service."""
        ...


class SelectorIndex:
    """The selectors of one namespace's services, each indexed under one of its pairs."""

    __slots__ = ("_buckets", "_indexed_pairs")

    def __init__(self) -> None:
        self._buckets: dict[LabelPair, dict[ObjectKey, Labels]] = {}
        self._indexed_pairs: dict[ObjectKey, LabelPair] = {}

    def __len__(self) -> int:
        return len(self._indexed_pairs)

    def add(self, service: ObjectKey, selector: Labels) -> None:
        """Add or replace a service; its selector must have at least one pair."""
        self.remove(service)
        buckets = self._buckets
        pair = min(selector.items(), key=lambda item: len(buckets.get(item, ())))
        buckets.setdefault(pair, {})[service] = selector
        self._indexed_pairs[service] = pair

    def selector_of(self, service: ObjectKey) -> Labels | None:
        """Return the indexed selector of a service, or None."""
        pair = self._indexed_pairs.get(service)
        return self._buckets[pair].get(service) if pair is not None else None

    def remove(self, service: ObjectKey) -> None:
        """Remove a service, if present."""
        pair = self._indexed_pairs.pop(service, None)
        if pair is None:
            return
        bucket = self._buckets[pair]
        del bucket[service]
        if not bucket:
            del self._buckets[pair]

    def matching(self, labels: Labels) -> list[ObjectKey]:
        """Return the services whose selector matches these labels."""
        found: list[ObjectKey] = []
        buckets = self._buckets
        for pair in labels.items():
            bucket = buckets.get(pair)
            if bucket is not None:
                found.extend(service for service, selector in bucket.items() if matches(selector, labels))
        return found


class Membership:
    """The pods of every service with a selector.

    Call :meth:`service_changed` and :meth:`pod_changed` from the stores after :meth:`start`. Between calls
    this holds exactly: a pod is a member of a service if and only if they share a namespace and the service's
    selector matches the pod's labels. A service without selector, or with an empty one, has no members (0.3).
    """

    def __init__(self, services: ServiceLister, pods: PodLister) -> None:
        self._services = services
        self._pods = pods
        self._indexes: dict[str, SelectorIndex] = {}
        self._members: dict[ObjectKey, set[str]] = {}
        self._listeners: list[MembershipListener] = []
        self.listener_failures = 0
        """The number of exceptions raised by listeners. They are logged, and the other listeners are still
        called."""

    def subscribe(self, listener: MembershipListener) -> None:
        """Add a listener for all further changes."""
        self._listeners.append(listener)

    def start(self) -> None:
        """Run all of :meth:`start_steps` immediately."""
        run_at_once(self.start_steps())

    def start_steps(self) -> Steps[None]:
        """Load the listers: services first, then each pod once. O(pods) in total.

        If other work runs between the steps, deliver store changes from before the first step. Listeners are
        not called: they load :meth:`pods_of` when they start.
        """
        self._indexes.clear()
        self._members.clear()
        for count, each in enumerate(self._services.values(), 1):
            service = self._services.get(key_of(each))
            if service is not None and service.selector and key_of(service) not in self._members:
                self._add_service(key_of(service), service.selector)
            if count % STEPS_A_YIELD == 0:
                yield STEPS_A_YIELD
        for count, listed in enumerate(self._pods.values(), 1):
            pod = self._pods.get(key_of(listed))
            if pod is not None:
                for service_key in self.services_of(pod):
                    self._members[service_key].add(pod.metadata.name)
            if count % STEPS_A_YIELD == 0:
                yield STEPS_A_YIELD

    # ------------------------------------------------------------------------------------------ queries

    def services_of(self, pod: Pod) -> list[ObjectKey]:
        """Return the services whose selector matches this pod. O(labels of the pod)."""
        index = self._indexes.get(pod.metadata.namespace)
        return index.matching(pod.labels) if index is not None else []

    def is_member(self, service: ObjectKey, pod: str) -> bool:
        """Return whether a service has a member with this name."""
        return pod in self._members.get(service, ())

    def pods_of(self, service: ObjectKey) -> Iterator[Pod]:
        """Yield the members of a service, in no particular order.

        The lookup is lazy, so the caller may pause: pods that leave during the iteration are
        skipped, and pods that join are reported to the listeners.
        """
        get = self._pods.get
        namespace = service.namespace
        for name in tuple(self._members.get(service, ())):
            pod = get(ObjectKey(namespace, name))
            if pod is not None and name in self._members.get(service, ()):
                yield pod

    # ----------------------------------------------------------------------------------------- events

    def service_changed(self, old: Service | None, new: Service | None) -> None:
        """Apply a change of the service store, then call the listeners."""
        if new is None:
            if old is None:
                return
            self._remove_service(key_of(old))
        elif old is None or old.selector != new.selector:
            key = key_of(new)
            self._remove_service(key)
            if new.selector:
                self._add_service(key, new.selector)
                self._members[key].update(self._select(new))
        elif not new.differs_from(old):
            return
        for listener in self._listeners:
            try:
                listener.service_changed(old, new)
            except Exception:
                self.listener_failures += 1
                log.exception(
                    "membership listener failed: listener=%s service=%s",
                    type(listener).__name__,
                    _key(old, new),
                )

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Apply a change of the pod store, then call the listeners service by service.

        A change without relevant fields (only a new version) ends here.
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
                        "membership listener failed: listener=%s pod=%s service=%s",
                        name,
                        _key(old, new),
                        service,
                    )

    # ----------------------------------------------------------------------------------------- audit

    def audited_keys(self) -> list[ObjectKey]:
        """Return the services that have, or should have, members."""
        selecting = {key_of(service) for service in self._services.values() if service.selector}
        return list(selecting | self._members.keys())

    def audit(self, key: ObjectKey) -> str | None:
        """Run all of :meth:`audit_steps` immediately."""
        return run_at_once(self.audit_steps(key))

    def audit_steps(self, key: ObjectKey) -> Steps[str | None]:
        """Compare a service's members with its namespace. O(pods of the namespace).

        Repairs a mismatch in one step and describes it. Listeners are not called: each audits its own state.
        """
        return "the members" if (yield from self._is_wrong(key)) and self.repair(key) else None

    def _is_wrong(self, service: ObjectKey) -> Steps[bool]:
        current = self._services.get(service)
        if current is None or not current.selector or service not in self._members:
            return True  # almost nothing to compare
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
        """Recompute a service's members, repair them and return whether they were wrong.

        O(pods of the namespace).
        """
        current = self._services.get(service)
        selector = (current.selector or None) if current is not None else None
        wanted = set(self._select(current)) if current is not None and selector else None
        index = self._indexes.get(service.namespace)
        indexed_selector = index.selector_of(service) if index is not None else None
        if self._members.get(service) == wanted and indexed_selector == selector:
            return False
        self._remove_service(service)
        if wanted is not None and selector is not None:
            self._add_service(service, selector)
            self._members[service].update(wanted)
        return True

    def _select(self, service: Service) -> Iterator[str]:
        selector = service.selector
        if selector:
            for pod in self._pods.in_namespace(service.metadata.namespace):
                if matches(selector, pod.labels):
                    yield pod.metadata.name

    def _add_service(self, service: ObjectKey, selector: Labels) -> None:
        self._indexes.setdefault(service.namespace, SelectorIndex()).add(service, selector)
        self._members[service] = set()

    def _remove_service(self, service: ObjectKey) -> None:
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
