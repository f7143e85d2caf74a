"""The files for containers and Kubernetes: checked by hadolint and the schemas of Kubernetes, and against each other."""
import json
import os
import re
import tempfile
import unittest

import package_case
from package_case import SOURCE, run, tool

import yaml

CONTAINER = SOURCE / "packaging/container"
KUBERNETES = SOURCE / "packaging/kubernetes"
DRAIN_SECONDS = 5 + 30  # --drain-delay and --drain-timeout


def load(path):
    return yaml.safe_load(path.read_text())


class Container(unittest.TestCase):
    def setUp(self):
        self.text = (CONTAINER / "Dockerfile").read_text()
        self.compose = load(CONTAINER / "compose.yaml")["services"]["billow"]

    def test_hadolint_finds_nothing(self):
        # DL3008 wants versions of Debian's packages, which a mirror drops at each update.
        done = run(tool("hadolint"), "--no-color", "--ignore", "DL3008", CONTAINER / "Dockerfile", check=False)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.returncode, 0)

    def test_user_is_a_number_other_than_root(self):
        self.assertGreater(int(re.search(r"^USER (\d+):\d+$", self.text, re.M).group(1)), 0)

    def test_health_check_is_a_command_of_the_program(self):
        program, *words = json.loads(re.search(r"^HEALTHCHECK .* CMD (\[.*\])$", self.text, re.M).group(1))
        self.assertEqual(program, "/usr/bin/billow")
        with tempfile.TemporaryDirectory() as home:
            nobody = {**os.environ, "BILLOW_HOST": "127.0.0.1:9", "HOME": home}
            done = run(package_case.ARGS.billow, *words, env=nobody, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot connect to 127.0.0.1:9", done.stdout)

    def test_version_is_the_projects(self):
        version = re.search(r"project\(billow VERSION (\S+)", (SOURCE / "CMakeLists.txt").read_text()).group(1)
        self.assertIn(f"\nARG VERSION={version}\n", self.text)
        image = load(KUBERNETES / "kustomization.yaml")["images"][0]
        self.assertEqual(image, {"name": "billow", "newTag": version})

    def test_copied_files_exist(self):
        for words in re.findall(r"^COPY (?!--)(.+)$", self.text, re.M):
            for source in words.split()[:-1]:
                self.assertTrue((SOURCE / source).exists(), source)

    def test_compose_matches_the_image(self):
        context = (CONTAINER / self.compose["build"]["context"]).resolve()
        self.assertEqual(context, SOURCE)
        self.assertTrue((context / self.compose["build"]["dockerfile"]).exists())
        self.assertEqual(self.compose["volumes"], ["models:/models"])
        self.assertIn("VOLUME /models\n", self.text)
        self.assertGreater(int(self.compose["stop_grace_period"].removesuffix("s")), DRAIN_SECONDS)
        # Only this machine can connect.
        self.assertEqual(self.compose["ports"], ["127.0.0.1:11434:11434"])


class Kubernetes(unittest.TestCase):
    def setUp(self):
        self.names = load(KUBERNETES / "kustomization.yaml")["resources"]
        self.deployment = load(KUBERNETES / "deployment.yaml")
        self.pod = self.deployment["spec"]["template"]["spec"]
        self.container = self.pod["containers"][0]

    def test_resources_fit_the_schemas(self):
        done = run(tool("kubernetes-validate"), "--strict", *(KUBERNETES / name for name in self.names), check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(done.stdout.count(" passed for resource "), len(self.names), done.stdout)

    def test_all_files_are_resources(self):
        files = {path.name for path in KUBERNETES.glob("*.yaml")} - {"kustomization.yaml"}
        self.assertEqual(files, set(self.names))

    def test_pods_end_after_their_requests(self):
        self.assertGreater(self.pod["terminationGracePeriodSeconds"], DRAIN_SECONDS)

    def test_memory_request_is_the_limit(self):
        resources = self.container["resources"]
        self.assertEqual(resources["requests"]["memory"], resources["limits"]["memory"])
        self.assertNotIn("cpu", resources["limits"])

    def test_probes(self):
        paths = {name: self.container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "readiness", "liveness")}
        self.assertEqual(paths, {"startup": "/readyz", "readiness": "/readyz", "liveness": "/healthz"})

    def test_pods_are_confined(self):
        self.assertTrue(self.pod["securityContext"]["runAsNonRoot"])
        self.assertEqual(self.pod["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
        confined = self.container["securityContext"]
        self.assertTrue(confined["readOnlyRootFilesystem"])
        self.assertFalse(confined["allowPrivilegeEscalation"])
        self.assertEqual(confined["capabilities"], {"drop": ["ALL"]})

    def test_selectors_and_names_match(self):
        labels = self.deployment["spec"]["template"]["metadata"]["labels"]
        selectors = [self.deployment["spec"]["selector"]["matchLabels"], load(KUBERNETES / "service.yaml")["spec"]["selector"],
                     load(KUBERNETES / "disruption-budget.yaml")["spec"]["selector"]["matchLabels"],
                     load(KUBERNETES / "network-policy.yaml")["spec"]["podSelector"]["matchLabels"]]
        self.assertEqual(selectors, [labels] * 4)
        claim = load(KUBERNETES / "volume-claim.yaml")["metadata"]["name"]
        self.assertEqual(self.pod["volumes"][0]["persistentVolumeClaim"]["claimName"], claim)
        self.assertEqual({mount["name"] for mount in self.container["volumeMounts"]}, {volume["name"] for volume in self.pod["volumes"]})


if __name__ == "__main__":
    package_case.main()
