"""Says the result in the words of the project's other test programs, which `wirepath-check` counts."""

import sys

sys.dont_write_bytecode = True  # nothing is left in the source


def pytest_terminal_summary(terminalreporter):
    def count(*kinds):
        return sum(len(terminalreporter.stats.get(kind, [])) for kind in kinds)

    failed = count("failed", "error")
    verdict = "FAILED" if failed else "ok"
    for report in terminalreporter.stats.get("failed", []) + terminalreporter.stats.get("error", []):
        print(f"\ntest {report.nodeid} ... FAILED", end="")
    print(f"\ntest result: {verdict}. {count('passed')} passed; {failed} failed; {count('skipped')} ignored")
