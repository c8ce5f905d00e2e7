"""Known differences of upstream are distinguished from unknown ones."""

from tests.differential.explanations import explain

KEY = "slices a/web IPv4 [] by endpointslice-controller.k8s.io"
OWNER = "\n    owner {apiVersion=v1, kind=Service, name=web, uid=(current)}"


def slices(size: int, labels: str, owner: str = OWNER) -> tuple[str, ...]:
    return (f"sizes [{size}]", f"labels {{{labels}}}{owner}", *(f"10.0.0.{i}" for i in range(size)))


def test_equal_states_need_no_explanation() -> None:
    assert not explain({KEY: slices(1, "team=red")}, {KEY: slices(1, "team=red")})


def test_a_wrong_headless_label_is_a_known_difference() -> None:
    labelled = slices(1, 'service.kubernetes.io/headless="", team=red')
    assert explain({KEY: labelled}, {KEY: slices(1, "team=red")}) == {KEY: "S-60, E-19b"}
    assert not explain({KEY: labelled}, {KEY: slices(1, "team=blue")})
    assert not explain({KEY: labelled}, {KEY: slices(2, "team=red")})


def test_a_foreign_placeholder_is_a_known_difference_and_a_slice_with_endpoints_is_not() -> None:
    stale = OWNER.replace("(current)", "(another)")
    for owner in (stale, ""):
        assert explain({KEY: slices(0, "team=red", owner)}, {KEY: slices(0, "team=red")}) == {
            KEY: "S-50, S-51"
        }
        assert not explain({KEY: slices(1, "team=red", owner)}, {KEY: slices(1, "team=red")})


def test_two_known_differences_at_once_are_explained_by_both_rules() -> None:
    odd = slices(0, 'service.kubernetes.io/headless="", team=red', "")
    assert explain({KEY: odd}, {KEY: slices(0, "team=red")}) == {KEY: "S-60, E-19b; S-50, S-51"}


def test_a_slice_on_one_side_only_is_known_only_after_it_was_a_foreign_placeholder() -> None:
    mine = {KEY: slices(0, "team=red")}
    assert not explain({}, mine)
    assert not explain(mine, {}, earlier={KEY: "S-50, S-51"})
    assert explain({}, mine, earlier={KEY: "S-50, S-51"}) == {KEY: "S-73 after S-51"}
    assert not explain({}, {KEY: slices(1, "team=red")}, earlier={KEY: "S-50, S-51"})
