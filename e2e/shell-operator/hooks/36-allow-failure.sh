#!/bin/sh
# A hook that fails and may fail.
if [ "$1" = --config ]; then cat <<'END'
configVersion: v1
kubernetes:
- {name: maps, kind: ConfigMap, labelSelector: {matchLabels: {record: 'yes'}}, namespace: {nameSelector: {matchNames: [record]}}, queue: allow-failure, allowFailure: true, jqFilter: .data.k}
END
exit 0; fi
. "$RECORD_LIB"
exit 1
