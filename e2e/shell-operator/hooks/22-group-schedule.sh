#!/bin/sh
# A schedule of a group.
if [ "$1" = --config ]; then cat <<'END'
configVersion: v1
schedule:
- {name: tick, crontab: '* * * * * *', queue: group-schedule, group: main}
kubernetes:
- {name: maps, kind: ConfigMap, labelSelector: {matchLabels: {record: 'yes'}}, namespace: {nameSelector: {matchNames: [record]}}, queue: group-schedule, group: main, jqFilter: .data.k, keepFullObjectsInMemory: false, executeHookOnSynchronization: false, executeHookOnEvent: []}
END
exit 0; fi
. "$RECORD_LIB"
