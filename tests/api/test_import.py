"""`import tare` is light, and offers everything public."""

import subprocess
import sys

import pytest

import tare


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_import_loads_next_to_nothing() -> None:
    code = "import sys, tare; print(sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = set(eval(run_python(code)))
    heavy = {
        "torch",
        "numpy",
        "scipy",
        "msgspec",
        "rich",
        "typer",
        "sqlalchemy",
        "psutil",
        "jinja2",
        "cloudpickle",
    }
    assert "tare" in loaded
    assert not loaded & heavy


def test_every_public_name_is_offered_and_listed() -> None:
    for name in tare.__all__:
        assert getattr(tare, name) is not None
    assert set(tare.__all__) <= set(dir(tare))
    with pytest.raises(AttributeError, match="no attribute 'weigh'"):
        getattr(tare, "weigh")  # noqa: B009 - mypy knows that there is none


def test_measure_can_be_called_whether_its_folder_was_imported_or_not() -> None:
    call = "print(type(tare.measure(sorted, [1], budget=0.05)).__name__, 'torch' in sys.modules)"
    # A step without torch is measured without it.
    expected = "Measurement False"
    assert run_python(f"import sys, tare; {call}") == expected
    imports = "import tare.measure.clock as clock; from tare import measure; import sys, tare"
    assert run_python(f"{imports}; clock.WallClock; assert measure is tare.measure; {call}") == expected
