"""kube-scheduler and Setpoint's scheduler, each on a Setpoint and on a kube-apiserver: all four decide the same.

Same setup and variables as suite.py, and kube-scheduler of Kubernetes 1.37. The servers share the etcd, not the objects. Both
schedulers act as system:kube-scheduler, with the permissions that the server gives to this user. If `SETPOINT_CONFORMANCE`
is the path of setpoint-conformance, each also decides in the recorded situations of `crates/conformance/scheduling`.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import yaml

from suite import Failure, Rig, check, differences, program, until

ROOT = pathlib.Path(__file__).resolve().parents[2]
ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
NODES = {"node-a": "a", "node-b": "b", "node-c": "c"}
# Pods need no ServiceAccount, and no controller removes the taint of a new node.
DISABLED = "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition"
SCHEDULER = "system:kube-scheduler"
SCHEDULERS = ["kube-scheduler", "setpoint scheduler"]
DEPLOYMENTS = ["deployment-controller", "replicaset-controller"]


class Clusters(Rig):
    """A Setpoint and a kube-apiserver, each with the controllers of Deployments and ReplicaSets and without a scheduler."""

    def start(self, name, *arguments):
        match name:
            case "setpoint":
                arguments += (DISABLED,)
            case "kube-apiserver":
                arguments += (DISABLED, "--etcd-prefix=/kube-apiserver")
            case "kube-controller-manager":
                arguments += (f"--controllers={','.join(DEPLOYMENTS)}", "--leader-elect=false")
        super().start(name, *arguments)

    def kubeconfig(self, server, **user):
        """The kubeconfig of the administrator of a server, with further fields of the user."""
        config = yaml.safe_load((self.folder / "kubeconfig").read_text())
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{server.port}"
        config["users"][0]["user"].update(user)
        path = self.folder / "-".join(["kubeconfig", server.name, *user])
        path.write_text(yaml.safe_dump(config))
        return path

    def start_scheduler(self, scheduler, server):
        path = self.kubeconfig(server, **{"as": SCHEDULER})
        match scheduler:
            case "kube-scheduler":
                self.start_kube_scheduler(path)
            case "setpoint scheduler":
                self.start("scheduler", os.environ["SETPOINT"], "scheduler", f"--kubeconfig={path}", "--leader-elect=false")

    def start_kube_scheduler(self, path):
        self.start(
            "scheduler",
            program("kube-scheduler"),
            f"--kubeconfig={path}",
            f"--authentication-kubeconfig={path}",
            f"--authorization-kubeconfig={path}",
            "--bind-address=127.0.0.1",
            "--secure-port=0",
            "--leader-elect=false",
            "--kube-api-qps=1000",
            "--kube-api-burst=1000",
        )


class Scenario:
    """A Deployment, affinity and preemption on one server with one scheduler, and what a user sees of it."""

    def __init__(self, server, namespace):
        self.server, self.namespace, self.outcome = server, namespace, {}
        self.pods = f"/api/v1/namespaces/{namespace}/pods"

    def run(self):
        self.server.request("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        for name, zone in NODES.items():
            self.server.request("POST", "/api/v1/nodes", node(name, zone))
        try:
            self.spread_deployment()
            self.follow_pods()
            self.preempt()
        finally:
            self.clean_up()
        return self.outcome

    def spread_deployment(self):
        """One pod for each node; the fourth has none."""
        labels = {"app": "web"}
        term = {"labelSelector": {"matchLabels": labels}, "topologyKey": HOSTNAME}
        spread = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": term["labelSelector"]}
        spec = pod_spec("100m", affinity=required("podAntiAffinity", term), topologySpreadConstraints=[spread])
        deployment = {
            "metadata": {"name": "web"},
            "spec": {
                "replicas": 4,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }
        self.server.request("POST", f"/apis/apps/v1/namespaces/{self.namespace}/deployments", deployment)
        bound, waiting = until("three of four pods have a node", self.three_of_four)
        self.outcome["nodes of the Deployment"] = sorted(pod["spec"]["nodeName"] for pod in bound)
        self.note_conditions("the fourth pod", waiting)
        self.note_event("the fourth pod", waiting, "FailedScheduling")
        first = min(bound, key=lambda pod: pod["spec"]["nodeName"])
        self.note_event("a scheduled pod", first, "Scheduled")

    def three_of_four(self):
        pods = self.server.request("GET", f"{self.pods}?labelSelector=app%3Dweb")["items"]
        bound = [pod for pod in pods if pod["spec"].get("nodeName")]
        waiting = [pod for pod in pods if scheduled_condition(pod).get("status") == "False"]
        return (bound, waiting[0]) if len(bound) == 3 and len(waiting) == 1 else None

    def follow_pods(self):
        """Pods beside those of the Deployment, and beside pods that do not exist."""
        for name, app, zone in (("beside-web", "web", "b"), ("beside-nothing", "none", "b")):
            term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": ZONE}
            spec = pod_spec("100m", affinity=required("podAffinity", term), nodeSelector={ZONE: zone})
            self.create(name, spec)
            self.note_result(name)

    def preempt(self):
        """The nodes are full; a pod of a higher priority takes the place of one pod."""
        for name, value in (("low", 10), ("high", 1000)):
            # Both schedulers of a server use the same.
            body = {"metadata": {"name": name}, "value": value}
            ignore_failure(self.server, "POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)
        for name, zone in NODES.items():
            self.create(f"low-{zone}", pod_spec("3", nodeSelector={ZONE: zone}, priorityClassName="low"))
            self.note_result(f"low-{zone}")
        self.create("same", pod_spec("3", priorityClassName="low"))
        self.note_result("same")
        self.create("high", pod_spec("3", nodeSelector={ZONE: "b"}, priorityClassName="high"))
        # No kubelet ends the victim, so it stays until it is deleted below.
        victim = until("the victim is terminating", lambda: self.terminating("low-b"))
        self.note_conditions("the victim", victim)
        self.note_event("the victim", victim, "Preempted")
        nominated = until("the node is nominated", lambda: self.get("high").get("status", {}).get("nominatedNodeName"))
        self.outcome["the nominated node"] = nominated
        self.note_event("the preemptor", self.get("high"), "FailedScheduling")
        self.server.request("DELETE", f"{self.pods}/low-b?gracePeriodSeconds=0")
        self.note_result("high")

    def terminating(self, name):
        pod = self.get(name)
        return pod if pod["metadata"].get("deletionTimestamp") else None

    def create(self, name, spec):
        self.server.request("POST", self.pods, {"metadata": {"name": name}, "spec": spec})

    def get(self, name):
        return self.server.request("GET", f"{self.pods}/{name}")

    def note_result(self, name):
        """The node of a pod, or why it has none."""
        pod = until(f"{name} is scheduled or not", lambda: self.decided(name))
        self.outcome[f"the node of {name}"] = pod["spec"].get("nodeName")
        self.note_conditions(name, pod)
        self.note_event(name, pod, "Scheduled" if pod["spec"].get("nodeName") else "FailedScheduling")

    def decided(self, name):
        """The pod, once it has a node or a condition that it has none. A nominated pod is about to have one."""
        pod = self.get(name)
        has_condition = scheduled_condition(pod) and not pod["status"].get("nominatedNodeName")
        return pod if pod["spec"].get("nodeName") or has_condition else None

    def note_conditions(self, what, pod):
        conditions = pod["status"].get("conditions", [])
        fields = ("type", "status", "reason", "message", "observedGeneration")
        self.outcome[f"conditions of {what}"] = [
            {field: normal(condition.get(field), pod) for field in fields} for condition in conditions
        ]

    def note_event(self, what, pod, reason):
        """The last event about a pod for a reason."""

        def read():
            selector = f"involvedObject.name%3D{pod['metadata']['name']}"
            events = self.server.request("GET", f"/api/v1/namespaces/{self.namespace}/events?fieldSelector={selector}")
            return [event for event in events["items"] if event["reason"] == reason]

        fields = ("type", "reason", "action", "reportingComponent", "message")
        # How often a pod is tried before the last change that it waits for is a matter of time.
        last = until(f"an event {reason} about {what}", read)[-1]
        self.outcome[f"event about {what}"] = {field: normal(last.get(field), pod) for field in fields}

    def clean_up(self):
        ignore_failure(self.server, "DELETE", f"/apis/apps/v1/namespaces/{self.namespace}/deployments/web")
        ignore_failure(self.server, "DELETE", f"/apis/apps/v1/namespaces/{self.namespace}/replicasets")

        def pods_are_gone():
            pods = self.server.request("GET", self.pods)["items"]
            for pod in pods:
                ignore_failure(self.server, "DELETE", f"{self.pods}/{pod['metadata']['name']}?gracePeriodSeconds=0")
            return not pods

        until("the pods are deleted", pods_are_gone)
        for name in NODES:
            self.server.request("DELETE", f"/api/v1/nodes/{name}")


def node(name, zone):
    resources = {"cpu": "4", "memory": "8Gi", "pods": "20"}
    conditions = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
    return {
        "metadata": {"name": name, "labels": {HOSTNAME: name, ZONE: zone}},
        "status": {"capacity": resources, "allocatable": resources, "conditions": conditions},
    }


def pod_spec(cpu, **fields):
    container = {"name": "c", "image": "example.com/c", "resources": {"requests": {"cpu": cpu}}}
    return {"containers": [container], **fields}


def required(kind, term):
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def scheduled_condition(pod):
    conditions = pod.get("status", {}).get("conditions", [])
    return next((condition for condition in conditions if condition["type"] == "PodScheduled"), {})


def normal(text, pod):
    """The text without names and uids that are made up."""
    if not isinstance(text, str):
        return text
    text = text.replace(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}", "POD")
    return re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID", text)


def ignore_failure(server, method, path, body=None):
    try:
        server.request(method, path, body)
    except Failure:
        pass


def check_scenario(clusters, scheduler, server, expected):
    """Runs the scenario. Returns its outcome and the differences from the expected one."""
    clusters.start_scheduler(scheduler, server)
    try:
        outcome = Scenario(server, scheduler.replace(" ", "-")).run()
        report = list(differences(expected, outcome)) if expected else []
        passed = check(f"a Deployment, affinity, preemption: {scheduler} on {server.name}", report)
        if "SETPOINT_CONFORMANCE" in os.environ:
            passed &= check_situations(clusters, scheduler, server)
    finally:
        clusters.stop("scheduler")
    return outcome, passed


def check_situations(clusters, scheduler, server):
    """Whether the decisions in the recorded situations are the recorded ones."""
    arguments = ["scheduling", "check", "--kubeconfig", str(clusters.kubeconfig(server))]
    command = [os.environ["SETPOINT_CONFORMANCE"], *arguments]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    lines = (ended.stdout + ended.stderr).splitlines() or ["the program has no output"]
    return check(f"{lines[-1]}: {scheduler} on {server.name}", [] if ended.returncode == 0 else lines)


def run(clusters):
    clusters.make_keys()
    clusters.start_etcd()
    clusters.start_setpoint()
    until("the kubeconfig of Setpoint", (clusters.folder / "kubeconfig").exists)
    setpoint = clusters.server("setpoint")
    until("Setpoint is ready", setpoint.is_ready)
    clusters.start_kube_apiserver()
    kube = clusters.server("kube-apiserver")
    until("kube-apiserver is ready", kube.is_ready, 120)
    expected, passed = {}, []
    for server in (kube, setpoint):
        clusters.start_controller_manager(server)
        for scheduler in SCHEDULERS:
            outcome, is_equal = check_scenario(clusters, scheduler, server, expected)
            # kube-scheduler on kube-apiserver comes first.
            expected = expected or outcome
            passed.append(is_equal)
        clusters.stop("kube-controller-manager")
    return all(passed)


def main():
    for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        if shutil.which(program(name)) is None:
            print(f"SKIPPED: {name} is not on the PATH")
            return 0
    with tempfile.TemporaryDirectory() as folder:
        clusters = Clusters(pathlib.Path(os.environ.get("KEEP", folder)))
        try:
            return 0 if run(clusters) else 1
        finally:
            clusters.stop_all()


if __name__ == "__main__":
    sys.exit(main())
