"""Traces of the zoo's published records, to be explained elsewhere: what a borrowed GPU has to do for a breakdown.

python scripts/profile_zoo.py RECORDS.json.gz FOLDER SECONDS [WORKLOAD...]

Leaves WORKLOAD.json.gz in the folder for each record, or each of these; those that are there stay. It ends after
so many seconds. `tare explain FOLDER/*.json.gz` needs nothing else than the peaks of such a GPU.
"""

import shutil
import sys
import time
from pathlib import Path

from tare.errors import TareError
from tare.execute.workshop import open_executor
from tare.records.codec import read_records
from tare.records.environment import Environment
from tare.records.figures import gross
from tare.verbs.run import preload_for
from tare.verbs.traces import profile_case


def alike(environment: Environment) -> tuple[str | None, str | None]:
    return environment.machine.get("gpu"), environment.software.get("torch")


def main() -> None:
    source, folder, seconds = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
    began = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    records = [one for one in read_records(source) if one.case.workload in (sys.argv[4:] or [one.case.workload])]
    with open_executor("fork", preload=preload_for([one.case for one in records])) as executor:
        here = executor.probe().environment
        for record in records:
            path = folder / f"{record.case.workload}.json.gz"
            if path.exists() or time.monotonic() - began > seconds:
                continue
            if alike(record.environment) != alike(here):
                raise SystemExit(f"{record.case.workload} was measured on another machine or with another torch")
            step = gross(record)
            try:
                profile = profile_case(
                    executor,
                    record.case,
                    record.id,
                    stacks=False,
                    count=True,
                    gross_ns=round(step.mid * 1e9) if step else None,
                )
            except TareError as error:
                print(f"{record.case.workload}: {error}", flush=True)
                continue
            shutil.move(profile.trace, path)
            print(f"{time.monotonic() - began:6.1f} s {path.name} {path.stat().st_size >> 10} KiB", flush=True)


if __name__ == "__main__":
    main()
