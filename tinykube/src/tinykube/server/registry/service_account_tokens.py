"""Service account tokens: issued by TokenRequest, verified by TokenReview and the server's own authentication."""

import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from aiokube.api.times import format_time, parse_time
from tinykube.server.certificates.token_signer import ALGORITHM, TokenSigner
from tinykube.server.errors import bad_request, conflict, invalid, invalid_value, not_found
from tinykube.server.json_access import get_int, get_list, get_object, get_str
from tinykube.server.objects import GroupResource, JsonObject, StorageKey, metadata_of
from tinykube.server.registry.definition import Definition, Request, Strategy, Subresource, UserInfo
from tinykube.server.storage.model import Storage, StoredObject

GROUP = "authentication.k8s.io"
ISSUER = "https://kubernetes.default.svc.cluster.local"
"""The issuer of the tokens, and the audience of the API itself: the usual one of a cluster."""

SERVICE_ACCOUNTS = GroupResource("", "serviceaccounts")
_PODS = GroupResource("", "pods")
_SECRETS = GroupResource("", "secrets")
_NODES = GroupResource("", "nodes")
_BINDABLE = {"Pod": _PODS, "Secret": _SECRETS, "Node": _NODES}

_EXTRA = "authentication.kubernetes.io"
_DEFAULT_SECONDS = 3_600
_SHORTEST_SECONDS = 600
_LONGEST_SECONDS = 1 << 32
_LEEWAY = timedelta(minutes=1)
"""The tolerance for clock differences and recent deletions, as in Kubernetes."""


class TokenError(Exception):
    """An invalid or expired token; the text gives the reason."""


class Identified(msgspec.Struct, frozen=True):
    """The user of a token, and the requested audiences that it is valid for."""

    user: UserInfo
    audiences: tuple[str, ...]


class ServiceAccountTokens:
    """Issues and verifies the tokens of one server. ``other_user`` identifies the tokens of other users."""

    def __init__(
        self, signer: TokenSigner, other_user: Callable[[str], UserInfo | None] = lambda token: None
    ) -> None:
        self._signer = signer
        self._other_user = other_user

    def issue(self, request: Request, account: JsonObject, review: JsonObject) -> JsonObject:
        """Return a TokenRequest with its status.

        Raises 400, 404 and 409 for an object that the token cannot be bound to, 422 for a lifetime below ten minutes.
        """
        metadata, spec = metadata_of(review), dict(get_object(review, "spec"))
        name, namespace, uid = (
            get_str(metadata_of(account), field) for field in ("name", "namespace", "uid")
        )
        given = get_str(metadata, "name")
        if given and given != name:
            why = "must match the service account name if specified"
            raise invalid(GROUP, "TokenRequest", name, [invalid_value("metadata.name", given, why)])
        _check_uid(metadata, name, uid)
        audiences = [str(one) for one in get_list(spec, "audiences")] or [ISSUER]
        seconds = (
            get_int(spec, "expirationSeconds")
            if spec.get("expirationSeconds") is not None
            else _DEFAULT_SECONDS
        )
        _check_lifetime(seconds)
        now = request.clock.wall()
        bound = _bound(request.storage, namespace, name, get_object(spec, "boundObjectRef"))
        claims = {
            "aud": audiences,
            "exp": int(now.timestamp()) + seconds,
            "iat": int(now.timestamp()),
            "iss": ISSUER,
            "jti": str(uuid.UUID(int=request.rng.getrandbits(128), version=4)),
            "kubernetes.io": {"namespace": namespace, **bound, "serviceaccount": {"name": name, "uid": uid}},
            "nbf": int(now.timestamp()),
            "sub": f"system:serviceaccount:{namespace}:{name}",
        }
        spec |= {"audiences": audiences, "expirationSeconds": seconds}
        expires = format_time(now + timedelta(seconds=seconds))
        return {
            "kind": "TokenRequest",
            "apiVersion": f"{GROUP}/v1",
            "metadata": {
                **metadata,
                "name": name,
                "namespace": namespace,
                "uid": uid,
                "creationTimestamp": format_time(now),
            },
            "spec": spec,
            "status": {"token": self._signer.sign(claims), "expirationTimestamp": expires},
        }

    def identify(
        self, storage: Storage, now: datetime, token: str, audiences: Sequence[str] = ()
    ) -> Identified | None:
        """Return the user of a token, or None for a text that this server has not signed.

        Without ``audiences``, it must be valid for the API. Raises :class:`TokenError` for a token that has
        expired, is for other audiences, or whose account or bound object no longer exists.
        """
        claims = self._signer.claims_of(token)
        if claims is None or claims.get("iss") != ISSUER:
            return None
        wanted = audiences or (ISSUER,)
        meant_for = tuple(one for one in wanted if one in get_list(claims, "aud"))
        if not meant_for:
            raise TokenError(
                f"token audiences {_go_list(get_list(claims, 'aud'))} is invalid for the target audiences {_go_list(wanted)}"
            )
        _check_times(claims, now)
        details = get_object(claims, "kubernetes.io")
        _check_objects(storage, details, now)
        return Identified(_user(claims, details), meant_for)

    def review(self, request: Request, obj: JsonObject) -> JsonObject:
        """Return a TokenReview with its status. Raises 400 without a token."""
        spec = get_object(obj, "spec")
        token = get_str(spec, "token")
        if not token:
            raise bad_request("token is required for TokenReview in authentication")
        audiences = [str(one) for one in get_list(spec, "audiences")]
        other = self._other_user(token)
        try:
            if other is not None and (not audiences or ISSUER in audiences):
                identified: Identified | None = Identified(other, (ISSUER,))
            else:
                identified = self.identify(request.storage, request.clock.wall(), token, audiences)
        except TokenError as error:
            return {**obj, "status": {"user": {}, "error": f"[invalid bearer token, {error}]"}}
        if identified is None:
            return {**obj, "status": {"user": {}, "error": "invalid bearer token"}}
        return {
            **obj,
            "status": {
                "authenticated": True,
                "user": identified.user.to_document(),
                "audiences": list(identified.audiences),
            },
        }

    def configuration(self, url: str) -> JsonObject:
        """Return the OpenID Connect discovery document; ``url`` is the address of this server."""
        return {
            "issuer": ISSUER,
            "jwks_uri": f"{url}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [ALGORITHM],
        }

    def public_keys(self) -> JsonObject:
        """Return the JSON Web Key Set for verifying tokens."""
        return self._signer.public_keys()


class _TokenSubresource:
    """``POST .../token``: the response has the token; nothing is stored."""

    def __init__(self, tokens: ServiceAccountTokens) -> None:
        self._tokens = tokens

    def read(self, obj: JsonObject) -> JsonObject:
        """Return the account (no client reads this subresource)."""
        return obj

    def write(self, request: Request, obj: JsonObject, body: JsonObject) -> JsonObject:
        """Return the TokenRequest with its token; the account is unchanged."""
        return self._tokens.issue(request, obj, body)


def token_definitions(tokens: ServiceAccountTokens, accounts: Definition) -> tuple[Definition, Definition]:
    """Return the ServiceAccount definition with the subresource ``token``, and TokenReview."""
    subresource = Subresource(
        name="token",
        verbs=("create",),
        group=GROUP,
        version="v1",
        kind="TokenRequest",
        handler=_TokenSubresource(tokens),
        answers_only=True,
    )
    others = tuple(one for one in accounts.subresources if one.name != subresource.name)
    reviews = Definition(
        group=GROUP,
        version="v1",
        plural="tokenreviews",
        kind="TokenReview",
        singular="tokenreview",
        namespaced=False,
        strategy=Strategy(),
        verbs=("create",),
        answers=tokens.review,
    )
    return msgspec.structs.replace(accounts, subresources=(*others, subresource)), reviews


def _check_uid(metadata: JsonObject, name: str, uid: str) -> None:
    given = get_str(metadata, "uid")
    if given and given != uid:
        why = f"the UID in the token request ({given}) does not match the UID of the service account ({uid})"
        raise conflict(GroupResource(GROUP, "TokenRequest"), name, why)


def _check_lifetime(seconds: int) -> None:
    why = ""
    if seconds < _SHORTEST_SECONDS:
        why = "may not specify a duration less than 10 minutes"
    elif seconds > _LONGEST_SECONDS:
        why = "may not specify a duration larger than 2^32 seconds"
    if why:
        raise invalid(GROUP, "TokenRequest", "", [invalid_value("spec.expirationSeconds", seconds, why)])


def _bound(storage: Storage, namespace: str, account: str, reference: JsonObject) -> JsonObject:
    """Return the claims for the object that a token is bound to, and for a pod's node. Raises 400, 404, 409."""
    if not reference:
        return {}
    kind, name = get_str(reference, "kind"), get_str(reference, "name")
    resource = _BINDABLE.get(kind) if get_str(reference, "apiVersion") == "v1" else None
    if resource is None:
        group, _, version = get_str(reference, "apiVersion").rpartition("/")
        raise bad_request(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
    stored = storage.head(StorageKey(resource, "" if kind == "Node" else namespace, name))
    if stored is None:
        raise not_found(resource, name)
    document = stored.decode()
    uid = get_str(metadata_of(document), "uid")
    claims: JsonObject = {kind.lower(): {"name": name, "uid": uid}}
    if kind == "Pod":
        spec = get_object(document, "spec")
        # There is no admission plugin that would set the default name.
        if account != (get_str(spec, "serviceAccountName") or "default"):
            raise bad_request(
                f'cannot bind token for serviceaccount "{account}" to pod running with different serviceaccount name.'
            )
        if node := get_str(spec, "nodeName"):
            found = storage.head(StorageKey(_NODES, "", node))
            known = {} if found is None else {"uid": get_str(metadata_of(found.decode()), "uid")}
            claims["node"] = {"name": node, **known}
    wanted = get_str(reference, "uid")
    if wanted and wanted != uid:
        why = (
            f"the UID in the bound object reference ({wanted}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        raise conflict(GroupResource("", kind), name, why)
    return claims


def _check_times(claims: JsonObject, now: datetime) -> None:
    def moment(name: str) -> datetime:
        return datetime.fromtimestamp(get_int(claims, name), UTC)

    if now - _LEEWAY > moment("exp"):
        raise TokenError("service account token has expired")
    if now + _LEEWAY < moment("nbf"):
        raise TokenError("service account token is not valid yet")


def _check_objects(storage: Storage, details: JsonObject, now: datetime) -> None:
    """Check that the account and the bound object still exist."""
    namespace, account = get_str(details, "namespace"), get_object(details, "serviceaccount")
    name = get_str(account, "name")
    stored = storage.get(StorageKey(SERVICE_ACCOUNTS, namespace, name))
    if stored is None:
        raise TokenError(f'serviceaccounts "{name}" not found')
    uid, deleted = stored.uid, _deleted_at(stored)
    if uid != account.get("uid"):
        raise TokenError(f"service account UID ({uid}) does not match claim ({account.get('uid')})")
    if deleted is not None and deleted < now - _LEEWAY:
        raise TokenError(f"service account {namespace}/{name} has been deleted")
    for kind, resource in _BINDABLE.items():
        reference = get_object(details, kind.lower())
        if not reference or (kind == "Node" and "pod" in details):
            continue
        where = "" if kind == "Node" else namespace
        bound = storage.get(StorageKey(resource, where, get_str(reference, "name")))
        if bound is None:
            raise TokenError("service account token has been invalidated")
        deleted = _deleted_at(bound)
        if bound.uid != reference.get("uid"):
            raise TokenError(
                f"{kind if kind != 'Secret' else 'secret'} UID ({bound.uid}) does not match service account "
                f"{kind.lower()} ref claim ({reference.get('uid')})"
            )
        if deleted is not None and deleted < now - _LEEWAY:
            raise TokenError("service account token has been invalidated")


def _deleted_at(stored: StoredObject) -> datetime | None:
    return parse_time(get_str(metadata_of(stored.decode()), "deletionTimestamp") or None)


def _user(claims: JsonObject, details: JsonObject) -> UserInfo:
    namespace, account = get_str(details, "namespace"), get_object(details, "serviceaccount")
    extra = {f"{_EXTRA}/credential-id": (f"JTI={claims.get('jti')}",)}
    for kind in ("node", "pod"):
        reference = get_object(details, kind)
        for field in ("name", "uid"):
            if value := get_str(reference, field):
                extra[f"{_EXTRA}/{kind}-{field}"] = (value,)
    return UserInfo(
        name=get_str(claims, "sub"),
        uid=get_str(account, "uid"),
        groups=("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"),
        extra=extra,
    )


def _go_list(values: Sequence[object]) -> str:
    return "[" + " ".join(f'"{value}"' for value in values) + "]"


__all__ = [
    "GROUP",
    "ISSUER",
    "Identified",
    "ServiceAccountTokens",
    "TokenError",
    "token_definitions",
]
