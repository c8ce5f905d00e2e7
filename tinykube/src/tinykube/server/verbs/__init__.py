"""The verbs of the API, independent of HTTP: create, get, list, watch, update, patch and delete, on any resource."""
