"""The clock of leases, which continues while the machine is suspended."""

import time
from collections.abc import Callable

SinceBoot = Callable[[], float]
"""Returns seconds that never go back and include suspends; the origin is arbitrary."""


def since_boot() -> float:
    """Return the seconds since boot, including suspends if the system reports them (Linux).

    The event loop's clock stops while a laptop or virtual machine is suspended; after waking, it would treat
    a lease as fresh that another process has long taken. This is not a :class:`aiokube.clock.Clock`, because
    it has no timers: code that waits on the loop checks it after waking.
    """
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
