"""The command line of tinykube."""
