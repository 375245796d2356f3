"""Binding contexts of an operator of hooks, compared with those that the real shell-operator wrote.

    suite.py [--record VERSION] OPERATOR...

OPERATOR is the program with its arguments before `start`: `setpoint shell-operator`, or the path of the real one. The
server is the one of $KUBECONFIG; it must be new, and is changed. Every hook of `hooks/` runs while objects are created,
changed and deleted. With `--record` the contexts are written to `recorded/contexts.json`, else they are compared with that
file, hook by hook. Values that differ from run to run (uids, times, resource versions) are replaced, and objects of schedules
are those of the first run only. Only Python's library is used.
"""
import base64
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
RECORDED = os.path.join(HERE, "recorded", "contexts.json")
SECONDS = 180
# Schedules fire as often as they may; their first context is compared.
SCHEDULES = {"02-schedule.sh", "03-schedule-unnamed.sh", "22-group-schedule.sh"}
# Bindings with watches of their own: the order between them is that in which the events arrive.
SEVERAL_WATCHES = {"31-selectors.sh"}
GENERATED = {"uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "time", "deletionTimestamp",
             "authentication.kubernetes.io/credential-id"}


class Server:
    """The API server of a kubeconfig."""

    def __init__(self, kubeconfig, folder):
        with open(kubeconfig) as file:
            text = file.read()

        def value(key):
            found = re.search(rf'"?{key}"?:\s*"?([^"\s,]+)"?', text)
            return found and found.group(1)

        def pem(key, name):
            path = os.path.join(folder, name)
            with open(path, "wb") as file:
                file.write(base64.b64decode(value(key)))
            return path

        self.url = value("server")
        self.context = ssl.create_default_context(cafile=pem("certificate-authority-data", "ca.pem"))
        if value("client-certificate-data"):
            self.context.load_cert_chain(
                pem("client-certificate-data", "client.pem"), pem("client-key-data", "client.key"))
        self.token = value("token")

    def request(self, method, path, body=None, content_type="application/json"):
        headers = {"Content-Type": content_type}
        if self.token:
            headers["Authorization"] = "Bearer " + self.token
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, context=self.context, timeout=60) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{method} {path}: {error.code} {error.read().decode()}") from None

    def find(self, path):
        try:
            return self.request("GET", path)
        except RuntimeError as error:
            if ": 404 " in str(error):
                return None
            raise

    def create(self, path, body):
        return self.request("POST", path, body)

    def patch(self, path, body):
        return self.request("PATCH", path, body, "application/merge-patch+json")

    def delete(self, path):
        return self.request("DELETE", path)


def wait_for(what, condition):
    """Waits until the condition is true, and returns its value."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.1)
    raise RuntimeError(f"not within {SECONDS} seconds: {what}")


def crd(plural, kind, versions):
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.record.example.com"},
        "spec": {"group": "record.example.com", "scope": "Namespaced",
                 "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": kind + "List"},
                 "versions": [{"name": name, "served": True, "storage": name == versions[0], "schema": schema}
                              for name in versions]}}


def labelled(kind, name, namespace="record", **fields):
    metadata = {"name": name, "namespace": namespace, "labels": {"record": "yes"}}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **fields}


MAPS = "/api/v1/namespaces/record/configmaps"
THINGS = "/apis/record.example.com/v1/namespaces/record/things"


def prepare(server):
    """The objects that exist before the operator starts."""
    for name, labels in [("record", {"team": "record"}), ("other", {})]:
        server.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    for body in [crd("things", "Thing", ["v1"]), crd("converted", "Converted", ["v1", "v2", "v3"])]:
        server.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
    server.create(MAPS, labelled("ConfigMap", "one", data={"k": "1"}))
    server.create("/api/v1/namespaces/other/configmaps", labelled("ConfigMap", "other", "other", data={"k": "9"}))
    server.create("/api/v1/namespaces/record/secrets", labelled("Secret", "secret", data={"p": "cA=="}))
    wait_for("things are served", lambda: server.find(THINGS))
    thing = {"apiVersion": "record.example.com/v1", "kind": "Thing", "metadata": {"name": "first"}, "spec": {"size": 1}}
    server.create(THINGS, thing)
    converted = "/apis/record.example.com/v1/namespaces/record/converted"
    wait_for("converted objects are served", lambda: server.find(converted))
    server.create(converted, {"apiVersion": "record.example.com/v1", "kind": "Converted",
                              "metadata": {"name": "first"}, "spec": {"size": 1}})


def direct_webhooks(server, ports):
    """Lets webhooks point at the operator, which is no Service of the cluster."""
    registered = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations"
    for kind, count in [("validating", 2), ("mutating", 1)]:
        path = registered.format(kind)

        def webhooks():
            items = server.request("GET", path)["items"]
            own = [item for item in items if item["metadata"]["name"].startswith("record")]
            return own if own and len(own[0]["webhooks"]) == count else None

        for item in wait_for(f"{kind} webhooks are registered", webhooks):
            for webhook in item["webhooks"]:
                service = webhook["clientConfig"].pop("service")
                webhook["clientConfig"]["url"] = f"https://127.0.0.1:{ports[0]}{service['path']}"
            server.request("PUT", f"{path}/{item['metadata']['name']}", item)
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/converted.record.example.com"

    def conversion():
        found = server.request("GET", path)
        return found if found["spec"]["conversion"]["strategy"] == "Webhook" else None

    found = wait_for("the conversion webhook is registered", conversion)
    config = found["spec"]["conversion"]["webhook"]["clientConfig"]
    config["url"] = f"https://127.0.0.1:{ports[1]}{config.pop('service')['path']}"
    server.request("PUT", path, found)


class Operator:
    """The operator, with the hooks of this directory."""

    def __init__(self, program, folder):
        self.folder = folder
        self.ports = free_ports(4)
        self.records = os.path.join(folder, "records")
        hooks = os.path.join(folder, "hooks")
        shutil.copytree(os.path.join(HERE, "hooks"), hooks)
        certificates = issue_certificate(folder)
        environment = {
            **os.environ,
            "KUBE_CONFIG": os.environ["KUBECONFIG"],
            "RECORD_DIR": self.records,
            "RECORD_LIB": os.path.join(HERE, "record.sh"),
            "SHELL_OPERATOR_HOOKS_DIR": hooks,
            "SHELL_OPERATOR_TMP_DIR": os.path.join(folder, "tmp"),
            "SHELL_OPERATOR_LISTEN_ADDRESS": "127.0.0.1",
            "SHELL_OPERATOR_LISTEN_PORT": str(self.ports[2]),
            "SHELL_OPERATOR_NAMESPACE": "record",
            "DEBUG_UNIX_SOCKET": os.path.join(folder, "debug.socket"),
            "VALIDATING_WEBHOOK_CONFIGURATION_NAME": "record",
            "KUBE_CLIENT_QPS": "100", "KUBE_CLIENT_BURST": "200",
        }
        for server, port in [("VALIDATING", self.ports[0]), ("CONVERSION", self.ports[1])]:
            environment[f"{server}_WEBHOOK_LISTEN_PORT"] = str(port)
            environment[f"{server}_WEBHOOK_LISTEN_ADDRESS"] = "127.0.0.1"
            for name, path in certificates.items():
                environment[f"{server}_WEBHOOK_{name}"] = path
        self.log = open(os.path.join(folder, "operator.log"), "wb")
        self.process = subprocess.Popen([*program, "start"], env=environment, stdout=self.log, stderr=self.log)

    def runs(self, hook):
        """The contexts of each run of a hook."""
        folder = os.path.join(self.records, hook)
        names = sorted(name for name in os.listdir(folder) if name.endswith(".json")) if os.path.isdir(folder) else []
        runs = []
        for name in names:
            with open(os.path.join(folder, name)) as file:
                runs.append(json.load(file))
        return runs

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.log.close()


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def issue_certificate(folder):
    """A self-signed certificate for the address and for the names of the Services."""
    paths = {name: os.path.join(folder, file) for name, file in
             [("SERVER_CERT", "tls.crt"), ("SERVER_KEY", "tls.key"), ("CA", "tls.crt")]}
    names = ["IP:127.0.0.1"] + [f"DNS:shell-operator-{kind}-svc.record{suffix}"
                                for kind in ("validating", "conversion") for suffix in ("", ".svc")]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=record",
         "-addext", "subjectAltName=" + ",".join(names), "-keyout", paths["SERVER_KEY"], "-out", paths["SERVER_CERT"]],
        check=True, capture_output=True)
    return paths


def count_contexts(operator, hook, description):
    """How many contexts of a hook have this type and event."""
    return sum(1 for run in operator.runs(hook) for context in run
               if (context.get("watchEvent") or context.get("resourceEvent") or context.get("type")) == description)


def await_context(operator, hook, description, count=1):
    wait_for(f"{hook}: {count} times {description}", lambda: count_contexts(operator, hook, description) >= count)


EVERY_EVENT = ["10-events.sh", "11-unnamed.sh", "12-jq-object.sh", "13-jq-scalar.sh", "17-lean.sh", "18-lean-plain.sh",
               "20-snapshots.sh", "32-namespace-labels.sh", "35-no-wait.sh", "36-allow-failure.sh"]


def drive(server, operator):
    """The events: one at a time, each awaited, so that no two of them are combined."""
    for hook in EVERY_EVENT:
        await_context(operator, hook, "Synchronization")
    for hook in ["33-cluster-wide.sh", "34-custom.sh", "31-selectors.sh"]:
        await_context(operator, hook, "Synchronization")
    await_context(operator, "21-group.sh", "Group")
    for hook in sorted(SCHEDULES):
        wait_for(f"{hook} has run", lambda: operator.runs(hook))
    wait_for("40-v0.sh has run twice", lambda: len(operator.runs("40-v0.sh")) >= 2)
    direct_webhooks(server, operator.ports)
    server.create(MAPS, labelled("ConfigMap", "two", data={"k": "2"}))
    for hook in EVERY_EVENT:
        await_context(operator, hook, "Added")
    await_context(operator, "31-selectors.sh", "Added", 3)
    await_context(operator, "21-group.sh", "Group", 2)
    server.patch(f"{MAPS}/two", {"data": {"k": "3"}})
    for hook in EVERY_EVENT:
        await_context(operator, hook, "Modified")
    await_context(operator, "21-group.sh", "Group", 3)
    server.delete(f"{MAPS}/two")
    for hook in [*EVERY_EVENT, "30-deleted-only.sh"]:
        await_context(operator, hook, "Deleted")
    await_context(operator, "31-selectors.sh", "Deleted", 3)
    await_context(operator, "21-group.sh", "Group", 4)
    server.patch("/api/v1/namespaces/record", {"metadata": {"labels": {"colour": "red"}}})
    await_context(operator, "33-cluster-wide.sh", "Modified")
    thing = {"apiVersion": "record.example.com/v1", "kind": "Thing", "metadata": {"name": "second"}, "spec": {"size": 2}}
    server.create(THINGS, thing)
    await_context(operator, "34-custom.sh", "Added")
    server.patch(f"{THINGS}/second", {"spec": {"size": 3}})
    await_context(operator, "34-custom.sh", "Modified")
    server.delete(f"{THINGS}/second")
    await_context(operator, "34-custom.sh", "Deleted")
    for hook in ["50-validating.sh", "52-mutating.sh"]:
        kind = "Validating" if "validating" in hook else "Mutating"
        await_context(operator, hook, kind, 3)
    server.request("GET", "/apis/record.example.com/v3/namespaces/record/converted/first")
    await_context(operator, "53-conversion.py", "Conversion", 2)


def normal(value, key=""):
    """The value without what differs from run to run."""
    if key in GENERATED and value is not None:
        return f"<{key}>"
    if isinstance(value, dict):
        return {name: normal(item, name) for name, item in sorted(value.items()) if name != "managedFields"}
    if isinstance(value, list):
        return [normal(item) for item in value]
    return value


def contexts(operator):
    """The contexts of every hook, in the order of its runs."""
    result = {}
    for hook in sorted(os.listdir(os.path.join(HERE, "hooks"))):
        flat = [normal(context) for run in operator.runs(hook) for context in run]
        if hook in SCHEDULES:
            flat = flat[:1]
        if hook in SEVERAL_WATCHES:
            flat.sort(key=lambda context: context["binding"])
        if hook == "40-v0.sh":
            ticks = [context for context in flat if context["binding"] == "tick"][:1]
            flat = ticks + [context for context in flat if context["binding"] != "tick"]
        result[hook] = flat
    return result


def differences(ours, theirs, path):
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(set(ours) | set(theirs)):
            if key not in ours or key not in theirs:
                yield f"{path}.{key}: only {'recorded' if key in theirs else 'here'}"
            else:
                yield from differences(ours[key], theirs[key], f"{path}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, pair in enumerate(zip(ours, theirs)):
            yield from differences(*pair, f"{path}[{index}]")
    elif ours != theirs or isinstance(ours, bool) != isinstance(theirs, bool):
        yield f"{path}: {json.dumps(ours)[:200]} here, {json.dumps(theirs)[:200]} recorded"


def compare(found):
    with open(RECORDED) as file:
        recorded = json.load(file)
    failures = 0
    for hook in sorted(set(found) | set(recorded["contexts"])):
        different = list(differences(found.get(hook), recorded["contexts"].get(hook), ""))
        failures += bool(different)
        print(f"{'different' if different else 'equal':9} {hook} ({len(found.get(hook) or [])} contexts)")
        for line in different[:10]:
            print("          " + line)
    print(f"{len(found) - failures} of {len(found)} hooks have the contexts of shell-operator {recorded['version']}")
    return failures


def main():
    arguments = sys.argv[1:]
    version = None
    if arguments[0] == "--record":
        version, arguments = arguments[1], arguments[2:]
    folder = tempfile.mkdtemp(prefix="hooks-")
    server = Server(os.environ["KUBECONFIG"], folder)
    prepare(server)
    operator = Operator(arguments, folder)
    try:
        drive(server, operator)
    except BaseException:
        with open(os.path.join(folder, "operator.log"), errors="replace") as file:
            print("".join(file.readlines()[-60:]))
        raise
    finally:
        found = contexts(operator)
        operator.stop()
        if os.environ.get("KEEP_RECORDS"):
            print(folder)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    if version is None:
        sys.exit(1 if compare(found) else 0)
    os.makedirs(os.path.dirname(RECORDED), exist_ok=True)
    with open(RECORDED, "w") as file:
        json.dump({"version": version, "contexts": found}, file, indent=1, sort_keys=True)
        file.write("\n")
    print(f"recorded {sum(map(len, found.values()))} contexts of {len(found)} hooks")


main()
