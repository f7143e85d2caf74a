"""The Debian package in a Debian 12 without systemd: installed by apt, run as the unit runs it, removed, purged. And what its
scripts do on a machine with systemd, by programs that stand in for systemd's and write down their arguments."""
import pathlib
import re
import shutil
import socket
import sys
import unittest

import package_case
from package_case import ARGS, Userland, free_port, get, package, run

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1] / "server"))
import registry

# Files that any package changes.
SHARED = re.compile(r"^(var/(lib/(dpkg|apt|systemd|pam)|cache|log)|etc/(passwd|shadow|group|gshadow|subuid|subgid)-?$|tmp|root|proc|dev|usr/local/sbin|run)")
STAND_INS = {
    "systemctl": 'echo "systemctl $*" >>/root/calls; case "$*" in *is-active*) [ -e /root/active ];; esac',
    "deb-systemd-invoke": 'echo "invoke $*" >>/root/calls',
    "systemd-sysusers": 'echo "sysusers $*" >>/root/calls'}


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.debian = Userland("bookworm")
        cls.root = cls.debian.root
        cls.addClassCleanup(cls.debian.close)
        shutil.copy(package(), cls.root / "root/billow.deb")
        cls.before = cls.files()
        cls.installation = cls.debian.run("apt-get", "install", "-y", "--no-install-recommends",
                                          "-o", "APT::Sandbox::User=root", "/root/billow.deb").stdout

    @classmethod
    def files(cls):
        names = (str(path.relative_to(cls.root)) for path in cls.root.rglob("*"))
        return {name for name in names if not SHARED.match(name)}

    def script(self, name, *words):
        as_dpkg = {"DPKG_MAINTSCRIPT_PACKAGE": "billow", "DPKG_MAINTSCRIPT_NAME": name}
        return self.debian.run(f"/var/lib/dpkg/info/billow.{name}", *words, env=as_dpkg).stdout

    def unit(self):
        return (self.root / "usr/lib/systemd/system/billow.service").read_text()

    def service_environment(self):
        """The variables that systemd would set."""
        words = " ".join(re.findall(r"^Environment=(.+)$", self.unit(), re.M)).split()
        lines = (self.root / "etc/default/billow").read_text().splitlines()
        words += [line for line in lines if line and not line.startswith("#")]
        return {"HOME": "/var/lib/billow", **dict(word.split("=", 1) for word in words)}

    def test_1_apt_installs_it_with_its_dependencies(self):
        self.assertIn("Setting up billow", self.installation)
        self.assertNotIn("warning", self.installation.lower())
        self.assertRegex(self.debian.run("billow", "version").stdout, r"^billow \d")
        passwd = self.debian.run("getent", "passwd", "billow").stdout
        self.assertRegex(passwd, r"^billow:x:\d+:\d+:Billow:/var/lib/billow:/usr/sbin/nologin\n$")
        self.assertTrue((self.root / "etc/systemd/system/multi-user.target.wants/billow.service").is_symlink())

    def test_2_runs_as_the_unit_runs_it(self):
        port = free_port()
        with (self.root / "etc/default/billow").open("a") as file:
            file.write(f"BILLOW_HOST=127.0.0.1:{port}\n")
        (command,) = re.findall(r"^ExecStart=(.+)$", self.unit(), re.M)
        for folder in ("var/lib/billow", "run/billow"):
            self.debian.run("install", "-d", "-m", "0750", "-o", "billow", "-g", "billow", f"/{folder}")
        as_user = ["setpriv", "--reuid=billow", "--regid=billow", "--clear-groups", "--no-new-privs"]
        with self.debian.server(port, *as_user, "sh", "-c", f"umask 0077; exec {command}", env=self.service_environment()):
            self.assertEqual(get(port, "/readyz")[0], 200)
            self.assertEqual(get(port, "/api/tags"), (200, '{"models":[]}'))
            self.assertRegex(self.debian.run("billow", "list", env={"BILLOW_HOST": f"127.0.0.1:{port}"}).stdout, "^NAME")
            self.expect_first_steps(port)
        self.assertTrue((self.root / "var/lib/billow").is_dir())

    def expect_first_steps(self, port):
        """What a user does after the installation: open the page, pull a model, chat. The model comes from docker-registry."""
        status, page = get(port, "/ui/")
        self.assertEqual((status, "<title>Billow" in page), (200, True), page[:200])
        if not pathlib.Path(registry.PROGRAM).exists():
            raise unittest.SkipTest(f"no {registry.PROGRAM}; tools/setup installs it")
        models = self.root / "root/models"
        models.mkdir()
        run(ARGS.make_models, models, "--to-serve")
        (models / "Modelfile").write_text("FROM /root/models/writer.gguf\nPARAMETER num_predict 8\n")
        server = registry.Registry(pathlib.Path(self.debian.folder.name + "-registry"))
        self.addCleanup(shutil.rmtree, server.data.parent)
        self.addCleanup(server.stop)
        name = f"{server.host}/me/tiny"

        def billow(*words):
            return self.debian.run("billow", *words, env={"BILLOW_HOST": f"127.0.0.1:{port}"}).stdout

        billow("create", name, "-f", "/root/models/Modelfile")
        billow("push", "--insecure", name)
        billow("rm", name)
        self.assertNotIn("tiny", billow("list"))
        billow("pull", "--insecure", name)
        self.assertIn("tiny", billow("list"))
        self.assertNotEqual(billow("run", name, "Hello").strip(), "")
        billow("rm", name)

    def test_3_with_systemd_the_service_is_enabled_and_started(self):
        for name, text in STAND_INS.items():
            path = self.root / "usr/local/sbin" / name
            path.write_text(f"#!/bin/sh\n{text}\n")
            path.chmod(0o755)
        (self.root / "run/systemd/system").mkdir(parents=True)
        (self.root / "etc/default/billow").write_text(f"BILLOW_HOST=127.0.0.1:{free_port()}\n")
        self.assertEqual(self.script("postinst", "configure"), "")
        self.assertEqual(self.calls(), ["sysusers billow.conf", "systemctl --system daemon-reload",
                                        "systemctl --quiet is-active billow.service", "invoke start billow.service"])

    def test_4_does_not_start_where_another_program_has_the_port(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            (self.root / "etc/default/billow").write_text(f'BILLOW_HOST="0.0.0.0:{port}"\n')
            self.assertIn(f"another program listens on port {port}", self.script("postinst", "configure"))
        self.assertNotIn("invoke start billow.service", self.calls())

    def test_5_an_upgrade_restarts_a_running_service_only(self):
        self.script("postinst", "configure", "0.0.9")
        self.assertFalse([call for call in self.calls() if call.startswith("invoke")])
        (self.root / "root/active").touch()
        self.script("prerm", "upgrade", "0.2.0")
        self.script("postinst", "configure", "0.0.9")
        self.assertIn("invoke restart billow.service", self.calls())
        self.assertEqual(self.script("prerm", "remove"), "")
        self.assertEqual(self.calls(), ["invoke stop billow.service"])

    def test_5b_an_installation_after_a_removal_starts_the_service(self):
        (self.root / "root/active").unlink()
        masked = self.root / "var/lib/systemd/deb-systemd-helper-masked/billow.service"
        masked.parent.mkdir(parents=True, exist_ok=True)
        masked.touch()
        (self.root / "etc/default/billow").write_text(f"BILLOW_HOST=127.0.0.1:{free_port()}\n")
        self.assertEqual(self.script("postinst", "configure", "0.0.9"), "")
        self.assertIn("invoke start billow.service", self.calls())
        masked.unlink(missing_ok=True)

    def test_6_remove_keeps_the_configuration(self):
        shutil.rmtree(self.root / "run/systemd")
        for name in STAND_INS:
            (self.root / "usr/local/sbin" / name).unlink()
        self.debian.run("apt-get", "remove", "-y", "billow")
        self.assertFalse((self.root / "usr/bin/billow").exists())
        self.assertTrue((self.root / "etc/billow/billow.toml").exists())
        self.assertTrue((self.root / "var/lib/billow").exists())

    def test_7_purge_keeps_models(self):
        manifest = self.root / "var/lib/billow/models/manifests/registry.example/library/m/latest"
        manifest.parent.mkdir(parents=True)
        manifest.write_text("{}")
        self.assertIn("has models and stays", self.script("postrm", "purge"))
        self.assertTrue(manifest.exists())
        manifest.unlink()

    def test_8_purge_leaves_nothing(self):
        done = self.debian.run("apt-get", "purge", "-y", "billow")
        self.assertIn("Purging configuration files for billow", done.stdout)
        self.debian.run("apt-get", "autoremove", "-y", "--purge")
        self.assertEqual(sorted(self.files() - self.before), [])

    def calls(self):
        path = self.root / "root/calls"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines


if __name__ == "__main__":
    package_case.main()
