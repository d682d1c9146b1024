"""Questions about what there is: this machine, and the records in a store. Nothing here measures."""

from pathlib import Path

from tare.cases.case import Case
from tare.cases.options import Options
from tare.errors import BadInput
from tare.execute.executor import LocalExecutor, make_launcher
from tare.execute.protocol import Inspected, InspectJob, Probed
from tare.execute.scratch import scratch
from tare.records.codec import read_records
from tare.records.record import Failure, Record
from tare.report.terminal import make_console
from tare.report.workload import Description, describe
from tare.store.database import Store
from tare.store.query import Query, parse_query
from tare.workloads import all_workloads, get_workload
from tare.workloads.groups import all_groups

# A model whose code needs real numbers has to run at full size to be counted.
INSPECT_S = 600.0


def survey() -> Probed:
    """What this machine has, asked in a process of its own. Takes seconds: torch is imported there."""
    with scratch() as folder, make_console(stderr=True).status("looking at this machine"):
        executor = LocalExecutor(make_launcher("spawn"), folder)
        try:
            return executor.probe()
        finally:
            executor.close()


def describe_workload(name: str) -> Description:
    """What a workload is, holds and computes at full size, found out in a process of its own."""
    workload = get_workload(name)
    case = Case(workload=name, rung="eager", batch=workload.batch, sizes=workload.defaults)
    found: Inspected | Failure | None = None
    if not workload.lacking():
        with scratch() as folder, make_console(stderr=True).status(f"building {name} and counting its FLOPs"):
            executor = LocalExecutor(make_launcher("spawn"), folder)
            try:
                found = executor.ask(InspectJob(case=case), Inspected, Options(timeout=INSPECT_S))
            finally:
                executor.close()
    return describe(workload, all_groups(), found)


def find_records(terms: list[str], where: str | None, latest: bool = False) -> list[Record]:
    """Stored records that match what the user wrote; all of them for no terms. A term that names an exported file
    stands for the records in it."""
    files = [Path(term) for term in terms if term.endswith((".json", ".json.gz"))]
    if files:
        if len(files) < len(terms):
            raise BadInput("name files of records or query terms, not both")
        return [record for path in files for record in read_records(path)]
    sizes = {size for workload in all_workloads().values() for size in workload.sizes}
    query = parse_query(terms, sizes)
    store = Store(where, must_exist=where is not None)
    try:
        return store.find(query, latest)
    finally:
        store.close()


def newest_run(where: str | None) -> list[Record]:
    """The records of the run that wrote last."""
    store = Store(where, must_exist=where is not None)
    try:
        run = store.newest_run()
        return store.find(Query(fields=(("run", (run,)),))) if run else []
    finally:
        store.close()
