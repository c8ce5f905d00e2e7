"""The reference pages of flags and configuration file, from the one table: ``python -m endpointd.cli.reference``."""

from pathlib import Path

from endpointd.cli.config_file import API_VERSION, KIND
from endpointd.cli.options import SETTINGS, Kind, Setting

_TYPES: dict[Kind, str] = {
    "string": "text",
    "duration": "duration",
    "boolean": "true or false",
    "integer": "whole number",
    "number": "number",
    "list": "list of texts",
}


def flags_page() -> str:
    """Return ``docs/reference/flags.md``."""
    lines = [
        "# Flags of endpointd run",
        "",
        "Made by `python -m endpointd.cli.reference` from the table that the program itself reads. Durations are written as Go",
        "writes them (`0s`, `500ms`, `1m30s`); a flag that is true or false may stand alone, for true. What makes no sense is",
        "told in one line, with exit code 2. `--config FILE` reads all of them from [a file](configuration.md); flags win.",
    ]
    for group in dict.fromkeys(setting.group for setting in SETTINGS):
        lines += ["", f"## {group}", "", "| flag | default | what it is |", "|---|---|---|"]
        lines += [
            f"| `--{setting.flag}` | {_default(setting)} | {_cell(setting.help)} |"
            for setting in SETTINGS
            if setting.group == group
        ]
    return "\n".join(lines) + "\n"


def configuration_page() -> str:
    """Return ``docs/reference/configuration.md``."""
    lines = [
        "# The configuration file",
        "",
        "Made by `python -m endpointd.cli.reference` from the table that the program itself reads. `endpointd run --config FILE`",
        "takes YAML or JSON with the flags as fields, in camel case; a flag on the command line wins over the field.",
        "",
        "```yaml",
        f"apiVersion: {API_VERSION}",
        f"kind: {KIND}",
        'controllers: ["*", "-endpoints-controller"]',
        "maxEndpointsPerSlice: 100",
        "leaderElectLeaseDuration: 15s",
        "metricsBindAddress: 127.0.0.1:10260",
        "```",
        "",
        "`apiVersion` and `kind` have to be there. A field that nobody knows is refused with the nearest known one, a value of",
        "the wrong type or out of range with its path, each with its line, and all of them at once; the exit code is 2. The file is",
        "read once, at the start.",
        "",
        "| field | type | default | what it is |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| `{setting.key}` | {_TYPES[setting.kind]} | {_default(setting)} | {_cell(setting.help)} |"
        for setting in SETTINGS
    ]
    return "\n".join(lines) + "\n"


def _default(setting: Setting) -> str:
    return f"`{setting.default_text}`" if setting.default_text else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("'*'", "`*`").replace("'-name'", "`-name`")


PAGES = {"flags.md": flags_page, "configuration.md": configuration_page}

if __name__ == "__main__":
    folder = Path("docs/reference")
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        (folder / name).write_text(page())
