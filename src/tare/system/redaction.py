"""Passwords, tokens and keys: how they are recognised, and texts in which stars replace them.

A secret has the name of one (`HF_TOKEN=...`), the shape of one (`ghp_...`), or is the value of a variable of this
process with such a name. The patterns are bounded: a text of a foreign file cannot make them slow.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

HIDDEN = "***"
# Shorter values of secret variables may be part of ordinary words, and are not looked for in texts.
SHORTEST_SECRET = 8

# Tokenizers have tokens of another kind.
_TOKEN = r"(?<!pad_)(?<!eos_)(?<!bos_)(?<!unk_)(?<!sep_)(?<!cls_)(?<!mask_)token(?![a-z]|_id)"
# Words that mean a secret wherever they occur in a name, and words that do only where they stand alone in it.
_STRONG = rf"passw|passphrase|pgpass|secret|credential|(?:api|access|account|private|signing|ssh)[_-]?key|{_TOKEN}"
_NAME = re.compile(
    rf"{_STRONG}|(?<![a-z])(?:keys?|pwd|pass(?:in|out)?|auth|authorization|bearer|pat|cookie|dsn|sas|sig|signature|creds?|jwt|otp)"
    r"(?![a-z])",
    re.IGNORECASE,
)
# An option that names a file (--token-file) has no secret as its value.
_NO_FILE = r"(?<!-file)"
# The working directories of a shell.
_NOT_SECRET = ("PWD", "OLDPWD")

_VALUE = r"""(?:'(?:[^'\\]|\\.)*(?:'|\Z)|"(?:[^"\\]|\\.)*(?:"|\Z)|[^\s&;,]+)"""
_SHAPES = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"hf_[A-Za-z0-9]{20,}|gh[opsur]_[A-Za-z0-9]{16,}|github_pat_\w{20,}|gl[a-z]{2,6}-[\w-]{16,}"
    r"|sk-[\w-]{20,}|[sr]k_(?:live|test)_\w{10,}|xox[abeoprs]-[\w-]{10,}|xapp-[\w-]{10,}"
    r"|A(?:KIA|SIA|BIA|CCA|ROA|IDA)[A-Z0-9]{12,}|AIza[\w-]{30,}|ya29\.[\w-]{20,}|GOCSPX-[\w-]{20,}"
    r"|npm_[A-Za-z0-9]{20,}|pypi-[\w-]{30,}|dckr_pat_[\w-]{20,}|dop_v1_\w{20,}|SG\.[\w-]{16,}\.[\w-]{16,}"
    r"|tare_[\w-]{43}(?![\w-])|nvapi-[\w-]{20,}|r8_[A-Za-z0-9]{20,}|eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?)"
    r"|-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----(?:.*?-----END [A-Z ]{0,30}PRIVATE KEY-----|.*)",
    re.DOTALL,
)
# A word with a URL, and the beginning of the URL up to the colon before its password.
_WORD = re.compile(r"\S+")
_USER = re.compile(r":/{1,3}[^\s:/@'\"]{0,100}:")
# With the text before the secret and that after it as groups.
_PATTERNS = (
    re.compile(r"(https?:/{1,3})[^\s:/@'\"]{1,1000}(@)", re.IGNORECASE),
    re.compile(
        r"(authorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:(?:bearer|basic|token)\s{1,3})?)[^\s\"']+()", re.I
    ),
    re.compile(r"(bearer\s{1,3})[\w.~+/=-]{16,}()", re.IGNORECASE),
    # Two colons are a name in a file (secret_net.py::Net) or in a namespace of C++.
    re.compile(
        rf"((?:{_STRONG})[\w.-]{{0,40}}{_NO_FILE}[\"']?\s{{0,3}}(?:=|:(?!:))\s{{0,3}}){_VALUE}()", re.I | re.DOTALL
    ),
    re.compile(r"((?<!\S)(?:-u|--user|--proxy-user)[\s=][\"']?[^\s:]{1,100}:)[^\s\"']+()"),
    # A header, and the file .netrc.
    re.compile(r"((?<![\w-])(?:set-)?cookie:\s{0,3})[^\n\"']+()", re.IGNORECASE),
    re.compile(r"(\blogin\s{1,3}\S{1,100}\s{1,3}password\s{1,3})\S+()", re.IGNORECASE),
    re.compile(r"((?:hooks\.slack\.com/services|discord(?:app)?\.com/api/webhooks)/)[^\s\"']+()"),
    re.compile(rf"([-_?&;](?:key|pwd|pass|auth|pat|sas|sig|signature)=){_VALUE}()", re.IGNORECASE | re.DOTALL),
    re.compile(
        rf"(--(?:[\w-]{{0,30}}-)?(?:{_STRONG})[\w-]{{0,20}}{_NO_FILE}\s{{1,3}})(?!-){_VALUE}()", re.I | re.DOTALL
    ),
    re.compile(rf"((?<![\w-])pwd\s{{0,3}}=\s{{0,3}}){_VALUE}()", re.IGNORECASE | re.DOTALL),
)
# A random text without a known shape: letters of both cases and digits, longer than the parts of a UUID. In a
# message this could be a mangled name of C++, so it counts only for the value of a variable.
_RANDOM = re.compile(r"(?<![A-Za-z0-9])(?=[A-Z0-9]*[a-z])(?=[a-z0-9]*[A-Z])(?=[A-Za-z]*[0-9])[A-Za-z0-9]{32,}")
# In a command's argument a password may contain anything.
_ARGUMENT_PASSWORDS = (
    re.compile(r"(:/{1,3}[^:/@]*:).*(@)", re.DOTALL),
    re.compile(r"(passw\w{0,20}\s{0,3}=\s{0,3})[^\s&'\"][^&]*?(\Z|&|\s\w{1,30}\s{0,3}=)", re.IGNORECASE),
)
# The password of an address that need not be a valid URL, as the last @ and the name of a field delimit it.
_ADDRESS_PASSWORDS = (
    re.compile(r"^[A-Za-z][\w+.-]*:/+[^:/@]*:(.*)(?=@)", re.DOTALL),
    re.compile(r"[?&][^=&]*(?:passw|pwd|secret|token|key)[^=&]*=([^&]*)", re.IGNORECASE),
)

_remembered: set[str] = set()


def is_secret_name(name: str) -> bool:
    """Whether a variable, an option or a field of this name holds a secret."""
    return name not in _NOT_SECRET and _NAME.search(name) is not None


def is_secret_value(value: str) -> bool:
    """Whether the text contains a secret, whatever its name is."""
    return _redact_patterns(value) != value or _RANDOM.search(value) is not None


def remember_secret(value: str) -> None:
    """From now on `redact` hides this value in every text, like those of this process's secret variables."""
    _remembered.add(value)


def redact(text: str) -> str:
    """The text with stars for every secret that is recognised in it."""
    for value in sorted(_known_secrets(), key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    return _redact_patterns(text)


def _redact_patterns(text: str) -> str:
    text = _SHAPES.sub(HIDDEN, text)
    if "@" in text:
        text = _WORD.sub(_hide_password, text)
    for pattern in _PATTERNS:
        text = pattern.sub(rf"\1{HIDDEN}\2", text)
    return text


def _hide_password(word: re.Match[str]) -> str:
    """A word without the password of its URL. It extends to the last @, because it may contain one."""
    before, at, host = word[0].rpartition("@")
    user = _USER.search(before) if at else None
    return f"{before[: user.end()]}{HIDDEN}@{host}" if user else word[0]


def _known_secrets() -> Iterator[str]:
    for name, value in os.environ.items():
        # The path of a file with keys is no secret.
        if is_secret_name(name) and not (value.startswith("/") and Path(value[:4096]).exists()):
            _remembered.add(value)
    return (value for value in _remembered if len(value) >= SHORTEST_SECRET)


def redact_argument(argument: str) -> str:
    """One argument of a command, in which a password may contain spaces too."""
    for pattern in _ARGUMENT_PASSWORDS:
        argument = pattern.sub(rf"\1{HIDDEN}\2", argument)
    return redact(argument)


def passwords_of(address: str) -> list[str]:
    """The passwords of an address, as they are written in it."""
    return [match[1] for pattern in _ADDRESS_PASSWORDS for match in pattern.finditer(address) if match[1]]


def hide_passwords(text: str, address: str) -> str:
    """The text, which may repeat parts of the address of a store, with stars for the address's passwords. The
    address need not be a valid URL."""
    passwords = passwords_of(address)
    passwords += [unquote(password) for password in passwords]
    parts = {part for password in passwords for part in (password, *re.split(r"[@:/]", password)) if part}
    for part in sorted(parts, key=len, reverse=True):
        text = text.replace(part, HIDDEN)
    return redact(text)
