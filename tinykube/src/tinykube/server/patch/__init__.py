"""What the patch types make of two documents: pure functions, which change neither.

* ``json_patch``: RFC 6902; ``merge_patch``: RFC 7386; ``strategic_merge``: a merge that knows lists by their keys.
* ``service``: all of them as the verbs want them, with refusals that are answers.
"""
