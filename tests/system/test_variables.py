"""Which variables a record keeps, and which values of variables a report shows."""

import pytest

from tare.system.variables import compared_variables, is_kept, shown_arguments, shown_value

TOKEN = "hf_" + "aB3" * 11


@pytest.mark.parametrize(
    "name",
    ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "CUDA_LAUNCH_BLOCKING", "CUBLAS_WORKSPACE_CONFIG",
     "TORCHINDUCTOR_FREEZING", "PYTORCH_CUDA_ALLOC_CONF", "NCCL_P2P_DISABLE",
     "TF_XLA_FLAGS", "XLA_FLAGS", "JAX_ENABLE_X64", "LD_PRELOAD"],
)  # fmt: skip
def test_a_variable_that_changes_a_step_is_kept(name: str) -> None:
    assert is_kept(name, "1")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HF_TOKEN", "x"),
        ("HOME", "/home/a"),
        ("UNRELATED", "1"),
        ("TORCH_HOME", "/models"),
        ("TORCH_API_TOKEN", "x"),
        ("CUDA_PASSWORD", "x"),
        ("PYTORCH_SECRET", "1"),
        ("TF_VAR_db", "x"),
        ("TF_TOKEN_app_terraform_io", "x"),
        ("XLA_FLAGS", "--xla_dump_to=https://u:hunter2@host/x"),
        ("TORCH_INDEX", f"https://{TOKEN}@host/"),
        ("NCCL_CONF", TOKEN),
        ("JAX_THING", "AKIAIOSFODNN7EXAMPLE"),
        ("TORCH_THING", "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY1"),
        ("TORCH_DB", "host=h password=hunter2"),
    ],
)
def test_a_secret_or_an_unrelated_variable_is_not_kept(name: str, value: str) -> None:
    assert not is_kept(name, value)


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("PYTHONPATH", "../main/src", "../main/src"),
        ("OMP_PROC_BIND", "close", "close"),
        ("PLANTED_MS", "20", "20"),
        ("ANYTHING", "off", "off"),
        ("ANYTHING", "", ""),
        ("ANYTHING", "hunter2", "***"),
        ("HF_TOKEN", "1", "***"),
        ("PYTHONPATH", f"/x:{TOKEN}", "***"),
        ("OMP_PLACES", "https://u:hunter2@h/", "***"),
    ],
)
def test_only_harmless_values_are_shown(name: str, value: str, shown: str) -> None:
    assert shown_value(name, value) == shown


def test_secrets_identify_a_measurement_by_name_alone() -> None:
    assert compared_variables({"HF_TOKEN": "a", "X": "b"}) == {"HF_TOKEN": "***", "X": "b"}


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["--store", "postgresql://u:hunter2@h/d"], ["--store", "postgresql://u:***@h/d"]),
        (["--store=postgresql://u:hunter2@h/d"], ["--store=postgresql://u:***@h/d"]),
        (
            ["--store", "postgresql://h/d?user=u&password=hunter2"],
            ["--store", "postgresql://h/d?user=u&password=***"],
        ),
        (["--store", "postgresql://u:hun ter2@h/d"], ["--store", "postgresql://u:***@h/d"]),
        (["--store", "host=h password=hunter2"], ["--store", "host=h password=***"]),
        (["--baseline-env", "HF_TOKEN=hunter2"], ["--baseline-env", "HF_TOKEN=***"]),
        (["--baseline-env=HF_TOKEN=hunter2"], ["--baseline-env=HF_TOKEN=***"]),
        (["--baseline-env", "X=hunter2 and more"], ["--baseline-env", "X=***"]),
        (["--env=X=hunter2"], ["--env=X=***"]),
        (["--env", "PYTHONPATH=/a b"], ["--env", "PYTHONPATH=/a b"]),
        (["--password", "hunter2", "x"], ["--password", "***", "x"]),
        (["--api-key=hunter2"], ["--api-key=***"]),
        (["gpu=NVIDIA H200", "-o", "x.md"], ["gpu=NVIDIA H200", "-o", "x.md"]),
        (["curl", "-u", "me:hunter2", "-k"], ["curl", "-u", "me:***", "-k"]),
        (["curl", "-ume:hunter2:3"], ["curl", "-ume:***"]),
        (["curl", "--proxy-user", "me:hunter2"], ["curl", "--proxy-user", "me:***"]),
        (["curl", "-H", "Cookie: session=hunter2"], ["curl", "-H", "Cookie: ***"]),
        (["docker", "run", "-u", "1000:1000"], ["docker", "run", "-u", "1000:1000"]),
        (["python", "-u", "a.py::Model"], ["python", "-u", "a.py::Model"]),
        (["tool", "-token", "hunter2"], ["tool", "-token", "***"]),
        (["openssl", "-passin", "pass:hunter2"], ["openssl", "-passin", "***"]),
        (["/usr/bin/mysql", "-phunter2", "db"], ["/usr/bin/mysql", "-p***", "db"]),
        (["sshpass", "-p", "hunter2", "ssh", "h"], ["sshpass", "-p", "***", "ssh", "h"]),
        (["mkdir", "-p", "a/b"], ["mkdir", "-p", "a/b"]),
    ],
)
def test_a_command_line_without_its_secrets(arguments: list[str], shown: list[str]) -> None:
    assert shown_arguments(arguments) == shown
