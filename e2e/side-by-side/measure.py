"""CPU time of a kube-apiserver and a Setpoint for the same requests, on one etcd, in alternating rounds.

Same setup and variables as suite.py. Only the time of the measured server's process counts, less what it needs when idle; the
client and etcd are other processes. `ROUNDS`, `OBJECTS` and `CLIENTS` set how many rounds
there are, how many requests in each, and over how many connections they are sent at once.
"""

import concurrent.futures
import json
import os
import pathlib
import socket
import statistics
import sys
import tempfile
import threading
import time

from suite import NAMESPACE, Rig, until

ROUNDS = int(os.environ.get("ROUNDS", "5"))
OBJECTS = int(os.environ.get("OBJECTS", "500"))
CLIENTS = int(os.environ.get("CLIENTS", "16"))
WATCHERS = 50
TICKS = os.sysconf("SC_CLK_TCK")
PATH = f"/api/v1/namespaces/{NAMESPACE}/configmaps"


def process_seconds(pid):
    """The CPU time of a process, in ticks of the clock."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Client:
    """One connection that stays open."""

    def __init__(self, server):
        self.connection = server.connect()

    def call(self, method, path, body=None):
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        self.connection.request(method, path, body, headers)
        response = self.connection.getresponse()
        data = response.read()
        assert response.status < 300, (response.status, data[:300])
        return data


def config_map(name, fill):
    return json.dumps({"metadata": {"name": name}, "data": {"text": fill * 1000}})


class Subject:
    """A server that is measured."""

    def __init__(self, rig, name):
        self.name, self.pid = name, rig.processes[name].pid
        self.server = rig.server(name)
        self.idle = 0.0
        self.connect()

    def connect(self):
        """Opens new connections: a server closes those that are not used for a while."""
        self.clients = [Client(self.server) for _ in range(CLIENTS)]
        self.client = self.clients[0]

    def measure_idle(self, seconds=3):
        """CPU seconds for each second, with an open connection and no requests."""
        start, before = time.monotonic(), process_seconds(self.pid)
        time.sleep(seconds)
        self.idle = (process_seconds(self.pid) - before) / (time.monotonic() - start)

    def cost(self, count, work):
        """Microseconds of CPU time for each of `count` units of `work`."""
        start, before = time.monotonic(), process_seconds(self.pid)
        work()
        took = time.monotonic() - start
        used = process_seconds(self.pid) - before - self.idle * took
        return max(used, 0) / count * 1e6


def repeat(subject, count, call):
    """Sends requests over all connections of a subject, each as soon as the last response of its connection is read."""

    def send(share):
        for number in range(share, count, CLIENTS):
            call(subject.clients[share], number)

    def work():
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(send, range(CLIENTS)))

    return work


def measure_requests(subject, round_number):
    prefix = f"m-{subject.name}-{round_number}"
    path = lambda number: f"{PATH}/{prefix}-{number % OBJECTS}"
    body = lambda number, fill: config_map(f"{prefix}-{number}", fill)
    requests = {
        "create": (OBJECTS, lambda client, number: client.call("POST", PATH, body(number, "a"))),
        "update": (OBJECTS, lambda client, number: client.call("PUT", path(number), body(number, "b"))),
        "get": (4 * OBJECTS, lambda client, number: client.call("GET", path(number))),
        f"list of {OBJECTS}": (64, lambda client, _: client.call("GET", PATH)),
        "delete": (OBJECTS, lambda client, number: client.call("DELETE", path(number))),
    }
    return {
        what: subject.cost(count, repeat(subject, count, call)) for what, (count, call) in requests.items()
    }


def measure_watch(subject, other, round_number):
    """The cost of an event to one watcher: of writes through the other server with watchers, less the same without."""
    name = f"w-{subject.name}-{round_number}"
    other.client.call("POST", PATH, config_map(name, "a"))

    def writes():
        for number in range(OBJECTS):
            other.client.call("PUT", f"{PATH}/{name}", config_map(name, "ab"[number % 2]))
        version = json.loads(other.client.call("GET", f"{PATH}/{name}"))["metadata"]["resourceVersion"].encode()
        for last in lasts:
            assert last.wait_for(version)

    lasts = []
    without = subject.cost(1, writes)
    version = json.loads(subject.client.call("GET", f"{PATH}?limit=1"))["metadata"]["resourceVersion"]
    lasts.extend(Watcher(subject.server, version) for _ in range(WATCHERS))
    with_watchers = subject.cost(1, writes)
    for last in lasts:
        last.close()
    other.client.call("DELETE", f"{PATH}/{name}")
    return {
        "change of another server": without / OBJECTS,
        "watch event": (with_watchers - without) / OBJECTS / WATCHERS,
    }


class Watcher(threading.Thread):
    """Reads a watch and keeps its last line only."""

    def __init__(self, server, version):
        super().__init__(daemon=True)
        self.connection = server.connect()
        self.connection.request("GET", f"{PATH}?watch=true&resourceVersion={version}&timeoutSeconds=600")
        self.response = self.connection.getresponse()
        self.line = b""
        self.start()

    def run(self):
        try:
            for line in self.response:
                self.line = line
        except (OSError, ValueError, AttributeError):
            pass

    def wait_for(self, version):
        needle = b'"resourceVersion":"' + version + b'"'
        return until("the last event of a watch", lambda: needle in self.line)

    def close(self):
        """Ends the connection, which the reader has open, too."""
        self.connection.sock.shutdown(socket.SHUT_RDWR)
        self.join()


def main():
    with tempfile.TemporaryDirectory() as folder:
        rig = Rig(pathlib.Path(folder))
        try:
            rig.make_keys()
            rig.start_etcd()
            rig.start_setpoint()
            until("the kubeconfig of Setpoint", (rig.folder / "kubeconfig").exists)
            until("Setpoint is ready", rig.server("setpoint").is_ready)
            rig.start_kube_apiserver()
            until("kube-apiserver is ready", rig.server("kube-apiserver").is_ready, 120)
            subjects = [Subject(rig, "kube-apiserver"), Subject(rig, "setpoint")]
            subjects[0].server.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
            report(measure(subjects))
            for subject in subjects:
                status = pathlib.Path(f"/proc/{subject.pid}/status").read_text()
                memory = next(line for line in status.splitlines() if line.startswith("VmRSS"))
                print(f"{subject.name}: {memory}")
            return 0
        finally:
            rig.stop_all()


def measure(subjects):
    """One unmeasured round, then the rounds, with the order of the servers alternating."""
    results = {subject.name: {} for subject in subjects}
    for round_number in range(ROUNDS + 1):
        order = subjects if round_number % 2 else subjects[::-1]
        for subject in order:
            other = next(one for one in subjects if one is not subject)
            subject.connect()
            subject.measure_idle()
            costs = measure_requests(subject, round_number)
            other.connect()
            costs |= measure_watch(subject, other, round_number)
            if round_number > 0:
                for what, cost in costs.items():
                    results[subject.name].setdefault(what, []).append(cost)
    return results


def report(results):
    print(f"load {os.getloadavg()}; {CLIENTS} connections; microseconds of CPU time, median of {ROUNDS} rounds (least, most)")
    for what in next(iter(results.values())):
        medians = [statistics.median(results[name][what]) for name in ("kube-apiserver", "setpoint")]
        ranges = [f"{min(costs[what]):.1f}-{max(costs[what]):.1f}" for costs in results.values()]
        ratio = medians[0] / medians[1] if medians[1] else float("inf")
        print(f"{what:26} kube-apiserver {medians[0]:9.1f} setpoint {medians[1]:8.1f}  ratio {ratio:5.1f}  ({'; '.join(ranges)})")


if __name__ == "__main__":
    sys.exit(main())
