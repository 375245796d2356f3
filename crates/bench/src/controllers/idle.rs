//! A thousand Deployments with nothing to do (CL2, CL5).

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::time::sleep;

use super::{asking::Asking, rollout::deployment, writes};
use crate::{
    api::{
        Setting,
        load::{self, Load},
        request::Template,
        server::{Parts, Server, new_dir},
        workloads::exchange::Exchange,
    },
    report::{Goal, Measurement, Report},
};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const SETTLE: Duration = Duration::from_secs(30);

pub(crate) async fn measure(setting: &Setting, seconds: u64, report: &mut Report) -> Result<()> {
    let count = setting.pick(1_000, 100);
    let dir = new_dir(setting)?;
    let server = Server::setpoint(setting, dir.path(), Parts::Nodes(20)).await?;
    let body = deployment("idle-########", 1).to_string();
    let create = Template::with_body("POST", DEPLOYMENTS, &body);
    let load = Load {
        clients: setting.clients,
        operations: count,
        first: 0,
    };
    load::apply(&server, &load, |_| Exchange::new(create.clone(), 201)).await?;
    let mut asking = Asking::new(&server).await?;
    let is_up = |document: &Value| {
        let items = document["items"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let up = items.iter().filter(|own| own["status"]["availableReplicas"] == 1);
        up.count() as u64 == count
    };
    asking.until(DEPLOYMENTS, |_, document| is_up(document)).await?;
    sleep(SETTLE).await;
    watch_idle(&server, &mut asking, seconds, report).await?;
    server.stop().await
}

/// What the server does while nobody asks for anything.
async fn watch_idle(server: &Server, asking: &mut Asking, seconds: u64, report: &mut Report) -> Result<()> {
    let window = Duration::from_secs(seconds);
    let lists = lists(&asking.metrics().await?)?;
    let cpu = server.cpu_time()?;
    sleep(window).await;
    let busy = (server.cpu_time()? - cpu).as_secs_f64() / window.as_secs_f64() * 100.0;
    let lists = self::lists(&asking.metrics().await?)? - lists;
    let line = Measurement::new("controllers", "idle_cpu", busy, "% of a core");
    report.add(line.operations(seconds).goal(Goal::AtMost(1.0)));
    let line = Measurement::new("controllers", "idle_lists", lists as f64, "lists");
    report.add(line.operations(seconds).goal(Goal::AtMost(0.0)));
    let memory = server.memory()?.resident as f64 / 1e6;
    report.add(Measurement::new("controllers", "idle_memory", memory, "MB").operations(1));
    // Nodes that say that they are alive are all that is written.
    let ((), counts) = writes::during(server, async {
        sleep(Duration::from_secs(30)).await;
        Ok(())
    })
    .await?;
    let others = counts.iter().filter(|((resource, _), _)| *resource != "leases");
    let others: u64 = others.map(|(_, writes)| writes).sum();
    let line = Measurement::new("controllers", "idle_writes_but_leases", others as f64, "writes");
    report.add(line.operations(30).goal(Goal::AtMost(0.0)));
    Ok(())
}

/// How many lists the server has answered since it started.
fn lists(metrics: &str) -> Result<u64> {
    let samples = metrics
        .lines()
        .filter(|line| line.starts_with("apiserver_request_total{") && line.contains("verb=\"LIST\""));
    let values = samples.map(|line| {
        let value = line.rsplit(' ').next().unwrap_or_default();
        let value: f64 = value.parse().with_context(|| format!("no number: {line}"))?;
        anyhow::Ok(value as u64)
    });
    values.sum()
}
