"""What machines send to a server: validated as untrusted, stored once, and only in the project of their token."""

from typing import Annotated, Any, Literal

import msgspec
import sqlalchemy as sa

from tare.errors import BadInput, brief
from tare.findings.explained import decode_explained
from tare.records.codec import decode_record
from tare.records.record import Id, Moment, Record
from tare.site.access import TokenHolder
from tare.store import schema
from tare.store.database import Store
from tare.store.explanations import keep_explanation
from tare.store.insert import insert_missing
from tare.store.regressions import Regression, save

MOST_IDS, MOST_RECORDS, MOST_RUNS, MOST_OTHERS = 5000, 200, 200, 1000
LONGEST_TRACE = 32 << 20
GZIP = b"\x1f\x8b"


class UploadedRun(msgspec.Struct, frozen=True, kw_only=True):
    id: Id
    created: Moment
    name: Annotated[str, msgspec.Meta(max_length=400)]
    finished: bool = False
    skipped: Annotated[list[dict[str, str]], msgspec.Meta(max_length=10_000)] = []
    baseline_side: bool = False
    confirmation: bool = False


class UploadedRegression(msgspec.Struct, frozen=True, kw_only=True):
    """What a check confirmed. Whose series it is depends on the project."""

    family: Annotated[str, msgspec.Meta(max_length=2000)]
    machine: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{12}\Z")]
    regression: Regression


class Upload(msgspec.Struct, frozen=True, kw_only=True):
    runs: Annotated[list[UploadedRun], msgspec.Meta(max_length=MOST_RUNS)] = []
    records: Annotated[list[msgspec.Raw], msgspec.Meta(max_length=MOST_RECORDS)] = []
    regressions: Annotated[list[UploadedRegression], msgspec.Meta(max_length=MOST_OTHERS)] = []
    # By the ids of their records.
    explanations: Annotated[dict[str, msgspec.Raw], msgspec.Meta(max_length=MOST_OTHERS)] = {}


class WantedIds(msgspec.Struct, frozen=True):
    """Ids of records, to learn which of them lack what: the record, its explanation, or its trace."""

    ids: Annotated[list[Id], msgspec.Meta(max_length=MOST_IDS)]
    of: Literal["records", "explanations", "traces"] = "records"


class UploadResult(msgspec.Struct, frozen=True, kw_only=True):
    """`refused` are records whose run has another record of their case."""

    new: int
    refused: list[str]
    regressions: int


def decode(data: bytes, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadInput(f"the upload is not what tare push sends: {brief(error)}") from None


def missing_ids(store: Store, data: bytes) -> list[str]:
    """Those of the ids in the body that the store does not have."""
    wanted: WantedIds = decode(data, WantedIds)
    if wanted.of == "records":
        known = store.known_ids(wanted.ids)
    else:
        table = schema.explanations
        has_trace = [table.c.trace.is_not(None)] if wanted.of == "traces" else []
        rows = store.rows(sa.select(table.c.record).where(table.c.record.in_(wanted.ids), *has_trace))
        known = {row.record for row in rows}
    return [id_ for id_ in wanted.ids if id_ not in known]


def accept(store: Store, reader: TokenHolder, data: bytes) -> UploadResult:
    """Stores what is new. An upload that is repeated changes nothing."""
    upload: Upload = decode(data, Upload)
    records = [
        decode_record(bytes(raw), f"record {number} of the upload") for number, raw in enumerate(upload.records, 1)
    ]
    explained = [
        (record, bytes(raw), decode_explained(bytes(raw), f"the explanation of {record[:40]}"))
        for record, raw in upload.explanations.items()
    ]
    _check_project(store, reader, [run.id for run in upload.runs] + [record.run for record in records])
    with store.transaction() as connection:
        for run in upload.runs:
            row = msgspec.structs.asdict(run) | {"fingerprint": "", "project": reader.project}
            if not insert_missing(connection, schema.runs, row) and run.finished:
                same = schema.runs.c.id == run.id
                connection.execute(sa.update(schema.runs).where(same).values(finished=True))
    new, refused = store.add(records, reader.project)
    with store.transaction() as connection:
        found = sum(save(connection, _own(each, reader.project)) for each in upload.regressions)
    for record, document, _ in explained:
        _check_record(store, reader, record)
        keep_explanation(store, record, document)
    return UploadResult(new=new, refused=[record.id for record in refused], regressions=found)


def accept_trace(store: Store, reader: TokenHolder, record: str, data: bytes) -> None:
    """The trace of an explanation that was uploaded before. It is only handed out again."""
    _check_record(store, reader, record)
    if not data.startswith(GZIP):
        raise BadInput("a trace is uploaded as a gzip file")
    if len(data) > LONGEST_TRACE:
        raise BadInput(f"a trace has at most {LONGEST_TRACE >> 20} MB")
    table = schema.explanations
    with store.transaction() as connection:
        update = sa.update(table).where(table.c.record == record).values(trace=data)
        if not connection.execute(update).rowcount:
            raise BadInput(f"record {record[:40]} has no explanation that the trace belongs to")


def _own(uploaded: UploadedRegression, project: str) -> Regression:
    series = schema.series_id(project, uploaded.family, uploaded.machine)
    return msgspec.structs.replace(uploaded.regression, series=series, source="check", state="open", owner="")


def _check_project(store: Store, reader: TokenHolder, runs: list[str]) -> None:
    """A run belongs to the project that uploaded it first."""
    table = schema.runs
    others = sa.select(table.c.id).where(table.c.id.in_(sorted(set(runs))), table.c.project != reader.project)
    if rows := store.rows(others.limit(1)):
        raise BadInput(f"run {rows[0].id} belongs to another project than this token")


def _check_record(store: Store, reader: TokenHolder, record: str) -> None:
    table = schema.records
    known = sa.select(table.c.id).where(table.c.id == record, table.c.project == reader.project)
    if not store.rows(known):
        raise BadInput(f"record {record[:40]} is not one of this token's project")


def uploaded_regression(record: Record, regression: Regression) -> UploadedRegression:
    """`record` is the first bad one."""
    return UploadedRegression(family=record.case.family, machine=schema.machine_id(record), regression=regression)
