"""Who has written what: field sets, ownership, and server-side apply. Pure: documents in, documents out.

``nodes`` says of each type how its parts are owned and merged, ``structural`` the same of custom resources; ``sets`` are
sets of fields, in the very form in which ``managedFields`` carries them; ``managers`` reads and writes those entries;
``updater`` decides who owns what after a write, and what an apply makes of an object; ``tracking`` is what the verbs call,
and ``scaling`` for the ``scale`` subresource.
"""
