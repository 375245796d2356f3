//! A Deployment of five thousand pods on five thousand simulated nodes, and back to none.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{api_client::ApiClient, writes};
use crate::{
    api::{
        Setting,
        server::{Server, ServerComponents, new_dir},
    },
    report::{Measurement, Report},
};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
/// Long enough for the work after the start of the nodes to complete.
const SETTLE: Duration = Duration::from_secs(5);

/// The outcome of one rollout.
#[derive(Debug)]
struct Rollout {
    wall: Duration,
    cpu: Duration,
}

pub(crate) async fn measure(setting: &Setting, report: &mut Report) -> Result<()> {
    let count = setting.full_or_quick(5_000, 500);
    let dir = new_dir(setting)?;
    let server = Server::setpoint(setting, dir.path(), ServerComponents::Nodes(count)).await?;
    let mut client = ApiClient::new(&server).await?;
    client.wait_for_count("/api/v1/nodes", count).await?;
    sleep(SETTLE).await;
    let empty = server.memory()?.resident;
    let up = scale(&server, &mut client, ("web", count)).await?;
    let full = server.memory()?;
    let down = scale(&server, &mut client, ("web", 0)).await?;
    add(report, "rollout", &up, count);
    add(report, "scale_to_none", &down, count);
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    for (name, bytes) in [
        ("rollout_memory_nodes_only", empty),
        ("rollout_memory_after", full.resident),
        ("rollout_memory_peak", full.peak),
    ] {
        report.add(Measurement::new("controllers", name, megabytes(bytes), "MB").operations(count));
    }
    sleep(SETTLE).await;
    count_writes(&server, report, ("again", count)).await?;
    server.stop().await
}

/// Repeats the rollout while counting the writes.
async fn count_writes(server: &Server, report: &mut Report, (name, count): (&str, u64)) -> Result<()> {
    let mut client = ApiClient::new(server).await?;
    for (what, replicas) in [("rollout", count), ("scale_to_none", 0)] {
        let before = client.version().await?;
        let (_, counts) = writes::during(server, scale(server, &mut client, (name, replicas))).await?;
        let all = client.version().await? - before;
        let per_pod = |writes: u64| writes as f64 / count as f64;
        let mut line = |name: String, writes: u64| {
            report
                .add(Measurement::new("controllers", name, per_pod(writes), "write/pod").operations(writes));
        };
        line(format!("{what}_writes_all"), all);
        for ((resource, kind), writes) in counts {
            line(format!("{what}_writes_{resource}_{kind}"), writes);
        }
    }
    Ok(())
}

fn add(report: &mut Report, name: &str, rollout: &Rollout, count: u64) {
    let cpu = rollout.cpu.as_secs_f64() * 1e6 / count as f64;
    let wall = Measurement::new(
        "controllers",
        format!("{name}_wall"),
        rollout.wall.as_secs_f64(),
        "s",
    );
    report.add(wall.cpu(cpu).operations(count));
    let rate = count as f64 / rollout.wall.as_secs_f64();
    report.add(Measurement::new("controllers", format!("{name}_rate"), rate, "pod/s").operations(count));
}

/// Scales a Deployment and waits until all its pods are available or deleted.
async fn scale(server: &Server, client: &mut ApiClient, (name, replicas): (&str, u64)) -> Result<Rollout> {
    let path = format!("{DEPLOYMENTS}/{name}");
    let (cpu, start) = (server.cpu_time()?, Instant::now());
    let (status, _) = client.send("GET", &path, "").await?;
    match status {
        404 => {
            let deployment = deployment(name, replicas).to_string();
            client.send_ok("POST", DEPLOYMENTS, &deployment).await?;
        }
        _ => {
            let scale = json!({"spec": {"replicas": replicas}}).to_string();
            client.patch(&path, &scale).await?;
        }
    }
    let count = |object: &Value, field: &str| object["status"][field].as_u64().unwrap_or(0);
    let is_complete = |object: &Value| {
        count(object, "availableReplicas") == replicas
            && count(object, "replicas") == replicas
            && count(object, "observedGeneration") == object["metadata"]["generation"]
    };
    client.wait_until(&path, |_, object| is_complete(object)).await?;
    if replicas == 0 {
        client
            .wait_for_count("/api/v1/namespaces/default/pods", 0)
            .await?;
    }
    Ok(Rollout {
        wall: start.elapsed(),
        cpu: server.cpu_time()? - cpu,
    })
}

pub(super) fn deployment(name: &str, replicas: u64) -> Value {
    let labels = json!({"app": name});
    let container =
        json!({"name": "main", "image": "example.com/app:1", "resources": {"requests": {"cpu": "100m"}}});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    })
}
