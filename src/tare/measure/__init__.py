"""What reads time, memory and the machine inside the measured process, and around it. Called, `tare.measure(step)`
measures a callable (tare.api.measure)."""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class CallableFolder(ModuleType):
    """The import of any module in here binds `tare.measure` to this folder, over the function of the public API
    with the same name. So the folder can be called, and calls that function."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return import_module("tare.api.measure").measure(*args, **kwargs)


sys.modules[__name__].__class__ = CallableFolder
