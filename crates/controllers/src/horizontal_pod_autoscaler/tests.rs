//! The controller against a real registry, with metrics that the test serves.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Event;
use setpoint_api::{Request, Response, Serve, ServeFuture};
use setpoint_testkit::{Cluster, Component, deployment};
use tokio::task::JoinSet;

use super::*;

fn autoscaler(name: &str, target: &Value, metrics: &Value) -> Value {
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 10, "metrics": metrics},
    })
}

fn web() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"})
}

fn cpu(percent: i32) -> Value {
    json!([{"type": "Resource", "resource": {
        "name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}}])
}

async fn create(cluster: &Cluster, resource: Gvr, body: &Value) {
    let namespace = body["metadata"]["namespace"].as_str().unwrap_or_default();
    let handle = cluster.client("test").dynamic(resource, namespace);
    handle.create(body.to_string()).await.unwrap();
}

async fn create_autoscaler(cluster: &Cluster, body: &Value) {
    create(cluster, HorizontalPodAutoscaler::resource(), body).await;
}

fn status(cluster: &Cluster, name: &str) -> Status {
    let cache = cluster.cache::<HorizontalPodAutoscaler>();
    let object = cache.find(&Key::new("default", name));
    object.map_or_else(Status::default, |object| {
        object.view::<Autoscaler>().unwrap().status.clone()
    })
}

/// The reasons of its conditions, with `!` before the false ones.
fn reasons(status: &Status) -> Vec<String> {
    let condition_text = |own: &status::Condition| {
        let not = if own.status == "True" { "" } else { "!" };
        format!("{not}{}={}", own.type_, own.reason)
    };
    status.conditions.iter().map(condition_text).collect()
}

fn replicas(cluster: &Cluster) -> i32 {
    let deployment: Option<Deployment> = cluster.find("web");
    deployment.and_then(|web| web.spec.replicas).unwrap_or_default()
}

fn events(cluster: &Cluster) -> Vec<String> {
    let events = cluster.list::<Event>().into_iter();
    let own = events.filter(|event| {
        event
            .source
            .as_ref()
            .and_then(|source| source.component.as_deref())
            == Some("horizontal-pod-autoscaler")
    });
    own.map(|event| {
        format!(
            "{}: {}",
            event.reason.unwrap_or_default(),
            event.message.unwrap_or_default()
        )
    })
    .collect()
}

/// A Deployment whose pods each request 100 millicores.
fn busy_web(replicas: i32) -> Deployment {
    let mut web = deployment("web").replicas(replicas).build();
    let spec = web.spec.template.spec.as_mut().unwrap();
    let requests = json!({"requests": {"cpu": "100m"}});
    spec.containers[0].resources = Some(serde_json::from_value(requests).unwrap());
    web
}

async fn with_web(replicas: i32, more: &[Component]) -> (Cluster, Vec<setpoint_testkit::RunningComponent>) {
    let components = [
        Component::Controller("deployment"),
        Component::Controller("replicaset"),
        Component::Scheduler,
        Component::nodes(2),
    ];
    let (cluster, running) = Cluster::with(components.into_iter().chain(more.iter().cloned())).await;
    let deployments = cluster.client("test").namespaced::<Deployment>("default");
    deployments.create(&busy_web(replicas)).await.unwrap();
    cluster
        .until("ready pods", |cluster| {
            let web: Option<Deployment> = cluster.find("web");
            web.and_then(|web| web.status?.ready_replicas) == Some(replicas)
        })
        .await;
    (cluster, running)
}

/// Serves `metrics.k8s.io` by a CRD, as metrics-server would.
async fn define_metrics(cluster: &Cluster) {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "pods.metrics.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, a stand-in of a test"},
        },
        "spec": {
            "group": "metrics.k8s.io", "scope": "Namespaced",
            "names": {"plural": "pods", "kind": "PodMetrics"},
            "versions": [{"name": "v1beta1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    });
    let definitions = Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    create(cluster, definitions, &definition).await;
    cluster
        .until("metrics", |cluster| {
            let kinds = cluster.registry().kinds();
            kinds.iter().any(|kind| kind.info().gvr.group == "metrics.k8s.io")
        })
        .await;
}

/// Each pod uses so many millicores.
async fn measure(cluster: &Cluster, cpu: i64) {
    let handle = cluster
        .client("test")
        .dynamic(Gvr::new("metrics.k8s.io", "v1beta1", "pods"), "default");
    for pod in cluster.list::<v1::Pod>() {
        let name = pod.metadata.name.unwrap();
        let body = json!({
            "apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics",
            "metadata": {"name": name, "namespace": "default", "labels": pod.metadata.labels},
            "timestamp": cluster.clock.now(), "window": "15s",
            "containers": [{"name": "main", "usage": {"cpu": format!("{cpu}m")}}],
        });
        let patch = Patch::apply(&body, "test").unwrap();
        handle.patch(&name, &patch).await.unwrap();
    }
}

#[tokio::test]
async fn without_metrics_it_reports_why_and_does_not_scale() {
    let (cluster, _components) = with_web(2, &[Component::Controller("horizontal-pod-autoscaler")]).await;
    create_autoscaler(&cluster, &autoscaler("web", &web(), &cpu(50))).await;
    cluster
        .until("conditions", |cluster| {
            status(cluster, "web").conditions.len() == 2
        })
        .await;
    let found = status(&cluster, "web");
    assert_eq!(
        reasons(&found),
        [
            "AbleToScale=SucceededGetScale",
            "!ScalingActive=FailedGetResourceMetric"
        ]
    );
    assert_eq!(
        (found.current_replicas, found.desired_replicas, replicas(&cluster)),
        (2, 0, 2)
    );
    let why = "unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: the server \
               could not find the requested resource (get pods.metrics.k8s.io)";
    cluster
        .until("events", |cluster| events(cluster).len() >= 2)
        .await;
    assert_eq!(
        events(&cluster),
        [
            format!("FailedGetResourceMetric: failed to get cpu utilization: {why}"),
            format!(
                "FailedComputeMetricsReplicas: invalid metrics (1 invalid out of 1), first error is: failed to get cpu \
                 resource metric value: failed to get cpu utilization: {why}"
            ),
        ]
    );
}

#[tokio::test]
async fn the_replicas_follow_the_usage_and_settle() {
    let (cluster, _components) = with_web(2, &[Component::Controller("horizontal-pod-autoscaler")]).await;
    define_metrics(&cluster).await;
    // CPU usage counts only once the pods have run for a while.
    let later = |seconds| {
        cluster
            .clock
            .set(cluster.clock.now() + Duration::from_secs(seconds))
    };
    later(400);
    measure(&cluster, 100).await;
    create_autoscaler(&cluster, &autoscaler("web", &web(), &cpu(50))).await;
    cluster
        .until("twice as many", |cluster| replicas(cluster) == 4)
        .await;
    cluster
        .until("a condition", |cluster| {
            status(cluster, "web").last_scale_time.is_some()
        })
        .await;
    let found = status(&cluster, "web");
    assert_eq!(
        reasons(&found),
        [
            "AbleToScale=SucceededRescale",
            "ScalingActive=ValidMetricFound",
            "!ScalingLimited=DesiredWithinRange",
            "!ScaledToZero=NotScaledToZero",
        ]
    );
    let metric_statuses = json!([{"type": "Resource", "resource": {
        "name": "cpu", "current": {"averageUtilization": 100, "averageValue": "100m"}}}]);
    assert_eq!(
        found.current_metrics,
        Some(metric_statuses.as_array().unwrap().clone())
    );
    cluster
        .until("four pods", |cluster| cluster.list::<v1::Pod>().len() == 4)
        .await;
    later(400);
    measure(&cluster, 50).await;
    cluster.advance(Duration::from_secs(60)).await;
    cluster.interceptor.clear();
    cluster.advance(Duration::from_secs(60)).await;
    assert_eq!(
        (
            replicas(&cluster),
            cluster
                .interceptor
                .count(&format!("{NAME} patch horizontalpodautoscalers/status"))
        ),
        (4, 0)
    );
    measure(&cluster, 20).await;
    cluster.until("fewer", |cluster| replicas(cluster) == 2).await;
    assert!(
        events(&cluster)
            .contains(&"SuccessfulRescale: New size: 2; reason: All metrics below target".to_owned())
    );
}

#[tokio::test]
async fn replicas_out_of_bounds_are_brought_back_without_metrics() {
    let (cluster, _components) = with_web(3, &[Component::Controller("horizontal-pod-autoscaler")]).await;
    let mut body = autoscaler("scaler", &web(), &cpu(50));
    body["spec"]["maxReplicas"] = json!(2);
    create_autoscaler(&cluster, &body).await;
    cluster.until("fewer", |cluster| replicas(cluster) == 2).await;
    cluster
        .until("an event", |cluster| {
            events(cluster).iter().any(|event| {
                event == "SuccessfulRescale: New size: 2; reason: Current number of replicas above Spec.MaxReplicas"
            })
        })
        .await;
}

#[tokio::test]
async fn a_target_that_is_missing_or_cannot_be_scaled_is_reported() {
    let (cluster, _components) = Cluster::with([Component::Controller("horizontal-pod-autoscaler")]).await;
    create_autoscaler(&cluster, &autoscaler("one", &web(), &cpu(50))).await;
    let unknown = json!({"apiVersion": "example.com/v1", "kind": "Widget", "name": "w"});
    create_autoscaler(&cluster, &autoscaler("two", &unknown, &cpu(50))).await;
    let message_of = |cluster: &Cluster, name: &str| {
        let conditions = status(cluster, name).conditions;
        conditions
            .first()
            .map(|own| own.message.clone())
            .unwrap_or_default()
    };
    cluster
        .until("both reported", |cluster| {
            !message_of(cluster, "one").is_empty() && !message_of(cluster, "two").is_empty()
        })
        .await;
    let start = "the HPA controller was unable to get the target's current scale: ";
    assert_eq!(
        message_of(&cluster, "one"),
        format!("{start}deployments.apps \"web\" not found")
    );
    assert_eq!(
        message_of(&cluster, "two"),
        format!("{start}no matches for kind \"Widget\" in group \"example.com\"")
    );
}

#[tokio::test]
async fn pods_of_two_autoscalers_are_scaled_by_none() {
    let (cluster, _components) = with_web(2, &[Component::Controller("horizontal-pod-autoscaler")]).await;
    create_autoscaler(&cluster, &autoscaler("one", &web(), &cpu(50))).await;
    create_autoscaler(&cluster, &autoscaler("two", &web(), &cpu(50))).await;
    let is_reported = |cluster: &Cluster, name: &str| {
        reasons(&status(cluster, name)).contains(&"!ScalingActive=AmbiguousSelector".to_owned())
    };
    cluster
        .until("both reported", |cluster| {
            is_reported(cluster, "one") && is_reported(cluster, "two")
        })
        .await;
}

/// A server of custom and external metrics in front of another server.
struct StandIn(Arc<dyn Serve>);

impl Serve for StandIn {
    fn call(&self, request: Request) -> ServeFuture<'_> {
        let target = &request.target;
        let path = format!(
            "{}/{}/{}",
            target.resource.resource,
            target.name.as_deref().unwrap_or_default(),
            target.subresource.as_deref().unwrap_or_default()
        );
        let value = |name: &str, value: &str| json!({"describedObject": {"kind": "Pod", "name": name}, "timestamp": "2026-01-01T00:00:00Z", "value": value});
        let response = match (target.resource.group.as_str(), path.as_str()) {
            ("external.metrics.k8s.io", "queue//") => {
                json!({"items": [value("", "20"), value("", "10")]})
            }
            ("custom.metrics.k8s.io", "deployments.apps/web/hits") => value("web", "8"),
            // The newer version of the API is not served.
            ("custom.metrics.k8s.io", "metrics/load/") if target.resource.version == "v1beta1" => {
                value("default", "3")
            }
            _ => return self.0.call(request),
        };
        let response = Response::new(Body::Json(response.to_string().into()));
        Box::pin(std::future::ready(Ok(response)))
    }
}

fn served(cluster: &Cluster) -> ServedResources {
    let registry = cluster.registry().clone();
    let changes = registry.kinds_changed();
    let list = move || {
        let kinds = registry.kinds();
        let stored = kinds.iter().filter(|kind| kind.info().is_storage_version());
        stored
            .map(|kind| crate::Resource {
                gvk: kind.info().gvk.clone(),
                gvr: kind.info().gvr.clone(),
                namespaced: kind.info().is_namespaced(),
            })
            .collect()
    };
    ServedResources::new(list, changes)
}

#[tokio::test]
async fn object_and_external_metrics_count_and_the_greatest_wins() {
    let (cluster, _components) = with_web(2, &[]).await;
    let mut context = cluster.context(NAME);
    let serve: Arc<dyn Serve> = Arc::new(StandIn(context.client.serve().clone()));
    context.client = Client::new(serve, context.client.user().clone());
    let config = Config {
        resources: served(&cluster),
        ..Config::default()
    };
    let mut running = JoinSet::new();
    running.spawn(run(context, config, CancellationToken::new()));
    let metrics = json!([
        {"type": "External", "external": {
            "metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "6"}}},
        {"type": "Object", "object": {
            "describedObject": web(), "metric": {"name": "hits"}, "target": {"type": "Value", "value": "8"}}},
        {"type": "Object", "object": {
            "describedObject": {"apiVersion": "v1", "kind": "Namespace", "name": "default"},
            "metric": {"name": "load"}, "target": {"type": "Value", "value": "2"}}},
    ]);
    create_autoscaler(&cluster, &autoscaler("web", &web(), &metrics)).await;
    cluster
        .until("as many as the queue needs", |cluster| replicas(cluster) == 4)
        .await;
    cluster
        .until("what was read", |cluster| {
            status(cluster, "web").last_scale_time.is_some()
        })
        .await;
    let metric_statuses = status(&cluster, "web").current_metrics.unwrap_or_default();
    let current: Vec<String> = metric_statuses
        .iter()
        .map(|metric| metric[metric["type"].as_str().unwrap().to_lowercase()]["current"].to_string())
        .collect();
    assert_eq!(
        current,
        [r#"{"averageValue":"15"}"#, r#"{"value":"8"}"#, r#"{"value":"3"}"#]
    );
}

#[tokio::test]
async fn anything_with_a_scale_can_be_scaled() {
    let (cluster, _components) = Cluster::with([Component::Controller("horizontal-pod-autoscaler")]).await;
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                    "labelSelectorPath": ".status.selector"}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    });
    let definitions = Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    create(&cluster, definitions, &definition).await;
    let widgets = Gvr::new("example.com", "v1", "widgets");
    cluster
        .until("widgets", |cluster| {
            let kinds = cluster.registry().kinds();
            kinds.iter().any(|kind| kind.info().gvr == widgets)
        })
        .await;
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "w", "namespace": "default"}, "spec": {"replicas": 40}});
    create(&cluster, widgets.clone(), &widget).await;
    let target = json!({"apiVersion": "example.com/v1", "kind": "Widget", "name": "w"});
    create_autoscaler(&cluster, &autoscaler("w", &target, &cpu(50))).await;
    cluster
        .until("ten", |cluster| {
            let cache =
                setpoint_runtime::Caches::cache(cluster.registry().as_ref(), &widgets.group_resource());
            let found = cache.and_then(|cache| cache.find(&Key::new("default", "w")));
            found.is_some_and(|widget| widget.decode::<Value>().unwrap()["spec"]["replicas"] == 10)
        })
        .await;
    // Its scale has no selector, so no metric can be read from now on.
    cluster
        .until("a word about the selector", |cluster| {
            reasons(&status(cluster, "w")).contains(&"!ScalingActive=InvalidSelector".to_owned())
        })
        .await;
}
