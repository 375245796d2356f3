#!/bin/sh
# Only deletions, without a Synchronization.
if [ "$1" = --config ]; then cat <<'END'
configVersion: v1
kubernetes:
- {name: maps, kind: cm, labelSelector: {matchLabels: {record: 'yes'}}, namespace: {nameSelector: {matchNames: [record]}}, queue: deleted, executeHookOnSynchronization: false, executeHookOnEvent: [Deleted]}
END
exit 0; fi
. "$RECORD_LIB"
