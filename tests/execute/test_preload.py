"""What the fork server imports for a plan: what its workloads share, and nothing that changes a measurement."""

from pathlib import Path

import pytest

from tare.execute.preload import DYNAMO, EXPORT, LAZY_MODULES, preload

HERE = ["cpu"]


def test_packages_come_with_the_modules_behind_them() -> None:
    modules = preload(["hf_Bert", "resnet50", "mlp"], ["infer"], ["eager"], HERE)
    assert {"torchvision", "transformers", *LAZY_MODULES["transformers"], "tare.workloads.resnet"} <= set(modules)
    assert DYNAMO not in modules


def test_a_compiler_imports_its_parts_itself() -> None:
    assert DYNAMO in preload(["mlp"], ["infer", "train"], ["eager"], HERE)
    assert DYNAMO not in preload(["mlp"], ["train"], ["eager", "compile"], HERE)
    assert DYNAMO not in preload(["mlp"], ["train"], ["a whole ladder"], HERE)
    assert DYNAMO not in preload(["mlp"], ["infer"], ["eager"], HERE)


@pytest.mark.parametrize("device", ["cuda", "cuda:1", "auto", "all"])
def test_what_a_gpu_is_woken_with_is_imported_once_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    driver = tmp_path / "nvidiactl"
    monkeypatch.setattr("tare.execute.preload.DRIVER", driver)
    assert DYNAMO not in preload(["mlp"], ["infer"], ["eager"], [device])
    driver.touch()
    assert DYNAMO in preload(["mlp"], ["infer"], ["eager"], ["cpu", device])
    assert DYNAMO not in preload(["mlp"], ["infer"], ["eager"], HERE)
    assert DYNAMO not in preload(["mlp"], ["infer"], ["eager", "compile"], [device])


def test_the_export_of_the_vendor_rung_is_imported_once_but_not_for_a_compiler() -> None:
    assert EXPORT in preload(["mlp"], ["infer"], ["eager", "vendor:graph"], HERE)
    assert EXPORT not in preload(["mlp"], ["infer"], ["eager", "libtorch"], HERE)
    assert EXPORT not in preload(["mlp"], ["infer"], ["vendor", "aot"], HERE)
