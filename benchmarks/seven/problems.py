"""The seven problems: what each commit did upstream, how it is re-created, and the metric that must show it."""

from typing import NamedTuple


class Problem(NamedTuple):
    """`pull` is the number of the pull request, and the name of the patch. `metric` is what is bisected: a count
    where one shows the problem, since a count has no noise."""

    pull: int
    issue: str
    patch: str
    workload: str
    metric: str


PROBLEMS = (
    Problem(
        85447,
        "break-chain API change, memory bloat",
        "a workspace for each caller is allocated beforehand and never freed",
        "small_recommender",
        "host_peak",
    ),
    Problem(
        61056,
        "duplicate error check",
        "the parameters of a distribution are checked twice",
        "small_actor",
        "synchronisations",
    ),
    Problem(
        65594,
        "optimization's device compatibility",
        "convolution, bias and activation fused into one product, which this device does slower",
        "small_vision",
        "operators",
    ),
    Problem(
        72148,
        "suboptimal library configuration",
        "too small a workspace cuts a product with bias into parts",
        "small_recommender",
        "operators",
    ),
    Problem(
        71904,
        "redundant bound checks",
        "every index of an embedding is compared with the size of its table",
        "small_recommender",
        "gross",
    ),
    Problem(
        65839,
        "template mismatch",
        "a product converts its factors to a wider type and its result back",
        "small_recommender",
        "bytes_copied",
    ),
    Problem(
        87855,
        "misused error handling",
        "a benign error that is thrown at every call collects a backtrace",
        "small_quantised",
        "gross",
    ),
)


def get_problem(pull: int) -> Problem:
    return next(problem for problem in PROBLEMS if problem.pull == pull)
