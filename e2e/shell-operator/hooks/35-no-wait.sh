#!/bin/sh
# waitForSynchronization and a resynchronization period.
if [ "$1" = --config ]; then cat <<'END'
configVersion: v1
kubernetes:
- {name: maps, kind: ConfigMap, labelSelector: {matchLabels: {record: 'yes'}}, namespace: {nameSelector: {matchNames: [record]}}, queue: no-wait, waitForSynchronization: false, jqFilter: .data.k}
END
exit 0; fi
. "$RECORD_LIB"
