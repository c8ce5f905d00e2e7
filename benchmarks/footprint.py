"""What a program holds: how many blocks of memory, and how long everything is that it keeps.

The second is found by walking from the program's own objects along their attributes, so that what grows has a name.
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
    """What is held at one moment."""

    blocks: int
    """Blocks of memory that Python has allocated, in the whole process, garbage collected before."""
    lengths: dict[str, int]
    """The lengths of all containers, by class and attribute, added up over all its instances; of modules by their name."""


def footprint(roots: Iterable[object]) -> Footprint:
    """Return what is held now, by the whole process and by these objects. What was frozen is thawed."""
    gc.unfreeze()
    gc.collect()
    blocks = sys.getallocatedblocks()
    return Footprint(blocks, lengths_of(roots) | lengths_of_modules())


def lengths_of_modules() -> dict[str, int]:
    """Return the lengths of what the modules of the packages keep themselves."""
    return {
        sys.intern(f"{module}:{name}"): len(value)
        for module, loaded in sorted(sys.modules.items())
        if module.startswith(("aiokube.", "endpointd.")) and loaded is not None
        for name, value in vars(loaded).items()
        if isinstance(value, dict | set | list | deque) and not name.startswith("__")
    }


def lengths_of(roots: Iterable[object]) -> dict[str, int]:
    """Return how long all containers are that can be reached from these objects, by class and attribute.

    What the API's objects hold is left out (a service's endpoints are no growth), and what is not ours.
    """
    found: dict[str, int] = {}
    seen: set[int] = set()
    # Held until the end: an address stands for one object only as long as that lives.
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
                name = sys.intern(name)  # one footprint must not be what the next one finds
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
    """Give what an object of ours leads to: attributes, what a method belongs to, what a function closes over."""
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
    except ValueError:  # not filled yet
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
