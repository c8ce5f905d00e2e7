"""The EndpointSlice controller."""
