//! Metrics clients: pods' resource metrics from `metrics.k8s.io`, metrics of pods and objects from
//! `custom.metrics.k8s.io`, all others from `external.metrics.k8s.io`, by whichever server serves them.
//!
//! Custom and external metrics have no registered kind, so a response may be an object or a list.

use std::collections::BTreeMap;

use compact_str::CompactString;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use setpoint_api::options::{GetOptions, ListOptions};
use setpoint_api::selector::LabelSelector;
use setpoint_api::{Body, Gvr, Key, Status, Target, Verb};
use setpoint_runtime::Client;
use setpoint_runtime::label_selector;

use crate::horizontal_pod_autoscaler::plan::{Sample, Samples};
use crate::horizontal_pod_autoscaler::views::{Identifier, Milli};

const RESOURCE: (&str, &str) = ("metrics.k8s.io", "v1beta1");
/// Versions of the API with the same meaning, the newest first.
const CUSTOM: (&str, [&str; 2]) = ("custom.metrics.k8s.io", ["v1beta2", "v1beta1"]);
const EXTERNAL: (&str, &str) = ("external.metrics.k8s.io", "v1beta1");
/// The sampling window of a metric that names none.
const WINDOW: SignedDuration = SignedDuration::from_secs(60);
/// The status code if the server of an API is unavailable.
const UNAVAILABLE: u16 = 503;
/// Selects all objects instead of a named one.
const ALL: &str = "*";

/// The resource usage of a pod's containers.
#[derive(Debug, Deserialize)]
struct PodMetrics {
    metadata: ObjectName,
    timestamp: Timestamp,
    #[serde(default)]
    window: CompactString,
    #[serde(default)]
    containers: Vec<ContainerMetrics>,
}

#[derive(Debug, Deserialize)]
struct ContainerMetrics {
    name: CompactString,
    #[serde(default)]
    usage: BTreeMap<CompactString, Milli>,
}

/// A metric of an object, or an external one.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetricValue {
    #[serde(default)]
    described_object: ObjectName,
    timestamp: Timestamp,
    window_seconds: Option<i64>,
    value: Milli,
}

#[derive(Debug, Default, Deserialize)]
struct ObjectName {
    name: String,
}

#[derive(Debug, Deserialize)]
struct Items<T> {
    items: Vec<T>,
}

/// The usage of a resource by pods: by all of their containers, or by one.
pub(crate) async fn of_resource(
    client: &Client,
    namespace: &str,
    selector: &LabelSelector,
    resource: &str,
    container: Option<&str>,
) -> Result<Samples, String> {
    let target = Target::in_namespace(Gvr::new(RESOURCE.0, RESOURCE.1, "pods"), namespace);
    let fetched: Result<Vec<PodMetrics>, _> = list(client, target, selector).await;
    let metrics = fetched.map_err(|status| {
        let why = error_text(&status, "pods.metrics.k8s.io");
        format!("unable to fetch metrics from resource metrics API: {why}")
    })?;
    if metrics.is_empty() {
        return Err("no metrics returned from resource metrics API".to_owned());
    }
    let sample = |pod: &PodMetrics| Some((pod.metadata.name.clone(), pod.sample(resource, container)?));
    Ok(metrics.iter().filter_map(sample).collect())
}

/// A metric of each pod.
pub(crate) async fn of_pods(
    client: &Client,
    namespace: &str,
    selector: &LabelSelector,
    metric: &Identifier,
) -> Result<Samples, String> {
    without_selector(metric)?;
    let target = |version: &str| {
        let pods = Gvr::new(CUSTOM.0, version, "pods");
        Target::object(pods, &Key::new(namespace, ALL)).subresource(&metric.name)
    };
    let values = get_custom(client, target, &listed(selector)).await;
    let values = values.map_err(|status| custom(&status, "pods", ALL))?;
    if values.is_empty() {
        return Err("no metrics returned from custom metrics API".to_owned());
    }
    let sample = |value: MetricValue| {
        let window = value.window_seconds.map_or(WINDOW, SignedDuration::from_secs);
        let sample = Sample {
            value: value.value.0,
            at: value.timestamp,
            window,
        };
        (value.described_object.name, sample)
    };
    Ok(values.into_iter().map(sample).collect())
}

/// A metric of one object, given as resource and name. Metrics of a namespace have their own path.
pub(crate) async fn of_object(
    client: &Client,
    namespace: &str,
    (resource, name): (&str, &str),
    metric: &Identifier,
) -> Result<i64, String> {
    without_selector(metric)?;
    let target = |version: &str| {
        let gvr = |resource| Gvr::new(CUSTOM.0, version, resource);
        match resource {
            "namespaces" => Target::object(gvr("metrics"), &Key::new(namespace, &metric.name)),
            resource => Target::object(gvr(resource), &Key::new(namespace, name)).subresource(&metric.name),
        }
    };
    let verb = Verb::Get(GetOptions::default());
    let values = get_custom(client, target, &verb).await;
    let values = values.map_err(|status| custom(&status, resource, name))?;
    let first = values.first().map(|value| value.value.0);
    first.ok_or_else(|| "no metrics returned from custom metrics API".to_owned())
}

/// The sum of all series of an external metric.
pub(crate) async fn external_sum(
    client: &Client,
    namespace: &str,
    metric: &Identifier,
) -> Result<i64, String> {
    let selector = match &metric.selector {
        None => LabelSelector::default(),
        Some(selector) => label_selector(selector).map_err(|error| error.to_string())?,
    };
    let name = metric.name.as_str();
    let target = Target::in_namespace(Gvr::new(EXTERNAL.0, EXTERNAL.1, name), namespace);
    let fetched: Result<Vec<MetricValue>, _> = list(client, target, &selector).await;
    let values = fetched.map_err(|status| {
        let why = error_text(&status, &format!("{name}.external.metrics.k8s.io"));
        format!("unable to fetch metrics from external metrics API: {why}")
    })?;
    if values.is_empty() {
        return Err("no metrics returned from external metrics API".to_owned());
    }
    let sum = |sum: i64, value: &MetricValue| sum.saturating_add(value.value.0);
    Ok(values.iter().fold(0, sum))
}

// === impl PodMetrics ===

impl PodMetrics {
    /// The usage of the resource; `None` if a container that counts has no value.
    fn sample(&self, resource: &str, container: Option<&str>) -> Option<Sample> {
        let counts = |own: &&ContainerMetrics| container.is_none_or(|name| own.name == name);
        let usages = self.containers.iter().filter(counts);
        let usages: Option<Vec<i64>> = usages.map(|own| Some(own.usage.get(resource)?.0)).collect();
        let usages = usages.filter(|usages| !usages.is_empty())?;
        let window = self.window.parse().unwrap_or_default();
        Some(Sample {
            value: usages.iter().sum(),
            at: self.timestamp,
            window,
        })
    }
}

async fn list<T: DeserializeOwned>(
    client: &Client,
    target: Target,
    selector: &LabelSelector,
) -> Result<Vec<T>, Status> {
    read(client.call(target, listed(selector)).await?.body)
}

fn listed(selector: &LabelSelector) -> Verb {
    Verb::List(ListOptions {
        labels: selector.clone(),
        ..ListOptions::default()
    })
}

/// Gets custom metrics in the newest served version.
async fn get_custom(
    client: &Client,
    target: impl Fn(&str) -> Target,
    verb: &Verb,
) -> Result<Vec<MetricValue>, Status> {
    let [newest, older] = CUSTOM.1;
    let response = match client.call(target(newest), verb.clone()).await {
        Err(status) if is_unserved(&status) => client.call(target(older), verb.clone()).await,
        response => response,
    };
    read(response?.body)
}

/// Decodes the metrics of a response: one, a list of them, or JSON of either.
fn read<T: DeserializeOwned>(body: Body) -> Result<Vec<T>, Status> {
    let decoded = match &body {
        Body::List(list) => list.items.iter().map(|item| item.decode()).collect(),
        Body::Object(object) => object.decode().map(|one| vec![one]),
        Body::Json(bytes) => setpoint_api::json::from_slice(bytes)
            .map(|list: Items<T>| list.items)
            .or_else(|_| setpoint_api::json::from_slice(bytes).map(|one| vec![one])),
        body => return Err(Status::internal(format_args!("{body:?} is not a metric"))),
    };
    decoded.map_err(|error| Status::internal(format_args!("cannot decode metrics: {error}")))
}

/// Whether the API is not served.
fn is_unserved(status: &Status) -> bool {
    status.message == Status::no_such_resource().message
}

/// The error text, with the request where the server's message lacks it.
fn error_text(status: &Status, request: &str) -> String {
    match is_unserved(status) || status.code == UNAVAILABLE {
        true => format!("{status} (get {request})"),
        false => status.to_string(),
    }
}

fn custom(status: &Status, resource: &str, name: &str) -> String {
    let why = match is_unserved(status) {
        true => format!("no custom metrics API ({}) registered", CUSTOM.0),
        false => error_text(status, &format!("{resource}.{} {name}", CUSTOM.0)),
    };
    format!("unable to fetch metrics from custom metrics API: {why}")
}

/// The only selector of such a request is that of the pods.
fn without_selector(metric: &Identifier) -> Result<(), String> {
    match &metric.selector {
        None => Ok(()),
        Some(_) => Err(format!(
            "unable to fetch metrics from custom metrics API: metric {} cannot be selected by its labels",
            metric.name
        )),
    }
}
