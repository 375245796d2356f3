"""The Python client against a server: create, read, update, patch, watch, pages, conflict, delete.

The server is the one of $KUBECONFIG. Each test is a function; one line says what became of it.
"""
import sys
import threading
import time
import traceback

from kubernetes import client, config, dynamic, watch
from kubernetes.client.exceptions import ApiException

NAMESPACE = "python"
TESTS = []


def test(function):
    TESTS.append(function)
    return function


def not_yet(function):
    """What does not work yet is tried all the same: once it works, the mark must go."""
    function.not_yet = True
    return function


def config_map(name, **data):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name), data=data)


def refused(status, call):
    try:
        call()
    except ApiException as error:
        assert error.status == status, f"{error.status} instead of {status}: {error.body}"
        return error
    raise AssertionError(f"the call succeeded, {status} was wanted")


@test
def objects_are_created_read_updated_and_deleted(core):
    created = core.create_namespaced_config_map(NAMESPACE, config_map("life", a="1"))
    assert created.metadata.uid and created.metadata.resource_version
    read = core.read_namespaced_config_map("life", NAMESPACE)
    assert read.data == {"a": "1"}
    read.data["b"] = "2"
    core.replace_namespaced_config_map("life", NAMESPACE, read)
    assert core.read_namespaced_config_map("life", NAMESPACE).data == {"a": "1", "b": "2"}
    core.delete_namespaced_config_map("life", NAMESPACE)
    refused(404, lambda: core.read_namespaced_config_map("life", NAMESPACE))


@test
def an_object_can_be_patched_in_three_ways(core):
    core.create_namespaced_config_map(NAMESPACE, config_map("patched", a="1"))
    core.patch_namespaced_config_map("patched", NAMESPACE, {"data": {"b": "2"}})
    core.patch_namespaced_config_map("patched", NAMESPACE, [{"op": "remove", "path": "/data/a"}],
                                     _content_type="application/json-patch+json")
    core.patch_namespaced_config_map("patched", NAMESPACE, {"data": {"c": "3"}},
                                     _content_type="application/merge-patch+json")
    assert core.read_namespaced_config_map("patched", NAMESPACE).data == {"b": "2", "c": "3"}


@test
def of_two_writers_the_second_meets_a_conflict(core):
    core.create_namespaced_config_map(NAMESPACE, config_map("contested", a="1"))
    one = core.read_namespaced_config_map("contested", NAMESPACE)
    other = core.read_namespaced_config_map("contested", NAMESPACE)
    one.data["a"] = "one"
    core.replace_namespaced_config_map("contested", NAMESPACE, one)
    other.data["a"] = "other"
    refused(409, lambda: core.replace_namespaced_config_map("contested", NAMESPACE, other))


@test
def a_name_is_given_once(core):
    core.create_namespaced_config_map(NAMESPACE, config_map("once"))
    error = refused(409, lambda: core.create_namespaced_config_map(NAMESPACE, config_map("once")))
    assert "AlreadyExists" in error.body


@test
def an_invalid_object_is_refused_with_its_fields(core):
    error = refused(422, lambda: core.create_namespaced_config_map(NAMESPACE, config_map("Not_Valid")))
    assert "metadata.name" in error.body, error.body


@test
def a_list_comes_in_pages(core):
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
def a_watch_tells_of_every_change(core):
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
def an_old_watch_starts_with_what_is_there(core):
    core.create_namespaced_config_map(NAMESPACE, config_map("there"))
    stream = watch.Watch().stream(core.list_namespaced_config_map, NAMESPACE, field_selector="metadata.name=there",
                                  timeout_seconds=30)
    event = next(iter(stream))
    assert event["type"] == "ADDED" and event["object"].metadata.name == "there"


@test
def the_dynamic_client_finds_its_way_by_discovery(core):
    api = dynamic.DynamicClient(client.ApiClient())
    maps = api.resources.get(api_version="v1", kind="ConfigMap")
    maps.create(body={"metadata": {"name": "dynamic"}, "data": {"a": "1"}}, namespace=NAMESPACE)
    assert maps.get(name="dynamic", namespace=NAMESPACE).data.a == "1"
    applied = maps.server_side_apply(body={"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"},
                                           "data": {"a": "1"}}, namespace=NAMESPACE, field_manager="python")
    assert applied.metadata.managedFields[0].manager == "python", applied.metadata


def replace_scale(apps, replicas):
    """Its controller writes to the deployment as well, so the first try may meet a conflict."""
    for _ in range(20):
        scale = apps.read_namespaced_deployment_scale("web", NAMESPACE)
        scale.spec.replicas = replicas
        try:
            return apps.replace_namespaced_deployment_scale("web", NAMESPACE, scale)
        except ApiException as error:
            assert error.status == 409, error
    raise AssertionError("twenty conflicts in a row")


@test
def a_deployment_becomes_pods(core):
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
def who_i_am_and_what_i_may(core):
    review = client.AuthenticationV1Api().create_self_subject_review(client.V1SelfSubjectReview())
    assert review.status.user_info.username
    spec = client.V1SelfSubjectAccessReviewSpec(
        resource_attributes=client.V1ResourceAttributes(verb="delete", resource="pods", namespace=NAMESPACE))
    answer = client.AuthorizationV1Api().create_self_subject_access_review(client.V1SelfSubjectAccessReview(spec=spec))
    assert answer.status.allowed


def prepare(core):
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=NAMESPACE)))


def main():
    config.load_kube_config()
    core = client.CoreV1Api()
    prepare(core)
    failed = sum(0 if is_well(function, core) else 1 for function in TESTS)
    print(f"python: {len(TESTS) - failed} as expected, {failed} failed")
    return 1 if failed else 0


def is_well(function, core):
    waits = getattr(function, "not_yet", False)
    started = time.time()
    try:
        function(core)
    except Exception as error:
        if waits:
            print(f"NOT YET {function.__name__}: {str(error).splitlines()[0]}")
            return True
        print(f"FAILED  {function.__name__}")
        traceback.print_exc()
        return False
    if waits:
        print(f"FAILED  {function.__name__} works now: take its mark away")
        return False
    print(f"ok      {function.__name__} ({time.time() - started:.2f} s)")
    return True


if __name__ == "__main__":
    sys.exit(main())
