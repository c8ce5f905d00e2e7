"""Answer questions about Services: why a pod is not in one, which problems a cluster has, what would be written.

Pure functions over one :class:`~endpointd.diagnose.snapshot.Snapshot`. Nothing here reads a server, a clock
or a file, so a live cluster, files and tests give the same answers.
"""
