//! A Deployment of five thousand pods on five thousand simulated nodes, and back to none.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{asking::Asking, writes};
use crate::{
    api::{
        Setting,
        server::{Parts, Server, new_dir},
    },
    report::{Measurement, Report},
};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
/// Long enough for what follows the start of the nodes to be over.
const SETTLE: Duration = Duration::from_secs(5);

/// What one rollout came to.
#[derive(Debug)]
struct Rollout {
    wall: Duration,
    cpu: Duration,
}

pub(crate) async fn measure(setting: &Setting, report: &mut Report) -> Result<()> {
    let count = setting.pick(5_000, 500);
    let dir = new_dir(setting)?;
    let server = Server::setpoint(setting, dir.path(), Parts::Nodes(count)).await?;
    let mut asking = Asking::new(&server).await?;
    asking.until_count("/api/v1/nodes", count).await?;
    sleep(SETTLE).await;
    let empty = server.memory()?.resident;
    let up = scale(&server, &mut asking, ("web", count)).await?;
    let full = server.memory()?;
    let down = scale(&server, &mut asking, ("web", 0)).await?;
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

/// The same once more with somebody who counts what is written.
async fn count_writes(server: &Server, report: &mut Report, (name, count): (&str, u64)) -> Result<()> {
    let mut asking = Asking::new(server).await?;
    for (what, wanted) in [("rollout", count), ("scale_to_none", 0)] {
        let before = asking.version().await?;
        let (_, counts) = writes::during(server, scale(server, &mut asking, (name, wanted))).await?;
        let all = asking.version().await? - before;
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

/// Brings a Deployment to this size and waits until all its pods are available, or gone.
async fn scale(server: &Server, asking: &mut Asking, (name, wanted): (&str, u64)) -> Result<Rollout> {
    let path = format!("{DEPLOYMENTS}/{name}");
    let (cpu, start) = (server.cpu_time()?, Instant::now());
    let (status, _) = asking.ask("GET", &path, "").await?;
    match status {
        404 => {
            let deployment = deployment(name, wanted).to_string();
            asking.must("POST", DEPLOYMENTS, &deployment).await?;
        }
        _ => {
            let scale = json!({"spec": {"replicas": wanted}}).to_string();
            asking.patch(&path, &scale).await?;
        }
    }
    let count = |document: &Value, field: &str| document["status"][field].as_u64().unwrap_or(0);
    let is_there = |document: &Value| {
        count(document, "availableReplicas") == wanted
            && count(document, "replicas") == wanted
            && count(document, "observedGeneration") == document["metadata"]["generation"]
    };
    asking.until(&path, |_, document| is_there(document)).await?;
    if wanted == 0 {
        asking.until_count("/api/v1/namespaces/default/pods", 0).await?;
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
