"""One etcd, a kube-apiserver and a Setpoint at the same time: each serves what the other writes.

Needs etcd, kube-apiserver and kube-controller-manager of Kubernetes 1.37 on the PATH (`KUBE_BIN` names another folder), the
module `yaml`, and `SETPOINT` as the path of the binary. Everything is in a folder of its own and on loopback; both servers
have the CAs and keys that Setpoint makes.
"""

import base64
import concurrent.futures
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time

import yaml

CORPUS = pathlib.Path(__file__).resolve().parents[2] / "crates/conformance/corpus"
NAMESPACE = "side"
# What a server writes about itself, on its own schedule, when both are compared.
RESTLESS = {"leases", "events"}
TIMEOUT = 60


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def until(what, condition, timeout=TIMEOUT):
    end = time.monotonic() + timeout
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout} s: {what}")
        time.sleep(0.1)


class Failure(Exception):
    """The status of a failed request."""


class Server:
    """A client of one server."""

    def __init__(self, name, port, tls):
        self.name, self.port, self.tls = name, port, tls

    def connect(self):
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=self.tls, timeout=TIMEOUT)

    def request(self, method, path, body=None, content_type="application/json"):
        connection = self.connect()
        try:
            connection.request(
                method,
                path,
                json.dumps(body) if body is not None else None,
                {"Content-Type": content_type, "Accept": "application/json"},
            )
            response = connection.getresponse()
            text = response.read().decode()
        finally:
            connection.close()
        if response.status >= 400:
            raise Failure(f"{self.name}: {method} {path}: {response.status} {text[:500]}")
        return json.loads(text) if text.startswith("{") else text

    def is_ready(self):
        try:
            return self.request("GET", "/readyz").startswith("ok")
        except (OSError, Failure, AttributeError):
            return False

    def resources(self):
        """The collections that can be listed, by path; the preferred version of each group."""
        found = {}
        versions = [("/api/v1", "v1")]
        for group in self.request("GET", "/apis")["groups"]:
            for version in group["versions"]:
                versions.append((f"/apis/{version['groupVersion']}", version["groupVersion"]))
        for root, version in versions:
            # An aggregated API server that does not exist is served by neither.
            served = try_request(self, "GET", root)
            for resource in served["resources"] if served else []:
                if "list" in resource["verbs"] and "/" not in resource["name"]:
                    found[f"{root}/{resource['name']}"] = resource
        return found

    def watch(self, path):
        """A function that returns the next event of a watch."""
        connection = self.connect()
        connection.request("GET", f"{path}?watch=true&timeoutSeconds=300&resourceVersion={self.version(path)}")
        response = connection.getresponse()
        if response.status != 200:
            raise Failure(f"{self.name}: watch {path}: {response.status}")
        return lambda: json.loads(response.readline())

    def version(self, path):
        return self.request("GET", f"{path}?limit=1")["metadata"]["resourceVersion"]


class Rig:
    """The processes of the suite."""

    def __init__(self, folder):
        self.folder, self.processes, self.files = folder, {}, {}
        self.etcd_url = f"http://127.0.0.1:{free_port()}"
        self.ports = {"setpoint": free_port(), "kube-apiserver": free_port(), "kube-controller-manager": free_port()}

    def start(self, name, *arguments):
        log = open(self.folder / f"{name}.log", "ab")
        self.processes[name] = subprocess.Popen(arguments, stdout=log, stderr=log, cwd=self.folder)

    def stop(self, name):
        process = self.processes.pop(name)
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def stop_all(self):
        for name in list(self.processes)[::-1]:
            self.stop(name)

    def make_keys(self):
        """The key of ServiceAccount tokens, of a type that kube-apiserver reads."""
        command = ["openssl", "genrsa", "-traditional", "-out", str(self.folder / "sa.key"), "2048"]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)

    def start_etcd(self):
        peer = f"http://127.0.0.1:{free_port()}"
        self.start(
            "etcd",
            os.environ.get("SETPOINT_ETCD", "etcd"),
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={self.etcd_url}",
            f"--advertise-client-urls={self.etcd_url}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
        )

    def start_setpoint(self):
        self.start(
            "setpoint",
            os.environ["SETPOINT"],
            "up",
            f"--etcd-servers={self.etcd_url}",
            f"--data-dir={self.folder / 'data'}",
            "--nodes=0",
            "--controllers=none",
            "--advertise-address=192.0.2.1",
            f"--listen=127.0.0.1:{self.ports['setpoint']}",
            f"--kubeconfig={self.folder / 'kubeconfig'}",
            f"--service-account-signing-key-file={self.folder / 'sa.key'}",
            "--service-cluster-ip-range=10.0.0.0/24",
        )

    def start_kube_apiserver(self):
        pki = self.folder / "data/pki"
        self.start(
            "kube-apiserver",
            program("kube-apiserver"),
            f"--etcd-servers={self.etcd_url}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.ports['kube-apiserver']}",
            "--advertise-address=192.0.2.2",
            f"--cert-dir={self.folder / 'kube-apiserver'}",
            f"--client-ca-file={pki / 'ca.crt'}",
            f"--tls-cert-file={pki / 'server.crt'}",
            f"--tls-private-key-file={pki / 'server.key'}",
            f"--service-account-key-file={self.folder / 'sa.key'}",
            f"--service-account-signing-key-file={self.folder / 'sa.key'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--requestheader-client-ca-file={pki / 'front-proxy-ca.crt'}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-uid-headers=X-Remote-Uid",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={pki / 'front-proxy-client.crt'}",
            f"--proxy-client-key-file={pki / 'front-proxy-client.key'}",
            "--authorization-mode=Node,RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
        )

    def start_controller_manager(self, server):
        """kube-controller-manager as a client of this server."""
        config = yaml.safe_load((self.folder / "kubeconfig").read_text())
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{server.port}"
        path = self.folder / f"kubeconfig-{server.name}"
        path.write_text(yaml.safe_dump(config))
        pki = self.folder / "data/pki"
        self.start(
            "kube-controller-manager",
            program("kube-controller-manager"),
            f"--kubeconfig={path}",
            f"--authentication-kubeconfig={path}",
            f"--authorization-kubeconfig={path}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.ports['kube-controller-manager']}",
            f"--cert-dir={self.folder / 'kube-controller-manager'}",
            f"--root-ca-file={pki / 'ca.crt'}",
            f"--service-account-private-key-file={self.folder / 'sa.key'}",
            "--use-service-account-credentials=true",
            "--service-cluster-ip-range=10.0.0.0/24",
        )

    def server(self, name):
        config = yaml.safe_load((self.folder / "kubeconfig").read_text())
        user = config["users"][0]["user"]
        tls = ssl.create_default_context(cadata=decode(config["clusters"][0]["cluster"]["certificate-authority-data"]))
        for file in ("client-certificate-data", "client-key-data"):
            (self.folder / file).write_text(decode(user[file]))
        tls.load_cert_chain(self.folder / "client-certificate-data", self.folder / "client-key-data")
        return Server(name, self.ports[name], tls)


def decode(text):
    return base64.b64decode(text).decode()


def program(name):
    folder = os.environ.get("KUBE_BIN")
    return str(pathlib.Path(folder) / name) if folder else name


def corpus(name):
    def fill(value):
        match value:
            case str():
                return value.replace("{ns}", NAMESPACE)
            case list():
                return [fill(item) for item in value]
            case dict():
                return {fill(key): fill(item) for key, item in value.items()}
            case _:
                return value

    return fill(yaml.safe_load((CORPUS / name).read_text()))


def differences(left, right, path=""):
    """The paths at which two values differ."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted(left.keys() | right.keys()):
            if key not in left or key not in right:
                yield f"{path}.{key}: {left.get(key)!r} and {right.get(key)!r}"
            else:
                yield from differences(left[key], right[key], f"{path}.{key}")
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for number, (one, other) in enumerate(zip(left, right)):
            yield from differences(one, other, f"{path}[{number}]")
    elif left != right:
        yield f"{path}: {left!r} and {right!r}"


def key_of(item):
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]


def compare_lists(one, other):
    """Every collection of both: the same objects in the same order, each with the same resource version and contents."""
    left, right = one.resources(), other.resources()
    report = [f"served by one only: {path}" for path in sorted(left.keys() ^ right.keys())]
    objects = 0
    for path in sorted(left.keys() & right.keys()):
        if path.endswith("/componentstatuses"):
            continue
        for _ in range(5):
            pair = [server.request("GET", path).get("items") or [] for server in (one, other)]
            found = list(differences([key_of(item) for item in pair[0]], [key_of(item) for item in pair[1]], path))
            if not found:
                for mine, yours in zip(*pair):
                    found.extend(differences(mine, yours, f"{path}{key_of(mine)}"))
            if not found or left[path]["name"] not in RESTLESS:
                break
            time.sleep(0.2)
        objects += len(pair[0])
        report.extend(found)
    return len(left.keys() & right.keys()), objects, report


def create_corpus(servers):
    """Creates an object of every kind, each through the next server; the other one must then read it, changed by it."""
    report, created = [], []
    for number, case in enumerate(entry for entry in corpus("kinds.yaml") if entry.get("only") != "create"):
        writer, reader = servers[number % 2], servers[(number + 1) % 2]
        path, name = case["at"], case["object"]["metadata"].get("name")
        try:
            made = writer.request("POST", path, case["object"])
            name = made["metadata"]["name"]
            for line in read_both(servers, f"{path}/{name}"):
                report.append(f"created by {writer.name}: {line}")
            if "change" in case:
                reader.request("PATCH", f"{path}/{name}", case["change"], "application/merge-patch+json")
                for line in read_both(servers, f"{path}/{name}"):
                    report.append(f"changed by {reader.name}: {line}")
            created.append((path, name))
        except Failure as failure:
            report.append(str(failure))
    return created, report


def read_both(servers, path):
    """How the object differs at the two servers. Some objects get a status meanwhile, so it is read until it is quiet."""
    for _ in range(10):
        pair = [server.request("GET", path) for server in servers]
        found = list(differences(*pair, path))
        if not found or pair[0]["metadata"]["resourceVersion"] == pair[1]["metadata"]["resourceVersion"]:
            break
        time.sleep(0.2)
    return found


def create_custom(servers):
    """A CustomResourceDefinition through one server; its objects through both, once each serves the kind."""
    custom = corpus("custom.yaml")
    servers[0].request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", custom["definition"])
    path = f"/apis/mutation.example.com/v1/namespaces/{NAMESPACE}/gadgets"
    for server in servers:
        body = custom["object"] | {"metadata": {"name": f"by-{server.name}"}}
        until(f"{server.name} serves gadgets", lambda: try_request(server, "POST", path, body))


def try_request(server, *arguments):
    try:
        return server.request(*arguments)
    except (Failure, http.client.HTTPException):
        # kube-apiserver 1.37 may panic while it begins to serve a custom kind, and closes the connection.
        return None


def check_watches(servers):
    """A write through either server is an event of a watch at the other, with the same object."""
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    report = []
    for writer, watcher in (servers, servers[::-1]):
        name = f"watched-by-{watcher.name}"
        next_event = watcher.watch(path)
        writes = [
            ("ADDED", writer.request("POST", path, {"metadata": {"name": name}, "data": {"a": "1"}})),
            ("MODIFIED", writer.request("PATCH", f"{path}/{name}", {"data": {"a": "2"}}, "application/merge-patch+json")),
        ]
        writer.request("DELETE", f"{path}/{name}")
        for kind, written in writes:
            event = next_event()
            report.extend(differences({"type": kind, "object": written}, event, f"watch at {watcher.name}"))
        event = next_event()
        if event["type"] != "DELETED" or event["object"]["metadata"]["name"] != name:
            report.append(f"watch at {watcher.name}: {event} instead of a deletion")
    return report


def check_conflicts(servers):
    """Of two updates of one version, one through each server, one succeeds."""
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    servers[0].request("POST", path, {"metadata": {"name": "contended"}})
    report = []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for number in range(20):
            current = servers[number % 2].request("GET", f"{path}/contended")

            def update(server):
                try:
                    body = current | {"data": {"writer": server.name, "round": str(number)}}
                    return server.request("PUT", f"{path}/contended", body)
                except Failure as failure:
                    return str(failure)

            results = list(pool.map(update, servers))
            if [isinstance(result, dict) for result in results].count(True) != 1:
                report.append(f"round {number}: {results}")
    return report


def stored_node_ports(rig):
    """The node ports in the bitmap that both servers allocate from."""
    key = base64.b64encode(b"/registry/ranges/servicenodeports").decode()
    host = rig.etcd_url.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=TIMEOUT)
    connection.request("POST", "/v3/kv/range", json.dumps({"key": key}))
    value = base64.b64decode(json.loads(connection.getresponse().read())["kvs"][0]["value"])
    connection.close()
    # The second field of the message is the range, the third the bitmap, whose length takes one or two bytes.
    rest = value.split(b"\x12\x0b30000-32767\x1a", 1)[1]
    length, start = (rest[0], 1) if rest[0] < 0x80 else (rest[0] - 0x80 + (rest[1] << 7), 2)
    bitmap = int.from_bytes(rest[start : start + length], "big")
    return {30000 + bit for bit in range(bitmap.bit_length()) if bitmap >> bit & 1}


def served_node_ports(server):
    services = server.request("GET", "/api/v1/services")["items"]
    ports = [port.get("nodePort") for service in services for port in service["spec"].get("ports", [])]
    ports.extend(service["spec"].get("healthCheckNodePort") for service in services)
    return [port for port in ports if port]


def check_allocations(rig, servers, count):
    """Cluster IPs and node ports are given out once, by whichever server, and both keep the bitmap of node ports."""
    path = f"/api/v1/namespaces/{NAMESPACE}/services"

    def create(number):
        spec = {"type": "NodePort", "ports": [{"port": 80}]}
        body = {"metadata": {"name": f"allocated-{number}"}, "spec": spec}
        return servers[number % 2].request("POST", path, body)["spec"]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        specs = list(pool.map(create, range(count)))
        # The other server deletes every third one; of another third the node ports are released by either.
        deleted = [(servers[(number + 1) % 2], number) for number in range(0, count, 3)]
        list(pool.map(lambda one: one[0].request("DELETE", f"{path}/allocated-{one[1]}"), deleted))
        changed = [(servers[number // 3 % 2], number) for number in range(1, count, 3)]
        patch = {"spec": {"type": "ClusterIP"}}
        content_type = "application/merge-patch+json"
        list(pool.map(lambda one: one[0].request("PATCH", f"{path}/allocated-{one[1]}", patch, content_type), changed))
    report = []
    addresses = {spec["clusterIP"] for spec in specs}
    ports = {spec["ports"][0]["nodePort"] for spec in specs}
    if len(addresses) != count:
        report.append(f"{len(addresses)} cluster IPs")
    if len(ports) != count:
        report.append(f"{len(ports)} node ports")
    # kube-apiserver releases ports after its response.
    served = served_node_ports(servers[0])
    try:
        until("the bitmap has the ports of the Services", lambda: stored_node_ports(rig) == set(served), 10)
    except AssertionError:
        report.append(f"the bitmap has {sorted(stored_node_ports(rig) ^ set(served))} besides or instead")
    return report


def check_controllers(rig, servers):
    """kube-controller-manager on one server, clients on the other."""
    timings = {}
    for manager_server, client in (servers, servers[::-1]):
        rig.start_controller_manager(manager_server)
        name = f"rolled-by-{manager_server.name}"
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "example.com/c"}]}}
        body = {
            "metadata": {"name": name},
            "spec": {"replicas": 3, "selector": {"matchLabels": labels}, "template": template},
        }
        start = time.monotonic()
        client.request("POST", "/apis/apps/v1/namespaces/default/deployments", body)
        pods = f"/api/v1/namespaces/default/pods?labelSelector=app={name}"
        until(f"three pods of {name}", lambda: len(client.request("GET", pods)["items"]) == 3)
        scale = {"spec": {"replicas": 1}}
        client.request(
            "PATCH", f"/apis/apps/v1/namespaces/default/deployments/{name}", scale, "application/merge-patch+json"
        )
        until(f"one pod of {name}", lambda: len(client.request("GET", pods)["items"]) == 1)
        timings[manager_server.name] = round(time.monotonic() - start, 1)
        rig.stop("kube-controller-manager")
    return timings


def check_one_stops(rig, servers, restart):
    """Each stops in turn; the other carries on, with everything that was acknowledged by either."""
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    for stopped, survivor in (servers, servers[::-1]):
        names = [f"before-{stopped.name}-{number}" for number in range(20)]
        for name in names:
            stopped.request("POST", path, {"metadata": {"name": name}})
        rig.stop(stopped.name)
        for name in names:
            survivor.request("DELETE", f"{path}/{name}")
            survivor.request("POST", path, {"metadata": {"name": f"after-{name}"}})
        restart[stopped.name]()
        until(f"{stopped.name} is ready again", stopped.is_ready)
        for name in names:
            stopped.request("GET", f"{path}/after-{name}")


def check(name, report):
    for line in report:
        print(f"  {line}")
    print(f"{'FAIL' if report else 'ok  '} {name}" + (f": {len(report)} differences" if report else ""))
    return not report


def run(rig):
    rig.make_keys()
    rig.start_etcd()
    # A kube-apiserver on an empty etcd makes objects of its own versions; Setpoint has to make its keys first.
    rig.start_setpoint()
    until("the kubeconfig of Setpoint", (rig.folder / "kubeconfig").exists)
    setpoint = rig.server("setpoint")
    until("Setpoint is ready", setpoint.is_ready)
    rig.start_kube_apiserver()
    kube = rig.server("kube-apiserver")
    until("kube-apiserver is ready", kube.is_ready, 120)
    servers = [kube, setpoint]
    kube.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    kube.request("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": "default"}})
    passed = []
    create_custom(servers)
    kinds, objects, report = compare_lists(kube, setpoint)
    passed.append(check(f"the same {objects} objects of {kinds} collections after the start", report))
    created, report = create_corpus(servers)
    passed.append(check(f"{len(created)} objects, created through one and changed through the other", report))
    kinds, objects, report = compare_lists(kube, setpoint)
    passed.append(check(f"the same {objects} objects of {kinds} collections", report))
    passed.append(check("writes through one are events at the other", check_watches(servers)))
    passed.append(check("of two concurrent updates one succeeds", check_conflicts(servers)))
    count = 100
    report = check_allocations(rig, servers, count)
    passed.append(check(f"{count} Services: as many cluster IPs and node ports, and the bitmap has these", report))
    timings = check_controllers(rig, servers)
    passed.append(check(f"a rollout by kube-controller-manager on one, requested from the other: {timings} s", []))
    kinds, objects, report = compare_lists(kube, setpoint)
    passed.append(check(f"the same {objects} objects of {kinds} collections after the rollouts", report))
    check_one_stops(
        rig, servers, {"setpoint": rig.start_setpoint, "kube-apiserver": rig.start_kube_apiserver}
    )
    passed.append(check("each stops, the other carries on", []))
    kinds, objects, report = compare_lists(kube, setpoint)
    passed.append(check(f"the same {objects} objects of {kinds} collections at the end", report))
    return all(passed)


def main():
    for name in ("kube-apiserver", "kube-controller-manager"):
        if shutil.which(program(name)) is None:
            print(f"SKIPPED: {name} is not on the PATH")
            return 0
    with tempfile.TemporaryDirectory() as folder:
        rig = Rig(pathlib.Path(os.environ.get("KEEP", folder)))
        try:
            return 0 if run(rig) else 1
        finally:
            rig.stop_all()


if __name__ == "__main__":
    sys.exit(main())
