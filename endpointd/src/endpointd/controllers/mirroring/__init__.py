"""The EndpointSliceMirroring controller."""
