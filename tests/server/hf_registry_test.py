"""Tests pulls of hf.co/USER/REPO:QUANT through a proxy of the environment. A fake registry answers like hf.co.

  hf_registry_test.py --billow PROGRAM [NAME...]
"""

import itertools
import json
import urllib.parse

import registry as registries
import transfer_case
from faulty_proxy import FaultyProxy
from scripted_registry import ScriptedRegistry, digest_of, reply
from transfer_case import Case, random_gguf

HOSTS = ("hf.co", "huggingface.co", "cdn.example.org")
QUANTS = ("Q4_K_M", "Q8_0", "IQ2_XS")
NO_QUANT = "The specified tag is not a valid quantization scheme. Please use another tag or \"latest\""
SHARDED = "The specified repository contains sharded GGUF. Ollama does not support this yet."
TEMPLATE = b"{{ if .System }}<|system|>{{ .System }}{{ end }}<|user|>{{ .Prompt }}<|assistant|>"


class Hub(ScriptedRegistry):
    """A fake hf.co. A tag names a quantisation in any case, or a file; `latest` is Q4_K_M. Blobs have expiring URLs at another host."""

    def __init__(self, tls):
        self.numbers = itertools.count()  # of blobs' URLs
        super().__init__(self.answer_as_hub, tls)
        self.status = 302
        self.n_lives = 1000  # number of answers of a blob's URL
        self.n_cuts = 0  # number of answers with ranges to cut off
        self.lives = {}
        self.n_expired = 0
        self.needs_key = False
        for quant in QUANTS:
            layers = [("model", random_gguf(400_000, quant)), ("template", TEMPLATE), ("params", b'{"stop":["<|user|>"]}')]
            model = self.add("me/Some.Model-GGUF", layers, json.dumps({"model_format": "gguf", "file_type": quant}).encode())
            self.add_tags(model, quant)
        self.manifests["me/Some.Model-GGUF:latest"] = self.manifests["me/Some.Model-GGUF:q4_k_m"]

    def add_tags(self, model, quant):
        for tag in (quant.lower(), f"some.model.{quant.lower()}.gguf"):
            self.manifests["me/Some.Model-GGUF:" + tag] = model

    def weights(self, tag):
        return self.blobs[self.manifests["me/Some.Model-GGUF:" + tag]["layers"][0]["digest"]]

    def answer_as_hub(self, request):
        path, _, query = request.path.partition("?")
        if request.host() == "cdn.example.org":
            return self.blob_elsewhere(request, path, query)
        if path == "/token":
            return reply(200, {"token": "secret"})
        repository, _, rest = path.removeprefix("/v2/").partition("/manifests/" if "/manifests/" in path else "/blobs/")
        if repository == "me/Private":
            return reply(401, {"error": "Invalid username or password."})
        if repository == "me/Sharded":
            return reply(400, {"error": SHARDED})
        if self.needs_key and request.fields.get("authorization") != "Bearer secret":
            return reply(401, {"error": "Invalid username or password."},
                         {"WWW-Authenticate": f'Bearer realm="https://{request.host()}/token",service="s",scope="x"'})
        if "/manifests/" in path:
            model = self.manifests.get(f"{repository}:{rest.lower()}")
            return reply(200, model) if model else reply(400, {"error": NO_QUANT})
        if "__sign=" not in query:
            return reply(307, b"", {"Location": request.path + "?__sign=jwt"})
        address = str(next(self.numbers))
        self.lives[address] = self.n_lives
        return reply(self.status, b"", {"Location": f"https://cdn.example.org/xet/{rest}?signature={address}&x=a%2Fb"})

    def blob_elsewhere(self, request, path, query):
        address = urllib.parse.parse_qs(query)["signature"][0]
        self.lives[address] -= 1
        if self.lives[address] < 0:
            self.n_expired += 1
            return reply(403, b"<Error>Expired</Error>")
        answer = self.blob(request, path.rpartition("/")[2])
        if self.n_cuts > 0 and len(answer) > 100_000:
            self.n_cuts -= 1
            return answer[:len(answer) // 2]
        return answer

    def asked_elsewhere(self):
        return [request for request in self.requests if request.host() == "cdn.example.org"]


class HubTest(Case):
    def setUp(self):
        super().setUp()
        certificate = registries.make_certificate(self.folder, *HOSTS)
        self.hub = Hub(certificate)
        self.addCleanup(self.hub.stop)
        self.proxy = FaultyProxy(tunnels={host + ":443": self.hub.host for host in HOSTS})
        self.addCleanup(self.proxy.stop)
        self.here = self.place("here", {"https_proxy": "http://" + self.proxy.host, "no_proxy": "127.0.0.1", "SSL_CERT_FILE": str(certificate[0])})

    def weights(self, name):
        """Returns the digest of the weights of a stored model."""
        text = self.here.server.json("POST", "/api/show", {"model": name})["modelfile"]
        line = next(line for line in text.splitlines() if line.startswith("FROM "))
        return "sha256:" + line.rpartition("sha256-")[2]

    def test_tags_name_quantisations_or_files(self):
        for asked, tag, shown in (("hf.co/me/Some.Model-GGUF", "q4_k_m", "hf.co/me/Some.Model-GGUF:latest"),
                                  ("hf.co/me/Some.Model-GGUF:Q8_0", "q8_0", "hf.co/me/Some.Model-GGUF:Q8_0"),
                                  ("hf.co/me/Some.Model-GGUF:iq2_xs", "iq2_xs", "hf.co/me/Some.Model-GGUF:iq2_xs"),
                                  ("huggingface.co/me/Some.Model-GGUF:q8_0", "q8_0", "huggingface.co/me/Some.Model-GGUF:q8_0"),
                                  ("https://hf.co/me/Some.Model-GGUF:Some.Model.Q8_0.gguf", "q8_0", "hf.co/me/Some.Model-GGUF:Some.Model.Q8_0.gguf")):
            with self.subTest(asked):
                self.assertEqual(self.here.last("pull", asked), "success")
                self.assertIn(shown.lower(), [model.lower() for model in self.here.models()])
                self.assertEqual(self.weights(shown), digest_of(self.hub.weights(tag)))
                shown_model = self.here.server.json("POST", "/api/show", {"model": asked})
                self.assertEqual((shown_model["template"], shown_model["details"]["quantization_level"]), (TEMPLATE.decode(), {"q4_k_m": "Q4_K_M"}.get(tag, tag.upper())))
        self.assertGreater(self.proxy.n_tunnels, 0)
        # A tag in another case names the existing model.
        self.assertEqual(self.here.last("pull", "hf.co/ME/some.model-gguf:q8_0"), "success")
        self.assertEqual(len(self.here.models()), 5)

    def test_token_is_not_sent_to_blob_host(self):
        self.hub.needs_key = True
        for status in (301, 302, 303, 307, 308):
            with self.subTest(status):
                self.hub.status = status
                self.hub.requests.clear()
                self.assertEqual(self.here.last("pull", "hf.co/me/Some.Model-GGUF:Q8_0"), "success")
                self.assertTrue(self.hub.asked_elsewhere())
                self.assertFalse([request.path for request in self.hub.asked_elsewhere() if "authorization" in request.fields])
                signed = [request for request in self.hub.requests if request.path.startswith("/token")]
                self.assertRegex(signed[0].fields["authorization"], "^[A-Za-z0-9+/=]+:[A-Za-z0-9+/=]+$")
                self.here.delete("hf.co/me/Some.Model-GGUF:Q8_0")

    def test_expired_urls_are_renewed(self):
        self.hub.n_lives, self.hub.n_cuts = 2, 2  # the request for the blob's location counts, too
        self.assertEqual(self.here.last("pull", "hf.co/me/Some.Model-GGUF:Q8_0"), "success")
        self.assertEqual(self.here.unsound(), [])
        self.assertEqual((self.hub.n_cuts, self.hub.n_expired), (0, 2))

    def test_errors_of_the_hub_are_reported(self):
        for name, words in (("hf.co/me/Some.Model-GGUF:Q3_K_S", "pull model manifest: 400: " + NO_QUANT), ("hf.co/me/Sharded", "pull model manifest: 400: " + SHARDED),
                            ("hf.co/me/Private", "hf.co: unauthorized: the registry gives no tokens (401: Invalid username or password.)")):
            with self.subTest(name):
                self.assertEqual(self.here.last("pull", name), words)
        self.assertEqual(self.here.models(), [])

    def test_pulls_use_the_proxy(self):
        self.proxy.tunnels = {host + ":443": "127.0.0.1:9" for host in HOSTS}
        self.assertRegex(self.here.last("pull", "hf.co/me/Some.Model-GGUF"), "hf.co: .*(CONNECT|502)")


if __name__ == "__main__":
    transfer_case.main(needs_registry=False)
