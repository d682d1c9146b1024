"""The journal of a bisection: what survives a kill, and what may not be mixed."""

import json
import stat
import sys
from pathlib import Path

import msgspec
import pytest
from builders import ENVIRONMENT
from commandline import tare

from tare.bisect.command import CandidateFailed
from tare.bisect.journal import BisectJournal, CandidateRun
from tare.bisect.spec import BisectSpec, make_spec
from tare.errors import BadInput
from tare.records.environment import Environment

RUN = CandidateRun(candidate=1, label="2", value=1.5, seconds=0.1)
KEY = "mlp/eager/infer/cpu/fp32/batch=8/feed=device,layout=contiguous"


def other_machine(**machine: str) -> Environment:
    return msgspec.structs.replace(ENVIRONMENT, machine={**ENVIRONMENT.machine, **machine})


@pytest.fixture
def spec(tmp_path: Path) -> BisectSpec:
    (tmp_path / "labels").write_text("1\n2\n3\n")
    return make_spec(command="true", labels=tmp_path / "labels")


def write(folder: Path, spec: BisectSpec) -> Path:
    with BisectJournal(folder, spec, ENVIRONMENT, resume=False) as journal:
        journal.add(RUN)
    return journal.path


def test_two_bisections_do_not_share_a_journal_at_once(spec: BisectSpec, tmp_path: Path) -> None:
    with (
        BisectJournal(tmp_path, spec, ENVIRONMENT, resume=False),
        pytest.raises(BadInput, match="another tare"),
    ):
        BisectJournal(tmp_path, spec, ENVIRONMENT, resume=True)


def test_a_partial_line_is_dropped_and_a_corrupt_one_refused(spec: BisectSpec, tmp_path: Path) -> None:
    path = write(tmp_path, spec)
    with path.open("ab") as file:
        file.write(b'{"type":"run","candidate":4,"lab')
    with BisectJournal(tmp_path, spec, ENVIRONMENT, resume=True) as again:
        assert again.entries == [RUN]
        again.add(RUN)
    with BisectJournal(tmp_path, spec, ENVIRONMENT, resume=True) as again:
        assert again.entries == [RUN, RUN]
    path.write_bytes(path.read_bytes() + b"rubbish\n")
    with pytest.raises(BadInput, match=r"line 4, cannot be read"):
        BisectJournal(tmp_path, spec, ENVIRONMENT, resume=True)


def test_a_journal_of_another_machine_is_refused_and_kept(spec: BisectSpec, tmp_path: Path) -> None:
    path = write(tmp_path, spec)
    before = path.read_bytes()
    with pytest.raises(BadInput) as refused:
        BisectJournal(tmp_path, spec, other_machine(cpu="another"), resume=True)
    cpu = ENVIRONMENT.machine["cpu"]
    assert f"{path} was measured in another environment: machine.cpu: {cpu} against another" in str(refused.value)
    assert "run without --resume" in str(refused.value)
    assert path.read_bytes() == before
    with BisectJournal(tmp_path, spec, ENVIRONMENT, resume=True) as again:
        assert again.entries == [RUN]
    with BisectJournal(tmp_path, spec, other_machine(cpu="another"), resume=False) as new:
        assert new.entries == []


def test_a_journal_of_another_tare_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "labels").write_text("1\n2\n3\n")
    by_tare = make_spec(case=KEY, labels=tmp_path / "labels")
    by_command = make_spec(command="true", labels=tmp_path / "labels")
    write(tmp_path / "a", by_tare)
    write(tmp_path / "b", by_command)
    monkeypatch.setattr("tare.bisect.journal.tare_fingerprint", lambda: "another")
    with pytest.raises(BadInput, match="was measured by another tare than this; run without --resume"):
        BisectJournal(tmp_path / "a", by_tare, ENVIRONMENT, resume=True)
    with BisectJournal(tmp_path / "b", by_command, ENVIRONMENT, resume=True) as journal:
        assert journal.entries == [RUN]


def test_the_command_line_resumes_here_and_refuses_another_environment(tmp_path: Path) -> None:
    labels = tmp_path / "labels"
    labels.write_text("1\n1.1\n30\n")
    args = ("bisect", "--labels", str(labels), "--command", f"{sys.executable} -c print({{}})", "--json")
    first = tare(tmp_path, *args, "--runs", "3", OMP_NUM_THREADS="1")
    assert json.loads(first.stdout)["runs"] == 3, first.stderr
    again = tare(tmp_path, *args, "--runs", "4", "--resume", OMP_NUM_THREADS="1")
    assert json.loads(again.stdout)["runs"] == 4, again.stderr
    refused = tare(tmp_path, *args, "--resume", OMP_NUM_THREADS="2")
    assert refused.returncode == 2
    assert "flags.env.OMP_NUM_THREADS: 1 against 2 (resume there, or run without --resume" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1


def test_the_seed_of_the_order_is_drawn_anew_and_kept_for_a_resumed_bisection(
    spec: BisectSpec, tmp_path: Path
) -> None:
    with BisectJournal(tmp_path, spec, ENVIRONMENT, resume=False) as first:
        pass
    with BisectJournal(tmp_path, spec, ENVIRONMENT, resume=True) as again:
        assert again.seed == first.seed
    with BisectJournal(tmp_path, spec, ENVIRONMENT, resume=False) as other:
        assert other.seed != first.seed


def test_a_journal_holds_no_secret(tmp_path: Path) -> None:
    (tmp_path / "labels").write_text("1\n2\n")

    def make(secret: str, setting: str = "on") -> BisectSpec:
        return make_spec(
            command=f"python x.py --token {secret} --url https://u:{secret}@host/ '--key={secret}'",
            labels=tmp_path / "labels",
            environment={"HF_TOKEN": secret, "OTHER": secret, "SETTING": setting},
        )

    path = write(tmp_path / "bisect", make("hunter2"))
    assert "hunter2" not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    header = json.loads(path.read_text().splitlines()[0])["spec"]
    assert header["command"] == "python x.py --token '***' --url 'https://u:***@host/' '--key=***'"
    assert header["environment"] == {"HF_TOKEN": "***", "OTHER": "***", "SETTING": "on"}
    # A token that was renewed makes no other bisection; anything else that is not known to be a secret does.
    renewed = msgspec.structs.replace(make("hunter2"), environment=make("hunter2").environment | {"HF_TOKEN": "x"})
    assert renewed.fingerprint == make("hunter2").fingerprint
    assert make("hunter2", "off").fingerprint != make("hunter2").fingerprint


def test_the_reason_of_a_failed_command_holds_no_secret() -> None:
    assert str(CandidateFailed("no login at https://u:hunter2@host/")) == "no login at https://u:***@host/"
