"""The composition root, one module a command."""
