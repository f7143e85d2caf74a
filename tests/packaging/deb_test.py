"""What is in the Debian package: files, modes, control data, licences, maintainer scripts."""
import os
import pathlib
import re
import stat
import subprocess
import tarfile
import tempfile
import unittest

import package_case
from package_case import ARGS, SOURCE, free_port, need, package, run, wait_ready

FILES = [
    "etc/billow/billow.toml", "etc/default/billow", "usr/bin/billow", "usr/lib/systemd/system/billow.service",
    "usr/lib/sysusers.d/billow.conf", "usr/share/bash-completion/completions/billow", "usr/share/doc/billow/NEWS.gz",
    "usr/share/doc/billow/changelog.gz", "usr/share/doc/billow/copyright", "usr/share/fish/vendor_completions.d/billow.fish",
    "usr/share/man/man1/billow.1.gz", "usr/share/man/man1/billow-serve.1.gz", "usr/share/zsh/vendor-completions/_billow"]


def system_calls(name):
    """The system calls of one of systemd's sets, @system-service, with those of the sets in it."""
    sets, calls = {}, None
    for line in run("systemd-analyze", "syscall-filter").stdout.splitlines():
        if line.startswith("@"):
            calls = sets.setdefault(line, [])
        elif line.startswith("    ") and not line.strip().startswith("#"):
            calls.append(line.strip())
    found, waiting, seen = set(), [name], set()
    while waiting:
        word = waiting.pop()
        if word in seen:
            continue
        seen.add(word)
        if word.startswith("@"):
            waiting += sets[word]
        else:
            found.add(word)
    return found


class Deb(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        need("dpkg-deb")
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.folder.name)
        run("dpkg-deb", "--raw-extract", package(), cls.root)
        archive = cls.root / "data.tar"
        with archive.open("wb") as file:
            subprocess.run(["dpkg-deb", "--fsys-tarfile", package()], stdout=file, check=True)
        with tarfile.open(archive) as files:
            cls.members = {member.name.removeprefix("./"): member for member in files.getmembers() if member.name != "."}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def field(self, name):
        return run("dpkg-deb", "--field", package(), name).stdout.strip()

    def test_has_the_files(self):
        for name in FILES:
            self.assertIn(name, self.members)
        self.assertFalse([name for name in self.members if name.endswith((".a", ".h", ".so"))])

    def test_files_belong_to_root_with_usual_modes(self):
        for name, member in self.members.items():
            expected = 0o755 if member.isdir() or name == "usr/bin/billow" else 0o644
            self.assertEqual((member.uid, member.gid, oct(stat.S_IMODE(member.mode))), (0, 0, oct(expected)), name)

    def test_program_is_stripped(self):
        self.assertNotIn("not stripped", run("file", self.root / "usr/bin/billow").stdout)

    def test_control_data(self):
        self.assertEqual(self.field("Package"), "billow")
        self.assertEqual(self.field("Architecture"), run("dpkg", "--print-architecture").stdout.strip())
        self.assertRegex(self.field("Maintainer"), r"^.+ <.+@.+>$")
        self.assertRegex(self.field("Depends"), r"\blibcurl4 \(>= ")

    def test_depends_on_the_package_of_each_linked_library(self):
        depends = re.findall(r"[a-z0-9.+-]+(?= \(|,|$)", self.field("Depends"))
        for line in run("readelf", "-d", self.root / "usr/bin/billow").stdout.splitlines():
            if "(NEEDED)" not in line:
                continue
            library = re.search(r"\[(.+)\]", line).group(1)
            owners = {owner.split(":")[0] for owner in run("dpkg", "-S", f"*/{library}").stdout.splitlines()}
            provided = run("dpkg-query", "-W", "-f", "${Provides}, ", *owners).stdout
            owners |= set(re.findall(r"[a-z0-9.+-]+(?= \(|,)", provided))
            self.assertTrue(owners & set(depends), f"{library} of {owners} is not in {depends}")

    def test_each_line_of_the_configuration_is_a_comment(self):
        names = (self.root / "DEBIAN/conffiles").read_text().split()
        self.assertEqual(names, ["/etc/default/billow", "/etc/billow/billow.toml"])
        for name in names:
            for line in (self.root / name.lstrip("/")).read_text().splitlines():
                self.assertRegex(line, r"^(#|$)", name)

    def test_server_takes_each_setting_of_the_configuration(self):
        lines = (self.root / "etc/billow/billow.toml").read_text().splitlines()
        settings = [line[1:] for line in lines if re.match(r"^#[a-z-]+ = ", line)]
        self.assertGreater(len(settings), 4)
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write("\n".join([*settings, "parallel = 0", ""]))
            file.flush()
            done = run(ARGS.billow, "serve", "--config", file.name, check=False, timeout=120)
        # Only the last setting, which the test adds, is refused.
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("--parallel", done.stdout)

    def test_variables_of_the_service_are_known(self):
        document = (SOURCE / "docs/operations.md").read_text()
        for name in re.findall(r"^#BILLOW_([A-Z_]+)=", (self.root / "etc/default/billow").read_text(), re.M):
            self.assertIn(f"`{'BILLOW_LOG' if name == 'LOG' else name}`", document)

    def test_scripts_are_plain_shell(self):
        need("shellcheck")
        for name in ("postinst", "prerm", "postrm"):
            script = self.root / "DEBIAN" / name
            self.assertEqual(stat.S_IMODE(script.stat().st_mode), 0o755)
            run("shellcheck", "-s", "sh", script)

    def test_copyright_names_each_library(self):
        text = (self.root / "usr/share/doc/billow/copyright").read_text()
        crates = set(re.findall(r'^name = "(.+)"', (SOURCE / "bridge/Cargo.lock").read_text(), re.M)) - {"billow_bridge"}
        for crate in crates:
            self.assertIn(f"\nFiles: rust/{crate}/*\n", text)
        page = pathlib.Path(ARGS.build) / "src/web/page/licences.txt"
        if page.exists():
            for library in re.findall(r"^(\S+) [0-9.]+ \(", page.read_text(), re.M):
                self.assertIn(f"\nFiles: web/{library}/*\n", text)
        used = {word for line in re.findall(r"^License: (.+)", text, re.M) for word in re.split(r" (?:or|and) ", line)}
        described = set(re.findall(r"^License: (\S+)\n ", text, re.M))
        self.assertEqual(used, described)

    def test_lintian_finds_nothing(self):
        need("lintian")
        found = run("lintian", "--allow-root", "--fail-on", "none", package()).stdout
        self.assertEqual([line for line in found.splitlines() if line[:2] in ("E:", "W:")], [])

    def test_unit_is_valid(self):
        need("systemd-analyze")
        with tempfile.TemporaryDirectory() as folder:
            unit = pathlib.Path(folder) / "billow.service"
            text = (self.root / "usr/lib/systemd/system/billow.service").read_text()
            self.assertIn("ExecStart=/usr/bin/billow serve\n", text)
            # The user and the pages of the manual exist only after the installation.
            text = re.sub(r"^(User|Group)=.*\n", "", re.sub(r"^Documentation=.*\n", "", text, flags=re.M), flags=re.M)
            unit.write_text(text.replace("/usr/bin/billow", ARGS.billow))
            done = run("systemd-analyze", "verify", "--man=no", unit, check=False)
        wrong = [line for line in done.stdout.splitlines() if "billow.service" in line]
        self.assertEqual(wrong, [])
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_unit_allows_the_system_calls_of_server_and_runner(self):
        need("pkill", "strace", "systemd-analyze")
        unit = (self.root / "usr/lib/systemd/system/billow.service").read_text()
        (allowed,) = re.findall(r"^SystemCallFilter=(@[a-z-]+)$", unit, re.M)
        with tempfile.TemporaryDirectory() as folder:
            home = pathlib.Path(folder)
            run(ARGS.make_models, home)
            (home / "Modelfile").write_text(f"FROM {sorted(home.glob('llama*.gguf'))[0]}\n")
            port = free_port()
            environment = {"PATH": os.environ["PATH"], "HOME": folder, "BILLOW_HOST": f"127.0.0.1:{port}"}
            with (home / "log").open("w+") as log:
                server = subprocess.Popen(["strace", "-f", "-qq", "-o", home / "calls", ARGS.billow, "serve"], env=environment,
                                          stdin=subprocess.DEVNULL, stdout=log, stderr=log)
                try:
                    wait_ready(port, server, log)
                    run(ARGS.billow, "create", "m", env=environment, cwd=folder)
                    run(ARGS.billow, "run", "m", "Hello", env=environment)
                finally:
                    run("pkill", "-TERM", "-P", str(server.pid), check=False)
                    server.wait(timeout=60)
            called = set(re.findall(r"^\d+ +([a-z0-9_]+)\(", (home / "calls").read_text(), re.M))
        self.assertGreater(len(called), 40)
        self.assertEqual(called - system_calls(allowed), set())

    def test_service_stops_later_than_its_requests(self):
        unit = (self.root / "usr/lib/systemd/system/billow.service").read_text()
        self.assertGreater(int(re.search(r"^TimeoutStopSec=(\d+)$", unit, re.M).group(1)), 5 + 30)

    def test_install_target_keeps_changed_configuration(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "etc/default").mkdir(parents=True)
            (root / "etc/default/billow").write_text("BILLOW_HOST=0.0.0.0\n")
            run("make", "-C", SOURCE, "install", f"DESTDIR={root}", "prefix=/opt/billow", f"BUILD={ARGS.build}")
            self.assertEqual((root / "etc/default/billow").read_text(), "BILLOW_HOST=0.0.0.0\n")
            self.assertTrue((root / "etc/billow/billow.toml").exists())
            self.assertTrue((root / "opt/billow/share/zsh/site-functions/_billow").exists())
            unit = (root / "opt/billow/lib/systemd/system/billow.service").read_text()
            self.assertIn("ExecStart=/opt/billow/bin/billow serve\n", unit)
            self.assertEqual(run(root / "opt/billow/bin/billow", "version").stdout, run(ARGS.billow, "version").stdout)


if __name__ == "__main__":
    package_case.main()
