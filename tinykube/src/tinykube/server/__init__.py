"""The embedded API server: the Kubernetes API on loopback, kept in memory and in a SQLite log.

* ``schema``: one description of each type; ``patch``: what the patch types make of two documents.
* ``storage``: objects, revisions and their history; durable, and the only state there is.
* ``registry``: one module a resource: its names, its rules, its columns.
* ``verbs``: create, get, list, watch, update, patch, delete, on any resource; knows no HTTP.
* ``http``: what comes over the wire: routes, negotiation, identity, discovery, errors.
* ``lifecycle``: what a control plane does by itself: namespaces that go, owned objects, events that expire.

Objects are plain dicts (:data:`tinykube.server.objects.JsonObject`): a server keeps what it is given, whole.
"""
