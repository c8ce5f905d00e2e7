"""How much one service publishes."""

import msgspec


class ServiceCounts(msgspec.Struct, frozen=True, gc=False):
    """Endpoints and slices of a service, all its address types together."""

    endpoints: int = 0
    slices: int = 0
    """The slices that exist."""
    slices_desired: int = 0
    """The slices that would exist if all were full: at least one for each address type."""

    def plus(self, other: "ServiceCounts") -> "ServiceCounts":
        """Return the sums."""
        return ServiceCounts(
            self.endpoints + other.endpoints,
            self.slices + other.slices,
            self.slices_desired + other.slices_desired,
        )
