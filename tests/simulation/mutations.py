"""One-place mutations of the product, as data: bugs that the simulation must find.

``issue`` names the bug of kube-controller-manager or client-go that a mutation reintroduces, if any.
``test_mutations.py`` checks that each old text occurs exactly once in its file.
"""

from typing import NamedTuple

_SLICES = "endpointd/src/endpointd/controllers/endpointslice"
_CONTROLLERS = "endpointd/src/endpointd/controllers"
_RUNTIME = "aiokube/src/aiokube/runtime"
_SERVER = "tinykube/src/tinykube/server"


class Mutation(NamedTuple):
    """A bug: in ``file``, ``old`` becomes ``new``."""

    name: str
    file: str
    old: str
    new: str
    issue: str = ""


MUTATIONS: tuple[Mutation, ...] = (
    # ------------------------------------------------------------------------------------- slice contents
    Mutation(
        "stale pods are kept",
        f"{_SLICES}/plan.py",
        "            pod is None\n            or wanted is None\n",
        "            pod is None\n",
    ),
    Mutation(
        "pods of other ports are kept",
        f"{_SLICES}/plan.py",
        "            or wanted.ports.key != port_key\n",
        "",
    ),
    Mutation("an endpoint is in two slices", f"{_SLICES}/plan.py", "            or pod in claimed\n", ""),
    Mutation(
        "another holder is not respected",
        f"{_SLICES}/plan.py",
        "            or (pod in holders and holders[pod] != name)\n",
        "",
    ),
    Mutation(
        "content of endpoints is not compared",
        f"{_SLICES}/plan.py",
        "if endpoint is wanted.endpoint or same_content(endpoint, wanted.endpoint, ignore_hints=with_hints):",
        "if True:",
    ),
    Mutation(
        "changed slices are not rewritten",
        f"{_SLICES}/plan.py",
        "        elif changed:\n",
        "        elif changed and not kept:\n",
    ),
    Mutation(
        "labels of slices are not compared",
        f"{_SLICES}/plan.py",
        "        elif (observed.slice.metadata.labels or {}) != labels:\n            rewritten",
        "        elif False:\n            rewritten",
    ),
    Mutation(
        "emptied slices stay",
        f"{_SLICES}/plan.py",
        "            packing.delete.append(observed)\n        elif changed:",
        "            pass\n        elif changed:",
    ),
    Mutation(
        "claimed pods are added again",
        f"{_SLICES}/plan.py",
        "            remaining.pop(pod, None)",
        "            pass",
    ),
    Mutation(
        "slices overflow by one",
        f"{_SLICES}/plan.py",
        "capacity = view.max_endpoints - len(draft.endpoints)",
        "capacity = view.max_endpoints + 1 - len(draft.endpoints)",
    ),
    Mutation(
        "filled slices overflow",
        f"{_SLICES}/plan.py",
        "if observed.size + count <= view.max_endpoints]",
        "if observed.size + count <= view.max_endpoints + 1]",
    ),
    Mutation(
        "new slices overflow",
        f"{_SLICES}/plan.py",
        "chunk, unplaced = unplaced[: view.max_endpoints], unplaced[view.max_endpoints :]",
        "chunk, unplaced = unplaced[: view.max_endpoints + 1], unplaced[view.max_endpoints + 1 :]",
    ),
    Mutation(
        "one endpoint of a chunk is lost",
        f"{_SLICES}/plan.py",
        "chunk, unplaced = unplaced[: view.max_endpoints], unplaced[view.max_endpoints :]",
        "chunk, unplaced = unplaced[: view.max_endpoints], unplaced[view.max_endpoints + 1 :]",
    ),
    Mutation(
        "slices of unwanted ports stay",
        f"{_SLICES}/plan.py",
        "            packing.delete.extend(dirty[key])\n",
        "",
    ),
    Mutation(
        "no placeholder",
        f"{_SLICES}/plan.py",
        "    packing.create.append(_Draft(None, NO_PORTS, []))",
        "    return",
    ),
    Mutation(
        "placeholders are replaced forever",
        f"{_SLICES}/plan.py",
        "        not endpoint_slice.endpoints\n",
        "        bool(endpoint_slice.endpoints)\n",
    ),
    Mutation(
        "foreign slices are recycled",
        f"{_SLICES}/plan.py",
        "        if creates and is_owned_by(observed.slice, service):",
        "        if creates:",
    ),
    Mutation("unowned slices stay", f"{_SLICES}/plan.py", "    packing.delete.extend(view.not_owned)\n", ""),
    Mutation(
        "ineligible pods are published",
        f"{_SLICES}/desired.py",
        "        if not is_eligible(pod, include_terminating=True):",
        "        if False:",
    ),
    Mutation(
        "pods on missing nodes are published",
        f"{_SLICES}/desired.py",
        "if zone is None and not service.publish_not_ready_addresses:",
        "if False:",
    ),
    Mutation(
        "port sets are shared by pods that differ",
        f"{_SLICES}/desired.py",
        "names = pod.named_ports if self._by_name else ()",
        "names = ()",
    ),
    Mutation(
        "one address type only",
        f"{_SLICES}/desired.py",
        'if family in ("IPv4", "IPv6")}))',
        'if family in ("IPv4",)}))',
    ),
    # ---------------------------------------------------------------------------- when services are synced
    Mutation(
        "changes of pods are not queued",
        f"{_SLICES}/controller.py",
        "            needs_plan = self._enqueue(service, state, self._settings.batch_period_seconds)\n",
        "            needs_plan = False\n",
    ),
    Mutation(
        "changes of services are not queued",
        f"{_SLICES}/service_states.py",
        "        self._queue.add(key)\n        state = self.create(key)\n",
        "        state = self.create(key)\n",
    ),
    Mutation(
        "changes of slices are not noticed",
        f"{_SLICES}/controller.py",
        "            self._observe(now, new.metadata.name, new)\n",
        "            pass\n",
    ),
    Mutation(
        "deleted slices are not noticed",
        f"{_SLICES}/controller.py",
        "            self._observe(was, old.metadata.name, None)\n",
        "            pass\n",
    ),
    Mutation(
        "node changes are ignored",
        f"{_SLICES}/controller.py",
        "        if self._node_zones.node_changed(old, new):\n            self._update_pods_on(node.metadata.name)\n",
        "        self._node_zones.node_changed(old, new)\n",
    ),
    Mutation(
        "missing nodes never expire",
        f"{_SLICES}/controller.py",
        "        if seconds is not None:\n            self._queue.add_after(ZONES, seconds)\n\n    def _expire",
        "        if False:\n            self._queue.add_after(ZONES, seconds)\n\n    def _expire",
    ),
    Mutation(
        "services of before the start are not synced",
        f"{_SLICES}/controller.py",
        "            if service is not None and has_selector(service):\n                self._queue.add(key)\n",
        "            pass\n",
    ),
    Mutation(
        "failures are forgotten", f"{_SLICES}/controller.py", "        if texts:\n", "        if False:\n"
    ),
    Mutation(
        "own writes are not recorded",
        f"{_SLICES}/controller.py",
        "        self._writes.record(sent, answer)\n",
        "",
    ),
    Mutation(
        "deleted services keep their state",
        f"{_SLICES}/service_states.py",
        "        self.by_key.pop(service, None)\n        self._rejections.forget(service)\n",
        "",
        issue="k/k#141592",
    ),
    Mutation(
        "plans on half of a relist",
        f"{_SLICES}/controller.py",
        "            if state.is_complete and self._relists.is_open:",
        "            if state.is_complete:",
    ),
    Mutation(
        "a changed selector keeps its members",
        f"{_CONTROLLERS}/membership.py",
        "                self._members[key].update(self._select(new))\n",
        "                pass\n",
    ),
    Mutation(
        "selectors match by one label",
        f"{_CONTROLLERS}/membership.py",
        "bucket.items() if matches(selector, labels))",
        "bucket.items())",
    ),
    # ------------------------------------------------------------------------------------ how slices are written
    Mutation(
        "a slice overwrites an unseen version",
        f"{_CONTROLLERS}/slice_writes.py",
        "            return await self._conflict(text, error, key, endpoint_slice)\n        except ClientError as error:\n            gone",
        "            return None\n        except ClientError as error:\n            gone",
    ),
    Mutation(
        "created slices are not recorded",
        f"{_CONTROLLERS}/slice_writes.py",
        "        self._sink.wrote(endpoint_slice, _as_read_back(answer, endpoint_slice))\n        return None\n\n    async def _update",
        "        return None\n\n    async def _update",
        issue="k/k#93374",
    ),
    Mutation(
        "deleted slices are not recorded",
        f"{_CONTROLLERS}/slice_writes.py",
        "        self._sink.gone(key, endpoint_slice.metadata.uid)\n        return None\n\n    async def _conflict",
        "        return None\n\n    async def _conflict",
    ),
    Mutation(
        "deletes go before what replaces them",
        f"{_CONTROLLERS}/slice_writes.py",
        "            (partial(self._create, owner), create),\n            (partial(self._update, owner), update),\n            (partial(self._delete, owner), delete),\n",
        "            (partial(self._delete, owner), delete),\n            (partial(self._create, owner), create),\n            (partial(self._update, owner), update),\n",
    ),
    Mutation(
        "any 404 means that a slice was deleted",
        f"{_CONTROLLERS}/slice_writes.py",
        "            if not is_gone(\n                error, ENDPOINT_SLICES, key\n            ):",
        "            if False:",
    ),
    # ------------------------------------------------------------------------------------ Endpoints, mirroring
    Mutation(
        "labels of Endpoints are not compared",
        f"{_CONTROLLERS}/endpoints/plan.py",
        "        and (metadata.labels or {}) == labels  # E-19b\n",
        "",
    ),
    Mutation(
        "subsets of Endpoints are not compared",
        f"{_CONTROLLERS}/endpoints/plan.py",
        "        and _publishes(observed.subsets or (), wanted.subsets, is_canonical)  # E-19a\n",
        "",
        issue="k/k#127370",
    ),
    Mutation(
        "Endpoints of deleted services stay",
        f"{_CONTROLLERS}/endpoints/plan.py",
        "    return Delete(metadata.key, metadata.uid, metadata.resource_version)",
        "    return NOTHING",
    ),
    Mutation(
        "Endpoints of aliases are written",
        f"{_CONTROLLERS}/endpoints/plan.py",
        "    return not service.is_external_name and bool(service.selector)",
        "    return bool(service.selector)",
    ),
    Mutation(
        "mirrored slices are not updated",
        f"{_CONTROLLERS}/mirroring/plan.py",
        "        if any(difference) or",
        "        if",
    ),
    Mutation(
        "mirrored slices of dropped groups stay",
        f"{_CONTROLLERS}/mirroring/plan.py",
        "        delete += observed[key]\n",
        "",
    ),
    Mutation(
        "two mirrored slices for one group",
        f"{_CONTROLLERS}/mirroring/plan.py",
        "        delete += found[1:]  # M-31\n",
        "",
    ),
    Mutation(
        "terminating slices count as alive",
        f"{_CONTROLLERS}/mirroring/plan.py",
        "for endpoint_slice in slices if endpoint_slice.metadata.deletion_timestamp is None)",
        "for endpoint_slice in slices)",
    ),
    # -------------------------------------------------------------------------------------------- caches and queue
    Mutation(
        "a watch overwrites our newer writes",
        f"{_RUNTIME}/store.py",
        "            if version and version <= stored_version and not is_other:",
        "            if False:",
    ),
    Mutation(
        "own writes do not enter the cache",
        f"{_RUNTIME}/store.py",
        "        if self._put(item, True, changes):\n            self._pending.note(key, version, is_new=is_new)\n",
        "",
        issue="k/k#125638",
    ),
    Mutation(
        "a relist forgets own writes",
        f"{_RUNTIME}/store.py",
        "        return self._with_pending_writes(items, kept) if kept or self._tombstones else items",
        "        return items",
    ),
    Mutation(
        "a relist derives no deletions",
        f"{_RUNTIME}/store.py",
        "            changes.extend((item, None) for name, item in objects.items() if name not in left)",
        "            pass",
    ),
    Mutation(
        "a relist reports no changes",
        f"{_RUNTIME}/store.py",
        "                        changes.append((old, new))\n            count",
        "                        pass\n            count",
    ),
    Mutation(
        "replaced objects are reported as changes",
        f"{_RUNTIME}/store.py",
        "                elif old.metadata.uid != new.metadata.uid:\n                    changes += ((old, None), (None, new))\n",
        "",
    ),
    Mutation(
        "deleted objects reappear",
        f"{_RUNTIME}/store.py",
        "            if self._tombstones and not self._tombstones.may_store(item):",
        "            if False:",
    ),
    Mutation(
        "watched deletions are ignored",
        f"{_RUNTIME}/store.py",
        "            self._remove(key)\n            changes.append((stored, None))\n            self._tombstones.add(key, Tombstone(metadata.uid, version, own=False))",
        "            pass",
    ),
    Mutation(
        "old deletions remove newer objects",
        f"{_RUNTIME}/store.py",
        "            if version and version < version_number(stored.metadata.resource_version):",
        "            if False:",
    ),
    Mutation(
        "the version goes back",
        f"{_RUNTIME}/store.py",
        "        if version > self._version or (not version and resource_version):",
        "        if True:",
    ),
    Mutation(
        "an expired watch continues without a list",
        f"{_RUNTIME}/watch_machine.py",
        "            return _take_state(context, context.seen, rules)\n        case FaultKind.TOO_LARGE:",
        "            return _reconnect(context, Watching(context), fault)\n        case FaultKind.TOO_LARGE:",
    ),
    Mutation(
        "a silent watch is trusted",
        f"{_RUNTIME}/watch_machine.py",
        "            if context.silences >= rules.silences:\n                return _relist(context, rules, fault)\n            return _reconnect(context, _after_absence(context, rules), fault)",
        "            return Transition(replace(state, opened=True), (), ReadWatch())",
    ),
    Mutation(
        "a delayed key is lost",
        "aiokube/src/aiokube/work_queue.py",
        "        heapq.heappush(self._timers, entry)\n",
        "",
    ),
    Mutation(
        "a key that fails is not retried",
        "aiokube/src/aiokube/work_queue.py",
        "        self.add_after(key, delay)\n        return delay",
        "        return delay",
    ),
    # ---------------------------------------------------------------------------------------------- election
    Mutation(
        "the fence is never closed",
        f"{_RUNTIME}/leader_election_fence.py",
        "        return not self._closed and self._until is not None and self._clock() < self._until",
        "        return self._until is not None",
    ),
    Mutation(
        "the fence is open before the election",
        f"{_RUNTIME}/leader_election_fence.py",
        "        if not self.is_open:\n            self._refused += 1\n",
        "        if self._closed:\n            self._refused += 1\n",
    ),
    Mutation(
        "a lease is taken before it has expired",
        f"{_RUNTIME}/leader_election_machine.py",
        "            if at.now < seen.free_at(rules):\n                return _pause(seen, at, rules)\n",
        "",
    ),
    Mutation(
        "a leader ignores another holder",
        f"{_RUNTIME}/leader_election_machine.py",
        "            if there.spec.holder != rules.identity:\n",
        "            if False:\n",
    ),
    Mutation(
        "a term is counted from the answer",
        f"{_RUNTIME}/leader_election_machine.py",
        "            until = sent_at + rules.renew_deadline_seconds\n            return Step(*_leading(stored",
        "            until = at.now + 2 * rules.renew_deadline_seconds\n            return Step(*_leading(stored",
    ),
    Mutation(
        "a failed claim counts as a term",
        f"{_RUNTIME}/leader_election_machine.py",
        "        case (Looking() | Claiming(), Refused() | Failed()):\n            return _pause(seen, at, rules)\n",
        "        case Looking(), Refused() | Failed():\n            return _pause(seen, at, rules)\n        case Claiming(), Refused() | Failed():\n            until = at.now + rules.renew_deadline_seconds\n            return Step(*_leading(Lease(spec=_new(at, rules)), until, at, rules), leads_until=until)\n",
    ),
    # -------------------------------------------------------------------------------------------- API server
    Mutation(
        "the server takes any version",
        f"{_SERVER}/storage/store.py",
        "        if actual != write.expected_revision:",
        "        if False:",
    ),
    Mutation(
        "a watch starts one change too late",
        f"{_SERVER}/storage/watch.py",
        "        return self._first + self.older_than(revision)",
        "        return self._first + self.older_than(revision + 1)",
    ),
    Mutation(
        "a watch repeats a change",
        f"{_SERVER}/storage/watch.py",
        "        return self._first + self.older_than(revision)",
        "        return self._first + self.older_than(revision - 1)",
    ),
    Mutation(
        "watchers are not woken",
        f"{_SERVER}/storage/store.py",
        "            collections[resource].history.wake(first)\n",
        "            pass\n",
    ),
    Mutation(
        "an overrun watch continues",
        f"{_SERVER}/storage/watch.py",
        "        if batch is None:\n            self._overrun = self._closed = True\n            return None\n",
        "        if batch is None:\n            batch = _NO_CHANGES\n",
    ),
    Mutation(
        "compacted versions can be watched",
        f"{_SERVER}/storage/watch.py",
        "        if revision < self.oldest:",
        "        if False:",
    ),
    Mutation(
        "deletions are not restored after a crash",
        f"{_SERVER}/storage/loading.py",
        "    if row.value is None:\n        return (",
        "    if row.value is None and before is None:\n        return (",
    ),
)
