"""The door of an API server: finding it, proving who we are, asking, and watching.

:class:`endpointd.client.rest.Client` is what the layers above hold; :func:`endpointd.client.discover.load_config`
finds out which server and as whom; everything that can go wrong is in :mod:`endpointd.client.errors`.
"""
