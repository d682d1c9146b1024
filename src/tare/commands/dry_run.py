"""What a run would measure, said before anything is measured."""

from typing import Any

import msgspec

from tare.cases.case import Case
from tare.cases.grid import Skip
from tare.execute.schedule import ladders
from tare.report.numbers import several, stretch
from tare.report.overview import ReusedRecords, reused_line
from tare.report.terminal import make_console, planned_view, skipped_view


class Foresight(msgspec.Struct):
    """`searched` are cases whose batch would be found first; `due` of the others have no record that stands for
    them."""

    cases: list[Case]
    searched: list[Case]
    due: int
    rounds: int
    budget_s: float
    skipped: list[Skip]
    left_out: dict[str, str]
    recorded: ReusedRecords | None = None

    exit_code = 0

    def document(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        named = {name: [case.key for case in fields[name]] for name in ("cases", "searched")}
        return fields | named | {"sampling_s": self.sampling_s}

    @property
    def sampling_s(self) -> float:
        """The most that all cases may sample. Preparing them comes on top, and so does the search for batches."""
        return (self.due + len(self.searched)) * self.budget_s

    def render(self) -> None:
        console = make_console()
        for cases, batch in ((self.cases, ""), (self.searched, "batch to be found")):
            for ladder in ladders(cases):
                console.print(planned_view(ladder, batch))
        if self.skipped or self.left_out:
            console.print(skipped_view(self.skipped, self.left_out))
        planned = [*self.cases, *self.searched]
        count = f"{several(len(planned), 'case')} in {several(len(ladders(planned)), 'ladder')}"
        if self.recorded:
            console.print(reused_line(self.recorded), style="dim")
        rest = "searching and preparing" if self.searched else "preparing"
        sampling = f"at most {stretch(self.sampling_s)} of sampling besides {rest}"
        console.print(f"{count}, {several(self.rounds, 'round')} each: {sampling}")
