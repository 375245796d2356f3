#!/usr/bin/env python3
"""Conversions in two steps: v1 to v2, v2 to v3. Each renames the version of the objects."""
import json
import os
import subprocess
import sys

CONFIG = {
    "configVersion": "v1",
    "kubernetes": [
        {"name": "maps", "kind": "ConfigMap", "nameSelector": {"matchNames": ["one"]}, "queue": "conversion",
         "namespace": {"nameSelector": {"matchNames": ["record"]}}, "executeHookOnSynchronization": False,
         "executeHookOnEvent": [], "jqFilter": ".metadata.name", "keepFullObjectsInMemory": False}],
    "kubernetesCustomResourceConversion": [
        {"name": "convert", "crdName": "converted.record.example.com", "includeSnapshotsFrom": ["maps"],
         "conversions": [{"fromVersion": "v1", "toVersion": "v2"}, {"fromVersion": "record.example.com/v2", "toVersion": "record.example.com/v3"}]}],
}

if sys.argv[1:] == ["--config"]:
    print(json.dumps(CONFIG))
    sys.exit(0)
subprocess.run([os.environ["RECORD_LIB"], sys.argv[0]], check=True)
with open(os.environ["BINDING_CONTEXT_PATH"]) as file:
    contexts = json.load(file)
if contexts[0].get("type") == "Conversion":
    version = contexts[0]["toVersion"].split("/")[-1]
    objects = contexts[0]["review"]["request"]["objects"]
    for item in objects:
        item["apiVersion"] = "record.example.com/" + version
    with open(os.environ["CONVERSION_RESPONSE_PATH"], "w") as file:
        json.dump({"convertedObjects": objects}, file)
