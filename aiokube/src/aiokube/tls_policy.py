"""Which TLS every client and server of these packages speaks."""

import ssl

# Of TLS 1.2 only suites with forward secrecy and authenticated encryption: no CBC, no RSA key exchange. All of TLS 1.3 are.
_TLS_12_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"


def restrict(context: ssl.SSLContext) -> ssl.SSLContext:
    """Allow TLS 1.2 with modern suites and TLS 1.3; return the context."""
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_TLS_12_CIPHERS)
    return context
