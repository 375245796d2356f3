#!/bin/sh
# A jqFilter with a string.
if [ "$1" = --config ]; then cat <<'END'
configVersion: v1
kubernetes:
- {name: maps, kind: ConfigMap, labelSelector: {matchLabels: {record: 'yes'}}, namespace: {nameSelector: {matchNames: [record]}}, queue: jq-scalar, jqFilter: .data.k}
END
exit 0; fi
. "$RECORD_LIB"
