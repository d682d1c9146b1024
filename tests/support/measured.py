"""The command that a bisection under test measures with. Run as a script: a candidate's figure, with seeded noise.

    python measured.py COUNTS NOISE COST

COUNTS is a file to which each run adds a line: the test counts runs there, and the noise differs from run to run.
COST is a figure, or a file that holds one; 'broken' in its place makes the run fail. The environment may say after
how many runs the bisection is to be killed, by the real signal.
"""

import os
import random
import signal
import sys
from pathlib import Path


def main() -> None:
    counts, noise, cost = Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
    text = Path(cost).read_text().strip() if Path(cost).exists() else cost
    if text == "broken":
        sys.exit("this candidate is broken")
    label = os.environ.get("TARE_LABEL", "")
    with counts.open("a") as file:
        file.write(f"{label}\n")
    run = len(counts.read_text().splitlines())
    if run == int(os.environ.get("KILL_AT", "-1")):
        os.kill(os.getppid(), signal.SIGKILL)
    value = float(text) * (1 + random.Random(f"{label} {run}").gauss(0, noise))
    print(f'some words first\n{{"value": {value}, "kernels": {round(100 * float(text))}}}')


if __name__ == "__main__":
    main()
