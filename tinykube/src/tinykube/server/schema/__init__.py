"""One description of each type, and everything that follows from it.

* ``types/*.types``: the facts, a line a field; ``model``: what a line says; ``loader``: reads them when asked for.
* ``descriptions``: what types and fields are for (``types/*.about``), read for documents alone.
* ``conform``: types checked, unknown fields out, values in the form in which the server keeps them.
* ``defaults``: the fixed defaults. ``strict``: bodies read so that a key given twice is seen.
* ``openapi``, ``protobuf``: the same description for kubectl, and as Go clients write it.
"""
