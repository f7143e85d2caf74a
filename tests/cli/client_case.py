"""The base of tests of the client commands: a fake server and a temporary folder."""
import os
import pathlib
import tempfile
import unittest

from fake_server import FakeServer
from program import billow

DIGEST = "baf6a787fdffd633537aa2eb51cfd54cb93ff08e28040095462bb63daf552878"


class ClientCase(unittest.TestCase):
    def setUp(self):
        self.server = FakeServer()
        self.addCleanup(self.server.close)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)
        self.env = {"OLLAMA_HOST": self.server.host, "HOME": str(self.dir)}
        for name in ("BILLOW_HOST", "OLLAMA_NOHISTORY", "NO_COLOR"):
            os.environ.pop(name, None)

    def answer(self, **answers):
        """Sets responses of the server: answer(POST_api_show=...)."""
        self.server.answers |= {key.replace("_", " ", 1).replace(" ", " /").replace("_", "/"): value
                                for key, value in answers.items()}

    def asked(self, path):
        """The bodies of the requests to this path."""
        return [body for _, asked, body in self.server.asked if asked == path]

    def ok(self, *args, **kwargs):
        done = billow(*args, env=self.env, **kwargs)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return done.stdout.decode()

    def refused(self, message, *args, status=1, out="", **kwargs):
        done = billow(*args, env=self.env, **kwargs)
        self.assertEqual(done.stderr.decode(), message)
        self.assertEqual((done.returncode, done.stdout.decode()), (status, out))
