"""What a store holds at this moment, read while another process may write it."""

import json
import sqlite3
from pathlib import Path


def stored_rounds(home: Path) -> dict[tuple[str, str, int], str]:
    """The series of each round, whether its case is finished or not, by run, case and index."""
    path = home / "records.db"
    if not path.exists():
        return {}
    with sqlite3.connect(path) as database:
        try:
            unfinished = database.execute("select run, key, position, document from rounds").fetchall()
            finished = database.execute(
                "select run, key, document from records join documents on documents.record = records.id"
            ).fetchall()
        except sqlite3.OperationalError as error:
            # The other process has not created its tables yet.
            if "no such table" not in str(error):
                raise
            return {}
    rounds = {(run, key, index): json.loads(text) for run, key, index, text in unfinished}
    for run, key, text in finished:
        rounds |= {(run, key, done["index"]): done for done in json.loads(text)["rounds"]}
    return {place: json.dumps(done["series"]) for place, done in rounds.items()}
