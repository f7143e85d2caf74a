"""Tests pulls and pushes with Debian's docker-registry: plain, with TLS, with passwords and with tokens.

  registry_test.py --billow PROGRAM [NAME...]
"""

import base64
import http.client
import json
import subprocess
import time

import registry as registries
import transfer_case
from faulty_proxy import FaultyProxy
from transfer_case import MB, Case, completed, random_gguf


class Stream:
    """A pull whose lines are read one by one."""

    def __init__(self, server, body):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        self.connection.request("POST", "/api/pull", json.dumps(body))
        self.answer = self.connection.getresponse()

    def until(self, holds):
        found = None
        for line in self.answer:
            found = json.loads(line)
            if "total" in found and holds(found):
                return found
        raise AssertionError(f"the answer has ended with {found}")

    def close(self):
        self.answer.close()
        self.connection.close()


class Transfers(Case):
    def test_pulled_model_equals_pushed_model(self):
        registry = self.registry()
        here = self.place("here")
        content = random_gguf(3 * MB)
        here.make("m", content)
        name = registry.host + "/me/m:1"
        here.server.request("POST", "/api/copy", {"source": "m", "destination": name})
        here.delete("m")
        before = here.files()
        lines = here.transfer("push", name, insecure=True)
        self.assertEqual(lines[0], {"status": "retrieving manifest"})
        self.assertEqual(lines[-2:], [{"status": "pushing manifest"}, {"status": "success"}])
        manifest = json.loads((here.server.models / "manifests" / registry.host / "me/m/1").read_text())
        digests = [layer["digest"] for layer in [*manifest["layers"], manifest["config"]]]
        self.assertEqual(completed(lines), digests)
        here.delete(name)
        self.assertEqual(here.files(), {})
        lines = here.transfer("pull", name, insecure=True)
        self.assertEqual([line["status"] for line in lines if "digest" not in line],
                         ["pulling manifest", "verifying sha256 digest", "writing manifest", "success"])
        self.assertEqual(completed(lines), digests)
        self.assertEqual(here.files(), before)
        there = self.place("there")
        self.assertEqual(there.server.json("POST", "/api/pull", {"model": name, "insecure": True, "stream": False}), {"status": "success"})
        self.assertEqual(there.files(), before)

    def test_create_from_missing_model_pulls_it(self):
        registry = self.registry()
        here = self.place("here")
        here.make("m", random_gguf(MB))
        # Models of the default registry come from a mirror.
        there = self.place("there", {"BILLOW_REGISTRY_MIRROR": registry.url})
        mirrored = self.place("mirrored", {"BILLOW_REGISTRY_MIRROR": registry.url + "/"})
        mirrored.make("m", random_gguf(MB))
        self.assertEqual(mirrored.last("push", "m"), "success")
        steps = [line["status"] for line in there.server.lines("/api/create", {"model": "made", "from": "m", "system": "mine"})]
        self.assertEqual((steps[0], steps[-1]), ("pulling manifest", "success"))
        self.assertEqual(there.server.json("POST", "/api/show", {"model": "made"})["system"], "mine")
        self.assertEqual(sorted(model["name"] for model in there.server.json("GET", "/api/tags")["models"]), ["m:latest", "made:latest"])

    def test_errors_are_reported(self):
        registry = self.registry()
        here = self.place("here")
        self.assertEqual(here.last("pull", registry.host + "/me/none", insecure=True), "pull model manifest: file does not exist")
        self.assertRegex(here.last("pull", registry.host + "/me/none"), "--insecure")
        self.assertEqual(here.last("push", registry.host + "/me/none", insecure=True),
                         f"model '{registry.host}/me/none:latest' not found")
        registry.stop()
        self.assertRegex(here.last("pull", registry.host + "/me/none", insecure=True), "Failed to connect|refused")
        self.assertEqual(here.files(), {})

    def test_failed_pull_keeps_the_model(self):
        registry = self.registry()
        here = self.place("here")
        name = registry.host + "/me/m"
        here.make(name, random_gguf(MB))
        before = here.files()

        def command(*arguments):
            done = subprocess.run([here.server.program, *arguments], env=here.server.environment, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.stdout, "")
            return done.returncode, done.stderr.strip().splitlines()[-1]

        kept = "; the model of the store was kept"
        none = "pull model manifest: file does not exist" + kept
        self.assertEqual(here.last("pull", name, insecure=True), none)
        status, _, body = here.server.request("POST", "/api/pull", {"model": name, "insecure": True, "stream": False})
        self.assertEqual((status, json.loads(body)), (500, {"error": none}))
        self.assertEqual(command("pull", "--insecure", name), (1, "billow: error: " + none))
        returncode, output = command("pull", name)
        self.assertEqual(returncode, 1)
        self.assertRegex(output, "^billow: error: .*--insecure.*" + kept + "$")
        registry.stop()
        returncode, output = command("pull", "--insecure", name)
        self.assertEqual(returncode, 1)
        self.assertRegex(output, "^billow: error: .*(connect|refused).*" + kept + "$")
        self.assertEqual(here.files(), before)
        # A stored model needs no registry.
        self.assertEqual(here.server.lines("/api/create", {"model": "heir", "from": name, "system": "x"})[-1]["status"], "success")
        # A GGUF file without tensors cannot run, so `rm` has no loaded model to stop.
        done = subprocess.run([here.server.program, "rm", name, "heir"], env=here.server.environment, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, f"deleted '{name}'\ndeleted 'heir'\n", ""))

    def test_tls_needs_a_trusted_certificate(self):
        certificate = registries.make_certificate(self.folder)
        registry = self.registry(tls=certificate)
        name = registry.host + "/me/m"
        stranger = self.place("stranger")
        stranger.make(name, random_gguf(MB))
        self.assertRegex(stranger.last("push", name), "certificate")
        here = self.place("here", {"SSL_CERT_FILE": str(certificate[0])})
        here.make(name, random_gguf(MB))
        self.assertEqual(here.last("push", name), "success")
        before = here.files()
        here.delete(name)
        self.assertEqual(here.last("pull", name), "success")
        self.assertEqual(here.files(), before)

    def test_token_requests_are_signed_with_the_users_key(self):
        tokens = registries.TokenServer(self.folder / "tokens")
        self.addCleanup(tokens.stop)
        registry = self.registry(token_server=tokens)
        here = self.place("here")
        name = registry.host + "/me/m"
        here.make(name, random_gguf(MB))
        self.assertRegex(here.last("push", name, insecure=True), "unauthorized: access denied")
        self.assertEqual(tokens.refusals[-1], "unknown key")
        key = (here.home / ".ollama/id_ed25519.pub").read_text().split()
        self.assertEqual(key[0], "ssh-ed25519")
        self.assertEqual((here.home / ".ollama/id_ed25519").stat().st_mode & 0o777, 0o600)
        tokens.known_keys.add(key[1])
        self.assertEqual(here.last("push", name, insecure=True), "success")
        before = here.files()
        here.delete(name)
        self.assertEqual(here.last("pull", name, insecure=True), "success")
        self.assertEqual(here.files(), before)
        self.assertNotIn("wrong signature", tokens.refusals)

    def test_passwords_come_from_docker_login(self):
        registry = self.registry(has_password=True)
        here = self.place("here")
        name = registry.host + "/me/m"
        here.make(name, random_gguf(MB))
        self.assertRegex(here.last("push", name, insecure=True), "the registry wants a password; 'docker login ")
        config = here.home / ".docker/config.json"
        config.parent.mkdir()
        config.write_text(json.dumps({"auths": {registry.host: {"auth": base64.b64encode(b"me:wrong").decode()}}}))
        self.assertRegex(here.last("push", name, insecure=True), "unauthorized: access denied")
        config.write_text(json.dumps({"auths": {registry.host: {"auth": base64.b64encode(b"me:secret").decode()}}}))
        self.assertEqual(here.last("push", name, insecure=True), "success")
        before = here.files()
        here.delete(name)
        self.assertEqual(here.last("pull", name, insecure=True), "success")
        self.assertEqual(here.files(), before)

    def test_tls_works_with_passwords_and_tokens(self):
        certificate = registries.make_certificate(self.folder)
        tokens = registries.TokenServer(self.folder / "tokens", passwords=["me:secret"], has_tls=True)
        self.addCleanup(tokens.stop)
        trusted = self.folder / "trusted.pem"
        trusted.write_text(certificate[0].read_text() + tokens.certificate.read_text())
        for number, arguments in enumerate(({"has_password": True}, {"token_server": tokens})):
            with self.subTest(**arguments):
                registry = registries.Registry(self.folder / f"registry{number}", tls=certificate, **arguments)
                self.addCleanup(registry.stop)
                here = self.place(f"here{number}", {"SSL_CERT_FILE": str(trusted)})
                name = registry.host + "/me/m"
                here.make(name, random_gguf(MB))
                self.assertRegex(here.last("push", name), "unauthorized")
                config = here.home / ".docker/config.json"
                config.parent.mkdir()
                for login, result in (("me:wrong", "unauthorized: access denied"), ("me:secret", "^success$")):
                    config.write_text(json.dumps({"auths": {registry.host: {"auth": base64.b64encode(login.encode()).decode()}}}))
                    self.assertRegex(here.last("push", name), result)
                before = here.files()
                here.delete(name)
                self.assertEqual(here.last("pull", name), "success")
                self.assertEqual(here.files(), before)
        self.assertIn({"pull", "push"}, [set(scope.rpartition(":")[2].split(",")) for scope in tokens.scopes])

    def test_http_request_to_tls_registry(self):
        registry = self.registry(tls=registries.make_certificate(self.folder))
        here = self.place("here")
        here.make(registry.host + "/me/m", random_gguf(MB))
        self.assertRegex(here.last("push", registry.host + "/me/m", insecure=True), "may support only https")
        self.assertRegex(here.last("pull", registry.host + "/me/n", insecure=True), "HTTP request to an HTTPS server")
        self.assertEqual(registry.blobs(), [])

    def test_blobs_of_another_repository_are_mounted(self):
        tokens = registries.TokenServer(self.folder / "tokens")
        self.addCleanup(tokens.stop)
        registry = self.registry(token_server=tokens)
        here = self.place("here")
        base, heir = registry.host + "/me/base:1", registry.host + "/you/heir:1"
        here.make(base, random_gguf(3 * MB))
        self.assertRegex(here.last("push", base, insecure=True), "unauthorized")
        tokens.known_keys.add((here.home / ".ollama/id_ed25519.pub").read_text().split()[1])
        self.assertEqual(here.last("push", base, insecure=True), "success")
        steps = here.server.lines("/api/create", {"model": heir, "from": base, "system": "other"})
        self.assertEqual(steps[-1]["status"], "success")
        self.assertEqual(here.last("push", heir, insecure=True), "success")
        self.assertIn("repository:me/base:pull", tokens.scopes)
        mounted = [path for path, status in registry.requests("POST", "you/heir") if "mount=" in path and status == "201"]
        self.assertEqual(len(mounted), 1)
        there = self.place("there")
        self.assertRegex(there.last("pull", heir, insecure=True), "unauthorized")
        tokens.known_keys.add((there.home / ".ollama/id_ed25519.pub").read_text().split()[1])
        self.assertEqual(there.last("pull", heir, insecure=True), "success")
        self.assertEqual({**here.files(), **there.files()}, here.files())

    def test_parallel_pulls_share_a_download_until_the_last_disconnects(self):
        registry = self.registry()
        proxy = FaultyProxy(registry.host)
        self.addCleanup(proxy.stop)
        here = self.place("here")
        name, other = proxy.host + "/me/m", proxy.host + "/me/n"
        content = random_gguf(16 * MB)
        for one in (name, other):
            here.make(one, content)
            self.assertEqual(here.last("push", one, insecure=True), "success")
            here.delete(one)
        proxy.n_sent, proxy.pause = 0, 0.05  # 1.3 MB/s
        pulls = [Stream(here.server, {"model": one, "insecure": True}) for one in (name, other)]
        for pull in pulls:
            pull.until(lambda line: 0 < line.get("completed", 0) < line["total"] == len(content))
        pulls[0].close()
        before = pulls[1].until(lambda line: line.get("completed", 0) > 4 * MB)["completed"]
        pulls[1].close()
        deadline, n_sent, since = time.monotonic() + 60, proxy.n_sent, time.monotonic()
        while time.monotonic() < since + 2:  # until nothing is sent for 2 s
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
            if proxy.n_sent != n_sent:
                n_sent, since = proxy.n_sent, time.monotonic()
        self.assertLess(n_sent, before + 8 * MB, "the download continues without a client")
        self.assertEqual(here.models(), [])
        proxy.pause = 0
        self.assertEqual(here.last("pull", other, insecure=True), "success")
        self.assertLess(proxy.n_sent, 1.2 * len(content), "only the rest is downloaded")
        self.assertEqual(here.unsound(), [])

    def test_expired_tokens_are_renewed(self):
        tokens = registries.TokenServer(self.folder / "tokens", life=-65)  # docker-registry tolerates a minute
        self.addCleanup(tokens.stop)
        registry = self.registry(token_server=tokens)
        here = self.place("here")
        here.make(registry.host + "/me/m", random_gguf(MB))
        self.assertIn("unauthorized", here.last("push", registry.host + "/me/m", insecure=True))
        tokens.known_keys.add((here.home / ".ollama/id_ed25519.pub").read_text().split()[1])
        self.assertIn("unauthorized", here.last("push", registry.host + "/me/m", insecure=True))
        tokens.life = 60
        self.assertEqual(here.last("push", registry.host + "/me/m", insecure=True), "success")

    def test_token_that_is_refused_during_a_pull_is_renewed(self):
        tokens = registries.TokenServer(self.folder / "tokens")
        self.addCleanup(tokens.stop)
        registry = self.registry(token_server=tokens)
        proxy = FaultyProxy(registry.host)
        self.addCleanup(proxy.stop)
        here = self.place("here")
        name = proxy.host + "/me/m"
        content = random_gguf(16 * MB)
        here.make(name, content)
        self.assertIn("unauthorized", here.last("push", name, insecure=True))
        tokens.known_keys.add((here.home / ".ollama/id_ed25519.pub").read_text().split()[1])
        self.assertEqual(here.last("push", name, insecure=True), "success")
        before = here.files()
        here.delete(name)
        tokens.n_tokens = proxy.n_sent = proxy.n_logins = 0
        proxy.without_login = (4, 8)  # the registry refuses both, as after the end of a token
        proxy.faults, proxy.share, proxy.pause = ("cut",), 1, 0.002
        pull = Stream(here.server, {"model": name, "insecure": True})
        # Ten cuts of three probes and two blobs give one blob at least four.
        pull.until(lambda line: proxy.n_faults.get("cut", 0) >= 10)
        proxy.share = 0
        self.assertEqual(json.loads(pull.answer.read().splitlines()[-1]), {"status": "success"})
        pull.close()
        self.assertGreater(tokens.n_tokens, 2)
        self.assertLess(proxy.n_sent, 1.2 * len(content), "a new token restarts the blob")
        self.assertEqual(here.files(), before)

    def test_interrupted_push_completes(self):
        # docker-registry forgets an upload that was cut within a part, so the upload restarts.
        registry = self.registry()
        proxy = FaultyProxy(registry.host)
        self.addCleanup(proxy.stop)
        here = self.place("here")
        name = proxy.host + "/me/m"
        here.make(name, random_gguf(4 * MB))
        proxy.n_cut_uploads = 2
        self.assertEqual(here.last("push", name, insecure=True), "success")
        self.assertEqual(proxy.n_cut_uploads, 0)
        before = here.files()
        here.delete(name)
        self.assertEqual(here.last("pull", name, insecure=True), "success")
        self.assertEqual(here.files(), before)


if __name__ == "__main__":
    transfer_case.main()
