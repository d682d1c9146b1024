"""tare import: exported records and results of other tools come into the store once, unchanged, all or none."""

import gzip
import json
from pathlib import Path

import pytest
from builders import make_case, make_record
from commandline import tare

from tare.commands.records import import_files
from tare.errors import BadInput
from tare.report.files import write_whole
from tare.report.formats.json import records_json
from tare.store.database import Store

PYPERF = {
    "version": "1.0",
    "benchmarks": [
        {"metadata": {"name": "loads"}, "runs": [{"values": [1.0], "metadata": {"date": "2026-01-02 03:04:05"}}]}
    ],
}


@pytest.fixture
def store(address: str) -> str:
    return address


def test_an_exported_record_is_imported_unchanged(tmp_path: Path, store: str) -> None:
    records = [make_record(), make_record(make_case(rung="compile"), id="record000002")]
    for name in ("plain.json", "packed.json.gz"):
        write_whole(tmp_path / name, records_json(records))
    done = import_files([tmp_path / "plain.json", tmp_path / "packed.json.gz"], store)
    assert [(each.source, each.kind, each.found, each.new) for each in done] == [
        ("tare", "records", 2, 2),
        ("tare", "records", 2, 0),
    ]
    with Store(store) as opened:
        assert opened.find() == records


def test_a_second_record_of_a_case_in_a_run_is_skipped(tmp_path: Path, store: str) -> None:
    write_whole(
        tmp_path / "a.json", records_json([make_record(), make_record(id="record000002", steps_s=(2e-3,))])
    )
    (done,) = import_files([tmp_path / "a.json"], store)
    assert (done.found, done.new, list(done.skipped)) == (2, 1, ["record000002"])
    assert "another record" in done.skipped["record000002"]


def test_many_records_are_added_once(store: str) -> None:
    many = [make_record(id=f"record{i:06}", run=f"run{i:06}") for i in range(1001)]
    with Store(store) as opened:
        assert opened.add(many) == (len(many), [])
        assert opened.add(many) == (0, [])


def test_one_bad_file_prevents_the_whole_import(tmp_path: Path, store: str) -> None:
    write_whole(tmp_path / "good.json", records_json([make_record()]))
    (tmp_path / "bad.json").write_text('[{"version": "9.0"}]')
    with pytest.raises(BadInput, match=r"bad\.json"):
        import_files([tmp_path / "good.json", tmp_path / "bad.json"], store)
    with Store(store) as opened:
        assert opened.find() == []


def test_compressed_missing_and_damaged_files(tmp_path: Path, store: str) -> None:
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(json.dumps(PYPERF).encode()))
    (done,) = import_files([path], store)
    assert (done.source, done.kind, done.new) == ("pyperf", "points", 1)
    path.write_bytes(b"no gzip")
    with pytest.raises(BadInput, match=r"a\.json\.gz"):
        import_files([path], store)
    with pytest.raises(BadInput, match="cannot read"):
        import_files([tmp_path / "none.json"], store)


def test_a_baseline_of_another_store_is_imported_and_named(tmp_path: Path) -> None:
    exported = tmp_path / "main.json.gz"
    write_whole(exported, records_json([make_record()]))
    refused = tare(tmp_path, "baseline", "set", "main", str(exported))
    assert (refused.returncode, "tare import" in refused.stderr) == (2, True)
    assert tare(tmp_path, "import", str(exported)).stdout.strip().endswith("tare, 1 record, 1 new")
    assert tare(tmp_path, "baseline", "set", "main", "run000000001").returncode == 0
    assert tare(tmp_path, "show", "run=run000000001").returncode == 0
