"""Measuring the cases of a run, however it was asked to: ahead, abreast, with a batch still to be found."""

from tare.cases.case import Case
from tare.cases.grid import Skip
from tare.cases.options import Options
from tare.execute.batch_search import found_before, search_batch, search_options, searching, with_batch
from tare.execute.catalogue import LocalCatalogue
from tare.execute.executor import LocalExecutor
from tare.execute.parallel import run_abreast
from tare.execute.runner import Side, run_cases
from tare.execute.warm_caches import portions, warm
from tare.records.environment import Environment
from tare.records.record import BatchSearch, Round
from tare.report.progress import Progress
from tare.store.journal import StoreJournal


class Work:
    """Measuring cases, and searching for the batch of those that have none yet."""

    def __init__(
        self,
        options: Options,
        environment: Environment,
        executor: LocalExecutor,
        journal: StoreJournal,
        progress: Progress,
        fail_fast: bool,
    ) -> None:
        self._options, self._environment, self._executor = options, environment, executor
        self._journal, self._progress, self._fail_fast = journal, progress, fail_fast
        self._stopped = False
        self.cases: list[Case] = []

    def measure(self, cases: list[Case], searches: dict[Case, BatchSearch] | None = None) -> None:
        self.cases += cases
        options, tell = self._options, self._progress.stage
        side = Side(self._executor, self._environment, self._journal)
        how = (options, side, self._progress, self._fail_fast, searches)
        # Abreast, whoever is slow holds up nobody until the end. What has to be alone is measured then, and that
        # should not be an hour after the other rungs of its ladder.
        apart = options.abreast and not all(map(self._executor.goes_beside, cases))
        ahead = options.warm or (2 * options.abreast if apart else 0)
        for portion in portions(cases, ahead):
            if self._stopped:
                return
            left = [case for case in portion if self._journal.record(case) is None]
            if options.warm:
                warm(left, self._executor, options, tell)
            if options.abreast and not run_abreast(left, *how, tell):
                self._stopped = True
                return
            made = run_cases(portion, *how)
            self._stopped = self._fail_fast and any(record.failed for record in made)

    def search_and_measure(self, ladder: list[Case], catalogue: LocalCatalogue, skipped: list[Skip]) -> None:
        """Finds a batch on one rung of the ladder, and measures all of its rungs at it."""
        if self._stopped:
            return
        first = searching(ladder)
        search = found_before(first, self._journal.all_records()) or search_batch(first, self._point)
        cases = []
        for case in (with_batch(case, search.chosen) for case in ladder):
            refused = catalogue.refusal(case)
            if refused:
                skipped.append(Skip(case.key, *refused))
            else:
                cases.append(case)
        self.measure(cases, {with_batch(first, search.chosen): search})

    def _point(self, case: Case) -> Round:
        """One batch of a search. What an interrupted one had measured leads it to the same choice again."""
        known = self._journal.point(case)
        if known is not None:
            return known
        self._progress.searches(case)
        done = self._executor.run_round(case, 0, search_options(self._options), check=False)
        self._journal.add_point(case, done)
        return done
