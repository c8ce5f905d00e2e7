"""The reference pages of flags and configuration file, and the man page, from the one table: ``python -m endpointd.cli.reference``."""

from pathlib import Path

from endpointd.cli.config_file import API_VERSION, KIND
from endpointd.cli.main import COMMANDS
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


def man_page() -> str:
    """Return ``docs/reference/endpointd.1``, in the macros of man(7)."""
    lines = [
        '.\\" Made by python -m endpointd.cli.reference from the tables that the program itself reads.',
        ".TH ENDPOINTD 1",
        ".SH NAME",
        "endpointd \\- keep the EndpointSlices and Endpoints of a Kubernetes cluster right",
        ".SH SYNOPSIS",
        ".B endpointd",
        ".I COMMAND",
        "[\\fIOPTIONS\\fR]",
        ".SH DESCRIPTION",
        "endpointd stands in for the endpoints, endpointslice and endpointslice\\-mirroring controllers of",
        "kube\\-controller\\-manager. Its flags are named as there, wherever there is one.",
        ".SH COMMANDS",
        "Each command has \\fB\\-\\-help\\fR.",
    ]
    for name, (_, text) in COMMANDS.items():
        lines += [".TP", f".B {name}", _roff(text)]
    lines += [
        ".SH OPTIONS OF RUN",
        "Flags are read by pflag's rules, as in kube\\-controller\\-manager: \\fB\\-v2\\fR, \\fB\\-v=2\\fR and \\fB\\-\\-v 2\\fR are the same.",
        ".TP",
        "\\fB\\-\\-config\\fR \\fIFILE\\fR",
        "Read the settings from a file; flags win over it.",
    ]
    for setting in SETTINGS:
        names = ", ".join([*setting.extra_flags, f"--{setting.flag}"])
        value = (
            "" if setting.kind == "boolean" else f" \\fI{_roff(setting.metavar or setting.kind.upper())}\\fR"
        )
        default = f" Default: {setting.default_text}." if setting.default_text else ""
        lines += [".TP", f"\\fB{_roff(names)}\\fR{value}", _roff(setting.help + default)]
    lines += [
        ".SH ENVIRONMENT",
        ".TP",
        ".B KUBECONFIG",
        "Kubeconfig files, separated by colons, where \\fB\\-\\-kubeconfig\\fR is not given.",
        ".SH EXIT STATUS",
        "0: done. 1: something wrong was found, or the Lease was lost. 2: cannot work with what it was given.",
    ]
    return "\n".join(lines) + "\n"


def _roff(text: str) -> str:
    """Return a text that roff prints as it is, on one line."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text


def _default(setting: Setting) -> str:
    return f"`{setting.default_text}`" if setting.default_text else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("'*'", "`*`").replace("'-name'", "`-name`")


PAGES = {"flags.md": flags_page, "configuration.md": configuration_page, "endpointd.1": man_page}

if __name__ == "__main__":
    folder = Path("docs/reference")
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        (folder / name).write_text(page())
