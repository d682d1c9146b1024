"""Secrets are recognised by their names and shapes, and hidden; ordinary texts stay as they are."""

import time

import pytest

from tare.system import redaction
from tare.system.redaction import is_secret_name, is_secret_value, redact, redact_argument, remember_secret

TOKENS = [
    "hf_" + "aB3" * 11,
    "ghp_" + "x1Y2" * 9,
    "github_pat_" + "11AB_" * 10,
    "glpat-" + "a1B2-" * 4,
    "AKIAIOSFODNN7EXAMPLE",
    "sk-proj-" + "a1B2" * 8,
    "xoxb-123456789012-abcdefghij",
    "AIza" + "Sy_-1" * 7,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.SflKxwRJSMeKKF2QT4",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----",
]


@pytest.mark.parametrize("token", TOKENS)
def test_a_token_is_hidden_wherever_it_stands(token: str) -> None:
    assert redact(f"401 for ({token}), try again") == "401 for (***), try again"
    assert redact(f"X={token}") == "X=***"
    assert is_secret_value(token)
    assert is_secret_value(f"a,{token}")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://u:hunter2@host/db", "postgresql://u:***@host/db"),
        ("at postgresql://u:hun@ter2@host/db now", "at postgresql://u:***@host/db now"),
        ("pip install git+https://deploy:hunter2@host/x.git", "pip install git+https://deploy:***@host/x.git"),
        ("https://hunter2@host/simple", "https://***@host/simple"),
        ("host=h password=hunter2 dbname=d", "host=h password=*** dbname=d"),
        (r"password='hunt\'er2' host=h", "password=*** host=h"),
        ("password='hunter2", "password=***"),
        ("Server=s;Pwd=hunter2;Database=d", "Server=s;Pwd=***;Database=d"),
        ("http://h/?a=1&access_key=hunter2&b=2", "http://h/?a=1&access_key=***&b=2"),
        ("https://h/x?sig=hunter2", "https://h/x?sig=***"),
        ("Set-Cookie: id=hunter2; Path=/", "Set-Cookie: ***"),
        ("machine h login me password hunter2", "machine h login me password ***"),
        ('{"db_password": "hunter2", "a": 1}', '{"db_password": ***, "a": 1}'),
        ("HF_TOKEN=hunter2 python x.py", "HF_TOKEN=*** python x.py"),
        ("api-key: hunter2", "api-key: ***"),
        ("run --hub-token hunter2 --verbose", "run --hub-token *** --verbose"),
        ("run --token --verbose", "run --token --verbose"),
        ("curl -u me:hunter2 https://h/", "curl -u me:*** https://h/"),
        ("at https://hooks.slack.com/services/T0/B0/hunter2 now", "at https://hooks.slack.com/services/*** now"),
        ("https://h/x?X-Amz-Date=1&X-Amz-Signature=hunter2", "https://h/x?X-Amz-Date=1&X-Amz-Signature=***"),
        ("Authorization: Basic dXNlcjpodW50ZXIy", "Authorization: Basic ***"),
    ],
)
def test_a_secret_in_a_text_is_hidden_and_nothing_else(text: str, shown: str) -> None:
    assert redact(text) == shown
    assert redact(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "'/home/me/secret_net.py::Net' and passwd.py::Model, C++'s token::Type",
        "Missing key(s) in state_dict: conv1.weight",
        "a token is needed: --token-file FILE; push --token-file ci.token, --password-file=p",
        "pad_token_id=50256, eos_token='</s>'",
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)",
        "ssh://git@github.com/x/y.git",
        "sqlite:////home/a/records.db?timeout=3",
        "postgresql://host:5432/db",
        "/home/a/x@y:z.db",
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>",
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_",
        "hf_bert/eager/infer/cuda/fp32",
        "GPU-8f3c2a10-1b2c-3d4e-5f60-718293a4b5c6",
        "commit 4f2ab81c09d34f2ab81c09d34f2ab81c09d3aaaa",
    ],
)
def test_an_ordinary_text_is_kept(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    "name",
    ["HF_TOKEN", "GITHUBTOKEN", "PGPASSWORD", "DB_PASS", "AWS_SECRET_ACCESS_KEY", "accessKeyId", "WANDB_API_KEY",
     "TORCH_AUTH", "x-api-key", "GOOGLE_APPLICATION_CREDENTIALS", "SENTRY_DSN", "CUDA_KEY", "MY_PAT",
     "TF_TOKEN_app", "TORCH_KEYS", "--password"],
)  # fmt: skip
def test_the_name_of_a_secret(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    ["OMP_NUM_THREADS", "TOKENIZERS_PARALLELISM", "PYTORCH_CUDA_ALLOC_CONF", "PWD", "OLDPWD", "PATH", "KEYBOARD",
     "TORCH_COMPASS", "MONKEY", "PASSAGE", "AUTHOR", "MAX_TOKENS"],
)  # fmt: skip
def test_the_name_of_something_else(name: str) -> None:
    assert not is_secret_name(name)


def test_a_random_value_of_a_variable_is_a_secret() -> None:
    assert is_secret_value("wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY1")
    assert not is_secret_value("expandable_segments:True,max_split_size_mb:512")
    assert not is_secret_value("GPU-8f3c2a10-1b2c-3d4e-5f60-718293a4b5c6")
    assert not is_secret_value("/opt/conda3/envs/Torch210/lib/libjemalloc2.so")


def test_the_values_of_secret_variables_are_hidden_in_any_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_remembered", set())
    monkeypatch.setenv("MY_API_TOKEN", "correct-horse")
    monkeypatch.setenv("SHORT_KEY", "on")
    monkeypatch.setenv("SSH_KEY", "/etc")
    monkeypatch.setenv("HARMLESS", "battery-staple")
    assert redact("correct-horse on /etc battery-staple") == "*** on /etc battery-staple"
    remember_secret("battery-staple")
    assert redact("battery-staple") == "***"


def test_a_password_with_spaces_in_an_argument() -> None:
    assert redact_argument("postgresql://u:my pass word@h/d") == "postgresql://u:***@h/d"
    assert redact_argument("host=h password=my pass word dbname=d") == "host=h password=*** dbname=d"
    assert redact_argument("gpu=NVIDIA H200") == "gpu=NVIDIA H200"


@pytest.mark.parametrize(
    "part",
    [
        ":/a:",
        "password='",
        "a",
        "http://",
        "eyJaaaaaaaa.",
        "-----BEGIN PRIVATE KEY-----",
        "token",
        "sk-",
        "'",
        "--",
        "--token ",
    ],
)
def test_a_hostile_text_takes_no_time(part: str) -> None:
    """A text of the length that a failure's detail has: below a second. Without its bounds a pattern would take
    minutes. Processor time, which a busy machine does not change."""
    began = time.process_time()
    redact(part * (12_000 // len(part)))
    assert time.process_time() - began < 20
