"""The number of published endpoints and slices of one service."""

import msgspec


class ServiceCounts(msgspec.Struct, frozen=True, gc=False):
    """Endpoints and slices of a service, over all its address types."""

    endpoints: int = 0
    slices: int = 0
    """The existing slices."""
    slices_desired: int = 0
    """The slices needed if all were full: at least one for each address type."""

    def plus(self, other: "ServiceCounts") -> "ServiceCounts":
        """Return the sums."""
        return ServiceCounts(
            self.endpoints + other.endpoints,
            self.slices + other.slices,
            self.slices_desired + other.slices_desired,
        )
