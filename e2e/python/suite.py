"""Tests of the Python client against a server: create, read, update, patch, watch, pagination, conflict, delete,
logs, commands and ports of pods.

The server is the one of $KUBECONFIG. Each test is a function and prints one line with its outcome.
"""
import sys
import threading
import time
import traceback

from kubernetes import client, config, dynamic, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.stream import portforward, stream

NAMESPACE = "python"
TESTS = []


def test(function):
    TESTS.append(function)
    return function


def expected_failure(function):
    """Marks an expected failure. It still runs: once it passes, the mark must be removed."""
    function.expected_failure = True
    return function


def config_map(name, **data):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name), data=data)


def expect_status(status, call):
    try:
        call()
    except ApiException as error:
        assert error.status == status, f"expected {status}, got {error.status}: {error.body}"
        return error
    raise AssertionError(f"the call succeeded, expected {status}")


@test
def objects_are_created_read_updated_and_deleted(core):
    created = core.create_namespaced_config_map(NAMESPACE, config_map("crud", a="1"))
    assert created.metadata.uid and created.metadata.resource_version
    read = core.read_namespaced_config_map("crud", NAMESPACE)
    assert read.data == {"a": "1"}
    read.data["b"] = "2"
    core.replace_namespaced_config_map("crud", NAMESPACE, read)
    assert core.read_namespaced_config_map("crud", NAMESPACE).data == {"a": "1", "b": "2"}
    core.delete_namespaced_config_map("crud", NAMESPACE)
    expect_status(404, lambda: core.read_namespaced_config_map("crud", NAMESPACE))


@test
def an_object_is_patched_with_three_patch_types(core):
    core.create_namespaced_config_map(NAMESPACE, config_map("patched", a="1"))
    core.patch_namespaced_config_map("patched", NAMESPACE, {"data": {"b": "2"}})
    core.patch_namespaced_config_map("patched", NAMESPACE, [{"op": "remove", "path": "/data/a"}],
                                     _content_type="application/json-patch+json")
    core.patch_namespaced_config_map("patched", NAMESPACE, {"data": {"c": "3"}},
                                     _content_type="application/merge-patch+json")
    assert core.read_namespaced_config_map("patched", NAMESPACE).data == {"b": "2", "c": "3"}


@test
def the_second_of_two_writers_gets_a_conflict(core):
    core.create_namespaced_config_map(NAMESPACE, config_map("contested", a="1"))
    one = core.read_namespaced_config_map("contested", NAMESPACE)
    other = core.read_namespaced_config_map("contested", NAMESPACE)
    one.data["a"] = "one"
    core.replace_namespaced_config_map("contested", NAMESPACE, one)
    other.data["a"] = "other"
    expect_status(409, lambda: core.replace_namespaced_config_map("contested", NAMESPACE, other))


@test
def a_name_is_unique(core):
    core.create_namespaced_config_map(NAMESPACE, config_map("once"))
    error = expect_status(409, lambda: core.create_namespaced_config_map(NAMESPACE, config_map("once")))
    assert "AlreadyExists" in error.body


@test
def an_invalid_object_is_rejected_with_its_field_errors(core):
    error = expect_status(422, lambda: core.create_namespaced_config_map(NAMESPACE, config_map("Not_Valid")))
    assert "metadata.name" in error.body, error.body


@test
def a_list_is_paginated(core):
    for number in range(7):
        labelled = config_map(f"page-{number}")
        labelled.metadata.labels = {"of": "pages"}
        core.create_namespaced_config_map(NAMESPACE, labelled)
    names, token = [], None
    while True:
        page = core.list_namespaced_config_map(NAMESPACE, label_selector="of=pages", limit=3, _continue=token)
        assert len(page.items) <= 3
        names += [item.metadata.name for item in page.items]
        token = page.metadata._continue
        if not token:
            break
    assert names == [f"page-{number}" for number in range(7)], names


@test
def a_watch_delivers_every_change(core):
    start = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version

    def change():
        core.create_namespaced_config_map(NAMESPACE, config_map("watched", a="1"))
        core.patch_namespaced_config_map("watched", NAMESPACE, {"data": {"a": "2"}})
        core.delete_namespaced_config_map("watched", NAMESPACE)

    changes = threading.Thread(target=change)
    changes.start()
    seen = []
    for event in watch.Watch().stream(core.list_namespaced_config_map, NAMESPACE, resource_version=start,
                                      field_selector="metadata.name=watched", timeout_seconds=30):
        seen.append(event["type"])
        if event["type"] == "DELETED":
            break
    changes.join()
    assert seen == ["ADDED", "MODIFIED", "DELETED"], seen


@test
def a_watch_without_a_version_starts_with_the_existing_objects(core):
    core.create_namespaced_config_map(NAMESPACE, config_map("existing"))
    stream = watch.Watch().stream(core.list_namespaced_config_map, NAMESPACE, field_selector="metadata.name=existing",
                                  timeout_seconds=30)
    event = next(iter(stream))
    assert event["type"] == "ADDED" and event["object"].metadata.name == "existing"


@test
def the_dynamic_client_uses_discovery(core):
    api = dynamic.DynamicClient(client.ApiClient())
    maps = api.resources.get(api_version="v1", kind="ConfigMap")
    maps.create(body={"metadata": {"name": "dynamic"}, "data": {"a": "1"}}, namespace=NAMESPACE)
    assert maps.get(name="dynamic", namespace=NAMESPACE).data.a == "1"
    applied = maps.server_side_apply(body={"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"},
                                           "data": {"a": "1"}}, namespace=NAMESPACE, field_manager="python")
    assert applied.metadata.managedFields[0].manager == "python", applied.metadata


def replace_scale(apps, replicas):
    """Retries on conflict: the Deployment's controller writes to it as well."""
    for _ in range(20):
        scale = apps.read_namespaced_deployment_scale("web", NAMESPACE)
        scale.spec.replicas = replicas
        try:
            return apps.replace_namespaced_deployment_scale("web", NAMESPACE, scale)
        except ApiException as error:
            assert error.status == 409, error
    raise AssertionError("twenty conflicts in a row")


@test
def a_deployment_is_defaulted_and_scaled(core):
    apps = client.AppsV1Api()
    labels = {"app": "python"}
    container = client.V1Container(name="main", image="registry.example/main:1")
    template = client.V1PodTemplateSpec(metadata=client.V1ObjectMeta(labels=labels),
                                        spec=client.V1PodSpec(containers=[container]))
    spec = client.V1DeploymentSpec(replicas=2, selector=client.V1LabelSelector(match_labels=labels), template=template)
    apps.create_namespaced_deployment(NAMESPACE, client.V1Deployment(metadata=client.V1ObjectMeta(name="web"), spec=spec))
    read = apps.read_namespaced_deployment("web", NAMESPACE)
    assert read.spec.strategy.type == "RollingUpdate" and read.metadata.generation == 1
    replace_scale(apps, 3)
    assert apps.read_namespaced_deployment("web", NAMESPACE).spec.replicas == 3


@test
def self_subject_reviews_return_the_user_and_its_permissions(core):
    review = client.AuthenticationV1Api().create_self_subject_review(client.V1SelfSubjectReview())
    assert review.status.user_info.username
    spec = client.V1SelfSubjectAccessReviewSpec(
        resource_attributes=client.V1ResourceAttributes(verb="delete", resource="pods", namespace=NAMESPACE))
    review = client.AuthorizationV1Api().create_self_subject_access_review(client.V1SelfSubjectAccessReview(spec=spec))
    assert review.status.allowed


def running_pod(core, name):
    """A running pod of a simulated node, with a log."""
    pod = {"metadata": {"name": name, "annotations": {"simulated.setpoint.dev/log": "one\ntwo\n"}},
           "spec": {"containers": [{"name": "main", "image": "nginx"}]}}
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            core.create_namespaced_pod(NAMESPACE, pod)
            break
        except ApiException as error:
            assert error.status == 403, error.body  # The ServiceAccount does not exist yet.
            time.sleep(0.1)
    while core.read_namespaced_pod(name, NAMESPACE).status.phase != "Running":
        assert time.monotonic() < deadline, "the pod does not run"
        time.sleep(0.1)


@test
def logs_and_commands_reach_a_pod(core):
    running_pod(core, "streams")
    assert core.read_namespaced_pod_log("streams", NAMESPACE, tail_lines=1) == "two\n"
    exec_pod = core.connect_get_namespaced_pod_exec
    output = stream(exec_pod, "streams", NAMESPACE, command=["echo", "a b"], stdout=True, stderr=True)
    assert output == "a b\n", repr(output)
    shell = stream(exec_pod, "streams", NAMESPACE, command=["sh", "-c", "exit 3"], stdout=True, stderr=True,
                   _preload_content=False)
    shell.run_forever(timeout=30)
    assert shell.returncode == 3, shell.returncode


@test
def a_port_of_a_pod_is_forwarded(core):
    running_pod(core, "forwarded")
    forward = portforward(core.connect_get_namespaced_pod_portforward, "forwarded", NAMESPACE, ports="80")
    connection = forward.socket(80)
    connection.settimeout(30)
    connection.sendall(b"hello")
    assert connection.recv(5) == b"hello"
    assert forward.error(80) is None, forward.error(80)
    connection.close()


def prepare(core):
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=NAMESPACE)))


def main():
    config.load_kube_config()
    core = client.CoreV1Api()
    prepare(core)
    failed = sum(0 if passes(function, core) else 1 for function in TESTS)
    print(f"python: {len(TESTS) - failed} as expected, {failed} failed")
    return 1 if failed else 0


def passes(function, core):
    expects_failure = getattr(function, "expected_failure", False)
    started = time.time()
    try:
        function(core)
    except Exception as error:
        if expects_failure:
            print(f"EXPECTED FAILURE {function.__name__}: {str(error).splitlines()[0]}")
            return True
        print(f"FAILED  {function.__name__}")
        traceback.print_exc()
        return False
    if expects_failure:
        print(f"FAILED  {function.__name__} passes now: remove its mark")
        return False
    print(f"ok      {function.__name__} ({time.time() - started:.2f} s)")
    return True


if __name__ == "__main__":
    sys.exit(main())
