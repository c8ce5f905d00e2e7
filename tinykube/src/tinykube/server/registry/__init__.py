"""One module a resource: what it is called, what the server does to it, and what it refuses."""
