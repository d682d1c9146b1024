"""What a study is judged by: records, and the documents of `tare explain`, `coverage`, `frames` and `train`."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from sqlalchemy import select

from tare.cases.plan import Skip
from tare.errors import BadInput, brief
from tare.records.call_depth import CallDepth
from tare.records.codec import decode_records
from tare.records.record import Record
from tare.records.training import DOCUMENT, FOLDER, Training, decode_training
from tare.store import schema
from tare.store.database import Store
from tare.studies.study import Study
from tare.system.bounded_files import read_json
from tare.system.home import home
from tare.trace.explanation import Explanation

# Fields by which a document of each command is known.
EXPLAINED, COVERED, COUNTED, TRAINED = "explanations", "registries", "depths", "rungs"
FORMATS = "tare export, tare explain --json, tare coverage --json, tare frames --json, tare train --json"


class CoveredGroup(msgspec.Struct, frozen=True, kw_only=True):
    """What `tare coverage --json` says of one group of workloads."""

    group: str
    workloads: int
    ran: int
    covered: dict[str, int]


class CoverageDocument(msgspec.Struct, frozen=True, kw_only=True):
    torch: str
    groups: list[CoveredGroup]


class _Explained(msgspec.Struct, frozen=True):
    explanations: list[Explanation]


class _Counted(msgspec.Struct, frozen=True):
    depths: list[CallDepth]


class Evidence(msgspec.Struct, kw_only=True):
    """`skips` are the cases that a run of the study could not measure here. `quick` records are of small sizes and
    of one round: they decide nothing."""

    records: list[Record] = []
    explanations: list[Explanation] = []
    coverage: CoverageDocument | None = None
    depths: list[CallDepth] = []
    trainings: list[Training] = []
    skips: list[Skip] = []
    quick: bool = False
    where: str = ""

    def of_device(self, kind: str) -> "Evidence":
        """The same with only the records, trainings and skips of one kind of device; `any` stands for all."""
        if kind == "any":
            return self
        records = [record for record in self.records if record.case.device_type == kind]
        skips = [skip for skip in self.skips if skip.key.split("/")[3].partition(":")[0] == kind]
        trainings = [training for training in self.trainings if _device_of(training) == kind]
        return msgspec.structs.replace(self, records=records, trainings=trainings, skips=skips)

    @property
    def device_kinds(self) -> set[str]:
        """The kinds of device that something was measured on."""
        return {record.case.device_type for record in self.records} | set(map(_device_of, self.trainings))


def _device_of(training: Training) -> str:
    return training.rungs[0].case.device_type


def read_evidence(files: Sequence[Path]) -> Evidence:
    """What is in these files, each of which one of FORMATS wrote; BadInput for any other."""
    evidence = Evidence(where=", ".join(map(str, files)))
    for file in files:
        data = read_json(file)
        if data.lstrip()[:1] == b"[":
            evidence.records += decode_records(data, str(file))
        else:
            _add_document(evidence, data, str(file))
    return evidence


def _add_document(evidence: Evidence, data: bytes, where: str) -> None:
    try:
        fields = msgspec.json.decode(data, type=dict[str, msgspec.Raw]).keys()
        if EXPLAINED in fields:
            evidence.explanations += msgspec.json.decode(data, type=_Explained).explanations
        elif COVERED in fields:
            evidence.coverage = msgspec.json.decode(data, type=CoverageDocument)
        elif COUNTED in fields:
            evidence.depths += msgspec.json.decode(data, type=_Counted).depths
        elif TRAINED in fields:
            evidence.trainings.append(decode_training(data, where))
        else:
            raise BadInput(f"{where} is none of: {FORMATS}")
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadInput(f"{where} is none of: {FORMATS} ({brief(error)})") from None


def stored_evidence(study: Study, quick: bool, store: Store) -> Evidence:
    """The records that runs of the study have left in the store, what those runs skipped, and all trainings."""
    runs = schema.runs.c
    names = [plan.name for plan in study.all_plans(quick)]
    rows = store.rows(select(runs.id, runs.skipped).where(runs.name.in_(names)))
    records = store.find(schema.records.c.run.in_([row.id for row in rows])) if rows else []
    try:
        skips = msgspec.convert([skip for row in rows for skip in row.skipped], list[Skip])
    except (msgspec.ValidationError, TypeError) as error:
        raise BadInput(f"the store {store.where} is damaged: {brief(error)}") from None
    return Evidence(
        records=records,
        trainings=[] if quick else _stored_trainings(),
        skips=list(dict.fromkeys(skips)),
        quick=quick,
        where=store.where,
    )


def _stored_trainings() -> list[Training]:
    """What `tare train` has left in tare's home."""
    files = sorted(home().glob(f"{FOLDER}/*/{DOCUMENT}"))
    return [decode_training(read_json(file), str(file)) for file in files]
