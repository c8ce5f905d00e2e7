"""Servers in several threads share everything that is derived from the types on first use."""

import threading
from typing import Any

from tinykube.server.schema import conform as conform_module
from tinykube.server.schema.conform import conform
from tinykube.server.schema.loader import kind_type, object_type
from tinykube.server.schema.model import ObjectRef, ObjectType


def test_a_second_thread_waits_until_a_type_is_compiled(monkeypatch: Any) -> None:
    """A half-compiled type would drop known fields as unknown."""
    monkeypatch.setattr(conform_module, "_compiled", {})
    started, problems = threading.Event(), list[str]()
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "main", "image": "a"}]}}

    def use() -> None:
        problems.extend(conform(kind_type("", "v1", "Pod"), pod))

    second = threading.Thread(target=use)

    def slow_object_type(ref: ObjectRef) -> ObjectType:
        if not started.is_set():
            started.set()
            second.start()
            second.join(0.2)  # without the lock it ends here, with a half-compiled type
        return object_type(ref)

    monkeypatch.setattr(conform_module, "object_type", slow_object_type)
    assert not conform(kind_type("", "v1", "Pod"), {"apiVersion": "v1", "kind": "Pod"})
    second.join()
    assert problems == []
    assert "containers" in pod["spec"]
