"""Tables that users write, in a TOML file or as options of the command line, checked against a msgspec struct."""

import re
import tomllib
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

import msgspec

from tare.errors import BadInput, brief, quote, unknown
from tare.system.bounded_files import read_bounded

Checked = TypeVar("Checked", bound=msgspec.Struct)

# Bytes of a TOML file. A plan of a hundred workloads has a few thousand.
LARGEST_TABLE = 1 << 20
# tomllib takes time that grows with the square of a key's parts.
MOST_DOTS = 20

# msgspec's names of types, in words for users.
KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "a text",
    "array": "a list",
    "object": "a table",
}


def read_toml(path: Path, kind: str) -> dict[str, Any]:
    """The document in a TOML file; BadInput says in one line why it cannot be read as a `kind`."""
    # A path that cannot be looked up (too long, not permitted) is read for the sake of the message.
    with suppress(OSError):
        if not path.exists():
            raise BadInput(f"no {kind} at {path}")
    try:
        text = read_bounded(path, LARGEST_TABLE).decode()
        if any(line.partition("=")[0].count(".") > MOST_DOTS for line in text.splitlines()):
            raise BadInput(f"{path} is no {kind}: it has a key of more than {MOST_DOTS} parts")
        return tomllib.loads(text)
    except (RecursionError, ValueError) as error:
        raise BadInput(f"{path} is not TOML: {brief(error)}") from None


def choices(annotation: Any) -> tuple[str, ...]:
    """The values of a Literal, also of one within a list or an optional type."""
    arguments = get_args(annotation)
    if get_origin(annotation) is Literal:
        return arguments
    return tuple(value for argument in arguments for value in choices(argument))


def convert_table(
    table: Mapping[str, Any], type_: type[Checked], where: str, valid: Collection[str] = ()
) -> Checked:
    """The table as a struct. BadInput names `where`, the key that is wrong, its value, and what is valid."""
    for name in table:
        if name not in (valid or type_.__struct_fields__):
            raise unknown("key", name, valid or type_.__struct_fields__, where)
    try:
        return msgspec.convert(table, type_)
    except msgspec.ValidationError as error:
        # Such as "Expected `int`, got `str` - at `$.batch[0]`".
        message = re.fullmatch(r"(.+?)(?:, got .+)? - at `\$\.(\w+)(?:\[(\d+)\])?.*`", str(error))
        if message is None:
            raise BadInput(f"{where}: {brief(error)}") from None
        problem, name, index = message.groups()
        value = table[name] if index is None else table[name][int(index)]
        valid_values = choices(type_.__annotations__[name])
        if valid_values and isinstance(value, str):
            raise unknown(name, value, valid_values, where) from None
        wanted = re.sub(r"Expected |`| \| null|\.0\b", "", problem)
        wanted = re.sub(r"^\w+", lambda kind: KINDS.get(kind[0], kind[0]), wanted)
        raise BadInput(f"{where}: '{name}' cannot be {quote(value)}: want {wanted}") from None
