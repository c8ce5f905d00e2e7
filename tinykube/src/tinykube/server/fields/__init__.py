"""Field ownership: field sets, managed fields and server-side apply. Pure: documents in, documents out.

``nodes`` describes how the parts of each type are owned and merged, ``structural`` the same for custom
resources. ``sets`` has field sets in the encoding of ``managedFields``; ``managers`` reads and writes these
entries. ``updater`` computes ownership after a write, and the result of an apply. ``managed_fields`` is the
interface for the verbs, ``scaling`` the one for the ``scale`` subresource.
"""
