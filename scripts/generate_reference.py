"""Write docs/reference/aiokube.md: every public name of aiokube, with its signature and the start of its docstring.

python scripts/generate_reference.py
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "aiokube/src/aiokube"
OUT = ROOT / "docs/reference/aiokube.md"

HEAD = """# Reference of aiokube

All public names of `aiokube`, in the order of its façade. The docstrings in the sources say more. Written by
`scripts/generate_reference.py`; do not edit.
"""
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def facade() -> tuple[list[tuple[str, list[str]]], dict[str, str]]:
    """Return the names by section, and the module of each."""
    text = (SOURCES / "__init__.py").read_text()
    listed = re.search(r"__all__ = \[\n(.*?)^\]", text, re.DOTALL | re.MULTILINE)
    table = re.search(r"_MODULES = (\{.*?^\})", text, re.DOTALL | re.MULTILINE)
    assert listed is not None
    assert table is not None
    sections: list[tuple[str, list[str]]] = []
    for line in listed[1].splitlines():
        if match := re.match(r"    # (.*?)\.?$", line):
            sections.append((match[1], []))
        elif (match := re.match(r'    "(\w+)",', line)) and not match[1].startswith("__"):
            sections[-1][1].append(match[1])
    return sections, ast.literal_eval(table[1])


def plain(text: str) -> str:
    """Return the first paragraph of a docstring as Markdown in one line."""
    text = " ".join(text.split("\n\n", maxsplit=1)[0].split())
    text = re.sub(r":\w+:`~?(?:aiokube\.[\w.]*\.)?([\w.]+)`", r"`\1`", text)
    return text.replace("``", "`").removesuffix("::")


def signature(node: ast.FunctionDef | ast.AsyncFunctionDef, name: str, *, bound: bool) -> str:
    """Return ``name(...) -> type`` as it is called."""
    arguments = ast.unparse(node.args)
    if bound and not any(
        isinstance(one, ast.Name) and one.id == "staticmethod" for one in node.decorator_list
    ):
        arguments = arguments.partition(", ")[2]
    prefix = "await " if isinstance(node, ast.AsyncFunctionDef) else ""
    returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    return f"{prefix}{name}({arguments}){returns}"


def is_property(node: ast.AST) -> bool:
    """Tell whether a method is read as an attribute."""
    return isinstance(node, ast.FunctionDef) and any(
        isinstance(one, ast.Name) and one.id == "property" for one in node.decorator_list
    )


def describe(name: str, node: Definition | None, module: str) -> list[str]:
    """Return the lines on one name."""
    if node is None:
        return [f"### `{name}`", "", f"From `aiokube.{module}`.", ""]
    text = plain(ast.get_docstring(node) or "")
    if not isinstance(node, ast.ClassDef):
        return [f"### `{name}`", "", "```", signature(node, name, bound=False), "```", "", text, ""]
    methods = [one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
    lines = [f"### `{name}`", ""]
    for method in methods:
        if method.name == "__init__":
            made = signature(method, name, bound=True).removesuffix(" -> None")
            lines += ["```", made, "```", ""]
    lines += [text, ""]
    members = [one for one in methods if not one.name.startswith("_")]
    fields = [
        ast.unparse(one)
        for one in node.body
        if isinstance(one, ast.AnnAssign) and not ast.unparse(one.target).startswith("_")
    ]
    lines += [f"* `{field}`" for field in fields]
    for member in members:
        shown = member.name if is_property(member) else signature(member, member.name, bound=True)
        lines.append(f"* `{shown}`: {plain(ast.get_docstring(member) or '')}")
    return [*lines, ""] if members or fields else lines


def page() -> str:
    """Return the page."""
    sections, modules = facade()
    lines = [HEAD]
    for title, names in sections:
        lines += [f"## {title[:1].upper()}{title[1:]}", ""]
        constants = [name for name in names if name.isupper()]
        for name in names:
            if name in constants:
                continue
            module = modules[name]
            tree = ast.parse((SOURCES / f"{module.replace('.', '/')}.py").read_text())
            nodes = {one.name: one for one in tree.body if isinstance(one, Definition)}
            if module == "api.kinds":
                continue
            lines += describe(name, nodes.get(name), module)
        kinds = [name for name in names if modules[name] == "api.kinds" and not name.isupper()]
        if kinds:
            lines += [
                f"{', '.join(f'`{name}`' for name in kinds)}: all fields, from `aiokube.api.kinds`.",
                "",
            ]
        if constants:
            lines += [f"Constants: {', '.join(f'`{name}`' for name in constants)}.", ""]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    OUT.write_text(page())
