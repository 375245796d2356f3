//! The operator against a real API server in the test process, with the controllers that run pods.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use database_operator::Database;
use database_operator::controller::FINALIZER;
use database_operator::database::{Backup, DatabaseSpec, DatabaseStatus};
use database_operator::objects::{MEMBER_OF, ROLE, VERSION};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Pod, Service};
use kube::CustomResourceExt;
use serde_json::{Value, json};
use setpoint_api::options::DeleteOptions;
use setpoint_runtime::{Patch, RbacRules, conditions};
use setpoint_testkit::{Cluster, Component, RunningComponent};

const CONTROLLERS: [&str; 4] = ["serviceaccount", "statefulset", "job", "garbage-collector"];

/// A cluster that runs StatefulSets and Jobs, with the operator and one database.
async fn cluster(version: &str, members: i32, backup: Backup) -> (Cluster, Vec<RunningComponent>, RbacRules) {
    let components = CONTROLLERS.map(Component::Controller).into_iter();
    let (cluster, mut running) =
        Cluster::with_default_admission(components.chain([Component::Scheduler, Component::nodes(1)])).await;
    cluster.install_crd(&Database::crd()).await;
    let mut manager = cluster.manager("database-operator");
    database_operator::add(&mut manager).unwrap();
    let rbac_rules = manager.rbac_rules();
    running.push(RunningComponent::of(manager));
    let version = version.to_owned();
    let mut database = Database::new(
        "shop",
        DatabaseSpec {
            version,
            members,
            backup,
        },
    );
    database.metadata.namespace = Some("default".to_owned());
    cluster
        .client("test")
        .namespaced("default")
        .create(&database)
        .await
        .unwrap();
    (cluster, running, rbac_rules)
}

fn status(cluster: &Cluster) -> DatabaseStatus {
    let database: Option<Database> = cluster.find("shop");
    database.and_then(|database| database.status).unwrap_or_default()
}

/// The reason of a condition, if it has this status.
fn reason(cluster: &Cluster, type_: &str, is: bool) -> String {
    let status = status(cluster);
    let expected = if is { "True" } else { "False" };
    let found = conditions::find(&status.conditions, type_).filter(|found| found.status == expected);
    found.map(|found| found.reason.clone()).unwrap_or_default()
}

fn label(pod: &Pod, label: &str) -> Option<String> {
    pod.metadata.labels.as_ref()?.get(label).cloned()
}

fn members(cluster: &Cluster) -> Vec<Pod> {
    let mut pods: Vec<Pod> = cluster.list();
    pods.retain(|pod| label(pod, MEMBER_OF).is_some());
    pods
}

/// The members that take writes.
fn primaries(cluster: &Cluster) -> Vec<String> {
    let pods = members(cluster).into_iter();
    let primaries = pods.filter(|pod| label(pod, ROLE).as_deref() == Some("primary"));
    primaries.filter_map(|pod| pod.metadata.name).collect()
}

/// Whether all members are up, run this version, and one of them is the primary.
fn runs(cluster: &Cluster, version: &str, count: i32) -> bool {
    let status = status(cluster);
    let same = members(cluster)
        .iter()
        .all(|pod| label(pod, VERSION).as_deref() == Some(version));
    let is_settled =
        reason(cluster, "Upgrading", false) == "UpToDate" && reason(cluster, "Ready", true) == "Running";
    is_settled && same && status.ready_members == count && primaries(cluster).len() == 1
}

async fn patch(cluster: &Cluster, body: Value) {
    let databases = cluster.client("test").namespaced::<Database>("default");
    databases
        .patch("shop", &Patch::merge(&body).unwrap())
        .await
        .unwrap();
}

async fn patch_pod(cluster: &Cluster, name: &str, body: Value) {
    let pods = cluster.client("test").namespaced::<Pod>("default");
    pods.patch_status(name, &Patch::strategic(&body).unwrap())
        .await
        .unwrap();
}

/// Completes the pod of a backup: on simulated nodes it does not end by itself.
async fn finish(cluster: &Cluster, job: &str) {
    let pod_of = |cluster: &Cluster| {
        let pods: Vec<Pod> = cluster.list();
        let running =
            |pod: &&Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
        let own = |pod: &&Pod| label(pod, "job-name").as_deref() == Some(job);
        pods.iter()
            .filter(own)
            .find(running)
            .and_then(|pod| pod.metadata.name.clone())
    };
    cluster
        .until(&format!("a pod of {job}"), |cluster| pod_of(cluster).is_some())
        .await;
    patch_pod(
        cluster,
        &pod_of(cluster).unwrap(),
        json!({"status": {"phase": "Succeeded"}}),
    )
    .await;
}

/// Checks that the RBAC role of the operator allows all its requests.
#[track_caller]
fn check_role(cluster: &Cluster, rbac_rules: &RbacRules) {
    let undeclared = cluster.interceptor.undeclared("database-operator", rbac_rules);
    assert!(undeclared.is_empty(), "its role lacks {undeclared:?}");
}

fn has_event(cluster: &Cluster, reason: &str) -> bool {
    let events: Vec<Event> = cluster.list();
    events.iter().any(|event| event.reason.as_deref() == Some(reason))
}

/// TO2: install
#[tokio::test]
async fn to2_a_database_is_installed_with_one_primary() {
    let (cluster, _running, rbac_rules) = cluster("1.0", 3, Backup::default()).await;
    cluster
        .until("a database that runs", |cluster| runs(cluster, "1.0", 3))
        .await;
    assert_eq!(status(&cluster).version.as_deref(), Some("1.0"));
    assert_eq!(status(&cluster).primary, primaries(&cluster).first().cloned());
    let services: Vec<Service> = cluster.list();
    let names: Vec<_> = services
        .iter()
        .filter_map(|service| service.metadata.name.as_deref())
        .collect();
    assert!(
        names.contains(&"shop") && names.contains(&"shop-primary"),
        "{names:?}"
    );
    cluster.settle().await;
    let before = (
        cluster.versions::<Database>(),
        cluster.versions::<Pod>(),
        cluster.versions::<StatefulSet>(),
    );
    cluster.settle().await;
    let after = (
        cluster.versions::<Database>(),
        cluster.versions::<Pod>(),
        cluster.versions::<StatefulSet>(),
    );
    assert_eq!(before, after, "a database that runs is left alone");
    check_role(&cluster, &rbac_rules);
}

/// TO2: failover
#[tokio::test]
async fn to2_when_the_primary_fails_the_best_member_takes_over() {
    let (cluster, _running, rbac_rules) = cluster("1.0", 3, Backup::default()).await;
    cluster
        .until("a database that runs", |cluster| runs(cluster, "1.0", 3))
        .await;
    let old = primaries(&cluster).remove(0);
    let best = ["shop-2", "shop-1"]
        .into_iter()
        .find(|name| *name != old)
        .unwrap();
    let pods = cluster.client("test").namespaced::<Pod>("default");
    let farthest = Patch::merge(&json!({"metadata": {"annotations": {"db.example.com/position": "9"}}}));
    pods.patch(best, &farthest.unwrap()).await.unwrap();
    let failed = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    patch_pod(&cluster, &old, failed).await;
    cluster
        .until("another primary", |cluster| primaries(cluster) == [best])
        .await;
    cluster
        .until("the primary in the status", |cluster| {
            status(cluster).primary.as_deref() == Some(best)
        })
        .await;
    cluster
        .until("an event", |cluster| has_event(cluster, "Promoted"))
        .await;
    check_role(&cluster, &rbac_rules);
}

/// TO2: upgrade
#[tokio::test]
async fn to2_an_upgrade_takes_a_backup_and_restarts_member_by_member() {
    let (cluster, _running, rbac_rules) = cluster("1.0", 3, Backup::default()).await;
    cluster
        .until("a database that runs", |cluster| runs(cluster, "1.0", 3))
        .await;
    patch(&cluster, json!({"spec": {"version": "2.0"}})).await;
    cluster
        .until("a backup under way", |cluster| {
            reason(cluster, "Upgrading", true) == "BackingUp"
        })
        .await;
    assert!(
        members(&cluster)
            .iter()
            .all(|pod| label(pod, VERSION).as_deref() == Some("1.0"))
    );
    finish(&cluster, "shop-before-2-0").await;
    cluster
        .until("the new version", |cluster| runs(cluster, "2.0", 3))
        .await;
    assert_eq!(status(&cluster).version.as_deref(), Some("2.0"));

    patch(&cluster, json!({"spec": {"version": "1.5"}})).await;
    let rejected = |cluster: &Cluster| reason(cluster, "Upgrading", false) == "DowngradeRejected";
    cluster.until("a rejected downgrade", rejected).await;
    assert!(
        members(&cluster)
            .iter()
            .all(|pod| label(pod, VERSION).as_deref() == Some("2.0"))
    );
    check_role(&cluster, &rbac_rules);
}

/// TO2: backup
#[tokio::test]
async fn to2_backups_are_taken_on_schedule_and_old_ones_are_deleted() {
    let (cluster, _running, rbac_rules) = cluster(
        "1.0",
        1,
        Backup {
            every_seconds: 60,
            keep: 1,
        },
    )
    .await;
    finish(&cluster, "shop-after-0").await;
    cluster
        .until("a backup", |cluster| status(cluster).last_backup.is_some())
        .await;
    let first = status(&cluster).last_backup.unwrap();
    let next = format!("shop-after-{}", first.0.as_second());
    finish(&cluster, &next).await;
    cluster
        .until("only the newest backup", |cluster| {
            let jobs: Vec<Job> = cluster.list();
            let names: Vec<_> = jobs
                .iter()
                .filter_map(|job| job.metadata.name.as_deref())
                .collect();
            !names.contains(&"shop-after-0") && status(cluster).last_backup.as_ref() != Some(&first)
        })
        .await;
    let second = status(&cluster).last_backup.unwrap();
    assert!(second.0.duration_since(first.0).as_secs() >= 60);
    check_role(&cluster, &rbac_rules);
}

/// TO2: deletion
#[tokio::test]
async fn to2_a_database_is_deleted_after_its_last_backup_with_everything_else() {
    let (cluster, _running, rbac_rules) = cluster("1.0", 2, Backup::default()).await;
    cluster
        .until("a database that runs", |cluster| runs(cluster, "1.0", 2))
        .await;
    let databases = cluster.client("test").namespaced::<Database>("default");
    databases.delete("shop", DeleteOptions::default()).await.unwrap();
    let database: Database = cluster.find("shop").unwrap();
    assert_eq!(database.metadata.finalizers, Some(vec![FINALIZER.to_owned()]));
    let last = format!("shop-last-{}", &database.metadata.uid.unwrap()[..8]);
    finish(&cluster, &last).await;
    cluster
        .until("no database", |cluster| {
            cluster.find::<Database>("shop").is_none()
        })
        .await;
    cluster
        .until("no members", |cluster| members(cluster).is_empty())
        .await;
    assert!(cluster.find::<Job>(&last).is_some(), "the last backup stays");
    check_role(&cluster, &rbac_rules);
}
