"""Traces that somebody recorded, explained without measuring anything."""

from pathlib import Path

import msgspec
from rich.text import Text

from tare.commands.explained import Explained, compare
from tare.commands.traces import refuse_records
from tare.findings.diagnosis import Diagnosis, diagnose
from tare.measure.peak_store import peaks_of_gpu
from tare.records.work import Peaks
from tare.report.terminal import make_console
from tare.trace.explanation import About, Explanation, explain
from tare.trace.metadata import RecordingInfo, device_name, recorded_gross, recording_info
from tare.trace.read import read
from tare.trace.roofline import Roofline, compute_roofline
from tare.trace.tables import Trace
from tare.workloads import all_workloads


def explain_files(paths: list[str], against: str | None = None) -> Explained:
    """Traces that somebody recorded. Their gross is what they say of it themselves, or unknown; the peaks are
    those of a GPU of the name that they give, if any were measured.

    `against` is a later trace of what the only other one recorded."""
    found, diagnoses = [], []
    ceilings: dict[str, Peaks | None] = {}
    before: Trace | None = None
    with make_console(stderr=True).status("reading traces") as status:
        every = [*paths, *([against] if against else [])]
        for path, name in zip(every, _titles(every), strict=True):
            status.update(Text(f"reading {path}"))
            refuse_records(path)
            trace = read(Path(path))
            gross_ns = recorded_gross(trace)
            device = device_name(trace)
            if device not in ceilings:
                ceilings[device] = peaks_of_gpu(device) if device else None
            peaks = ceilings[device]
            mine = recording_info(trace)
            one = explain(trace, _about(mine, name, gross_ns), _roofline(mine, peaks))
            diagnosis = diagnose(trace, gross_ns / 1e9 if gross_ns else None, peaks, before=before)
            found.append(_priced(one, diagnosis, peaks))
            diagnoses.append(diagnosis)
            before = trace if against else None
    differences = compare(found[0], found[-1]) if against else []
    if against and not differences:
        unknown = [one.title for one in found if one.waterfall.profiled]
        note = f"what was removed is not shown: gross is not known of {' and '.join(unknown)} (tare diff compares)"
        found[-1] = msgspec.structs.replace(found[-1], notes=[*found[-1].notes, note])
    known = [peaks for peaks in ceilings.values() if peaks]
    return Explained(explanations=found, diagnoses=diagnoses, against=differences, peaks=known)


def _titles(paths: list[str]) -> list[str]:
    """The files' names without their endings; with their folders where two files bear one name, as ranks' do."""
    names = [Path(path).name.removesuffix(".gz").removesuffix(".json").removesuffix(".pt.trace") for path in paths]
    return [
        name if names.count(name) == 1 else str(Path(path).parent / name)
        for path, name in zip(paths, names, strict=True)
    ]


def _about(mine: RecordingInfo | None, title: str, gross_ns: int | None) -> About:
    """What a trace says of itself, if it is one of tare's."""
    if mine is None:
        return About(title=title, gross=gross_ns)
    workload = all_workloads().get(mine.workload)
    return About(
        title=title,
        gross=gross_ns,
        case=mine.case,
        workload=mine.workload,
        mode=mine.mode,
        domain=workload.domain if workload else None,
        rung=mine.rung,
    )


def _roofline(mine: RecordingInfo | None, peaks: Peaks | None) -> Roofline | None:
    return compute_roofline(mine.work, peaks, mine.precision, mine.rung) if mine and mine.work and peaks else None


def _priced(one: Explanation, diagnosis: Diagnosis, peaks: Peaks | None) -> Explanation:
    """Says by which peaks a trace is priced: they need not be those of its machine."""
    if peaks is None or not (diagnosis.findings or one.roofline):
        return one
    where = peaks.environment.circumstances.get("host", "an unnamed machine")
    note = f"prices by the peaks of the {one.device} of {where}, measured on {peaks.created[:10]} (tare peaks)"
    return msgspec.structs.replace(one, notes=[*one.notes, note])
