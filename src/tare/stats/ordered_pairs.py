"""Evidence that one of two differs from the other, from pairs of consecutive runs whose order was drawn at random.

If the two are equal, swapping them changes nothing but the sign of each difference, and the sign was drawn:
whatever the machine does (drift, heavy tails, alternation), each sign is a fair coin, also given everything
measured before. So a bet on the sign is fair, and a bettor's wealth exceeds 1/a at any time with a probability of
at most a (Ville, 1939; Ramdas et al., Game-theoretic statistics and safe anytime-valid inference, 2023). That
holds although a search looks at it after every pair, and although it chooses by what it sees which two to run
next.
"""

from typing import NamedTuple

import numpy as np

from tare.stats.drift import SMALLEST
from tare.stats.intervals import Values
from tare.stats.ranks import pseudomedian

# How much of the wealth is bet on a difference, which is in units of the typical one, and at most which share.
STAKE, MAX_BET = 2.0, 0.96
# A difference larger than this is rather a disturbed run than a change. The bet on it is smaller by this power of
# their ratio, because one such run must not cost what many pairs have won.
DISTURBED, DISTURBED_POWER = 2.0, 3
# The shares of the two kinds of bettors: few machines alternate.
SHARES = np.array([0.75, 0.25])


class OrderedPair(NamedTuple):
    """Two consecutive runs: `difference` is the second's logarithm less the first's, `time` the first's place
    among all runs, and `low` and `high` are the candidates."""

    low: int
    high: int
    time: int
    difference: float
    high_first: bool


class OrderedPairTest:
    """Takes pairs in the order of their runs. `evidence` is the wealth of bettors who began with 1 together: some
    for "high is above low" and some for "below", on the differences as they are and without the machine's
    alternation."""

    def __init__(self) -> None:
        self._pairs: list[OrderedPair] = []
        self._log_wealth = np.zeros((2, 2))

    def add(self, pair: OrderedPair, bet_on: bool = True) -> None:
        """A pair that is not bet on still shows how the machine alternates, and what a typical difference is."""
        self._pairs.append(pair)
        if not bet_on:
            return
        sign = -1.0 if pair.high_first else 1.0
        for bettor, differences in enumerate((self._differences, self._without_alternation())):
            typical = float(np.median(np.abs(differences)))
            if typical > SMALLEST:
                bet = _share_to_bet(sign * differences[-1] / typical)
                self._log_wealth[bettor] += np.log1p([bet, -bet])

    @property
    def evidence(self) -> float:
        return (self.evidence_toward(1) + self.evidence_toward(-1)) / 2

    def evidence_toward(self, sign: float) -> float:
        """The wealth of those who bet on this sign of high less low. It counts as evidence only if the sign was
        chosen before the first pair."""
        return float(SHARES @ np.exp(self._log_wealth[:, 0 if sign > 0 else 1]))

    @property
    def _differences(self) -> Values:
        return np.array([pair.difference for pair in self._pairs])

    def _without_alternation(self) -> Values:
        """The differences less what a machine adds to them that is slower in every second run. Which candidate ran
        first is not used, so the bets stay fair."""
        parities = np.array([1.0 - 2 * (pair.time % 2) for pair in self._pairs])
        without: Values = self._differences - parities * pseudomedian(parities * self._differences)
        return without


def _share_to_bet(difference: float) -> float:
    """Of the wealth, on the sign of a difference in units of the typical one."""
    bet = float(np.clip(np.tanh(STAKE * difference), -MAX_BET, MAX_BET))
    return bet * (DISTURBED / max(abs(difference), DISTURBED)) ** DISTURBED_POWER
