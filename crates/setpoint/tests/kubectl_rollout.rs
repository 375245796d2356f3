//! Rollouts, Jobs, drains and cascading deletes by kubectl, on a cluster with all its controllers.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use cluster::{Cluster, Kubectl, manifest};

/// Rows: a command line, and the texts its output must contain.
type Rows<'a> = &'a [(&'a str, &'a [&'a str])];

/// Runs the rows in order. Every command must succeed and its output contain the row's texts.
#[track_caller]
fn check(kubectl: &Kubectl, rows: Rows<'_>) {
    for (line, expected) in rows {
        let (code, stderr) = kubectl.outcome(line);
        let missing: Vec<_> = expected.iter().filter(|text| !stderr.contains(**text)).collect();
        assert!(
            code == 0 && missing.is_empty(),
            "kubectl {line}: code {code}, without {missing:?}:\n{stderr}"
        );
    }
}

/// FL1, FL2, FL7
#[test]
fn a_deployment_is_rolled_out_paused_undone_and_restarted() {
    let cluster = Cluster::new(&["--memory", "--nodes", "2"]);
    let Some(kubectl) = cluster.kubectl() else { return };
    check(
        &kubectl,
        &[
            ("create deployment web --image=a:1 --replicas=4", &["created"]),
            (
                "rollout status deployment/web --timeout=60s",
                &["successfully rolled out"],
            ),
            ("get deployment web", &["4/4"]),
            ("set image deployment/web a=a:2", &["image updated"]),
            (
                "rollout status deployment/web --timeout=60s",
                &["successfully rolled out"],
            ),
            ("rollout history deployment/web", &["REVISION", "1", "2"]),
            ("rollout history deployment/web --revision=1", &["a:1"]),
            ("rollout undo deployment/web", &["rolled back"]),
            (
                "rollout status deployment/web --timeout=60s",
                &["successfully rolled out"],
            ),
            (
                "get deployment web -o jsonpath={.spec.template.spec.containers[0].image}",
                &["a:1"],
            ),
            ("rollout history deployment/web", &["2", "3"]),
            ("rollout pause deployment/web", &["paused"]),
            ("set image deployment/web a=a:3", &["image updated"]),
            (
                "wait deployment/web --for=condition=Progressing=Unknown --timeout=60s",
                &["met"],
            ),
            ("rollout resume deployment/web", &["resumed"]),
            (
                "rollout status deployment/web --timeout=60s",
                &["successfully rolled out"],
            ),
            ("rollout restart deployment/web", &["restarted"]),
            (
                "rollout status deployment/web --timeout=60s",
                &["successfully rolled out"],
            ),
            (
                "wait deployment/web --for=condition=Available --timeout=60s",
                &["met"],
            ),
            ("get events", &["ScalingReplicaSet", "SuccessfulCreate"]),
        ],
    );
}

#[test]
fn daemon_sets_and_stateful_sets_are_rolled_out_and_undone() {
    let cluster = Cluster::new(&["--memory", "--nodes", "2"]);
    let Some(kubectl) = cluster.kubectl() else { return };
    let kind = |kind: &str, more: &str| {
        format!(
            "apiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: db}}\nspec:\n  {more}\n  \
             selector: {{matchLabels: {{app: db-{kind}}}}}\n  template:\n    metadata: {{labels: {{app: db-{kind}}}}}\n    \
             spec: {{containers: [{{name: main, image: 'a:1'}}]}}\n"
        )
    };
    let daemon = manifest(
        cluster.dir.path(),
        "daemon.yaml",
        &kind("DaemonSet", "minReadySeconds: 0"),
    );
    let stateful = manifest(
        cluster.dir.path(),
        "stateful.yaml",
        &kind("StatefulSet", "replicas: 3\n  serviceName: db"),
    );
    check(
        &kubectl,
        &[
            (&format!("apply -f {daemon}"), &["created"]),
            (&format!("apply -f {stateful}"), &["created"]),
        ],
    );
    for kind in ["daemonset", "statefulset"] {
        check(
            &kubectl,
            &[
                (&format!("rollout status {kind}/db --timeout=60s"), &[]),
                (&format!("set image {kind}/db main=a:2"), &["image updated"]),
                (&format!("rollout status {kind}/db --timeout=60s"), &[]),
                (&format!("rollout history {kind}/db"), &["1", "2"]),
                (&format!("rollout undo {kind}/db"), &["rolled back"]),
                (&format!("rollout status {kind}/db --timeout=60s"), &[]),
                (
                    &format!("get {kind} db -o jsonpath={{.spec.template.spec.containers[0].image}}"),
                    &["a:1"],
                ),
            ],
        );
    }
    check(&kubectl, &[("get pods", &["db-0", "db-1", "db-2"])]);
}

#[test]
fn a_service_has_endpoints_and_a_disruption_budget_blocks_a_drain() {
    let cluster = Cluster::new(&["--memory", "--nodes", "2"]);
    let Some(kubectl) = cluster.kubectl() else { return };
    check(
        &kubectl,
        &[
            ("create deployment web --image=a:1 --replicas=2", &["created"]),
            ("expose deployment web --port=80", &["exposed"]),
            (
                "rollout status deployment/web --timeout=60s",
                &["successfully rolled out"],
            ),
            (
                "wait endpointslice -l kubernetes.io/service-name=web --for=jsonpath={.endpoints[1].conditions.ready}=true --timeout=60s",
                &["met"],
            ),
            (
                "create poddisruptionbudget web --selector=app=web --min-available=2",
                &["created"],
            ),
            (
                "wait pdb/web --for=jsonpath={.status.currentHealthy}=2 --timeout=60s",
                &["met"],
            ),
            ("get pdb web", &["web", "2"]),
        ],
    );
    let node = kubectl.run("get pods -l app=web -o jsonpath={.items[0].spec.nodeName}");
    let stderr = kubectl.fail(&format!("drain {node} --force --timeout=4s"));
    assert!(
        stderr.contains("Cannot evict pod as it would violate the pod's disruption budget"),
        "{stderr}"
    );
    check(
        &kubectl,
        &[
            ("delete pdb web", &["deleted"]),
            (&format!("drain {node} --force --timeout=60s"), &["drained"]),
            (&format!("uncordon {node}"), &["uncordoned"]),
            (
                "rollout status deployment/web --timeout=60s",
                &["successfully rolled out"],
            ),
        ],
    );
}

#[test]
fn a_job_is_created_from_a_cron_job_and_dependents_are_deleted_with_owners() {
    let cluster = Cluster::new(&["--memory", "--nodes", "1"]);
    let Some(kubectl) = cluster.kubectl() else { return };
    check(
        &kubectl,
        &[
            ("create cronjob tick --image=a:1 --schedule=@yearly", &["created"]),
            ("create job once --from=cronjob/tick", &["created"]),
            (
                "wait job/once --for=jsonpath={.status.active}=1 --timeout=60s",
                &["met"],
            ),
            ("delete job once --wait --timeout=60s", &["deleted"]),
            ("wait pod -l job-name=once --for=delete --timeout=60s", &[]),
            ("create deployment web --image=a:1", &["created"]),
            (
                "rollout status deployment/web --timeout=60s",
                &["successfully rolled out"],
            ),
            (
                "delete deployment web --cascade=foreground --timeout=60s",
                &["deleted"],
            ),
            ("create deployment kept --image=a:1", &["created"]),
            (
                "rollout status deployment/kept --timeout=60s",
                &["successfully rolled out"],
            ),
            ("delete deployment kept --cascade=orphan", &["deleted"]),
            ("get replicaset -l app=kept -o name", &["replicaset.apps/kept-"]),
        ],
    );
    let left = kubectl.run("get replicaset,pod -l app=web -o name");
    assert_eq!(left.trim(), "");
}

#[test]
fn an_autoscaler_without_metrics_reports_it() {
    let cluster = Cluster::new(&["--memory", "--nodes", "1"]);
    let Some(kubectl) = cluster.kubectl() else { return };
    check(
        &kubectl,
        &[
            ("create deployment web --image=a:1 --replicas=2", &["created"]),
            (
                "autoscale deployment/web --min=1 --max=5 --cpu-percent=50",
                &["autoscaled"],
            ),
            ("wait hpa/web --for=condition=AbleToScale --timeout=60s", &["met"]),
            (
                "wait hpa/web --for=condition=ScalingActive=False --timeout=60s",
                &["met"],
            ),
            ("get hpa web", &["Deployment/web", "<unknown>/50%", "1", "5"]),
            (
                "describe hpa web",
                &[
                    "SucceededGetScale",
                    "FailedGetResourceMetric",
                    "the HPA was unable to compute the replica count: failed to get cpu utilization: unable to get \
                     metrics for resource cpu: unable to fetch metrics from resource metrics API: the server could \
                     not find the requested resource (get pods.metrics.k8s.io)",
                ],
            ),
        ],
    );
}

#[test]
fn a_rollout_is_undone_to_any_revision_and_reports_when_it_is_stuck() {
    let cluster = Cluster::new(&["--memory", "--nodes", "1"]);
    let Some(kubectl) = cluster.kubectl() else { return };
    check(
        &kubectl,
        &[
            ("create deployment web --image=a:1 --replicas=2", &["created"]),
            ("rollout status deployment/web --timeout=60s", &["successfully"]),
            ("set image deployment/web a=a:2", &["image updated"]),
            ("rollout status deployment/web --timeout=60s", &["successfully"]),
            ("set image deployment/web a=a:3", &["image updated"]),
            ("rollout status deployment/web --timeout=60s", &["successfully"]),
            ("rollout undo deployment/web --to-revision=1", &["rolled back"]),
            ("rollout status deployment/web --timeout=60s", &["successfully"]),
            (
                "get deployment web -o jsonpath={.spec.template.spec.containers[0].image}",
                &["a:1"],
            ),
            ("rollout history deployment/web", &["2", "3", "4"]),
            // A pod that fits nowhere makes no progress.
            (
                "patch deployment web --type=merge -p {\"spec\":{\"progressDeadlineSeconds\":1}}",
                &["patched"],
            ),
            ("set resources deployment/web --requests=cpu=1000", &["updated"]),
        ],
    );
    let stderr = kubectl.fail("rollout status deployment/web --timeout=60s");
    assert!(stderr.contains("exceeded its progress deadline"), "{stderr}");
    let stderr = kubectl.fail("rollout undo deployment/web --to-revision=99");
    assert!(
        stderr.contains("unable to find specified revision 99 in history"),
        "{stderr}"
    );
    check(
        &kubectl,
        &[
            // On a busy machine, pods may take longer than a second to start.
            (
                "patch deployment web --type=merge -p {\"spec\":{\"progressDeadlineSeconds\":600}}",
                &["patched"],
            ),
            ("rollout undo deployment/web", &["rolled back"]),
            ("rollout status deployment/web --timeout=60s", &["successfully"]),
        ],
    );
}

/// Foreground keeps the owner until its dependents are deleted, background does not, orphan leaves them without an owner.
#[test]
fn owners_are_deleted_in_all_three_modes() {
    let cluster = Cluster::new(&["--memory", "--nodes", "1"]);
    let Some(kubectl) = cluster.kubectl() else { return };
    for mode in ["background", "foreground", "orphan"] {
        check(
            &kubectl,
            &[
                (
                    &format!("create deployment {mode} --image=a:1 --replicas=2"),
                    &["created"],
                ),
                (
                    &format!("rollout status deployment/{mode} --timeout=60s"),
                    &["successfully"],
                ),
                (
                    &format!("delete deployment {mode} --cascade={mode} --timeout=60s"),
                    &["deleted"],
                ),
            ],
        );
    }
    // After a foreground deletion no dependent is left.
    assert_eq!(
        kubectl.run("get replicaset,pod -l app=foreground -o name").trim(),
        ""
    );
    check(
        &kubectl,
        &[
            (
                "wait replicaset -l app=background --for=delete --timeout=60s",
                &[],
            ),
            ("wait pod -l app=background --for=delete --timeout=60s", &[]),
            (
                "wait replicaset -l app=orphan --for=jsonpath={.status.readyReplicas}=2 --timeout=60s",
                &["met"],
            ),
        ],
    );
    let owners = kubectl.run("get replicaset -l app=orphan -o jsonpath={.items[*].metadata.ownerReferences}");
    assert_eq!(owners.trim(), "");
}

/// FL8: a Job of a CronJob completes on a simulated node whose pods terminate.
#[test]
fn fl8_a_job_of_a_cron_job_completes() {
    let cluster = Cluster::new(&["--memory", "--nodes", "1"]);
    let Some(kubectl) = cluster.kubectl() else { return };
    let tick = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: tick}\nspec:\n  schedule: '@yearly'\n  jobTemplate:\n    \
                spec:\n      completions: 2\n      template:\n        \
                metadata: {annotations: {simulated.setpoint.dev/ends-after: 1s}}\n        \
                spec: {restartPolicy: Never, containers: [{name: main, image: 'a:1'}]}\n";
    let tick = manifest(cluster.dir.path(), "tick.yaml", tick);
    check(
        &kubectl,
        &[
            (&format!("apply -f {tick}"), &["created"]),
            ("create job once --from=cronjob/tick", &["created"]),
            ("wait job/once --for=condition=Complete --timeout=60s", &["met"]),
            ("get job once", &["Complete", "2/2"]),
            (
                "get pods -l job-name=once -o jsonpath={.items[*].status.containerStatuses[0].state.terminated.exitCode}",
                &["0 0"],
            ),
        ],
    );
}
