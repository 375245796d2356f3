//! Hosted clusters: the time of a fork until its first response, of an empty cluster, and the memory of each.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use tokio::time::sleep;

use crate::{
    api::{
        Setting,
        connection::Connection,
        load, objects, request,
        server::{Server, ServerComponents, new_dir},
    },
    report::{Goal, Measurement, Report},
    statistics::{Latencies, Spread},
};

/// The clusters at the same time.
const CLUSTERS: u64 = 50;

/// The size of the schema that the forked cluster is prepared with.
const SCHEMA_BYTES: usize = 20 << 10;

/// Long enough for the background work of new clusters to complete.
const SETTLE: Duration = Duration::from_secs(2);

/// A response of the host that has created a cluster.
#[derive(Debug, Deserialize)]
struct ClusterResponse {
    name: String,
    kubeconfig: String,
}

pub(crate) async fn measure(setting: &Setting, report: &mut Report) -> Result<()> {
    let dir = new_dir(setting)?;
    let server = Server::setpoint(setting, dir.path(), ServerComponents::Host).await?;
    let mut connections = load::connect(&server.endpoint, 1).await?;
    let connection = connections.first_mut().context("one connection was opened")?;
    let crd = objects::crd(0, SCHEMA_BYTES);
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let created = connection
        .round_trip(&request::encode("POST", crds, crd.as_bytes()))
        .await?;
    ensure!(
        created.status == 201,
        "creating a CRD returned {}",
        created.status
    );
    sleep(SETTLE).await;
    for (name, path, goal) in [
        ("cluster_fork", "/clusters/root/fork", Some(Goal::AtMost(3.0))),
        ("cluster_create", "/clusters", None),
    ] {
        measure_clusters(&server, connection, (name, path), goal, report).await?;
    }
    server.stop().await
}

/// Creates clusters by a request to this path, one after the other, and deletes them at the end.
async fn measure_clusters(
    server: &Server,
    connection: &mut Connection,
    (name, path): (&str, &str),
    goal: Option<Goal>,
    report: &mut Report,
) -> Result<()> {
    let (before, cpu) = (server.memory()?.anonymous, server.cpu_time()?);
    let mut times = Vec::new();
    let mut names = Vec::new();
    for _ in 0..CLUSTERS {
        let start = Instant::now();
        names.push(create(connection, path).await?);
        times.push(start.elapsed());
    }
    sleep(SETTLE).await;
    let cpu = (server.cpu_time()? - cpu).as_secs_f64() * 1e6 / CLUSTERS as f64;
    let each = server.memory()?.anonymous.saturating_sub(before) as f64 / 1e3 / CLUSTERS as f64;
    for name in names {
        let path = format!("/clusters/{name}");
        let deleted = connection
            .round_trip(&request::encode("DELETE", &path, b""))
            .await?;
        ensure!(deleted.status == 200, "{path} returned {}", deleted.status);
    }
    let mut latencies = Latencies::new();
    times.iter().for_each(|time| latencies.record(*time));
    let spread = Spread::of(times.iter().map(|time| time.as_secs_f64() * 1e3));
    let spread = spread.context("at least one cluster is created")?;
    let measurement = Measurement::spread("api", name, spread, "ms")
        .latency(&latencies)
        .cpu(cpu);
    report.add(match goal {
        Some(goal) => measurement.goal(goal),
        None => measurement,
    });
    report.add(Measurement::new("api", format!("{name}_memory_each"), each, "kB").operations(CLUSTERS));
    Ok(())
}

/// Creates a cluster, and reads an object in it over the same connection. Returns its name.
async fn create(connection: &mut Connection, path: &str) -> Result<String> {
    let response = connection
        .round_trip(&request::encode("POST", path, b"{}"))
        .await?;
    ensure!(response.status == 201, "{path} returned {}", response.status);
    let created: ClusterResponse = serde_json::from_slice(response.body)?;
    let token = created
        .kubeconfig
        .split_once("token: ")
        .context("the kubeconfig has no token")?;
    let token = token
        .1
        .split_whitespace()
        .next()
        .unwrap_or_default()
        .trim_matches('"');
    let first = format!(
        "GET /clusters/{}/api/v1/namespaces/default HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n",
        created.name
    );
    let response = connection.round_trip(first.as_bytes()).await?;
    ensure!(
        response.status == 200,
        "the first request returned {}",
        response.status
    );
    Ok(created.name)
}
