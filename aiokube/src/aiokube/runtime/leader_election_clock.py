"""The clock of leases: one that goes on while the machine sleeps."""

import time
from collections.abc import Callable

SinceBoot = Callable[[], float]
"""Returns seconds that never go back and leave nothing out; the origin means nothing."""


def since_boot() -> float:
    """Return the seconds since the machine was started, suspends included where the system can tell (Linux).

    The event loop's clock stands still while a laptop or a virtual machine is suspended, and after waking it would
    call a lease fresh that others have taken long ago. It is no :class:`aiokube.clock.Clock`, as no timer can be
    set on it: what waits on the loop looks at this one when it wakes.
    """
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
