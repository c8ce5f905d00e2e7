"""Check a built documentation site: every internal link has its target, and nothing is loaded from another host.

``python scripts/check_site.py FOLDER``. External links are counted, not followed: the build needs no network.
"""

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Attributes whose address a browser loads automatically; a link (<a href>) is only followed on a click.
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "object": "data"}
# <link> elements that name other pages instead of loading something.
PAGE_LINKS = {"next", "prev", "index", "search", "canonical", "genindex", "contents", "top", "up"}
CSS_ADDRESS = re.compile(r"(?:@import\s+|url\()\s*[\"']?(https?:)?//", re.IGNORECASE)


class Page(HTMLParser):
    """The anchors, links and loaded addresses of one page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.anchors.update(value for value in (values.get("id"), values.get("name")) if value)
        if tag == "a" and values.get("href"):
            self.links.append(values["href"] or "")
        address = values.get(LOADED.get(tag, ""))
        if address and not (tag == "link" and PAGE_LINKS & set((values.get("rel") or "").split())):
            self.loaded.append(address)


def is_external(address: str) -> bool:
    """Return whether an address names another host."""
    parts = urlsplit(address)
    return bool(parts.netloc) or parts.scheme not in ("", "data")


def problems(folder: Path, pages: dict[Path, Page]) -> Iterator[str]:
    """Yield broken internal links and assets of other hosts."""
    for path, page in pages.items():
        name = path.relative_to(folder)
        for address in page.loaded:
            if is_external(address):
                yield f"{name}: loads {address} from another host"
        for link in [*page.links, *page.loaded]:
            if is_external(link) or link.startswith(("data:", "javascript:")):
                continue
            parts = urlsplit(link)
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                yield f"{name}: {link}: no such file"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{name}: {link}: no such anchor"
    for style in folder.rglob("*.css"):
        if CSS_ADDRESS.search(style.read_text()):
            yield f"{style.relative_to(folder)}: loads from another host"


def main() -> int:
    """Check the folder and return the exit code."""
    folder = Path(sys.argv[1]).resolve()
    pages = {path: Page(path) for path in sorted(folder.rglob("*.html"))}
    found = list(problems(folder, pages))
    print("\n".join(found), file=sys.stderr) if found else None
    links = [link for page in pages.values() for link in page.links]
    external = sum(is_external(link) for link in links)
    print(
        f"{len(pages)} pages: {len(links) - external} internal links checked, {external} external links not followed, "
        f"{len(found)} problems"
    )
    return 1 if found or not pages else 0


if __name__ == "__main__":
    sys.exit(main())
