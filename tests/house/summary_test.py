"""Tests how tests are found and counted: cmake/discover_tests.py and tools/summarise_tests.py."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LISTING = """Running main() from somewhere.cc
Short.
  A
  DISABLED_B
DISABLED_Suite.
  A
OnlyDisabled.
  DISABLED_A
All/Long.  # TypeParam = int
  Case/0  # GetParam() = "x.y"
  Case/1  # GetParam() = "z"
  Case/2  # GetParam() = "z"
"""


class Discovery(unittest.TestCase):
    def discover(self, n_max):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "bin", "test_program")
            program.parent.mkdir()
            program.write_text(f"#!/bin/sh\ncat <<'END'\n{LISTING}END\n")
            program.chmod(0o755)
            output = os.path.join(folder, "tests.cmake")
            subprocess.run([ROOT / "cmake/discover_tests.py", program, output, str(n_max), "LABELS", "unit"], check=True)
            text = pathlib.Path(output).read_text()
            return text.replace(folder, "")

    def test_cases_of_a_suite_share_a_process(self):
        self.assertEqual(self.discover(2), (
            'add_test("Short.*" "/bin/test_program" "--gtest_filter=Short.*" "--gtest_output=xml:/cases/Short._.xml")\n'
            'set_tests_properties("Short.*" PROPERTIES "LABELS" "unit")\n'
            'add_test("All/Long.1" "/bin/test_program" "--gtest_filter=All/Long.Case/0:All/Long.Case/1" "--gtest_output=xml:/cases/All_Long.1.xml")\n'
            'set_tests_properties("All/Long.1" PROPERTIES "LABELS" "unit")\n'
            'add_test("All/Long.2" "/bin/test_program" "--gtest_filter=All/Long.Case/2" "--gtest_output=xml:/cases/All_Long.2.xml")\n'
            'set_tests_properties("All/Long.2" PROPERTIES "LABELS" "unit")\n'))

    def test_each_case_can_have_a_process(self):
        names = [line.split('"')[1] for line in self.discover(1).splitlines() if line.startswith("add_test")]
        self.assertEqual(names, ["Short.A", "All/Long.Case/0", "All/Long.Case/1", "All/Long.Case/2"])


class Summary(unittest.TestCase):
    def summarise(self, statuses, cases):
        """statuses: of each ctest; cases: for each file, the elements of its test cases."""
        with tempfile.TemporaryDirectory() as folder:
            results = pathlib.Path(folder, "results.xml")
            results.write_text("<testsuite>" + "".join(
                f'<testcase name="{name}" status="{status}" time="{len(name)}"><system-out>output of {name}</system-out></testcase>'
                for name, status in statuses.items()) + "</testsuite>")
            for name, rows in cases.items():
                pathlib.Path(folder, name + ".xml").write_text(rows)
            run = subprocess.run([ROOT / "tools/summarise_tests.py", results, folder], stdout=subprocess.PIPE, text=True, check=True)
            return run.stdout

    @staticmethod
    def suite(*kinds):
        rows = {"passed": '<testcase classname="S" name="passes" result="completed"/>',
                "failed": '<testcase classname="S" name="fails" result="completed"><failure/></testcase>',
                "skipped": '<testcase classname="S" name="skips" result="skipped"><skipped/></testcase>'}
        return "<testsuites><testsuite>" + "".join(rows[kind] for kind in kinds) + "</testsuite></testsuites>"

    def test_cases_are_counted_instead_of_programs(self):
        out = self.summarise({"S.*": "run", "script": "run", "absent": "notrun"}, {"S._": self.suite("passed", "passed", "skipped")})
        self.assertEqual(out, "skipped: S.skips\n\nthe ten slowest tests:\n     6 s  script (results)\n     6 s  absent (results)\n"
                              "     3 s  S.* (results)\n3 passed, 0 failed, 2 skipped\n")

    def test_failed_cases_and_their_output_are_shown(self):
        out = self.summarise({"S/0.1": "fail"}, {"S_0.1": self.suite("passed", "failed", "failed")})
        self.assertIn("output of S/0.1", out)
        self.assertTrue(out.endswith("1 passed, 2 failed, 0 skipped\n"), out)

    def test_a_crash_is_a_failure(self):
        for cases in ({}, {"S._": "<testsuites><testsu"}, {"S._": self.suite("passed")}):
            out = self.summarise({"S.*": "fail"}, cases)
            self.assertIn(", 1 failed, 0 skipped", out)

    def test_a_program_without_results_counts_as_one_test(self):
        self.assertTrue(self.summarise({"S.*": "run"}, {}).endswith("\n1 passed, 0 failed, 0 skipped\n"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
