"""What the workers of a ladder train on: prepared data, and the order of the images in files, the same for every
rung."""

from collections.abc import Callable, Sequence
from pathlib import Path

from tare.cases.case import Case
from tare.cases.options import Options
from tare.errors import BadInput
from tare.execute.executor import LocalExecutor
from tare.protocol.jobs import BatchSource, ShapesJob, reference_case
from tare.protocol.messages import Shaped
from tare.system.home import make_folder
from tare.workloads.datasets import ChosenData, prepare_data
from tare.workloads.datasets.batches import Order, Shapes, epoch_order, steps_order
from tare.workloads.datasets.prepared import OnImages, PreparedData


class TrainingData:
    """The prepared data of a ladder, in the shapes of its cases."""

    def __init__(
        self,
        executor: LocalExecutor,
        case: Case,
        chosen: ChosenData,
        options: Options,
        on_images: OnImages = lambda *_: None,
    ) -> None:
        self.shaped = executor.request(ShapesJob(case=reference_case(case)), Shaped, options)
        args = tuple(map(tuple, self.shaped.args))
        self.shapes = Shapes(args, tuple(self.shaped.target), case.sizes.get("classes"))
        self.data: PreparedData = prepare_data(chosen, self.shapes, on_images)
        self._folder = make_folder(executor.folder("orders", reference_case(case)))

    @property
    def is_classification(self) -> bool:
        """Whether the target is one class for each sample."""
        return self.shapes.target == (self.shapes.batch,)

    def of_steps(self, steps: int) -> BatchSource:
        return self._source([("steps", lambda: steps_order(self.data.header.train, self.shapes.batch, steps))])

    def of_epochs(self, run: int, epochs: Sequence[int], samples: int) -> BatchSource:
        """With the first `samples` training images only."""

        def order_of(epoch: int) -> Callable[[], Order]:
            return lambda: epoch_order(samples, self.shapes.batch, run, epoch)

        return self._source([(f"{run}-{epoch}", order_of(epoch)) for epoch in epochs])

    def samples(self, most: int | None) -> int:
        """How many training images are used; BadInput for more than there are, or fewer than a batch."""
        there = self.data.header.train
        if most is not None and most > there:
            raise BadInput(f"--samples {most}: {self.data.header.name} has {there} training images")
        samples = most or there
        epoch_order(samples, self.shapes.batch, 0, 0)
        return samples

    def _source(self, orders: Sequence[tuple[str, Callable[[], Order]]]) -> BatchSource:
        paths = []
        for name, make in orders:
            path: Path = self._folder / f"{name}.i64"
            if not path.exists():
                path.write_bytes(make().astype("<i8").tobytes())
            paths.append(str(path))
        return BatchSource(
            folder=str(self.data.folder),
            orders=tuple(paths),
            input=self.shapes.args[0],
            target=self.shapes.target,
        )
