"""What the fork server imports for a plan: what its workloads share, and nothing that changes a measurement."""

from tare.execute.preload import BEHIND, EXPORT, OPTIMIZERS, preload


def test_packages_come_with_the_modules_behind_them() -> None:
    modules = preload(["hf_Bert", "resnet50", "mlp"], ["infer"], ["eager"])
    assert {"torchvision", "transformers", *BEHIND["transformers"], "tare.workloads.resnet"} <= set(modules)
    assert OPTIMIZERS not in modules


def test_a_compiler_imports_its_parts_itself() -> None:
    assert OPTIMIZERS in preload(["mlp"], ["infer", "train"], ["eager"])
    assert OPTIMIZERS not in preload(["mlp"], ["train"], ["eager", "compile"])
    assert OPTIMIZERS not in preload(["mlp"], ["train"], ["a whole ladder"])
    assert OPTIMIZERS not in preload(["mlp"], ["infer"], ["eager"])


def test_the_export_of_the_vendor_rung_is_imported_once_but_not_for_a_compiler() -> None:
    assert EXPORT in preload(["mlp"], ["infer"], ["eager", "vendor:graph"])
    assert EXPORT not in preload(["mlp"], ["infer"], ["eager", "libtorch"])
    assert EXPORT not in preload(["mlp"], ["infer"], ["vendor", "aot"])
