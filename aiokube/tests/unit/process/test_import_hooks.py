"""Our processes import aiohttp without the system's certificate authorities, and change nothing else."""

import subprocess
import sys

PROGRAM = """
import ssl
before = ssl.create_default_context
default_paths = ssl.SSLContext.set_default_verify_paths
from aiokube.process.import_hooks import import_aiohttp
import_aiohttp()
assert ssl.create_default_context is before
assert ssl.SSLContext.set_default_verify_paths is default_paths
import aiohttp.connector
assert aiohttp.connector._SSL_CONTEXT_VERIFIED.cert_store_stats()["x509_ca"] == 0
assert aiohttp.connector._SSL_CONTEXT_UNVERIFIED.cert_store_stats()["x509_ca"] == 0
assert aiohttp.connector._SSL_CONTEXT_VERIFIED.verify_mode == ssl.CERT_REQUIRED
assert len(ssl.create_default_context().get_ca_certs()) >= 0
"""


def test_a_request_without_a_tls_context_trusts_no_server() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == 0, done.stderr
