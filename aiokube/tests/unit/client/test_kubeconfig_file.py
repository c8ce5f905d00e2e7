"""Kubeconfig files are read and merged as kubectl does."""

import json
from pathlib import Path

import pytest

from aiokube.client.errors import ConfigError
from aiokube.client.kubeconfig_file import merge, read_kubeconfig


def file_of(folder: Path, text: str, name: str = "config") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


YAML = """\
apiVersion: v1
kind: Config
current-context: dev
preferences: {}
clusters:
- name: kind
  cluster: {server: "https://127.0.0.1:6443", insecure-skip-tls-verify: true}
users:
- name: jane
  user: {token: 2026-01-01, something-newer: {a: 1}}
contexts:
- name: dev
  context: {cluster: kind, user: jane, namespace: team}
"""


def test_yaml_and_json_kubeconfigs_are_equivalent(tmp_path: Path) -> None:
    as_json = json.dumps(
        {
            "kind": "Config",
            "current-context": "dev",
            "clusters": [
                {
                    "name": "kind",
                    "cluster": {"server": "https://127.0.0.1:6443", "insecure-skip-tls-verify": True},
                }
            ],
            "users": [{"name": "jane", "user": {"token": "2026-01-01"}}],
            "contexts": [
                {"name": "dev", "context": {"cluster": "kind", "user": "jane", "namespace": "team"}}
            ],
        }
    )
    path = file_of(tmp_path, YAML)
    from_yaml = read_kubeconfig(path)
    path.write_text(as_json)
    assert read_kubeconfig(path) == from_yaml
    assert from_yaml.current_context == "dev"
    assert from_yaml.users["jane"].entry.token == "2026-01-01"  # and no date
    assert from_yaml.clusters["kind"].entry.insecure_skip_tls_verify is True


@pytest.mark.parametrize("text", ["", "{}", "kind: Config", "clusters: null\nusers: []", "# nothing\n"])
def test_a_nearly_empty_file_is_an_empty_kubeconfig(tmp_path: Path, text: str) -> None:
    config = read_kubeconfig(file_of(tmp_path, text))
    assert (config.current_context, config.clusters, config.users, config.contexts) == ("", {}, {}, {})


def test_entries_may_be_empty(tmp_path: Path) -> None:
    config = read_kubeconfig(
        file_of(tmp_path, "users: [{name: a, user: null}, {name: b}, {name: c, user: {}}]")
    )
    assert sorted(config.users) == ["a", "b", "c"]
    assert config.users["a"].entry.token is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("users: [\n- hunter2", "is neither YAML nor JSON in line 2"),
        ("a: b: hunter2", "is neither YAML nor JSON in line 1"),
        ("- hunter2", "is not one: Expected `object`, got `array`"),
        ("hunter2", "is not one: Expected `object`, got `str`"),
        (
            "users: [{name: a, user: {token: [hunter2]}}]",
            r"Expected `str | null`, got `array` - at `$.users[0].user.token`",
        ),
        ("clusters: hunter2", "Expected `array | null`, got `str` - at `$.clusters`"),
        ("kind: Pod", "its kind is not Config"),
        ("users: [{name: a}, {name: a}]", "has two users named 'a': keep one"),
        ("key: !!int hunter2", "is neither YAML nor JSON in line 1"),
        ("users: &hunter2 [*hunter2]", "is neither YAML nor JSON in line 1"),
        ("[" * 5_000, "is neither YAML nor JSON in line 1: exceeded max depth"),
        ('{"a":' * 100_000, "is neither YAML nor JSON in line 1: exceeded max depth"),
    ],
)
def test_an_invalid_file_is_reported_with_its_position_but_not_its_content(
    tmp_path: Path, text: str, words: str
) -> None:
    path = file_of(tmp_path, text)
    with pytest.raises(ConfigError) as raised:
        read_kubeconfig(path)
    assert str(raised.value).startswith(f"kubeconfig {path} ")
    assert words in str(raised.value)
    assert "hunter2" not in str(raised.value)
    assert raised.value.__suppress_context__ or raised.value.__context__ is None


def test_invalid_utf_8_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="neither YAML nor JSON"):
        read_kubeconfig(path)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file or directory"):
        read_kubeconfig(tmp_path / "none")


def test_the_first_file_that_defines_an_entry_wins(tmp_path: Path) -> None:
    first = file_of(
        tmp_path,
        "users: [{name: red, user: {token: one}}]\ncontexts: [{name: a, context: {cluster: x}}]",
        "one/config",
    )
    second = file_of(
        tmp_path,
        "current-context: b\n"
        "users: [{name: red, user: {token: two, username: more}}, {name: blue, user: {token: two}}]\n"
        "contexts: [{name: a, context: {cluster: yy, user: z}}, {name: b, context: {cluster: yy}}]",
        "two/config",
    )
    third = file_of(tmp_path, "current-context: c", "three/config")
    merged = merge([read_kubeconfig(path) for path in (first, second, third)])
    assert merged.current_context == "b"
    assert merged.users["red"].entry.token == "one"
    assert merged.users["red"].entry.username is None
    assert merged.users["blue"].entry.token == "two"
    assert (merged.contexts["a"].entry.cluster, merged.contexts["a"].entry.user) == ("x", None)
    assert merged.contexts["b"].file == second


def test_relative_paths_are_resolved_against_the_folder_of_the_file(tmp_path: Path) -> None:
    path = file_of(tmp_path, "users: [{name: a}]", "one/config")
    located = read_kubeconfig(path).users["a"]
    assert located.path("pki/me.crt") == tmp_path / "one/pki/me.crt"
    assert located.path("/etc/me.crt") == Path("/etc/me.crt")


def test_relative_paths_are_resolved_even_if_the_path_of_the_file_is_relative(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file_of(tmp_path, "users: [{name: a}]", "one/config")
    monkeypatch.chdir(tmp_path)
    located = read_kubeconfig(Path("one/config")).users["a"]
    monkeypatch.chdir("/")
    assert located.path("me.crt") == tmp_path / "one/me.crt"
