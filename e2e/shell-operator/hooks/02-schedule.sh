#!/bin/sh
# A schedule with snapshots, and one without a name.
if [ "$1" = --config ]; then cat <<'END'
configVersion: v1
schedule:
- {name: tick, crontab: '* * * * * *', includeSnapshotsFrom: [maps], queue: schedule}
kubernetes:
- {name: maps, apiVersion: v1, kind: ConfigMap, nameSelector: {matchNames: [one]}, namespace: {nameSelector: {matchNames: [record]}}, executeHookOnSynchronization: false, executeHookOnEvent: [], jqFilter: .data}
END
exit 0; fi
. "$RECORD_LIB"
