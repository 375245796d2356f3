#!/bin/sh
# Label expressions, a field selector and the names of objects.
if [ "$1" = --config ]; then cat <<'END'
configVersion: v1
kubernetes:
- {name: expressions, kind: ConfigMap, labelSelector: {matchExpressions: [{key: record, operator: In, values: ['yes']}, {key: hidden, operator: DoesNotExist}]}, namespace: {nameSelector: {matchNames: [record]}}, queue: selectors, jqFilter: .metadata.name, keepFullObjectsInMemory: false}
- {name: field, kind: ConfigMap, fieldSelector: {matchExpressions: [{field: metadata.name, operator: Equals, value: two}]}, namespace: {nameSelector: {matchNames: [record]}}, queue: selectors, jqFilter: .metadata.name, keepFullObjectsInMemory: false}
- {name: names, kind: ConfigMap, nameSelector: {matchNames: [one, two]}, namespace: {nameSelector: {matchNames: [record]}}, queue: selectors, jqFilter: .metadata.name, keepFullObjectsInMemory: false}
END
exit 0; fi
. "$RECORD_LIB"
