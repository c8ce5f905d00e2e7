"""Parsing of requests without a server: paths, queries, Accept headers."""

import pytest

from tinykube.server.errors import StatusError
from tinykube.server.http.negotiation import (
    NO_TRANSFORM,
    OF_A_LIST,
    OF_AN_OBJECT,
    Form,
    is_pretty,
    negotiate,
)
from tinykube.server.http.paths import ResourcePath, parse_resource_path, segments_of
from tinykube.server.http.query import boolean, delete_options, integer, list_options, parse_query


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/api/v1/pods", ResourcePath("", "v1", "", "pods")),
        ("/api/v1/pods/", ResourcePath("", "v1", "", "pods")),
        ("/api/v1/namespaces/n/pods", ResourcePath("", "v1", "n", "pods", in_namespace=True)),
        ("/api/v1/namespaces/n/pods/p", ResourcePath("", "v1", "n", "pods", "p", in_namespace=True)),
        (
            "/api/v1/namespaces/n/pods/p/status",
            ResourcePath("", "v1", "n", "pods", "p", "status", in_namespace=True),
        ),
        ("/api/v1/namespaces/n", ResourcePath("", "v1", "", "namespaces", "n")),
        ("/api/v1/namespaces/n/finalize", ResourcePath("", "v1", "", "namespaces", "n", "finalize")),
        ("/api/v1/namespaces/n/status", ResourcePath("", "v1", "", "namespaces", "n", "status")),
        ("/apis/apps/v1/deployments", ResourcePath("apps", "v1", "", "deployments")),
        ("/api/v1/nodes/a%2Fb", ResourcePath("", "v1", "", "nodes", "a/b")),
        ("/api/v1/watch/pods", ResourcePath("", "v1", "", "pods", watches=True)),
        (
            "/api/v1/watch/namespaces/n/pods/p",
            ResourcePath("", "v1", "n", "pods", "p", watches=True, in_namespace=True),
        ),
        ("/api/v1", None),
        ("/apis/apps/v1", None),
        ("/api/v1//pods", None),
        ("/api/v1/namespaces/n/pods/p/a/b", None),
        ("/version", None),
        ("/", None),
    ],
)
def test_resource_paths_are_parsed(path: str, expected: ResourcePath | None) -> None:
    assert parse_resource_path(segments_of(path)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("watch", True),
        ("watch=", True),
        ("watch=1", True),
        ("watch=True", True),
        ("watch=yes", True),
        ("watch=0", False),
        ("watch=false", False),
        ("watch=FALSE", False),
        ("other=1", None),
    ],
)
def test_boolean_parameters_are_true_unless_set_to_false_or_zero(text: str, expected: bool | None) -> None:
    assert boolean(parse_query(text), "watch") is expected


@pytest.mark.parametrize(("text", "expected"), [("", None), ("n=5", 5), ("n=-5", -5), ("n=%2B5", 5)])
def test_integer_parameters_are_parsed(text: str, expected: int | None) -> None:
    assert integer(parse_query(text), "n") == expected


@pytest.mark.parametrize(
    "text",
    ["n=x", "n=", "n=+", "n=1.5", "n=" + "9" * 19, "n=%D9%A3", "n=%FF", "&".join("n=1" for _ in range(2000))],
)
def test_invalid_integers_and_queries_are_rejected(text: str) -> None:
    with pytest.raises(StatusError) as caught:
        integer(parse_query(text), "n")
    assert caught.value.code == 400


def test_all_list_options_are_parsed() -> None:
    options = list_options(
        parse_query(
            "labelSelector=a%3Db&fieldSelector=c%3Dd&resourceVersion=5&resourceVersionMatch=Exact&limit=7&continue=t"
            "&timeoutSeconds=9&allowWatchBookmarks=true&sendInitialEvents=false"
        )
    )
    assert (options.label_selector, options.field_selector, options.resource_version) == ("a=b", "c=d", "5")
    assert (options.resource_version_match, options.limit, options.continue_token) == ("Exact", 7, "t")
    assert (options.timeout_seconds, options.allow_bookmarks, options.send_initial_events) == (9, True, False)


def test_delete_options_in_the_body_take_precedence_over_the_query() -> None:
    query = parse_query("gracePeriodSeconds=5&propagationPolicy=Orphan&orphanDependents=1&dryRun=All")
    from_query = delete_options(query, None)
    assert (from_query.grace_period_seconds, from_query.propagation_policy) == (5, "Orphan")
    assert (from_query.orphan_dependents, from_query.dry_run) == (True, ("All",))
    assert delete_options(query, {"gracePeriodSeconds": 1}).grace_period_seconds == 1


TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PROTOBUF = "application/vnd.kubernetes.protobuf"


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", Form()),
        ("*/*", Form()),
        ("application/*", Form()),
        ("application/json", Form()),
        ("application/json; charset=utf-8; foo=bar", Form()),
        ("application/yaml", Form(is_yaml=True)),
        (f"{PROTOBUF},application/json", Form()),
        (f"{PROTOBUF}, */*", Form()),
        (f"{TABLE},application/json", Form(transform="Table")),
        (
            f"{TABLE.replace('v=v1', 'v=v1beta1')},application/json",
            Form(transform="Table", version="v1beta1"),
        ),
        (f"{TABLE.replace('v=v1', 'v=v9')},application/json", Form()),
        (f"{PROTOBUF};as=Table,{TABLE}", Form(transform="Table")),
        ("application/json;as=Unknown,application/json", Form()),
        (
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            Form(transform="PartialObjectMetadata"),
        ),
        ("application/yaml;q=0.1,application/json;q=0.9", Form()),
        ("application/json;q=0,application/yaml", Form(is_yaml=True)),
        ("APPLICATION/JSON", Form()),
    ],
)
def test_the_preferred_acceptable_media_type_is_chosen(accept: str, expected: Form) -> None:
    assert negotiate(accept, OF_AN_OBJECT) == expected


@pytest.mark.parametrize(
    "accept",
    [
        "text/html",
        PROTOBUF,
        f"{PROTOBUF};as=Table",
        "application/json;as=Unknown",
        "application/json;q=x",
        ";",
    ],
)
def test_an_unsatisfiable_accept_header_is_rejected_with_406(accept: str) -> None:
    with pytest.raises(StatusError) as caught:
        negotiate(accept, OF_AN_OBJECT)
    assert (caught.value.code, caught.value.reason) == (406, "NotAcceptable")


def test_list_and_object_transforms_do_not_apply_to_each_other() -> None:
    wish = "application/json;as={};v=v1;g=meta.k8s.io,application/json"
    assert negotiate(wish.format("PartialObjectMetadataList"), OF_AN_OBJECT) == Form()
    assert negotiate(wish.format("PartialObjectMetadata"), OF_A_LIST) == Form()
    assert negotiate(wish.format("Table"), NO_TRANSFORM) == Form()


@pytest.mark.parametrize(
    ("parameter", "agent", "expected"),
    [
        (None, "curl/8", True),
        (None, "Mozilla/5.0 x", True),
        (None, "kubectl", False),
        (False, "curl/8", False),
        (True, "", True),
    ],
)
def test_json_is_indented_for_interactive_clients(parameter: bool | None, agent: str, expected: bool) -> None:
    assert is_pretty(parameter, agent) is expected
