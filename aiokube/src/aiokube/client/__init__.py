"""The door of an API server: finding it, proving who we are, asking, and watching.

:class:`aiokube.client.rest.Client` is what the layers above hold; :func:`aiokube.client.load_config.load_config`
finds out which server and as whom; everything that can go wrong is in :mod:`aiokube.client.errors`.
"""
