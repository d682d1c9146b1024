"""`tare run --dry-run`: what a run would measure."""

from typing import Any

import msgspec

from tare.cases.case import Case
from tare.cases.grid import Skip
from tare.execute.runner import ladders
from tare.report.numbers import several, stretch
from tare.report.overview import ReusedRecords, reused_line
from tare.report.terminal import make_console, planned_view, skipped_view


class DryRun(msgspec.Struct):
    """`searched` are cases whose batch would be searched for first; `pending` of the others have no record yet."""

    cases: list[Case]
    searched: list[Case]
    pending: int
    rounds: int
    budget_s: float
    skipped: list[Skip]
    excluded_rungs: dict[str, str]
    recorded: ReusedRecords | None = None

    exit_code = 0

    def document(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        named = {name: [case.key for case in fields[name]] for name in ("cases", "searched")}
        return fields | named | {"sampling_s": self.sampling_s}

    @property
    def sampling_s(self) -> float:
        """The longest sampling time of all cases, without their preparation and the search for batches."""
        return (self.pending + len(self.searched)) * self.budget_s

    def render(self) -> None:
        console = make_console()
        for cases, batch in ((self.cases, ""), (self.searched, "batch to be searched")):
            for ladder in ladders(cases):
                console.print(planned_view(ladder, batch))
        if self.skipped or self.excluded_rungs:
            console.print(skipped_view(self.skipped, self.excluded_rungs))
        planned = [*self.cases, *self.searched]
        count = f"{several(len(planned), 'case')} in {several(len(ladders(planned)), 'ladder')}"
        if self.recorded:
            console.print(reused_line(self.recorded), style="dim")
        rest = "searching and preparing" if self.searched else "preparing"
        sampling = f"at most {stretch(self.sampling_s)} of sampling besides {rest}"
        console.print(f"{count}, {several(self.rounds, 'round')} each: {sampling}")
