//! `/metrics` and `/metrics/resource`, in the Prometheus text format.

use std::fmt::Write;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};
use jiff::Timestamp;

use super::body::{Body, text};
use super::command::internal;
use super::connection::Server;
use super::stats::{self, ContainerUsage, PodUsage};
use crate::machine_usage::MachineUsage;

/// A page of metrics.
pub(super) fn page(metrics: String) -> Response<Body> {
    let mut response = text(http::StatusCode::OK, metrics);
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// The agent's metrics.
pub(super) async fn all(server: &Server) -> Result<Response<Body>, Response<Body>> {
    let usage = stats::usage(server)
        .await
        .map_err(|error| internal(error.to_string()))?;
    let containers: usize = usage.iter().map(|pod| pod.containers.len()).sum();
    let mut metrics = Metrics::default();
    metrics.describe(
        "kubelet_running_pods",
        "gauge",
        "Number of pods that have a running pod sandbox",
    );
    metrics.add("kubelet_running_pods", "", usage.len() as f64, None);
    metrics.describe(
        "kubelet_running_containers",
        "gauge",
        "Number of containers currently running",
    );
    let running = "container_state=\"running\"";
    metrics.add("kubelet_running_containers", running, containers as f64, None);
    metrics.0.push_str(&server.agent.metrics());
    Ok(page(metrics.0))
}

/// The use of resources, which metrics servers read.
pub(super) async fn resource(server: &Server) -> Result<Response<Body>, Response<Body>> {
    let usage = stats::usage(server)
        .await
        .map_err(|error| internal(error.to_string()))?;
    let node = stats::node_usage(server, &usage);
    Ok(page(resource_metrics(&usage, &node, server.agent.clock().now())))
}

fn resource_metrics(usage: &[PodUsage], node: &MachineUsage, now: Timestamp) -> String {
    let mut metrics = Metrics::default();
    add_containers(&mut metrics, usage);
    add_pods(&mut metrics, usage, now);
    add_node(&mut metrics, node, now);
    let name = "resource_scrape_error";
    metrics.describe(
        name,
        "gauge",
        "1 if there was an error while getting container metrics, 0 otherwise",
    );
    metrics.add(name, "", 0.0, None);
    metrics.0
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

fn add_containers(metrics: &mut Metrics, usage: &[PodUsage]) {
    let containers = || {
        let of_pod = |pod| move |one| (labels_of(pod, one), one);
        usage
            .iter()
            .flat_map(move |pod| pod.containers.iter().map(of_pod(pod)))
    };
    let name = "container_cpu_usage_seconds_total";
    metrics.describe(
        name,
        "counter",
        "Cumulative cpu time consumed by the container in core-seconds",
    );
    for (labels, one) in containers() {
        metrics.add(name, &labels, seconds(one.cpu_nanoseconds), Some(one.time));
    }
    let name = "container_memory_working_set_bytes";
    metrics.describe(name, "gauge", "Current working set of the container in bytes");
    for (labels, one) in containers() {
        metrics.add(name, &labels, one.working_set_bytes as f64, Some(one.time));
    }
    let name = "container_start_time_seconds";
    metrics.describe(
        name,
        "gauge",
        "Start time of the container since unix epoch in seconds",
    );
    for (labels, one) in containers() {
        if let Some(started) = one.started_at {
            metrics.add(name, &labels, started.as_millisecond() as f64 / 1e3, None);
        }
    }
}

/// The use by pods, which is that of their containers.
fn add_pods(metrics: &mut Metrics, usage: &[PodUsage], now: Timestamp) {
    let cpu = |pod: &PodUsage| pod.containers.iter().map(|one| one.cpu_nanoseconds).sum::<u64>();
    let memory = |pod: &PodUsage| {
        pod.containers
            .iter()
            .map(|one| one.working_set_bytes)
            .sum::<u64>()
    };
    let name = "pod_cpu_usage_seconds_total";
    metrics.describe(
        name,
        "counter",
        "Cumulative cpu time consumed by the pod in core-seconds",
    );
    for pod in usage {
        metrics.add(name, &pod_labels(pod), seconds(cpu(pod)), Some(now));
    }
    let name = "pod_memory_working_set_bytes";
    metrics.describe(name, "gauge", "Current working set of the pod in bytes");
    for pod in usage {
        metrics.add(name, &pod_labels(pod), memory(pod) as f64, Some(now));
    }
}

fn add_node(metrics: &mut Metrics, node: &MachineUsage, now: Timestamp) {
    let name = "node_cpu_usage_seconds_total";
    metrics.describe(
        name,
        "counter",
        "Cumulative cpu time consumed by the node in core-seconds",
    );
    metrics.add(name, "", seconds(node.cpu_nanoseconds), Some(now));
    let name = "node_memory_working_set_bytes";
    metrics.describe(name, "gauge", "Current working set of the node in bytes");
    metrics.add(name, "", node.working_set_bytes as f64, Some(now));
}

fn labels_of(pod: &PodUsage, container: &ContainerUsage) -> String {
    format!("container=\"{}\",{}", container.name, pod_labels(pod))
}

fn pod_labels(usage: &PodUsage) -> String {
    format!("namespace=\"{}\",pod=\"{}\"", usage.pod.namespace, usage.pod.name)
}

/// Text of metrics.
#[derive(Debug, Default)]
struct Metrics(String);

impl Metrics {
    fn describe(&mut self, name: &str, kind: &str, help: &str) {
        self.push(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    fn add(&mut self, name: &str, labels: &str, value: f64, time: Option<Timestamp>) {
        let labels = match labels {
            "" => String::new(),
            labels => format!("{{{labels}}}"),
        };
        let time = time
            .map(|time| format!(" {}", time.as_millisecond()))
            .unwrap_or_default();
        self.push(format_args!("{name}{labels} {value}{time}\n"));
    }

    fn push(&mut self, text: std::fmt::Arguments<'_>) {
        self.0.write_fmt(text).expect("a string can be written to");
    }
}
