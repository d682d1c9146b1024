"""Environment variables: which of them change what a step does, and which values may be stored and shown, also in
a command line that sets them."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import PurePath

from tare.system.redaction import HIDDEN, is_secret_name, is_secret_value, redact_argument, remember_secret

# Beginnings of the names that may change the result or the time of a step. TF_ alone would take Terraform's
# variables too, which hold passwords.
FAMILIES = (
    "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "BLIS_", "VECLIB_", "NUMEXPR_", "DNNL_", "ONEDNN_", "ATEN_",
    "CUDA_", "CUBLAS", "CUDNN_", "NVIDIA_TF32", "NVTE_", "HIP_", "HSA_", "ROCBLAS_", "MIOPEN_",
    "TORCH", "PYTORCH_", "TRITON_", "INDUCTOR_", "FLASH_ATTENTION_", "XFORMERS_", "NCCL_", "GLOO_",
    "XLA_", "JAX_", "TF_XLA", "TF_CUDNN", "TF_GPU", "TF_ENABLE", "TF_DISABLE", "TF_USE", "TF_FORCE", "TF_NUM",
    "TF_DETERMINISTIC", "ORT_", "MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD", "PYTHONOPTIMIZE", "PYTHONMALLOC",
)  # fmt: skip
# Of these, the ones that only name a place, say how much is logged, or hold the version of an image.
INDIFFERENT = (
    "TORCH_HOME", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "TORCH_TRACE", "TORCH_LOGS_OUT",
    "TORCH_COMPILE_DEBUG_DIR", "PYTORCH_KERNEL_CACHE_PATH", "TRITON_CACHE_DIR", "TRITON_HOME", "TRITON_DUMP_DIR",
    "CUDA_HOME", "CUDA_PATH", "CUDA_VERSION", "CUDA_CACHE_PATH", "CUDNN_PATH", "CUDNN_VERSION", "NCCL_VERSION",
    "NCCL_HOSTID", "NCCL_COMM_ID", "NCCL_CONF_FILE", "NCCL_DEBUG_FILE", "JAX_COMPILATION_CACHE_DIR",
    "JAX_COORDINATOR_ADDRESS",
)  # fmt: skip
# Names beyond those families whose values are paths or settings of tare, and may be shown.
PLACES = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "TARE_")
# The variables besides these families that a command needs to find what it measures: plug-ins, modules, records.
NEEDED = ("TARE_PLUGINS", "PYTHONPATH")
STORE = "TARE_STORE"
# An argument NAME=VALUE, also behind an option (--env=NAME=VALUE).
_ASSIGNMENT = re.compile(r"((?:--[\w-]+=)?-{0,2}([\w.-]+)=)(.*)", re.DOTALL)
# Options whose value is NAME:PASSWORD, and programs whose option -p is a password.
_USER_OPTIONS = ("-u", "-U", "--user", "--proxy-user")
_PASSWORD_PROGRAMS = frozenset(
    {"sshpass", "mysql", "mysqldump", "mysqladmin", "mysqlimport", "mariadb", "mariadb-dump"}
)
# Not the numbers of a user and a group, nor a test (a.py::b).
_NAMED_PASSWORD = re.compile(r"(?!\d+:\d+\Z)([^\s:/]+:)[^:].*", re.DOTALL)
# A number or a switch, which may be shown whatever it belongs to.
_SETTING = re.compile(
    r"|[+-]?[0-9][0-9.]{0,11}[A-Za-z%]{0,3}|true|false|on|off|yes|no|none|auto|default", re.IGNORECASE
)


def is_kept(name: str, value: str) -> bool:
    """Whether a record keeps this variable: its name is known to change a step, and nothing about it looks like a
    secret."""
    return name.startswith(FAMILIES) and name not in INDIFFERENT and not is_secret(name, value)


@lru_cache(4096)
def is_secret(name: str, value: str) -> bool:
    return is_secret_name(name) or is_secret_value(value)


def shown_value(name: str, value: str) -> str:
    """The value as a report may show it. That of an unknown variable may be anything, so it is hidden unless it is
    a number or a switch."""
    known = name.startswith((*FAMILIES, *PLACES)) or _SETTING.fullmatch(value)
    return value if known and not is_secret(name, value) else HIDDEN


def shown_variables(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: shown_value(name, value) for name, value in variables.items()}


def remember_secrets(variables: Mapping[str, str]) -> None:
    """Hides the values that may be secret in all that is printed or stored from now on, such as the message of a
    failed worker."""
    for name, value in variables.items():
        if shown_value(name, value) == HIDDEN:
            remember_secret(value)


def needed_variables(variables: Mapping[str, str], measures: bool = True) -> dict[str, str]:
    """Those that someone else must set to get the same results from a command, without secrets. A command that
    only reads records needs to know where they are, and nothing that changes a step."""
    return {
        name: value
        for name, value in sorted(variables.items())
        if value.isprintable()
        and not is_secret(name, value)
        # An empty CUDA_VISIBLE_DEVICES changes a step; an empty name of a store names none.
        and ((value and name in (*NEEDED, STORE)) or (measures and is_kept(name, value)))
    }


def compared_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables as they identify a measurement: secrets count by their names alone."""
    return {name: HIDDEN if is_secret(name, value) else value for name, value in variables.items()}


def shown_arguments(arguments: Sequence[str]) -> list[str]:
    """A command line that may be shown: without the passwords of its URLs and of its users, the values of options
    with a secret's name, and the values of variables that may be secret."""
    shown: list[str] = []
    option = ""
    takes_password = any(PurePath(argument).name in _PASSWORD_PROGRAMS for argument in arguments)
    for argument in arguments:
        assignment = _ASSIGNMENT.fullmatch(argument)
        sets_variable = option.endswith("env") or argument.partition("=")[0].endswith("env")
        user = _user_of(option, argument)
        if (option and is_secret_name(option)) or (takes_password and option == "-p"):
            shown.append(HIDDEN)
        elif takes_password and argument.startswith("-p") and argument != "-p":
            shown.append(f"-p{HIDDEN}")
        elif user:
            shown.append(user + HIDDEN)
        elif assignment and is_secret_name(assignment[2]):
            shown.append(assignment[1] + HIDDEN)
        elif assignment and sets_variable:
            shown.append(assignment[1] + shown_value(assignment[2], assignment[3]))
        else:
            shown.append(redact_argument(argument))
        option = argument if argument.startswith("-") and "=" not in argument else ""
    return shown


def _user_of(option: str, argument: str) -> str:
    """The part of an argument up to the colon before a password: `-u NAME:PASSWORD`, or in one piece."""
    glued = next((name for name in _USER_OPTIONS[:2] if argument.startswith(name)), "")
    named = _NAMED_PASSWORD.fullmatch(argument.removeprefix(glued))
    return glued + named[1] if named and (option in _USER_OPTIONS or glued) else ""
