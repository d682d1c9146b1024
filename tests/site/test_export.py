"""The pages as files: every link leads to a file that is there, and nothing is fetched from elsewhere."""

from pathlib import Path

import pytest
from sites import client_of, links_of
from synthetic_store import Size, fill

from tare.errors import BadInput
from tare.site.export import export_site
from tare.store.database import Store

COMMITS = "https://example.org/net/commit/{commit}/"
SIZE = Size(workloads=2, machines=2, nights=8)


@pytest.mark.full
def test_every_link_of_every_file_leads_to_a_file(store: Store, tmp_path: Path) -> None:
    fill(store, SIZE)
    folder = tmp_path / "site"
    count = export_site(store, folder, commits=COMMITS)
    pages = list(folder.rglob("*.html"))
    assert len(pages) == count
    # Every series, and every record that a series leads to.
    assert len(list((folder / "series").iterdir())) == 2 * 2 * 4
    assert len(list((folder / "records").iterdir())) == SIZE.records
    broken = set()
    for page in pages:
        for link in links_of(page.read_text()):
            if "//" in link:
                assert link.startswith(COMMITS.partition("{")[0])
                continue
            target = (page.parent / link.partition("?")[0]).resolve()
            if not target.is_file():
                broken.add(link)
    assert broken == set()
    assert 'role="search"' not in (folder / "index.html").read_text()
    # The same data as a server gives.
    with client_of(store) as client:
        for path in ("grid/", "machines/", "workloads/"):
            assert (folder / path / "data.json").read_bytes() == client.get(f"/{path}data.json").content


def test_a_folder_that_is_not_empty_stays_as_it_is(store: Store, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(BadInput, match="is not an empty folder"):
        export_site(store, tmp_path)
    assert sorted(tmp_path.iterdir()) == before
