//! A plan whose engine crashes before and after each of its requests.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use setpoint_api::Key;
use setpoint_api::options::ListOptions;
use setpoint_client::{Http, Object};
use setpoint_kuttl::{ObjectClient, manifest};
use setpoint_runtime::reconcile::Reconcile;
use setpoint_testkit::{Cluster, Crash, CrashPoint};

use super::controller::InstanceController;
use crate::api::{ExecutionStatus, Instance, OperatorVersion};
use crate::crds;

const USER: &str = "kudo";
/// More passes than the plan needs.
const MAX_PASSES: usize = 5;

/// The deletion of an object that does not exist yet, then its creation: the first step would delete it, if it were repeated.
const VERSION: &str = "
metadata: {name: v1, namespace: default}
spec:
  operator: {name: db}
  version: '1.0'
  templates:
    one.yaml: '{apiVersion: v1, kind: ConfigMap, metadata: {name: one}}'
    two.yaml: '{apiVersion: v1, kind: ConfigMap, metadata: {name: two}}'
    three.yaml: '{apiVersion: v1, kind: Secret, metadata: {name: three}}'
  tasks:
  - {name: one, kind: Apply, spec: {resources: [one.yaml]}}
  - {name: two, kind: Apply, spec: {resources: [two.yaml]}}
  - {name: three, kind: Apply, spec: {resources: [three.yaml]}}
  - {name: remove, kind: Delete, spec: {resources: [one.yaml]}}
  plans:
    deploy:
      strategy: serial
      phases:
      - {name: a, strategy: serial, steps: [{name: remove, tasks: [remove]}, {name: one, tasks: [one]}]}
      - {name: b, strategy: parallel, steps: [{name: two, tasks: [two]}, {name: three, tasks: [three]}]}
";

const INSTANCE: &str = "
metadata: {name: db, namespace: default}
spec: {operatorVersion: {name: v1}, planExecution: {planName: deploy, uid: first}}
";

fn decode<T: serde::de::DeserializeOwned>(text: &str) -> T {
    serde_json::from_value(manifest::parse_value(text).unwrap()).unwrap()
}

async fn create<T: Object>(cluster: &Cluster, text: &str) {
    let created = cluster
        .client("test")
        .namespaced::<T>("default")
        .create(&decode(text))
        .await;
    created.unwrap();
}

fn controller(cluster: &Cluster, http: &Http) -> InstanceController {
    let context = cluster.context(USER);
    InstanceController {
        objects: ObjectClient::new(http.clone(), context.clock.clone()),
        http: http.clone(),
        events: context.events,
        clock: context.clock,
    }
}

async fn is_complete(cluster: &Cluster) -> bool {
    let instances = cluster.client("test").namespaced::<Instance>("default");
    let instance = instances.get("db").await.unwrap().to_owned().unwrap();
    let deploy = instance.status.plan_status.get("deploy");
    deploy.is_some_and(|plan| plan.status == ExecutionStatus::Complete)
}

/// The objects as the server has them: the caches of the cluster may be behind.
async fn list<T: Object>(cluster: &Cluster) -> Vec<T> {
    let all = cluster.client("test").namespaced::<T>("default");
    let all = all.list(&ListOptions::default()).await.unwrap();
    all.items
        .iter()
        .map(|object| object.to_owned().unwrap())
        .collect()
}

/// Runs the engine until the plan is complete.
async fn run(cluster: &Cluster, http: &Http) {
    let (controller, client) = (controller(cluster, http), cluster.client(USER));
    let key = Key::new("default", "db");
    for _ in 0..MAX_PASSES {
        controller.reconcile(&key, &client).await.unwrap();
        if is_complete(cluster).await {
            return;
        }
    }
    panic!("the plan is not complete: {:?}", cluster.interceptor.writes());
}

async fn crashed(cluster: &Cluster) {
    while !cluster.interceptor.has_crashed() {
        tokio::task::yield_now().await;
    }
}

/// Crashes the engine at a request, runs it again, and checks that every step had its effect once. Returns whether the
/// engine made so many requests at all.
async fn check(cluster: &Cluster, http: &Http, crash: Crash) -> bool {
    cluster.interceptor.clear();
    cluster.interceptor.crash(crash.clone());
    let is_done = tokio::select! {
        () = run(cluster, http) => true,
        () = crashed(cluster) => false,
    };
    cluster.interceptor.clear_crash();
    let before = list::<ConfigMap>(cluster).await;
    if !is_done {
        run(cluster, http).await;
    }
    let writes = ["create configmaps", "create secrets", "delete configmaps"];
    let writes = writes.map(|line| cluster.interceptor.count(&format!("{USER} {line}")));
    assert_eq!(writes, [2, 1, 0], "{crash:?}");
    let after = list::<ConfigMap>(cluster).await;
    assert_eq!(
        (after.len(), list::<Secret>(cluster).await.len()),
        (2, 1),
        "{crash:?}"
    );
    let is_unchanged = |map: &ConfigMap| after.contains(map);
    assert!(
        before.iter().all(is_unchanged),
        "{crash:?}: an object was written again"
    );
    !is_done
}

/// TO7
#[tokio::test]
async fn a_killed_engine_repeats_no_step_that_is_done() {
    let base = Cluster::start().await;
    for crd in crds::all() {
        let crd: CustomResourceDefinition = serde_json::from_value(crd).unwrap();
        base.install_crd(&crd).await;
    }
    create::<OperatorVersion>(&base, VERSION).await;
    create::<Instance>(&base, INSTANCE).await;
    let served = base.serve_https().await;
    let http = Http::new(&served.connection()).unwrap();
    let mut crashes = 0;
    for point in [CrashPoint::Before, CrashPoint::After] {
        for request in 1.. {
            let cluster = base.fork().await;
            let crash = Crash {
                user: USER,
                request,
                point,
            };
            if !check(&cluster, &http, crash).await {
                break;
            }
            crashes += 1;
        }
    }
    assert!(crashes > 20, "only {crashes} crashes");
}
