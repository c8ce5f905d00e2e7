"""What holds for all tests."""

from hypothesis import settings

# No test is about how fast a machine is.
settings.register_profile("endpointd", deadline=None)
settings.load_profile("endpointd")
