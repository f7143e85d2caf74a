"""Runs the cases of a test program, like unittest.main(), and shows which were skipped and why.

Prints "skipped: CASE: REASON" for each skipped case, which tools/summarise_tests.py shows, too. The status is 77 if there
were only skipped cases.
"""

import sys
import unittest

SKIPPED = 77


class Result(unittest.TextTestResult):
    n_passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.n_passed += 1

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        self.n_passed += err is None


class Runner(unittest.TextTestRunner):
    resultclass = Result


def run_cases(arguments=(), verbosity=2):
    """Runs the cases of the main module; `arguments` are those of unittest. Never returns."""
    result = unittest.main(module="__main__", argv=[sys.argv[0], *arguments], verbosity=verbosity, exit=False, testRunner=Runner).result
    for case, reason in result.skipped:
        print(f"skipped: {case.id().removeprefix('__main__.')}: {reason}")
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(SKIPPED if result.skipped and result.n_passed == 0 else 0)
