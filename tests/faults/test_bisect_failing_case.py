"""A candidate whose case fails: the bisection says why, in the words of the case's own record."""

import json
from pathlib import Path

import pytest
from commandline import Tare

pytestmark = pytest.mark.full

KEY = "planted_raise/eager/infer/cpu/fp32/batch=4/feed=device,layout=contiguous"


def test_a_case_that_fails_is_skipped_for_its_own_reason(tare: Tare, tmp_path: Path) -> None:
    (tmp_path / "labels").write_text("one\ntwo\n")
    done = tare("bisect", "--labels", str(tmp_path / "labels"), "--case", KEY, "--budget", "0.2", "--json")
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    (skipped,) = found["skipped"]
    assert (found["verdict"], skipped["stage"]) == ("ends-failed", "run")
    assert skipped["reason"] == "exception in prepare: ValueError: a planted mistake"
