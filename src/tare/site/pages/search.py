"""What a search finds: workloads, records, runs, regressions, commits and machines."""

from tare.site.page import Page
from tare.site.pages.common import Query
from tare.site.questions import Scope, search
from tare.site.tables import Column, DataTable

COLUMNS = (Column("kind", "what"), Column("text", "name", "key", "path"))


def search_page(scope: Scope, query: Query) -> Page:
    text = query.get("q", "")[:200]
    found = [match._asdict() for match in search(scope, text)]
    table = DataTable("found", COLUMNS, found, empty="nothing found: a part of a workload's name, or a whole id")
    return Page(f"Search: {text}" if text else "Search", "search/", [table])
