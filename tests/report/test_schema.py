"""The published JSON Schema: it accepts what `tare export` writes, and names the unit of every number."""

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import ENVIRONMENT, make_case, make_failure, make_record, make_round
from typer.testing import CliRunner

from tare.cli.app import app
from tare.errors import BadInput
from tare.records.codec import decode_record, read_records
from tare.records.figures import Figures
from tare.records.record import (
    BatchPoint,
    BatchSearch,
    DeviceMemory,
    HostMemory,
    MemoryTrace,
    Net,
    Parity,
    Record,
    Telemetry,
)
from tare.report.formats.json import records_json, schema_text

SCHEMA = json.loads(schema_text())
UNITS = {"s", "ns", "byte", "count", "share", "ratio", "MHz", "°C", "W", "J", "samples/s", "tokens/s"}
RESULTS = Path(__file__).parents[2] / "results"
FULL = make_record(
    make_case(workload="nanogpt", mode="train", device="cuda:0", sizes={"length": 64}, threads=2),
    rounds=[
        make_round(
            i,
            host_memory=HostMemory(peak=3, prepare_peak=2, start=1, method="VmHWM"),
            device_memory=DeviceMemory(reserved_peak=4096, nvml=1, nvml_method="process"),
            telemetry=Telemetry(sm_clock_mhz=[1.0, 2.0, 3.0], energy_j_per_step=0.5, cpu_load=0.25),
            net=Net(steps=3, busy_s=1e-4),
            memory_trace=MemoryTrace(at_ns=[1, 2], host=[3, 4]),
            counts={"kernels": 3},
            throttled={"latency": [0]},
        )
        for i in range(2)
    ],
    tokens_per_step=2048,
    search=BatchSearch(chosen=4, stop="memory", points=[BatchPoint(batch=4, round=make_round())], rung="eager"),
)
BROKEN = make_record(
    rounds=[make_round(failure=make_failure())], failure=make_failure(), parity=Parity(status="unchecked")
)


def refusals(value: Any, schema: Any, path: str = "$") -> Iterator[str]:
    """What is wrong with a value, by the keywords that the schema uses. A keyword that is unknown here is an
    error, so that none is skipped."""
    if "$ref" in schema:
        yield from refusals(value, SCHEMA["$defs"][schema["$ref"].removeprefix("#/$defs/")], path)
        return
    if "type" in schema and not _is_type(value, schema["type"]):
        yield f"{path}: {value!r} is no {schema['type']}"
        return
    for keyword, wanted in schema.items():
        yield from (f"{path}: {each}" for each in CHECKS[keyword](value, wanted))
    if isinstance(value, dict):
        known = schema.get("properties", {})
        for name, part in value.items():
            others = schema.get("additionalProperties", True)
            if name in known or isinstance(others, dict):
                yield from refusals(part, known.get(name, others), f"{path}.{name}")
            elif not others:
                yield f"{path}: unknown {name}"
    if isinstance(value, list) and "items" in schema:
        for i, part in enumerate(value):
            yield from refusals(part, schema["items"], f"{path}[{i}]")
    if "anyOf" in schema and all(list(refusals(value, each, path)) for each in schema["anyOf"]):
        yield f"{path}: matches none of {schema['anyOf']}"


TYPES: dict[str, Any] = {
    "object": dict, "array": list, "string": str, "boolean": bool, "null": type(None), "integer": int,
    "number": (int, float),
}  # fmt: skip


def _is_type(value: Any, name: str) -> bool:
    return isinstance(value, TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def _when(wrong: bool, text: str) -> list[str]:
    return [text] if wrong else []


CHECKS: dict[str, Any] = {
    "enum": lambda value, valid: _when(value not in valid, f"{value!r} is none of {valid}"),
    "required": lambda value, names: [f"no {name}" for name in names if name not in value],
    "minimum": lambda value, least: _when(value < least, f"{value} is less than {least}"),
    "maximum": lambda value, most: _when(value > most, f"{value} is more than {most}"),
    "maxLength": lambda value, most: _when(len(value) > most, f"{value} is too long"),
    "maxProperties": lambda value, most: _when(len(value) > most, "too many"),
    "propertyNames": lambda value, names: [each for name in value for each in refusals(name, names, name)],
    "maxItems": lambda value, most: _when(len(value) > most, "too many"),
    "pattern": lambda value, pattern: _when(not re.search(pattern, value), f"{value!r} is not {pattern}"),
    # What is checked above, and what only describes.
    **dict.fromkeys(
        ("type", "properties", "additionalProperties", "items", "anyOf", "$schema", "$defs", "title",
         "description", "default", "unit"),
        lambda _, __: [],
    ),
}  # fmt: skip


def numbers(schema: Any, path: str, told: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every number of the schema with what is said of it: at the number, or at the property that holds it."""
    told = {name: schema.get(name, told.get(name)) for name in ("unit", "description")}
    if schema.get("type") in ("number", "integer"):
        yield path, told
    for part in (*schema.get("anyOf", ()), schema.get("items"), schema.get("additionalProperties")):
        if isinstance(part, dict):
            yield from numbers(part, path, told)
    for name, part in schema.get("properties", {}).items():
        yield from numbers(part, f"{path}.{name}", {})


ALL_NUMBERS = [found for name, part in SCHEMA["$defs"].items() for found in numbers(part, name, {})]


def test_every_number_has_a_unit_and_a_description() -> None:
    assert len(ALL_NUMBERS) > 60
    for path, told in ALL_NUMBERS:
        assert told["unit"] in UNITS, path
        assert told["description"], path


def test_every_figure_is_described_by_itself() -> None:
    properties = SCHEMA["$defs"]["Figures"]["properties"]
    assert tuple(properties) == Figures.__struct_fields__
    endings = {
        "_s": "s",
        "_bytes": "byte",
        "samples_per_s": "samples/s",
        "tokens_per_s": "tokens/s",
        "spread": "share",
    }
    for name, schema in properties.items():
        (ending,) = [each for each in endings if name.endswith(each) and (each != "_s" or "_per_" not in name)]
        assert schema["unit"] == endings[ending], name
    assert len({schema["description"] for schema in properties.values()}) == len(properties)


@pytest.mark.parametrize("records", [[], [FULL], [BROKEN, FULL, make_record()]])
def test_it_accepts_every_export(records: list[Record]) -> None:
    assert list(refusals(json.loads(records_json(records)), SCHEMA)) == []


def test_it_accepts_measured_records() -> None:
    records = read_records(RESULTS / "resnet50-h200" / "infer.json.gz")[:3]
    assert records
    assert list(refusals(json.loads(records_json(records)), SCHEMA)) == []


WRONG = {
    "rounds.0.series.0.wall_ns.0": -1,
    "rounds.0.host_memory.peak": "3",
    "rounds.0.net.share": 1.5,
    "rounds.0.cache": "lukewarm",
    "rounds.1.index": True,
    "case.batch": 0,
    "case.workload": "a/b",
    "case.color": "red",
    "id": "x\ny",
    "tokens_per_step": 0.5,
    "figures.gross_s": "1 ms",
    "figures": None,
}


@pytest.mark.parametrize("place", WRONG)
def test_it_refuses_what_the_reader_refuses(place: str) -> None:
    document = json.loads(records_json([FULL]))
    wrong = copy.deepcopy(document)
    *parents, last = (int(part) if part.isdigit() else part for part in place.split("."))
    holder: Any = wrong[0]
    for parent in parents:
        holder = holder[parent]
    holder[last] = WRONG[place]
    assert list(refusals(wrong, SCHEMA))
    if not place.startswith("figures"):
        with pytest.raises(Exception, match=r"is not a record"):
            decode_record(json.dumps(wrong[0]), "x")


def test_it_requires_what_every_record_has() -> None:
    document = json.loads(records_json([FULL]))
    del document[0]["environment"], document[0]["figures"]["spread"]
    assert [each.rpartition(": ")[2] for each in refusals(document, SCHEMA)] == ["no environment", "no spread"]
    assert ENVIRONMENT is FULL.environment


def test_patterns_are_those_of_every_language() -> None:
    """ECMA 262, which JSON Schema prescribes, has no \\Z."""
    assert "\\Z" not in schema_text().replace("\\\\", "\\")


def test_the_command_prints_it_and_nothing_else() -> None:
    done = CliRunner().invoke(app, ["export", "--schema"])
    assert done.exit_code == 0
    assert json.loads(done.stdout) == SCHEMA


@pytest.mark.parametrize("arguments", [["mlp"], ["--format", "csv"]])
def test_it_describes_one_format_and_no_records(arguments: list[str]) -> None:
    done = CliRunner().invoke(app, ["export", "--schema", *arguments])
    assert isinstance(done.exception, BadInput)
    assert str(done.exception).endswith(f"leave out {' '.join(arguments)}")
