"""The portable tarball: what it has, which glibc it needs, and that it runs on Debian 11, whose glibc is 2.31."""
import contextlib
import hashlib
import http.server
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile
import threading
import unittest

import package_case
from package_case import ARGS, CACHE, SOURCE, Userland, free_port, get, need, run

GLIBC = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2"}
FLOOR = (2, 28)


class NotFound(http.server.BaseHTTPRequestHandler):
    asked = []

    def do_GET(self):
        self.asked.append(self.path)
        self.send_error(404)

    do_HEAD = do_GET

    def log_message(self, *arguments):
        pass


def runners_in(userland):
    """The process ids of the runners whose root folder is the userland."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if b"runner" in words and (process / "root").readlink() == userland.root:
                found.append(process.name)
    return found


class Portable(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        need("objdump", "readelf", "ninja")
        for part in ("zig", "prometheus-cpp"):
            if not (CACHE / "portable" / part / "stamp").exists():
                raise unittest.SkipTest(f"no {CACHE / 'portable' / part}; tools/setup portable installs it")
        cls.folder = tempfile.TemporaryDirectory()
        cls.output = pathlib.Path(cls.folder.name)
        run(SOURCE / "packaging/portable/tarball", ARGS.build, cls.output, env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"})
        (cls.tarball,) = cls.output.glob("billow-*-linux-x86_64.tar.gz")
        with tarfile.open(cls.tarball) as archive:
            cls.members = archive.getmembers()
            archive.extractall(cls.output)
        cls.root = cls.output / cls.tarball.name.removesuffix(".tar.gz")
        cls.billow = cls.root / "bin/billow"

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_has_the_files_and_their_checksum(self):
        for name in ("bin/billow", "share/man/man1/billow.1.gz", "share/doc/billow/copyright", "share/doc/billow/LICENSE",
                     "share/bash-completion/completions/billow"):
            self.assertTrue((self.root / name).is_file(), name)
        licences = (self.root / "share/doc/billow/THIRD_PARTY.txt").read_text()
        for library in ("openssl", "pcre2", "prometheus-cpp", "gcc-12"):
            self.assertRegex(licences, rf"\n{library} \d")
        digest = hashlib.sha256(self.tarball.read_bytes()).hexdigest()
        self.assertEqual(pathlib.Path(f"{self.tarball}.sha256").read_text(), f"{digest}  {self.tarball.name}\n")

    def test_files_have_fixed_owners_times_and_modes(self):
        for member in self.members:
            self.assertEqual((member.uid, member.gid, member.mtime), (0, 0, 1700000000), member.name)
            self.assertEqual(member.mode, 0o755 if member.isdir() or member.name.endswith("bin/billow") else 0o644, member.name)

    def test_needs_glibc_2_28_and_no_other_library(self):
        needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", run("readelf", "-d", self.billow).stdout))
        self.assertEqual(needed - GLIBC, set())
        symbols = run("objdump", "-T", self.billow).stdout
        versions = {tuple(map(int, version.split("."))) for version in re.findall(r"\(?GLIBC_([0-9.]+)\)?", symbols)}
        self.assertGreater(len(versions), 5)
        self.assertLessEqual(max(versions), FLOOR)
        self.assertNotIn("GLIBCXX", symbols)

    def test_shows_none_of_its_functions_to_loaded_libraries(self):
        defined = [line.split()[-1] for line in run("objdump", "-T", self.billow).stdout.splitlines()
                   if re.match(r"^[0-9a-f]{16} ", line) and "*UND*" not in line]
        self.assertEqual([name for name in defined if name not in ("stdin", "stdout", "stderr", "__environ")], [])

    def test_is_protected_like_other_programs(self):
        headers = run("readelf", "-lWd", self.billow).stdout
        self.assertIn("GNU_RELRO", headers)
        self.assertRegex(headers, r"GNU_STACK.* RW ")
        self.assertRegex(headers, r"\bNOW\b")
        self.assertIn("DYN (Position-Independent", run("readelf", "-hW", self.billow).stdout)
        self.assertIn("Build ID:", run("readelf", "-n", self.billow).stdout)

    def test_runs_here(self):
        self.assertEqual(run(self.billow, "version").stdout, run(ARGS.billow, "version").stdout)

    def test_passes_its_environment_variables_to_its_children(self):
        words = ["with-parent", "--without", "LOST_", "--set", "NEW=2", "--", "/usr/bin/env"]
        printed = run(self.billow, *words, env={"KEPT": "1", "LOST_A": "1", "LOST_B": "1"}).stdout
        self.assertEqual(sorted(printed.split()), ["KEPT=1", "NEW=2"])

    def test_runs_on_debian_11(self):
        debian = Userland("bullseye")
        self.addCleanup(debian.close)
        shutil.copy(self.billow, debian.root / "usr/bin/billow")
        with tempfile.TemporaryDirectory() as models:
            subprocess.run([ARGS.make_models, models], check=True, capture_output=True)
            shutil.copy(sorted(pathlib.Path(models).glob("llama*.gguf"))[0], debian.root / "root/m.gguf")
        self.assertIn(" 2.31\n", debian.run("sh", "-c", "ldd --version | head -n 1").stdout)
        # An exception goes through the unwinder, which finds its tables without _dl_find_object.
        refused = debian.run("billow", "inspect", "/etc/passwd", check=False)
        self.assertEqual((refused.returncode, refused.stdout), (1, "billow: error: /etc/passwd: not a GGUF file\n"))
        debian.run("apt-get", "install", "-y", "--no-download", "--no-install-recommends", "libcurl4")

        registry = http.server.ThreadingHTTPServer(("127.0.0.1", 0), NotFound)
        threading.Thread(target=registry.serve_forever, daemon=True).start()
        self.addCleanup(registry.server_close)
        self.addCleanup(registry.shutdown)
        port = free_port()
        client = {"BILLOW_HOST": f"127.0.0.1:{port}"}
        server = ["billow", "serve", "--registry-mirror", f"http://127.0.0.1:{registry.server_port}"]
        with debian.server(port, *server, env={**client, "BILLOW_LOG": "warn", "BILLOW_ISA": "avx2"}):
            debian.run("sh", "-c", "cd /root && echo FROM ./m.gguf >Modelfile && billow create m", env=client)
            self.assertTrue(debian.run("billow", "run", "m", "Hello", env=client).stdout)
            self.assertIn('"models":[{', get(port, "/api/ps")[1])
            (runner,) = runners_in(debian)
            self.assertIn(b"BILLOW_ISA=avx2", pathlib.Path(f"/proc/{runner}/environ").read_bytes().split(b"\0"))
            # Libcurl 7.74 sends the request; the registry has no such model.
            self.assertNotIn("unknown option", debian.run("billow", "pull", "nothing", check=False, env=client).stdout)
            self.assertEqual(NotFound.asked, ["/v2/library/nothing/manifests/latest"])


if __name__ == "__main__":
    package_case.main()
