"""The table of ``endpointd up`` as a terminal shows it."""

from rich.table import Table
from rich.text import Text

from endpointd.cli.overview import HEADERS, Overview, ServiceRow, cells

_NUMBERS = {"READY": "green", "NOT READY": "yellow", "TERMINATING": "red"}


def rendered(found: Overview) -> Table:
    """Return the table: a row a service, counts in colour."""
    table = Table(box=None, pad_edge=False, header_style="bold", expand=False)
    for header in HEADERS:
        right = header in _NUMBERS
        table.add_column(header, justify="right" if right else "left", no_wrap=header != "SLICES")
    for row in found.services:
        table.add_row(*_row(row))
    return table


def _row(row: ServiceRow) -> list[Text]:
    texts = []
    for header, cell in zip(HEADERS, cells(row), strict=True):
        colour = _NUMBERS.get(header)
        texts.append(Text(cell, style=colour if colour and cell != "-" else ""))
    return texts
