"""JUnit's XML: a test suite a case, a test a metric, a failure a regression. Every CI shows it."""

import re
from xml.etree import ElementTree

from tare.guard.changes import CaseChange, Report
from tare.report.changes import STATES, change_of, remark, uncompared, wrong_with
from tare.report.figures import before_and_now

# What XML 1.0 cannot hold, escaped or not.
FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def render(report: Report) -> str:
    root = ElementTree.Element("testsuites", name="tare check")
    total = failed = 0
    for case in report.cases:
        tests, failures = _suite(root, case)
        total, failed = total + tests, failed + failures
    for key, label in uncompared(report):
        _skipped(root, key, "compared", f"not compared, only in {label}")
        total += 1
    for line in report.forced:
        _skipped(root, "environment", "comparable", f"not comparable, and forced: {line}")
        total += 1
    root.set("tests", str(total))
    root.set("failures", str(failed))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _suite(root: ElementTree.Element, case: CaseChange) -> tuple[int, int]:
    suite = ElementTree.SubElement(root, "testsuite", name=_clean(case.case))
    tests = failures = 0
    whole = ElementTree.SubElement(suite, "testcase", classname=_clean(case.case), name="runs and is right")
    tests += 1
    if wrong := wrong_with(case):
        failures += 1
        _failure(whole, wrong.partition(":")[0], wrong)
    elif case.state == "failed":
        ElementTree.SubElement(whole, "skipped", message=_clean(f"{STATES['failed']}: {case.reason}"))
    elif case.reason:
        ElementTree.SubElement(whole, "system-out").text = _clean(case.reason)
    for leak in case.leaks:
        tests, failures = tests + 1, failures + 1
        one = ElementTree.SubElement(suite, "testcase", classname=_clean(case.case), name="leak")
        _failure(one, "leak", leak)
    for change in case.changes:
        tests += 1
        one = ElementTree.SubElement(suite, "testcase", classname=_clean(case.case), name=change.metric)
        told = f"{' to '.join(before_and_now(change))}, {change_of(change)}"
        if change.regression:
            failures += 1
            _failure(one, change.verdict, f"{change.verdict}: {told}; {remark(change)}")
        else:
            ElementTree.SubElement(one, "system-out").text = _clean(f"{change.verdict}: {told}")
    suite.set("tests", str(tests))
    suite.set("failures", str(failures))
    return tests, failures


def _skipped(root: ElementTree.Element, about: str, name: str, reason: str) -> None:
    suite = ElementTree.SubElement(root, "testsuite", name=_clean(about), tests="1", failures="0")
    test = ElementTree.SubElement(suite, "testcase", classname=_clean(about), name=name)
    ElementTree.SubElement(test, "skipped", message=_clean(reason))


def _failure(test: ElementTree.Element, kind: str, text: str) -> None:
    ElementTree.SubElement(test, "failure", type=_clean(kind), message=_clean(text)).text = _clean(text)


def _clean(text: str) -> str:
    return FORBIDDEN.sub("?", text)
