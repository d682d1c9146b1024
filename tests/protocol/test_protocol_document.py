"""The examples in docs/protocol.md are valid jobs and messages."""

import json
import re
from pathlib import Path

import msgspec
import pytest

from tare.protocol.jobs import RoundJob, read_job
from tare.protocol.messages import Done, Measured, read_message

TEXT = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text()


def test_the_job_in_the_document_is_a_job() -> None:
    example = re.search(r"```json\n(.*?)```", TEXT, re.DOTALL)
    assert example is not None
    job = read_job(example.group(1))
    assert isinstance(job, RoundJob)
    assert job.evidence == "/another"
    assert job.case.key.startswith("mlp/eager/infer/cpu/fp32/")


def test_the_messages_in_the_document_are_messages() -> None:
    examples = re.findall(r"^\| `(\{.*?\})` \|", TEXT, re.MULTILINE)
    kinds = [json.loads(text)["kind"] for text in examples]
    figures = ["prepared", "measured", "weighed", "checked", "step-profile", "imported-packages"]
    assert kinds == ["stage", *figures, "failed", "done"]
    messages = [read_message(text.encode()) for text in examples]
    assert isinstance(messages[-1], Done)
    assert isinstance(messages[2], Measured)
    assert messages[2].series.step_seconds() == [8.1e-06, 8.05e-06]


def test_an_unknown_field_is_ignored_and_an_unknown_kind_is_not() -> None:
    assert read_message(b'{"kind": "done", "later": 1}') == Done()
    with pytest.raises(msgspec.DecodeError):
        read_message(b'{"kind": "surprise"}')
