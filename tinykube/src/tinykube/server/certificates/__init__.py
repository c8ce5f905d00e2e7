"""The server's own certificate authority, made of the standard library alone.

Python can speak TLS but cannot make a certificate; a library that can weighs more than all the rest of the server. What is
needed is little: a P-256 key, a signature, and the bytes of X.509. It is used to *make* certificates, at most once a
year, on the machine that they are for; keys come from the operating system's randomness, and TLS itself is OpenSSL's.
"""
