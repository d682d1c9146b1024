"""What several pages show alike: a series in a row, the filters, numbers of an address."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import urlencode

from tare.cases.case import Case
from tare.errors import BadInput
from tare.report.ladder import case_settings, sizes
from tare.report.web.figures import default_sizes
from tare.site.page import Filter
from tare.site.questions import Scope, distinct, machine_labels
from tare.site.tables import Column

Query = Mapping[str, str]
MOST_DIGITS = 9
# Rows of a page of a long table, and of one that an address may ask for.
ROWS, MOST_ROWS = 100, 5000
# How the newest record of a series ended, in one word.
FIGURE_COLUMNS = (
    Column("gross", "gross", "seconds"),
    Column("net", "net", "seconds"),
    Column("latency", "latency", "seconds"),
    Column("host_bytes", "host", "bytes"),
    Column("device_bytes", "device", "bytes"),
    Column("rounds", "rounds", "count"),
    Column("parity", "parity", "word"),
)


def number(query: Query, name: str, usual: int, most: int = 10**MOST_DIGITS) -> int:
    text = query.get(name, "")
    if not text:
        return usual
    if not (text.isascii() and text.isdigit()) or len(text) > MOST_DIGITS or int(text) > most:
        raise BadInput(f"{name} is a whole number of at most {most}, not '{text[:20]}'")
    return int(text)


class Portion(NamedTuple):
    """The rows of one page of a long table. A question asks for one more of them, which tells whether there is a
    next page."""

    page: int
    size: int

    @property
    def limit(self) -> int:
        return self.size + 1

    @property
    def offset(self) -> int:
        return (self.page - 1) * self.size

    def of(self, rows: Sequence[Any]) -> Sequence[Any]:
        return rows[: self.size]

    def more(self, path: str, query: Query, rows: Sequence[Any]) -> str:
        """The address of the next page; empty if these rows are the last ones."""
        if len(rows) <= self.size:
            return ""
        return f"{path}?{urlencode({**query, 'page': str(self.page + 1)})}"


def portion(query: Query) -> Portion:
    page, size = number(query, "page", 1, 10**6), number(query, "rows", ROWS, MOST_ROWS)
    return Portion(max(page, 1), max(size, 1))


def chosen_filters(query: Query, names: Sequence[str]) -> dict[str, str]:
    return {name: query[name] for name in names if query.get(name)}


def filters(scope: Scope, query: Query, names: Sequence[str], labels: Mapping[str, str]) -> list[Filter]:
    """Choices among what the store has. A value that it does not have stays in the address, and is shown."""
    made = []
    for name in names:
        given = query.get(name, "")
        if name == "machine":
            options = [(id_, label) for id_, label in labels.items()]
        else:
            options = [(value, value) for value in distinct(scope, name)]
        if given and given not in dict(options):
            options.append((given, given))
        made.append(Filter(name, name, given, [("", "all"), *options]))
    return made


def status_word(row: Any) -> str:
    """How a series stands: what its newest record says."""
    if row.status == "unsupported":
        return "cannot run"
    return str(row.status) if row.status != "ok" else str(row.parity)


@lru_cache(maxsize=20_000)
def ladder_title(key: str) -> str:
    """A ladder without its workload, as people read it: of the sizes those that are not the workload's own."""
    try:
        case = Case.parse(key.replace("/*/", "/any/", 1))
    except BadInput:
        return key
    usual = default_sizes(case.workload)
    own = {name: count for name, count in case.sizes.items() if usual.get(name) != count}
    parts = (case.mode, case.device, case.precision, f"batch {case.batch}", sizes(own), case.optimizer)
    return " · ".join(part for part in (*parts, *case_settings(case)) if part)


def labels_of(scope: Scope) -> dict[str, str]:
    return machine_labels(scope)
