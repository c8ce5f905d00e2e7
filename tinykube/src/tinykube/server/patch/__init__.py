"""The patch types as pure functions, which do not modify their arguments.

* ``json_patch``: RFC 6902; ``merge_patch``: RFC 7386; ``strategic_merge``: merges lists by key.
* ``service``: their interface for the verbs; errors are API responses.
"""
