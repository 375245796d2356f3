//! The controller against a real registry; the test plays the kubelets.

use k8s_openapi::api::batch::v1::JobSpec;
use setpoint_testkit::{Cluster, Component, pod};

use super::*;

const JOBS: Component = Component::Controller("job");

fn job(name: &str, parallelism: i32, completions: i32) -> Job {
    let mut template = v1::PodTemplateSpec {
        spec: pod("x").build().spec,
        metadata: None,
    };
    template.spec.get_or_insert_default().restart_policy = Some("Never".to_owned());
    let mut job = Job::default();
    job.metadata.name = Some(name.to_owned());
    job.spec = Some(JobSpec {
        parallelism: Some(parallelism),
        completions: Some(completions),
        template,
        ..JobSpec::default()
    });
    job
}

async fn create(cluster: &Cluster, job: &Job) {
    cluster
        .client("test")
        .namespaced("default")
        .create(job)
        .await
        .unwrap();
}

fn active(cluster: &Cluster) -> Vec<v1::Pod> {
    let pods: Vec<v1::Pod> = cluster.list();
    let is_active = |pod: &v1::Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.clone());
        pod.metadata.deletion_timestamp.is_none() && !matches!(phase.as_deref(), Some("Succeeded" | "Failed"))
    };
    pods.into_iter().filter(is_active).collect()
}

/// Finishes all active pods with this phase.
async fn end_all(cluster: &Cluster, phase: &str) {
    let pods = cluster.client("test").namespaced::<v1::Pod>("default");
    for pod in active(cluster) {
        let patch = Patch::merge(&json!({"status": {"phase": phase}})).unwrap();
        pods.patch_status(pod.metadata.name.as_ref().unwrap(), &patch)
            .await
            .unwrap();
    }
}

fn status(cluster: &Cluster, name: &str) -> JobStatus {
    let job: Option<Job> = cluster.find(name);
    job.and_then(|job| job.status).unwrap_or_default()
}

fn condition(cluster: &Cluster, name: &str) -> Vec<String> {
    let conditions = status(cluster, name).conditions.unwrap_or_default();
    let shown = |one: k8s_openapi::api::batch::v1::JobCondition| {
        format!("{}={} {}", one.type_, one.status, one.reason.unwrap_or_default())
    };
    conditions.into_iter().map(shown).collect()
}

#[tokio::test]
async fn a_job_runs_to_its_end_and_every_end_is_counted() {
    let (cluster, _components) = Cluster::with([JOBS]).await;
    create(&cluster, &job("sum", 2, 3)).await;
    for expected in [2, 1] {
        cluster
            .until("active pods", |cluster| {
                active(cluster).len() == expected
                    && status(cluster, "sum").active == Some(i32::try_from(expected).unwrap())
            })
            .await;
        end_all(&cluster, "Succeeded").await;
    }
    cluster
        .until("the end", |cluster| condition(cluster, "sum").len() == 2)
        .await;
    assert_eq!(
        condition(&cluster, "sum"),
        [
            "SuccessCriteriaMet=True CompletionsReached",
            "Complete=True CompletionsReached"
        ]
    );
    let status = status(&cluster, "sum");
    assert_eq!((status.succeeded, status.active), (Some(3), None));
    assert!(status.completion_time.is_some());
    let pods: Vec<v1::Pod> = cluster.list();
    assert!(pods.iter().all(|pod| pod.metadata.finalizers.is_none()));
}

#[tokio::test]
async fn a_job_whose_pods_fail_too_often_fails() {
    let (cluster, _components) = Cluster::with([JOBS]).await;
    let mut sum = job("sum", 1, 1);
    sum.spec.as_mut().unwrap().backoff_limit = Some(1);
    create(&cluster, &sum).await;
    let start = cluster.clock.now();
    for _ in 0..2 {
        cluster
            .until("an active pod", |cluster| active(cluster).len() == 1)
            .await;
        end_all(&cluster, "Failed").await;
        cluster.settle().await;
    }
    let waited = cluster.clock.now().duration_since(start).as_secs();
    assert!(waited >= 10, "the second pod came after {waited} seconds");
    cluster
        .until("the end", |cluster| {
            condition(cluster, "sum").contains(&"Failed=True BackoffLimitExceeded".to_owned())
        })
        .await;
    assert_eq!(status(&cluster, "sum").failed, Some(2));
}

#[tokio::test]
async fn the_pods_of_an_indexed_job_have_their_index() {
    let (cluster, _components) = Cluster::with([JOBS]).await;
    let mut sum = job("sum", 3, 3);
    sum.spec.as_mut().unwrap().completion_mode = Some("Indexed".to_owned());
    create(&cluster, &sum).await;
    cluster
        .until("three pods", |cluster| active(cluster).len() == 3)
        .await;
    let mut hosts: Vec<String> = active(&cluster)
        .into_iter()
        .filter_map(|pod| pod.spec?.hostname)
        .collect();
    hosts.sort();
    assert_eq!(hosts, ["sum-0", "sum-1", "sum-2"]);
    let pod = active(&cluster).remove(0);
    let variables = pod.spec.unwrap().containers.remove(0).env.unwrap();
    assert_eq!(variables[0].name, INDEX_VARIABLE);
    end_all(&cluster, "Succeeded").await;
    cluster
        .until("the end", |cluster| {
            status(cluster, "sum").completed_indexes.as_deref() == Some("0-2")
        })
        .await;
}

#[tokio::test]
async fn a_suspended_job_deletes_its_pods_and_restarts_when_resumed() {
    let (cluster, _components) = Cluster::with([JOBS]).await;
    create(&cluster, &job("sum", 2, 2)).await;
    cluster
        .until("two pods", |cluster| active(cluster).len() == 2)
        .await;
    let jobs = cluster.client("test").namespaced::<Job>("default");
    for (suspend, expected) in [(true, 0), (false, 2)] {
        let patch = Patch::merge(&json!({"spec": {"suspend": suspend}})).unwrap();
        jobs.patch("sum", &patch).await.unwrap();
        cluster.settle().await;
        cluster
            .until("other pods", |cluster| active(cluster).len() == expected)
            .await;
    }
    cluster
        .until("the condition", |cluster| {
            condition(cluster, "sum") == ["Suspended=False JobResumed"]
        })
        .await;
    assert_eq!(status(&cluster, "sum").failed, None);
}

#[tokio::test]
async fn pods_of_a_deleted_job_are_released() {
    let (cluster, _components) = Cluster::with([JOBS, Component::Controller("garbage-collector")]).await;
    create(&cluster, &job("sum", 2, 2)).await;
    cluster
        .until("two pods", |cluster| active(cluster).len() == 2)
        .await;
    let jobs = cluster.client("test").namespaced::<Job>("default");
    let options = DeleteOptions {
        propagation_policy: Some(setpoint_api::options::DeletionPropagation::Background),
        ..DeleteOptions::default()
    };
    jobs.delete("sum", options).await.unwrap();
    cluster
        .until("no pods", |cluster| cluster.list::<v1::Pod>().is_empty())
        .await;
}

/// RS7
#[tokio::test]
async fn rs7_a_stale_cache_never_creates_a_pod_too_many() {
    let cluster = Cluster::start().await;
    let lagging_caches = cluster.lagging_caches();
    let _component = cluster.run_with_caches(lagging_caches.clone(), JOBS);
    lagging_caches.pause::<v1::Pod>();
    create(&cluster, &job("sum", 3, 3)).await;
    cluster
        .until("three pods", |cluster| cluster.list::<v1::Pod>().len() == 3)
        .await;
    let jobs = cluster.client("test").namespaced::<Job>("default");
    for n in 0..100 {
        let patch = Patch::merge(&json!({"metadata": {"annotations": {"touched": n.to_string()}}})).unwrap();
        jobs.patch("sum", &patch).await.unwrap();
    }
    cluster.advance(Duration::from_secs(60)).await;
    assert_eq!(cluster.list::<v1::Pod>().len(), 3);
    lagging_caches.resume::<v1::Pod>();
    cluster.settle().await;
    assert_eq!(cluster.list::<v1::Pod>().len(), 3);
}

/// CL5
#[tokio::test]
async fn cl5_further_reconciles_of_a_settled_job_write_nothing() {
    let (cluster, _components) = Cluster::with([JOBS]).await;
    create(&cluster, &job("sum", 2, 2)).await;
    cluster
        .until("two pods", |cluster| status(cluster, "sum").active == Some(2))
        .await;
    cluster.settle().await;
    cluster.interceptor.clear();
    let context = cluster.context(NAME);
    let jobs = Jobs::new(&context).unwrap();
    for _ in 0..10 {
        jobs.reconcile(&Key::new("default", "sum"), &context.client)
            .await
            .unwrap();
    }
    assert_eq!(cluster.interceptor.writes(), Vec::<String>::new());
}

/// TR9: the watch event of a removed finalizer may be lost for a while.
#[tokio::test]
async fn tr9_a_finished_pod_is_counted_once_though_the_cache_never_shows_it() {
    let cluster = Cluster::start().await;
    let lagging_caches = cluster.lagging_caches();
    create(&cluster, &job("sum", 2, 4)).await;
    let component = cluster.run(JOBS);
    cluster
        .until("two pods", |cluster| status(cluster, "sum").active == Some(2))
        .await;
    component.stop().await;
    let context = cluster.context_on(lagging_caches.clone(), NAME);
    let jobs = Jobs::new(&context).unwrap();
    let key = Key::new("default", "sum");
    end_all(&cluster, "Succeeded").await;
    // No more pods, whose events would be expected.
    let patch = Patch::merge(&json!({"spec": {"parallelism": 0}})).unwrap();
    let handle = cluster.client("test").namespaced::<Job>("default");
    handle.patch("sum", &patch).await.unwrap();
    cluster.settle().await;
    lagging_caches.pause::<v1::Pod>();
    for _ in 0..3 {
        jobs.reconcile(&key, &context.client).await.unwrap();
        cluster.settle().await;
        assert_eq!(status(&cluster, "sum").succeeded, Some(2));
    }
    lagging_caches.resume::<v1::Pod>();
    cluster.settle().await;
    jobs.reconcile(&key, &context.client).await.unwrap();
    assert_eq!(status(&cluster, "sum").succeeded, Some(2));
}

/// TR9: the watch event of a new pod may be lost for a while, and others may overtake it.
#[tokio::test]
async fn tr9_a_job_waits_until_it_has_observed_its_pods() {
    let cluster = Cluster::start().await;
    let lagging_caches = cluster.lagging_caches();
    let context = cluster.context_on(lagging_caches.clone(), NAME);
    let jobs = Jobs::new(&context).unwrap();
    let key = Key::new("default", "sum");
    create(&cluster, &job("sum", 2, 4)).await;
    cluster.settle().await;
    lagging_caches.pause::<v1::Pod>();
    for _ in 0..3 {
        jobs.reconcile(&key, &context.client).await.unwrap();
        cluster.settle().await;
        assert_eq!(cluster.list::<v1::Pod>().len(), 2);
    }
}

/// TR9: a reconcile with a stale Job may create one more pod after its end.
#[tokio::test]
async fn tr9_a_pod_created_after_the_end_is_deleted() {
    let (cluster, _components) = Cluster::with([JOBS]).await;
    create(&cluster, &job("sum", 1, 1)).await;
    cluster.until("a pod", |cluster| active(cluster).len() == 1).await;
    let mut late = active(&cluster).remove(0);
    end_all(&cluster, "Succeeded").await;
    cluster
        .until("the end", |cluster| !condition(cluster, "sum").is_empty())
        .await;
    late.metadata.name = Some("sum-late".to_owned());
    late.metadata.resource_version = None;
    late.metadata.uid = None;
    late.status = None;
    let pods = cluster.client("test").namespaced::<v1::Pod>("default");
    pods.create(&late).await.unwrap();
    cluster
        .until("no late pod", |cluster| {
            cluster.find::<v1::Pod>("sum-late").is_none()
        })
        .await;
    assert_eq!(cluster.list::<v1::Pod>().len(), 1);
}
