"""The directive ``facade``: documents what a package exports, in the order and sections of its ``__all__``."""

import ast
import importlib
import inspect
import re
from pathlib import Path
from typing import ClassVar

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata


def sections_of(source: str) -> list[tuple[str, list[str]]]:
    """Return the names in ``__all__`` under the comments that divide it; names before the first have no title."""
    listed = re.search(r"^__all__ = \[\n(.*?)^\]", source, re.DOTALL | re.MULTILINE)
    if listed is None:
        return []
    sections: list[tuple[str, list[str]]] = [("", [])]
    for line in listed[1].splitlines():
        if match := re.match(r" *# (.*?)\.?$", line):
            sections.append((match[1], []))
        else:
            sections[-1][1].extend(ast.literal_eval(f"[{line}]"))
    return [(title, names) for title, names in sections if names]


class Facade(SphinxDirective):
    """``.. facade:: package``: one section for each group of exported names, one entry for each name."""

    required_arguments = 1
    option_spec: ClassVar = {}

    def run(self) -> list[nodes.Node]:
        """Return the parsed sections."""
        package = self.arguments[0]
        module = importlib.import_module(package)
        file = Path(module.__file__ or "")
        self.env.note_dependency(str(file))
        lines: list[str] = []
        for title, names in sections_of(file.read_text()):
            if title:
                # The rest of a long comment is explanation, not title.
                head, _, rest = title.partition("; ")
                head = head[:1].upper() + head[1:]
                lines += [head, "-" * len(head), "", rest[:1].upper() + rest[1:] + "." * bool(rest), ""]
            for name in names:
                if not name.startswith("__"):
                    lines += self.entry(package, name, getattr(module, name))
        return self.parse_text_to_nodes("\n".join(lines), allow_section_headings=True)

    def entry(self, package: str, name: str, value: object) -> list[str]:
        """Return the directive that documents one name."""
        if isinstance(value, type):
            directive = "autoexception" if issubclass(value, BaseException) else "autoclass"
            options = ["   :members:"]
        elif inspect.isroutine(value):
            directive, options = "autofunction", []
        else:
            directive, options = "autodata", ["   :no-value:"]
        self.env.note_dependency(inspect.getfile(value) if inspect.isroutine(value) else __file__)
        return [f".. {directive}:: {package}.{name}", *options, ""]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("facade", Facade)
    return {"parallel_read_safe": True}
