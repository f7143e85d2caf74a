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
            'add_test("Short.*" "/bin/test_program" "--gtest_filter=Short.*" "--gtest_output=xml:/cases/test_program/Short._.xml")\n'
            'set_tests_properties("Short.*" PROPERTIES "LABELS" "unit")\n'
            'add_test("All/Long.1" "/bin/test_program" "--gtest_filter=All/Long.Case/0:All/Long.Case/1" "--gtest_output=xml:/cases/test_program/All_Long.1.xml")\n'
            'set_tests_properties("All/Long.1" PROPERTIES "LABELS" "unit")\n'
            'add_test("All/Long.2" "/bin/test_program" "--gtest_filter=All/Long.Case/2" "--gtest_output=xml:/cases/test_program/All_Long.2.xml")\n'
            'set_tests_properties("All/Long.2" PROPERTIES "LABELS" "unit")\n'))

    def test_each_case_can_have_a_process(self):
        names = [line.split('"')[1] for line in self.discover(1).splitlines() if line.startswith("add_test")]
        self.assertEqual(names, ["Short.A", "All/Long.Case/0", "All/Long.Case/1", "All/Long.Case/2"])


class Summary(unittest.TestCase):
    def summarise(self, statuses, cases, output=None):
        """statuses: of each ctest; cases: for each file, the elements of its test cases; output: what each ctest printed. A key
        of cases is NAME or PROGRAM/NAME. A key of statuses ends with spaces if another one has the same name."""
        with tempfile.TemporaryDirectory() as folder:
            results = pathlib.Path(folder, "results.xml")
            results.write_text("<testsuite>" + "".join(
                f'<testcase name="{name.strip()}" status="{status}" time="{len(name)}"><system-out>{(output or {}).get(name, "output of " + name)}</system-out></testcase>'
                for name, status in statuses.items()) + "</testsuite>")
            for name, rows in cases.items():
                path = pathlib.Path(folder, (name if "/" in name else "program/" + name) + ".xml")
                path.parent.mkdir(exist_ok=True)
                path.write_text(rows)
            run = subprocess.run([ROOT / "tools/summarise_tests.py", results, folder], stdout=subprocess.PIPE, text=True, check=True)
            return run.stdout

    @staticmethod
    def suite(*kinds):
        rows = {"passed": '<testcase classname="S" name="passes" result="completed"/>',
                "failed": '<testcase classname="S" name="fails" result="completed"><failure/></testcase>',
                "skipped": '<testcase classname="S" name="skips" result="skipped"><skipped message="/a/b_test.cpp:12&#x0A;no model&#x0A;"/></testcase>'}
        return "<testsuites><testsuite>" + "".join(rows[kind] for kind in kinds) + "</testsuite></testsuites>"

    def test_cases_are_counted_instead_of_programs(self):
        out = self.summarise({"S.*": "run", "script": "run", "absent": "notrun"}, {"S._": self.suite("passed", "passed", "skipped")})
        self.assertEqual(out, "skipped: S.skips: no model\nskipped: absent: no reason is known\n\nthe ten slowest tests:\n     6 s  script (results)\n     6 s  absent (results)\n"
                              "     3 s  S.* (results)\n3 passed, 0 failed, 2 skipped\n")

    def test_skipped_parts_of_other_tests_are_counted_with_their_reasons(self):
        out = self.summarise({"parts": "run", "all": "notrun", "plain": "notrun"}, {}, {
            "parts": "skipped: A.a: no zsh: install it\nok\nskipped: A.b (x=1): no fish\nskipped: setUpClass (__main__.B): no fish\n",
            "all": "skipped: A.a: no model\n",
            "plain": "skipped: no program at /a/b\n"})
        self.assertEqual(out.split("\n\n")[0], "skipped: parts: A.a: no zsh: install it\nskipped: parts: 2 cases: no fish\n"
                                               "skipped: all: A.a: no model\nskipped: plain: no program at /a/b")
        self.assertTrue(out.endswith("\n1 passed, 0 failed, 5 skipped\n"), out)

    def test_failed_cases_and_their_output_are_shown(self):
        out = self.summarise({"S/0.1": "fail"}, {"S_0.1": self.suite("passed", "failed", "failed")})
        self.assertIn("output of S/0.1", out)
        self.assertTrue(out.endswith("1 passed, 2 failed, 0 skipped\n"), out)

    def test_programs_can_have_suites_of_the_same_name(self):
        for statuses in ({"S.*": "fail", "S.* ": "run"}, {"S.*": "run", "S.* ": "fail"}):
            out = self.summarise(statuses, {"a/S._": self.suite("passed", "failed"), "b/S._": self.suite("passed", "passed", "passed")})
            self.assertTrue(out.endswith("\n4 passed, 1 failed, 0 skipped\n"), out)

    def test_a_crash_is_a_failure(self):
        for cases in ({}, {"S._": "<testsuites><testsu"}, {"S._": self.suite("passed")}):
            out = self.summarise({"S.*": "fail"}, cases)
            self.assertIn(", 1 failed, 0 skipped", out)

    def test_a_program_without_results_counts_as_one_test(self):
        self.assertTrue(self.summarise({"S.*": "run"}, {}).endswith("\n1 passed, 0 failed, 0 skipped\n"))


class Skips(unittest.TestCase):
    """The status and the output of test programs that skip cases."""

    def run_program(self, *cases):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "a_test.py")
            program.write_text("import unittest\nfrom run_cases import run_cases\n\nclass A(unittest.TestCase):\n"
                               + "".join(f"    {case}\n" for case in cases) + "\nrun_cases()\n")
            environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests/server"), "PYTHONDONTWRITEBYTECODE": "1"}
            done = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True)
            return done.returncode, done.stdout

    PASSES = "def test_passes(self): pass"
    FAILS = "def test_fails(self): self.fail()"
    SKIPS = "def test_skips(self): self.skipTest('no zsh')"

    def test_a_skipped_part_shows_its_reason(self):
        self.assertEqual(self.run_program(self.PASSES, self.SKIPS), (0, "skipped: A.test_skips: no zsh\n"))
        self.assertEqual(self.run_program(self.FAILS, self.SKIPS), (1, "skipped: A.test_skips: no zsh\n"))
        self.assertEqual(self.run_program(self.PASSES), (0, ""))

    def test_a_program_that_skips_everything_is_skipped(self):
        self.assertEqual(self.run_program(self.SKIPS), (77, "skipped: A.test_skips: no zsh\n"))
        self.assertEqual(self.run_program("@unittest.skip('no fish')", self.PASSES), (77, "skipped: A.test_passes: no fish\n"))
        whole = self.run_program("@classmethod", "def setUpClass(cls): raise unittest.SkipTest('no root')", self.PASSES, self.SKIPS)
        self.assertEqual(whole, (77, "skipped: setUpClass (__main__.A): no root\n"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
