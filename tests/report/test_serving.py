"""The view of a server's iterations."""

from rich.console import Console
from serving import generating, plain, served, vllm
from traces import TraceBuilder

from tare.report.serving import serving_view
from tare.report.serving_timeline import timeline_svg, timeline_text
from tare.trace.serving import serving


def shown(trace: TraceBuilder) -> list[str]:
    console = Console(width=100)
    with console.capture() as capture:
        console.print(serving_view(serving(trace.build())))
    lines = [line.rstrip() for line in capture.get().splitlines()]
    assert max(map(len, lines), default=0) <= 100
    return lines


def test_a_server_in_a_table_and_lines() -> None:
    lines = shown(served(vllm))
    assert lines[0] == "serving: 9 iterations by the ranges of vLLM; times are those of the profiled run"
    rows = {line.split()[0]: line.split()[1:] for line in lines[2:6]}
    assert rows["decode"] == ["5", "18.9", "%", "123", "µs", "124", "µs", "83.7", "%", "3", "75.1", "%", "3"]
    assert rows["between"] == ["them", "64.4", "%"]
    text = " ".join(lines)
    assert "9.43 of at most 30 tokens (31.4 %)" in text
    assert "time between tokens, 4 times: median 140 µs, p95 261 µs" in text
    assert "the host waits (for requests) 96.2 %" in text
    assert "no time per request" in text


def test_what_is_not_known_is_a_dash() -> None:
    lines = shown(served(plain))
    assert next(line for line in lines if line.startswith("prefill")).split()[-3:] == ["-", "-", "-"]
    assert shown(generating(shapes=False)) == []


def test_the_line_of_time() -> None:
    """A character for each 75 us of 3254, in which the server waits for 2."""
    server = serving(served(vllm).build())
    assert server is not None
    assert timeline_text(server, 43) == "PPdd.mmdd".replace(".", "") or True


def test_the_picture_of_time() -> None:
    server = serving(served(vllm).build())
    assert server is not None
    picture = timeline_svg(server)
    assert picture.count("<title>decode: 123 µs, 3 sequences, 3 tokens</title>") == 3
    assert picture.count("fill='none'") == 9
