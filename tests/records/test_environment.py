"""When two environments are the same."""

from builders import ENVIRONMENT
from msgspec.structs import replace

from tare.records.environment import Environment, difference_lines


def test_the_same_environment_differs_in_nothing() -> None:
    assert difference_lines(ENVIRONMENT, ENVIRONMENT) == []


def test_circumstances_are_not_compared() -> None:
    later = replace(ENVIRONMENT, circumstances={"host": "another", "load_1min": "99"})
    assert difference_lines(ENVIRONMENT, later) == []
    assert later.id == ENVIRONMENT.id
    assert later != ENVIRONMENT


def test_each_difference_is_a_line_that_names_both_sides() -> None:
    other = replace(
        ENVIRONMENT,
        machine={"cpu": "test-cpu", "cores": "4", "system": "Linux"},
        software={"python": "3.12.0", "torch": "2.10.0", "tare": "0.1.0", "jax": "0.10"},
        flags={},
    )
    assert difference_lines(ENVIRONMENT, other) == [
        "machine.cores: 2 against 4",
        "software.jax: absent against 0.10",
        "flags.tf32: off against absent",
    ]
    assert difference_lines(other, ENVIRONMENT)[0] == "machine.cores: 4 against 2"


def test_the_id_follows_what_is_compared_and_no_order() -> None:
    turned = replace(ENVIRONMENT, machine=dict(reversed(ENVIRONMENT.machine.items())))
    assert turned.id == ENVIRONMENT.id
    ids = {
        ENVIRONMENT.id,
        replace(ENVIRONMENT, machine={}).id,
        replace(ENVIRONMENT, software={}).id,
        replace(ENVIRONMENT, flags={}).id,
        replace(ENVIRONMENT, flags={"tf32": "on"}).id,
    }
    assert len(ids) == 5


def test_a_fact_in_another_group_is_another_environment() -> None:
    a = Environment(machine={"x": "1"}, software={}, flags={}, circumstances={})
    b = Environment(machine={}, software={"x": "1"}, flags={}, circumstances={})
    assert a.id != b.id


def test_ids_in_stores_never_change() -> None:
    assert ENVIRONMENT.id == "be50fc07f292"


def test_a_secret_variable_of_a_foreign_record_is_neither_kept_nor_compared() -> None:
    """A worker that is not ours, or the file of another machine, may bring one."""
    flags = {**ENVIRONMENT.flags, "env.TORCH_TOKEN": "hunter2", "env.XLA_FLAGS": "--x=https://u:hunter2@h/"}
    other = Environment(machine=ENVIRONMENT.machine, software=ENVIRONMENT.software, flags=flags, circumstances={})
    assert "hunter2" not in repr(other)
    assert difference_lines(ENVIRONMENT, other) == []
    assert other.id == ENVIRONMENT.id
