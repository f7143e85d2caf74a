"""Makes the Debian package twice from the build: the bytes are the same. The other tests use the first one."""
import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import package_case
from package_case import ARGS, SOURCE, need, run


def make_package(folder):
    epoch = run("git", "-C", SOURCE, "log", "-1", "--format=%ct", check=False).stdout.strip() or "1"
    with tempfile.TemporaryDirectory() as work:
        run("cpack", "-G", "DEB", "--config", pathlib.Path(ARGS.build) / "CPackConfig.cmake", "-B", work,
            "-D", f"CPACK_PACKAGE_DIRECTORY={work}", "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip", cwd=ARGS.build,
            env={**os.environ, "SOURCE_DATE_EPOCH": epoch})
        (made,) = pathlib.Path(work).glob("*.deb")
        return shutil.copy(made, folder)


class PackageBuild(unittest.TestCase):
    def test_makes_the_same_bytes_twice(self):
        need("cpack", "dpkg-shlibdeps", "file")
        folder = pathlib.Path(ARGS.packages)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        first = make_package(folder)
        with tempfile.TemporaryDirectory() as other:
            second = make_package(other)
            digests = [hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest() for path in (first, second)]
            differences = subprocess.run(["cmp", "-l", first, second], capture_output=True, text=True, check=False).stdout
        self.assertEqual(digests[0], digests[1], differences[:500])


if __name__ == "__main__":
    package_case.main()
