"""billow-ray as a package: its types are right, and its wheel has the command and the marker of types."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

from run_cases import run_cases

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "deploy/ray"


class Package(unittest.TestCase):
    def test_types_are_right(self):
        with tempfile.TemporaryDirectory() as cache:
            done = subprocess.run([sys.executable, "-m", "mypy", "--cache-dir", cache], cwd=PACKAGE, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_wheel_is_complete(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            source = shutil.copytree(PACKAGE, folder / "source", ignore=shutil.ignore_patterns("*.egg-info", "build", "__pycache__"))
            subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-index", "--no-deps", "--no-build-isolation",
                            "--disable-pip-version-check", "-w", folder, source], check=True, capture_output=True)
            (wheel,) = folder.glob("billow_ray-*.whl")
            files = {path.name for path in (PACKAGE / "src/billow_ray").iterdir() if path.suffix in (".py", ".typed")}
            with zipfile.ZipFile(wheel) as archive:
                names = archive.namelist()
                self.assertEqual({entry.split("/")[1] for entry in names if entry.startswith("billow_ray/")}, files)
                entry_points = archive.read(next(entry for entry in names if entry.endswith("entry_points.txt"))).decode()
        self.assertIn("billow-ray = billow_ray.cli:main", entry_points)


if __name__ == "__main__":
    run_cases()
