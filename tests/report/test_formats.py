"""Each export is read back by the reader it is made for."""

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pyperf
import pytest
from builders import ENVIRONMENT, make_case, make_failure, make_record, make_round, make_series
from msgspec.structs import replace

from tare.errors import BadInput
from tare.records.codec import decode_record, encode
from tare.records.figures import make_figures
from tare.records.record import DeviceMemory, HostMemory, Parity, Record
from tare.report import formats
from tare.report.formats import get_record_format
from tare.report.lists import describe_formats

EAGER = make_record()
COMPILED = make_record(
    make_case(rung="compile"),
    rounds=[
        make_round(0, 0.5e-3, cache="cold", prepare_s=30.0),
        make_round(
            1,
            0.5e-3,
            cache="warm",
            prepare_s=2.0,
            host_memory=HostMemory(peak=2048, prepare_peak=1, start=1, method="VmHWM"),
            device_memory=DeviceMemory(reserved_peak=4096),
        ),
    ],
    id="record000002",
)
BROKEN = make_record(
    make_case(rung="cudagraph"),
    rounds=[make_round(failure=make_failure())],
    failure=make_failure(message="a | b <c>\nsecond\x1b line"),
    parity=Parity(status="unchecked"),
    id="record000003",
)


def export(name: str, *records: Record) -> str:
    return get_record_format(name)(records)


def rows(*records: Record) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(export("csv", *records))))


def suite(*records: Record) -> Any:
    return pyperf.BenchmarkSuite.loads(export("pyperf", *records))


def test_an_unknown_format_is_refused_with_the_valid_ones() -> None:
    with pytest.raises(
        BadInput, match=r"unknown format 'jsn'; did you mean 'json'.*csv, json, markdown, mpe, pyperf"
    ):
        get_record_format("jsn")


@pytest.mark.parametrize("name", ["csv", "json", "markdown", "table"])
def test_no_records_are_an_empty_document(name: str) -> None:
    assert len(export(name).splitlines()) == (0 if name in ("markdown", "table") else 1)


def test_a_plugin_adds_a_format_and_cannot_replace_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "_formats", dict(formats._formats))

    @formats.record_format("keys", "the key of every record")
    def keys(records: Sequence[Record]) -> str:
        return " ".join(record.case.key for record in records)

    assert export("keys", EAGER) == EAGER.case.key
    assert ("keys", "records") in [(each["format"], each["of"]) for each in describe_formats([])]
    with pytest.raises(BadInput, match="format 'csv' of"):
        formats.record_format("csv", "another")(keys)


def test_json_holds_all_of_every_record() -> None:
    documents = json.loads(export("json", EAGER, COMPILED, BROKEN))
    assert [decode_record(json.dumps(each), "x") for each in documents] == [EAGER, COMPILED, BROKEN]
    figures = documents[0].pop("figures")
    assert documents[0] == json.loads(encode(EAGER))
    assert export("json", EAGER).startswith('[\n {\n  "version": '), "indented, for a diff"
    assert figures == msgspec.to_builtins(make_figures(EAGER))
    assert documents[2]["figures"] == dict.fromkeys(figures)


def test_csv_has_a_line_a_record_with_its_case() -> None:
    case = make_case(mode="train", device="cuda:1", sizes={"width": 8, "depth": 2}, threads=4)
    (line,) = rows(make_record(case))
    assert line.items() >= {
        "workload": "mlp", "rung": "eager", "mode": "train", "device": "cuda:1", "batch": "32",
        "sizes": "depth=2 width=8", "optimizer": "sgd", "threads": "4",
    }.items()  # fmt: skip
    assert line["environment"] == ENVIRONMENT.id
    assert None not in line, "no cell is without a head"


def test_csv_figures_are_in_si_units() -> None:
    eager, compiled = rows(EAGER, COMPILED)
    assert float(eager["gross_s"]) == pytest.approx(1e-3)
    assert float(eager["latency_s"]) == pytest.approx(1.25e-3)
    assert float(eager["gross_low_s"]) < 1e-3 < float(eager["gross_high_s"])
    assert (float(eager["prepare_cold_s"]), eager["prepare_warm_s"]) == (0.2, "")
    assert (float(compiled["prepare_cold_s"]), float(compiled["prepare_warm_s"])) == (30.0, 2.0)
    assert (compiled["host_peak_bytes"], compiled["device_peak_bytes"], eager["device_s"]) == ("2048", "4096", "")
    assert (eager["rounds"], eager["status"], eager["parity"]) == ("3", "ok", "same")
    assert float(eager["parity_error"]) == 1e-6


LANGUAGE = make_record(make_case(workload="nanogpt", sizes={"length": 64}), tokens_per_step=32 * 64)


def test_every_export_has_throughput_percentiles_and_spread() -> None:
    """A step of a batch of 32 takes 1 ms, alone 1.25 ms. Thirty steps alone have no 99th percentile."""
    (line,) = rows(LANGUAGE)
    (document,) = json.loads(export("json", LANGUAGE))
    assert float(line["samples_per_s"]) == document["figures"]["samples_per_s"] == pytest.approx(32_000)
    assert float(line["tokens_per_s"]) == document["figures"]["tokens_per_s"] == pytest.approx(2_048_000)
    assert float(line["latency_p95_s"]) == document["figures"]["latency_p95_s"] == pytest.approx(1.2625e-3)
    assert (line["latency_p99_s"], document["figures"]["latency_p99_s"]) == ("", None)
    assert float(line["spread"]) == document["figures"]["spread"] == 0
    assert (line["tokens_per_step"], document["tokens_per_step"]) == ("2048", 2048)
    for name in ("markdown", "table"):
        lines = [line for line in export(name, LANGUAGE).splitlines() if line.startswith("|")]
        cells = dict(
            zip(*([cell.strip() for cell in line.split("|")] for line in (lines[0], lines[2])), strict=True)
        )
        assert (cells["throughput"], cells["tokens"], cells["spread"]) == ("32,000/s", "2,050,000/s", "0.0 %")
        assert cells["p95"] == "1.26 ms"
        assert "p99" not in cells, "there is none"
    metadata = suite(LANGUAGE).get_benchmarks()[0].get_metadata()
    assert metadata["tare_samples_per_s"] == pytest.approx(32_000)
    assert metadata["tare_tokens_per_s"] == pytest.approx(2_048_000)
    assert "tokens" not in export("markdown", EAGER)


def test_csv_keeps_a_failed_case_without_figures() -> None:
    (line,) = rows(BROKEN)
    assert (line["status"], line["gross_s"], line["rounds"], line["parity"]) == ("exception", "", "1", "unchecked")


def test_markdown_is_a_table_a_ladder() -> None:
    lines = export("markdown", EAGER, COMPILED, make_record(make_case(batch=1))).splitlines()
    assert [line for line in lines if line.startswith("### ")] == [
        "### mlp · infer · cpu · fp32 · batch 32 · width=64",
        "### mlp · infer · cpu · fp32 · batch 1 · width=64",
    ]
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 2 * 2 + 3, "a head, a rule and the rungs of each"
    widths = [line.count("|") for line in table]
    assert len(set(widths[:4])) == len(set(widths[4:])) == 1
    assert table[0].startswith("| rung | gross | latency | p50 | p95 | spread | throughput | x eager |")
    assert set(table[1]) <= set("|-: ")
    assert table[2].startswith(
        "| eager | 1.00 ±0.02 ms | 1.25 ms | 1.25 ms | 1.26 ms | 0.0 % | 32,000/s | 1.00x |"
    )
    assert table[3].split(" | ")[7:9] == ["2.00x", "1.00x"]


def test_markdown_lists_what_failed_on_one_escaped_line() -> None:
    lines = export("markdown", EAGER, BROKEN).splitlines()
    assert "- cudagraph failed: exception in prepare: a \\| b &lt;c> second\ufffd line" in lines
    assert not any(line.startswith("| cudagraph") for line in lines)
    assert "second\ufffd line" not in lines
    alone = export("markdown", BROKEN).splitlines()
    assert not any(line.startswith("|") for line in alone), "no table without a row"


def test_markdown_escapes_notes_and_the_machine() -> None:
    odd = replace(ENVIRONMENT, machine={"cpu": "a|b <i>", "cores": "2"})
    text = export("markdown", make_record(environment=odd, rounds=[make_round(notes=["x|y\nz"])]))
    assert r"a\|b &lt;i>, 2 cores" in text
    assert r"- eager: x\|y z" in text.splitlines()


def test_pyperf_reads_a_benchmark_a_case_and_a_run_a_round() -> None:
    read = suite(EAGER, COMPILED, BROKEN)
    assert read.get_benchmark_names() == [EAGER.case.key, COMPILED.case.key]
    eager, compiled = read.get_benchmarks()
    assert (eager.get_nrun(), compiled.get_nrun()) == (3, 2)
    assert [run.values for run in eager.get_runs()] == [
        pytest.approx([step_s] * 10) for step_s in (1e-3, 1.01e-3, 0.99e-3)
    ]
    assert eager.get_runs()[0].warmups == tuple((1, pytest.approx(2e-3)) for _ in range(3))
    assert eager.get_unit() == "second"
    assert eager.median() == pytest.approx(1e-3)
    assert eager.get_metadata()["tare_record"] == EAGER.id
    assert eager.get_metadata()["torch_version"] == "2.10.0"
    assert eager.get_total_duration() == pytest.approx(4.5)
    assert str(eager.get_dates()[0]) == "2026-01-02 03:04:05"


def test_pyperf_takes_the_newest_record_of_a_case() -> None:
    """pyperf refuses a suite with two benchmarks of one name."""
    newer = make_record(steps_s=[2e-3, 2e-3], id="newer")
    (only,) = suite(EAGER, newer).get_benchmarks()
    assert only.get_metadata()["tare_record"] == "newer"
    assert only.median() == pytest.approx(2e-3)


def test_pyperf_takes_an_environment_that_says_nothing() -> None:
    silent = replace(ENVIRONMENT, machine={}, software={"torch": ""})
    (only,) = suite(make_record(environment=silent)).get_benchmarks()
    assert "torch_version" not in only.get_metadata()


def test_pyperf_takes_a_block_shorter_than_the_clock_can_tell() -> None:
    instant = make_round(series=[make_series("pipelined", 0.0, blocks=2)])
    (only,) = suite(make_record(rounds=[instant])).get_benchmarks()
    assert only.get_values() == (1e-9, 1e-9)


def test_pyperf_without_a_good_round_is_refused() -> None:
    with pytest.raises(BadInput, match="no record has a round that succeeded"):
        export("pyperf", BROKEN)
