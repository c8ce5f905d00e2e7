"""A patch only processes the members that it names, with the same result as for the whole object."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinykube.server.patch.service import PatchType, TypedPatches
from tinykube.server.registry.configmaps import CONFIG_MAPS
from tinykube.server.registry.pods import PODS
from tinykube.server.verbs.patch_merge import merged

PATCHES = TypedPatches()
TEXTS = st.dictionaries(st.sampled_from("abc"), st.none() | st.sampled_from(["x", "y"]), max_size=3)
MEMBERS = ["metadata", "data", "binaryData"]
DOCUMENTS = st.dictionaries(
    st.sampled_from(MEMBERS), st.dictionaries(st.sampled_from("abc"), st.just("x"), max_size=3)
)
BODIES = st.dictionaries(st.sampled_from(MEMBERS), st.none() | TEXTS)


def whole(patch_type: PatchType, kind: str, document: Any, body: Any) -> list[tuple[str, Any]]:
    return list(PATCHES.apply(patch_type, "", "v1", kind, document, body).items())


@pytest.mark.parametrize("patch_type", ["merge", "strategic"])
@given(document=DOCUMENTS, body=BODIES)
def test_a_partial_patch_equals_a_full_patch_including_member_order(
    patch_type: PatchType, document: dict[str, Any], body: dict[str, Any]
) -> None:
    before = msgspec.json.encode(document)
    parts = merged(PATCHES, patch_type, CONFIG_MAPS, document, body)
    assert list(parts.items()) == whole(patch_type, "ConfigMap", document, body)
    assert msgspec.json.encode(document) == before


@pytest.mark.parametrize(
    "body",
    [
        {"$patch": "replace", "metadata": {"name": "a"}},
        {"$retainKeys": ["metadata"], "metadata": {"name": "a"}},
        {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}},
        {"spec": {"containers": [{"name": "a", "image": "new"}, {"$patch": "delete", "name": "b"}]}},
    ],
)
def test_directives_have_the_same_effect_as_in_a_full_patch(body: dict[str, Any]) -> None:
    containers = [{"name": "a", "image": "old"}, {"name": "b", "image": "old"}]
    document = {"metadata": {"name": "a"}, "spec": {"containers": containers}, "status": {}}
    parts = merged(PATCHES, "strategic", PODS, document, body)
    assert list(parts.items()) == whole("strategic", "Pod", document, body)


def test_members_that_are_not_patched_are_not_copied() -> None:
    document: dict[str, Any] = {"metadata": {"name": "a"}, "spec": {"containers": []}, "status": {}}
    patched = merged(PATCHES, "strategic", PODS, document, {"status": {"phase": "Running"}})
    assert patched["spec"] is document["spec"]
    assert patched["status"] == {"phase": "Running"}
    assert document["status"] == {}
