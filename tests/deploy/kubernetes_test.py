"""The manifests of deploy/kubernetes: checked by the schemas of Kubernetes, against each other and against packaging/kubernetes."""

import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import jsonschema
import yaml
from run_cases import run_cases

ROOT = pathlib.Path(__file__).resolve().parents[2]
KUBERNETES = ROOT / "deploy/kubernetes"
TOOLS = pathlib.Path("~/.cache/billow/packaging/bin").expanduser()
DRAIN_SECONDS = 5 + 30  # --drain-delay and --drain-timeout
LABEL = {"app.kubernetes.io/name": "billow"}

NAME = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", "maxLength": 253}
PORT = {"type": "object", "properties": {"number": {"type": "integer", "minimum": 1, "maximum": 65535}}, "required": ["number"],
        "additionalProperties": False}


def record(properties, required):
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


# What the reference of the Gateway API Inference Extension says about version v1 of a pool.
POOL = record({
    "selector": record({"matchLabels": {"type": "object", "minProperties": 1, "maxProperties": 64, "additionalProperties": {"type": "string", "maxLength": 63}}},
                       ["matchLabels"]),
    "targetPorts": {"type": "array", "items": PORT, "minItems": 1, "maxItems": 8},
    "appProtocol": {"enum": ["http", "kubernetes.io/h2c"]},
    "endpointPickerRef": record({"group": {"type": "string"}, "kind": {"type": "string"}, "name": NAME, "port": PORT,
                                 "failureMode": {"enum": ["FailOpen", "FailClose"]}}, ["name", "port"]),
}, ["selector", "targetPorts"])
# And what the reference of the Gateway API says about the fields of a route that are used here.
ROUTE = record({
    "parentRefs": {"type": "array", "minItems": 1, "items": record({"group": {"type": "string"}, "kind": {"type": "string"}, "name": NAME}, ["name"])},
    "rules": {"type": "array", "minItems": 1, "items": record({
        "matches": {"type": "array", "items": record({"path": record({"type": {"enum": ["Exact", "PathPrefix"]}, "value": {"type": "string", "pattern": "^/"}},
                                                                     ["type", "value"])}, ["path"])},
        "backendRefs": {"type": "array", "items": record({"group": {"type": "string"}, "kind": {"type": "string"}, "name": NAME,
                                                          "port": {"type": "integer"}}, ["name"])},
        "timeouts": record({"request": {"type": "string", "pattern": r"^([0-9]{1,5}(h|m|s|ms)){1,4}$"}}, []),
    }, ["backendRefs"])},
}, ["parentRefs", "rules"])


def tool(name):
    if not (TOOLS / name).exists():
        raise unittest.SkipTest(f"no {name} in {TOOLS}; tools/setup packaging installs it")
    return TOOLS / name


def documents(name):
    return [document for document in yaml.safe_load_all((KUBERNETES / name).read_text()) if document]


def one(name):
    (document,) = documents(name)
    return document


class Manifests(unittest.TestCase):
    def setUp(self):
        self.names = one("kustomization.yaml")["resources"]
        self.deployment = one("deployment.yaml")
        self.pod = self.deployment["spec"]["template"]["spec"]
        self.container = self.pod["containers"][0]

    def test_resources_fit_the_schemas(self):
        files = [*self.names, "bulk-job.yaml", "gateway/endpoint-picker.yaml"]
        done = subprocess.run([tool("kubernetes-validate"), "--strict", *(KUBERNETES / name for name in files)], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(done.stdout.count(" passed for resource "), sum(len(documents(name)) for name in files), done.stdout)

    @unittest.skipIf(shutil.which("kubectl") is None, "there is no kubectl on this machine")
    def test_kustomize_admits_the_same_pods_as_the_policy(self):
        for folder in (KUBERNETES, ROOT / "packaging/kubernetes"):
            done = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True, check=True)
            (rendered,) = [one for one in yaml.safe_load_all(done.stdout) if one["kind"] == "NetworkPolicy"]
            (written,) = [one for one in yaml.safe_load_all((folder / "network-policy.yaml").read_text()) if one]
            self.assertEqual(rendered["spec"], written["spec"])

    def test_hadolint_finds_nothing_in_the_image_of_the_job(self):
        done = subprocess.run([tool("hadolint"), "--no-color", ROOT / "deploy/ray/Dockerfile"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_all_files_are_resources_or_named_in_the_readme(self):
        files = {path.name for path in KUBERNETES.glob("*.yaml")} - {"kustomization.yaml"}
        readme = (KUBERNETES / "README.md").read_text()
        self.assertEqual([name for name in sorted(files - set(self.names)) if f"`{name}`" not in readme], [])

    def test_pool_and_route_fit_their_references(self):
        for name, kind, version, schema in (("inference-pool.yaml", "InferencePool", "inference.networking.k8s.io/v1", POOL),
                                            ("http-route.yaml", "HTTPRoute", "gateway.networking.k8s.io/v1", ROUTE)):
            document = one(f"gateway/{name}")
            self.assertEqual((document["kind"], document["apiVersion"]), (kind, version))
            jsonschema.validate(document["spec"], schema)
        pool, picker = one("gateway/inference-pool.yaml"), one("gateway/endpoint-picker.yaml")
        self.assertEqual(pool["spec"]["endpointPickerRef"]["name"], picker["metadata"]["name"])
        self.assertEqual(one("gateway/http-route.yaml")["spec"]["rules"][0]["backendRefs"][0]["name"], pool["metadata"]["name"])

    def test_picker_and_pods_have_the_same_engine(self):
        config = yaml.safe_load(one("gateway/endpoint-picker.yaml")["data"]["billow-plugins.yaml"])
        engines = [engine["name"] for plugin in config["plugins"] for engine in plugin.get("parameters", {}).get("engineConfigs", [])]
        self.assertEqual(engines, [self.deployment["spec"]["template"]["metadata"]["labels"]["llm-d.ai/engine-type"]])
        declared = {plugin["type"] for plugin in config["plugins"]}
        used = {plugin["pluginRef"] for profile in config["schedulingProfiles"] for plugin in profile["plugins"]}
        sources = config["dataLayer"]["sources"]
        used |= {source["pluginRef"] for source in sources} | {entry["pluginRef"] for source in sources for entry in source["extractors"]}
        self.assertEqual(used - declared, set())

    def test_selectors_match_the_pods(self):
        labels = self.deployment["spec"]["template"]["metadata"]["labels"]
        selectors = [self.deployment["spec"]["selector"]["matchLabels"], *(service["spec"]["selector"] for service in documents("service.yaml")),
                     one("disruption-budget.yaml")["spec"]["selector"]["matchLabels"], one("network-policy.yaml")["spec"]["podSelector"]["matchLabels"],
                     self.pod["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"], one("gateway/inference-pool.yaml")["spec"]["selector"]["matchLabels"]]
        self.assertEqual(selectors, [LABEL] * len(selectors))
        self.assertLessEqual(LABEL.items(), labels.items())
        # A pod of bulk work is not a replica: the services must not find it.
        self.assertNotEqual(one("bulk-job.yaml")["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/name"], LABEL["app.kubernetes.io/name"])

    def test_ports_and_claims_match(self):
        port = self.container["ports"][0]
        self.assertEqual({entry["targetPort"] for service in documents("service.yaml") for entry in service["spec"]["ports"]}, {port["name"]})
        self.assertEqual(one("gateway/inference-pool.yaml")["spec"]["targetPorts"], [{"number": port["containerPort"]}])
        claim = one("volume-claim.yaml")["metadata"]["name"]
        job = one("bulk-job.yaml")["spec"]["template"]["spec"]
        for volumes in (self.pod["volumes"], job["volumes"]):
            self.assertEqual(next(v for v in volumes if v["name"] == "models")["persistentVolumeClaim"]["claimName"], claim)

    def test_replicas_are_replaced_without_a_gap(self):
        self.assertEqual(self.deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"], 0)
        self.assertNotIn("replicas", self.deployment["spec"], "the autoscaler sets it")
        self.assertGreater(self.pod["terminationGracePeriodSeconds"], DRAIN_SECONDS)
        probe = self.container["readinessProbe"]
        self.assertEqual((probe["httpGet"]["path"], probe["periodSeconds"]), ("/readyz", 1))
        self.assertLess(probe["periodSeconds"] * probe["failureThreshold"], 5, "the drain's delay must be longer")

    def test_the_autoscaler_uses_metrics_of_the_adapter(self):
        scaler = one("autoscaler.yaml")["spec"]
        self.assertEqual(scaler["scaleTargetRef"], {"apiVersion": "apps/v1", "kind": "Deployment", "name": self.deployment["metadata"]["name"]})
        names = {metric["pods"]["metric"]["name"] for metric in scaler["metrics"]}
        self.assertIn("billow_requests_waiting", names)
        (rule,) = yaml.safe_load((KUBERNETES / "adapter-rules.yaml").read_text())
        pattern = re.search(r'__name__=~"([^"]+)"', rule["seriesQuery"]).group(1)
        self.assertEqual({name for name in names if not re.fullmatch(pattern, name)}, set())

    def test_pods_are_as_confined_as_the_base(self):
        base = yaml.safe_load((ROOT / "packaging/kubernetes/deployment.yaml").read_text())["spec"]["template"]["spec"]
        job = one("bulk-job.yaml")["spec"]["template"]["spec"]
        for container in (self.container, job["initContainers"][0], job["containers"][0]):
            self.assertEqual(container["securityContext"], base["containers"][0]["securityContext"])
            self.assertEqual(container["resources"]["limits"].keys(), {"memory"})
        for pod in (self.pod, job):
            self.assertEqual({**pod["securityContext"], "fsGroup": 0, "fsGroupChangePolicy": ""}, {**base["securityContext"], "fsGroup": 0, "fsGroupChangePolicy": ""})
            self.assertFalse(pod["automountServiceAccountToken"])

    def test_versions_are_the_projects(self):
        version = re.search(r"project\(billow VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
        self.assertEqual(one("kustomization.yaml")["images"], [{"name": "billow", "newTag": version}])
        job = one("bulk-job.yaml")["spec"]["template"]["spec"]
        self.assertEqual([job["initContainers"][0]["image"], job["containers"][0]["image"]], [f"billow:{version}", f"billow-ray:{version}"])
        self.assertIn(f'\nversion = "{version}"\n', (ROOT / "deploy/ray/pyproject.toml").read_text())
        self.assertIn(f'__version__ = "{version}"', (ROOT / "deploy/ray/src/billow_ray/__init__.py").read_text())

    def test_the_bulk_job_does_all_shards_once(self):
        job = one("bulk-job.yaml")["spec"]
        words = job["template"]["spec"]["containers"][0]["args"]
        self.assertEqual((words[0], words[words.index("--of") + 1]), ("shard", str(job["completions"])))
        from billow_ray import errors

        failing = job["podFailurePolicy"]["rules"][0]
        self.assertEqual((failing["action"], failing["onExitCodes"]["values"]), ("FailJob", [errors.EXIT_ERROR, errors.EXIT_USAGE, errors.EXIT_INPUT]))
        self.assertNotIn(errors.EXIT_TRY_AGAIN, failing["onExitCodes"]["values"])


if __name__ == "__main__":
    run_cases(sys.argv[1:])
