"""Kubernetes API client: configuration, credentials, transport, verbs and watches.

The layers above use :class:`aiokube.client.rest.Client`. :func:`aiokube.client.load_config.load_config`
finds the server and credentials; :mod:`aiokube.client.errors` has all errors.
"""
