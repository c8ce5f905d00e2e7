"""The server's TLS certificate and the authority that signs it."""
