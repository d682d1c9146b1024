"""JUnit XML, which every CI shows: a case is a test suite, a metric a test, a regression a failure."""

import re
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from tare.guard.changes import CaseChange, Report
from tare.report.changes import before_and_now, change_of, only_in, remark, source_line, state_of, wrong_with
from tare.report.formats import comparison_format

# Characters that XML 1.0 cannot hold, escaped or not.
FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


@comparison_format("junit", "JUnit XML: a regression is a failed test")
def comparison_junit(report: Report) -> str:
    root = Element("testsuites", name="tare check")
    for case in report.cases:
        _suite(root, case)
    skipped = [(key, f"not compared, only in {label}") for label, keys in only_in(report).items() for key in keys]
    skipped += [(key, f"out of time after {measured}: undecided") for key, measured in report.unfinished.items()]
    skipped += [("environment", f"not comparable, and forced: {line}") for line in report.forced]
    for name, reason in skipped:
        _element(_test(_element(root, "testsuite", name=name), "compared"), "skipped", message=reason)
    for each in (*root, root):
        each.set("tests", str(len(each.findall(".//testcase"))))
        each.set("failures", str(len(each.findall(".//failure"))))
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _suite(root: Element, case: CaseChange) -> None:
    suite = _element(root, "testsuite", name=case.case)
    summary = _test(suite, "runs and is right")
    if wrong := wrong_with(case):
        _add_failure(summary, wrong.partition(":")[0], wrong)
    elif case.state == "failed":
        _element(summary, "skipped", message=state_of(case))
    elif told := "; ".join(filter(None, (source_line(case), case.reason))):
        _add_output(summary, told)
    for leak in case.leaks:
        _add_failure(_test(suite, "leak"), "leak", leak)
    for change in case.changes:
        test = _test(suite, change.metric)
        figures = f"{change.verdict}: {' to '.join(before_and_now(change))}, {change_of(change)}"
        if change.regression:
            _add_failure(test, change.verdict, f"{figures}; {remark(change)}")
        else:
            _add_output(test, figures)


def _test(suite: Element, name: str) -> Element:
    return _element(suite, "testcase", classname=suite.get("name", ""), name=name)


def _add_failure(test: Element, kind: str, text: str) -> None:
    _element(test, "failure", type=kind, message=text).text = _clean(text)


def _add_output(test: Element, text: str) -> None:
    _element(test, "system-out").text = _clean(text)


def _element(parent: Element, tag: str, **attributes: str) -> Element:
    return SubElement(parent, tag, {name: _clean(value) for name, value in attributes.items()})


def _clean(text: str) -> str:
    return FORBIDDEN.sub("?", text)
