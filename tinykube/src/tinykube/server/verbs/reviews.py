"""Reviews: create requests that are answered immediately and never stored. Every token holder has full access."""

from collections.abc import Callable

from aiokube.api.times import format_time
from tinykube.server.objects import JsonObject
from tinykube.server.registry.definition import Definition, Request, Strategy

_EVERYTHING = ["*"]


def _allowed(request: Request, obj: JsonObject) -> JsonObject:
    return {**obj, "status": {"allowed": True}}


def _rules(request: Request, obj: JsonObject) -> JsonObject:
    status = {
        "resourceRules": [{"verbs": _EVERYTHING, "apiGroups": _EVERYTHING, "resources": _EVERYTHING}],
        "nonResourceRules": [{"verbs": _EVERYTHING, "nonResourceURLs": _EVERYTHING}],
        "incomplete": False,
    }
    return {**obj, "status": status}


def _self_subject_review(request: Request, obj: JsonObject) -> JsonObject:
    return {
        **obj,
        "metadata": {"creationTimestamp": format_time(request.clock.wall())},
        "status": {"userInfo": request.user.to_document()},
    }


def _review(
    group: str,
    kind: str,
    answers: Callable[[Request, JsonObject], JsonObject],
    *,
    namespaced: bool = False,
) -> Definition:
    return Definition(
        group=group,
        version="v1",
        plural=f"{kind.lower()}s",
        kind=kind,
        singular=kind.lower(),
        namespaced=namespaced,
        strategy=Strategy(),
        verbs=("create",),
        answers=answers,
    )


REVIEWS: tuple[Definition, ...] = (
    _review("authentication.k8s.io", "SelfSubjectReview", _self_subject_review),
    _review("authorization.k8s.io", "LocalSubjectAccessReview", _allowed, namespaced=True),
    _review("authorization.k8s.io", "SelfSubjectAccessReview", _allowed),
    _review("authorization.k8s.io", "SelfSubjectRulesReview", _rules),
    _review("authorization.k8s.io", "SubjectAccessReview", _allowed),
)
"""The review kinds of ``kubectl auth``."""
