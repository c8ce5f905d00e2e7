"""The answers people ask for: why a pod is not in a service, what is wrong in a cluster, what would be written.

Pure functions over one :class:`~endpointd.diagnose.snapshot.Snapshot`: nothing here reads a server, a clock or a file, so
the same question gets the same answer from a live cluster, from files, and in a test.
"""
