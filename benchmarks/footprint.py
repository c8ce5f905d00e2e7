"""Measure the memory of a program: allocated blocks, and the length of every container.

Container lengths are found by following attributes from the program's objects, so that growth has a name.
"""

import functools
import gc
import sys
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import BuiltinMethodType, CellType, FunctionType, MethodType
from typing import Any

import msgspec

_CONTAINERS = (dict, set, list, deque, tuple, frozenset)
_FOREIGN = ("aiokube.api", "aiokube.testing", "tests.")


class Footprint(msgspec.Struct, frozen=True):
    """Memory at one moment."""

    blocks: int
    """Memory blocks allocated by Python in the process, after a garbage collection."""
    lengths: dict[str, int]
    """Length of all containers, by class and attribute, summed over instances; for modules by module name."""


def footprint(roots: Iterable[object]) -> Footprint:
    """Return the memory of the process and the containers reachable from these objects. Unfreezes frozen objects."""
    gc.unfreeze()
    gc.collect()
    blocks = sys.getallocatedblocks()
    return Footprint(blocks, lengths_of(roots) | lengths_of_modules())


def lengths_of_modules() -> dict[str, int]:
    """Return the lengths of module-level containers of the packages."""
    return {
        sys.intern(f"{module}:{name}"): len(value)
        for module, loaded in sorted(sys.modules.items())
        if module.startswith(("aiokube.", "endpointd.")) and loaded is not None
        for name, value in vars(loaded).items()
        if isinstance(value, dict | set | list | deque) and not name.startswith("__")
    }


def lengths_of(roots: Iterable[object]) -> dict[str, int]:
    """Return the lengths of all containers reachable from these objects, by class and attribute.

    Excludes API objects (a service's endpoints are not growth) and objects of other packages.
    """
    found: dict[str, int] = {}
    seen: set[int] = set()
    # Kept alive until the end: an id is unique only while its object lives.
    held: list[object] = []
    waiting: deque[tuple[str, object]] = deque(("", root) for root in roots)
    while waiting:
        name, value = waiting.popleft()
        if id(value) in seen or isinstance(value, type | str | bytes | int | float | None):
            continue
        seen.add(id(value))
        held.append(value)
        if isinstance(value, _CONTAINERS):
            if isinstance(value, dict | set | list | deque):
                name = sys.intern(name)  # a footprint must not allocate objects that the next one counts
                found[name] = found.get(name, 0) + len(value)
            waiting.extend((f"{name}[]", item) for item in _items(value))
        else:
            waiting.extend(_parts(value))
    return found


def _items(value: Collection[object]) -> Iterator[object]:
    if isinstance(value, Mapping):
        yield from value.values()
    yield from value


def _parts(value: object) -> Iterator[tuple[str, object]]:
    """Yield the objects referenced by an object of our packages: attributes, a method's instance, a function's closure."""
    if isinstance(value, MethodType | BuiltinMethodType):
        yield "", value.__self__
        return
    if isinstance(value, functools.partial):
        yield "", value.func
        yield "", value.args
        return
    if isinstance(value, FunctionType):
        for cell in value.__closure__ or ():
            yield "", _content(cell)
        return
    kind = type(value)
    if not kind.__module__.startswith(("aiokube.", "endpointd.")) or kind.__module__.startswith(_FOREIGN):
        return
    for attribute in _attributes(value):
        part = getattr(value, attribute, None)
        yield f"{kind.__qualname__}.{attribute}", part


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # an empty closure cell
        return None


def _attributes(value: object) -> Iterator[str]:
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            yield (
                slot
                if not slot.startswith("__") or slot.endswith("__")
                else f"_{kind.__name__.lstrip('_')}{slot}"
            )
    yield from getattr(value, "__struct_fields__", ())
    yield from getattr(value, "__dict__", ())
