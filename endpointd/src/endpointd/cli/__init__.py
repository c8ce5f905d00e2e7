"""The commands: one module per command, and the assembly of ``endpointd run``."""
