"""Where a store is, as a message may show it: a database's URL can hold a password."""

import re
from urllib.parse import unquote

# From the user's name to the last @: a password that holds one itself must not show its end.
IN_USER = re.compile(r"^([A-Za-z][\w+.-]*:/+[^:/@]*:)(.*)(?=@)", re.DOTALL)
IN_QUERY = re.compile(r"([?&][^=&]*(?:passw|pwd|secret|token|key)[^=&]*=)([^&]*)", re.IGNORECASE)
HIDDEN = "***"


def shown(where: str) -> str:
    """The address without its passwords; also of one that is written wrongly and so is no URL."""
    return IN_QUERY.sub(rf"\1{HIDDEN}", IN_USER.sub(rf"\1{HIDDEN}", where))


def reason(error: object, where: str) -> str:
    """What a library says of an address, unless it repeats a part of a password."""
    text = str(error)
    found = [match[2] for pattern in (IN_USER, IN_QUERY) for match in pattern.finditer(where)]
    found += [unquote(password) for password in found]
    parts = [part for password in found for part in (password, *re.split(r"[@:/]", password)) if part]
    return f"{type(error).__name__}, which repeats the password" if any(part in text for part in parts) else text
