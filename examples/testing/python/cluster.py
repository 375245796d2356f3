"""A cluster of its own for each test: a fork of the one that KUBECONFIG names, which a Setpoint server serves.

Import the fixture into conftest.py, and run the tests with

    setpoint test --crds config/crd/bases -- pytest
"""

import contextlib
import json

import pytest
import yaml
from kubernetes import config


@contextlib.contextmanager
def fork(name="root", **options):
    """Creates a cluster with the objects that another one has now, and deletes it at the end."""
    host = config.new_client_from_config()
    created = _request(host, "POST", f"/clusters/{name}/fork", options)
    try:
        yield config.new_client_from_config_dict(yaml.safe_load(created["kubeconfig"]))
    finally:
        _request(host, "DELETE", f"/clusters/{created['name']}")


@pytest.fixture
def cluster():
    with fork() as forked:
        yield forked


def _request(host, method, path, body=None):
    """The kubeconfig of a server has a client certificate, which is part of the connection."""
    headers = {"Content-Type": "application/json"}
    response = host.rest_client.request(method, host.configuration.host + path, headers=headers, body=body)
    result = json.loads(response.read())
    if response.status >= 300:
        raise RuntimeError(f"{method} {path}: {result.get('message', result)}")
    return result
