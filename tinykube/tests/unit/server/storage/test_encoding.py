"""The stored form of a document: its bytes and the values for selectors."""

import msgspec
from tests.unit.server.storage.gated import CONFIGMAPS, describe

from tinykube.server.objects import StorageKey
from tinykube.server.storage.encoding import at_revision, encode_stored

KEY = StorageKey(CONFIGMAPS, "default", "a")


def document() -> dict[str, object]:
    return {
        "data": {"x": "é\u2028"},
        "metadata": {"name": "a", "uid": "u1", "labels": {"app": "web"}},
        "apiVersion": "v1",
        "kind": 'Odd"Kind',
    }


def test_kind_and_version_come_first_and_list_items_start_after_them() -> None:
    stored = encode_stored(KEY, document(), 12, describe)
    assert stored.encoded.startswith(b'{"kind":"Odd\\"Kind","apiVersion":"v1","data":')
    item = msgspec.json.decode(b"{" + stored.encoded[stored.item_offset :])
    assert list(item) == ["data", "metadata"]
    assert stored.decode() == {**item, "kind": 'Odd"Kind', "apiVersion": "v1"}
    assert stored.decode()["metadata"]["resourceVersion"] == "12"
    assert (stored.uid, stored.revision, stored.labels) == ("u1", 12, {"app": "web"})
    assert stored.fields["metadata.name"] == "a"


def test_an_empty_document_still_has_a_list_item() -> None:
    bare = encode_stored(KEY, {}, 1, describe)
    assert msgspec.json.decode(b"{" + bare.encoded[bare.item_offset :]) == {
        "metadata": {"resourceVersion": "1"}
    }


def test_an_update_shares_unchanged_parts_with_its_predecessor() -> None:
    before = encode_stored(KEY, document(), 12, describe)
    after = encode_stored(StorageKey(CONFIGMAPS, "default", "a"), document(), 13, describe, before)
    assert after.labels is before.labels
    assert after.fields is before.fields
    assert after.key is before.key
    relabelled = document()
    relabelled["metadata"]["labels"] = {"app": "db"}  # type: ignore[index]
    assert encode_stored(KEY, relabelled, 14, describe, before).labels == {"app": "db"}
    assert before.labels == {"app": "web"}


def test_a_deleted_object_keeps_its_content_with_the_deletion_revision() -> None:
    before = encode_stored(KEY, document(), 12, describe)
    after = at_revision(before, 20, describe)
    gone = after.decode()
    assert gone["metadata"].pop("resourceVersion") == "20"
    kept = before.decode()
    del kept["metadata"]["resourceVersion"]
    assert gone == kept
