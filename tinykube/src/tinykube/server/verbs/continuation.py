"""Continue tokens: the start key and the revision of the next page of a list."""

import base64
import binascii

import msgspec

from tinykube.server.errors import StatusError, bad_request, expired

LATEST = -1
"""The revision of a token that continues at the current state, issued when the list's own revision was compacted."""

_VERSION = "meta.k8s.io/v1"


class Continuation(msgspec.Struct, frozen=True):
    """The object to continue after, and the revision to read."""

    revision: int
    namespace: str
    name: str


class _Token(msgspec.Struct, frozen=True):
    v: str = ""
    rv: int = 0
    start: str = ""


_DECODER = msgspec.json.Decoder(_Token)


def encode_token(continuation: Continuation, *, namespaced_list: bool) -> str:
    """Encode a token. Within one namespace (or cluster scope) the start key is a name, else ``namespace/name``."""
    start = continuation.name
    if not namespaced_list and continuation.namespace:
        start = f"{continuation.namespace}/{start}"
    token = msgspec.json.encode(_Token(_VERSION, continuation.revision, start + "\0"))
    return base64.urlsafe_b64encode(token).rstrip(b"=").decode()


def decode_token(text: str, *, namespace: str, cluster_scoped: bool) -> Continuation:
    """Decode a token. Raises 400 for invalid tokens."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        token = _DECODER.decode(raw)
    except (binascii.Error, ValueError, msgspec.DecodeError):
        raise _invalid("encoding of continue token is not valid") from None
    if token.v != _VERSION:
        raise _invalid(f"server does not recognize this encoded version {token.v}")
    if token.rv == 0 or token.rv < LATEST:
        raise _invalid("incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
    start = token.start.rstrip("\0")
    if not start or "\0" in start:
        raise _invalid("encoded start key empty (version meta.k8s.io/v1)")
    if namespace or cluster_scoped:
        return Continuation(token.rv, namespace, start)
    own_namespace, _, name = start.partition("/")
    return Continuation(token.rv, own_namespace, name)


def _invalid(why: str) -> StatusError:
    return bad_request(f"invalid continue token: continue key is not valid: {why}")


def token_expired(fresh_token: str) -> StatusError:
    """410: the revision of the list was compacted. The fresh token continues at the current state."""
    return expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list "
        "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
        "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
        "modified, or deleted between the time the first chunk was returned and now may show up in the list.",
        continue_token=fresh_token,
    )
