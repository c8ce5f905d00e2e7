"""The embedded API server: the Kubernetes API on loopback, in memory, with a SQLite log for durability.

* ``schema``: one description of each type; ``patch``: the patch types.
* ``storage``: objects, revisions and their history; durable, and the server's only state.
* ``registry``: one module per resource: names, validation, printer columns.
* ``verbs``: create, get, list, watch, update, patch and delete, on any resource, independent of HTTP.
* ``http``: the wire protocol: routes, content negotiation, authentication, discovery, errors.
* ``lifecycle``: background controllers: namespace deletion, garbage collection, event expiry.

Objects are plain dicts (:data:`tinykube.server.objects.JsonObject`): a server stores objects completely.
"""
