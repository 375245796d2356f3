//! A thousand Deployments with nothing to do (CL2, CL5).

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::time::sleep;

use super::{api_client::ApiClient, create, rollout::deployment, writes};
use crate::{
    api::{
        Setting,
        server::{Server, ServerComponents, new_dir},
    },
    report::{Goal, Measurement, Report},
};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const SETTLE: Duration = Duration::from_secs(30);

pub(crate) async fn measure(setting: &Setting, seconds: u64, report: &mut Report) -> Result<()> {
    let count = setting.full_or_quick(1_000, 100);
    let dir = new_dir(setting)?;
    let server = Server::setpoint(setting, dir.path(), ServerComponents::Nodes(20)).await?;
    let body = deployment("idle-########", 1).to_string();
    create(setting, &server, (DEPLOYMENTS, &body), count).await?;
    let mut client = ApiClient::new(&server).await?;
    let is_up = |object: &Value| {
        let items = object["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        let up = items.iter().filter(|own| own["status"]["availableReplicas"] == 1);
        up.count() as u64 == count
    };
    client.wait_until(DEPLOYMENTS, |_, object| is_up(object)).await?;
    sleep(SETTLE).await;
    watch_idle(&server, seconds, report).await?;
    server.stop().await
}

/// Measures the server's activity without client requests.
async fn watch_idle(server: &Server, seconds: u64, report: &mut Report) -> Result<()> {
    let window = Duration::from_secs(seconds);
    let before = requests(server).await?;
    let cpu = server.cpu_time()?;
    sleep(window).await;
    let busy = (server.cpu_time()? - cpu).as_secs_f64() / window.as_secs_f64() * 100.0;
    let after = requests(server).await?;
    let line = Measurement::new("controllers", "idle_cpu", busy, "% of a core");
    report.add(line.operations(seconds).goal(Goal::AtMost(1.0)));
    for (verb, count) in after {
        let more = count - before.get(&verb).copied().unwrap_or(0);
        let line = Measurement::new(
            "controllers",
            format!("idle_requests_{verb}"),
            more as f64,
            "requests",
        );
        let line = line.operations(seconds);
        report.add(if verb == "list" {
            line.goal(Goal::AtMost(0.0))
        } else {
            line
        });
    }
    let memory = server.memory()?.resident as f64 / 1e6;
    report.add(Measurement::new("controllers", "idle_memory", memory, "MB").operations(1));
    // The only writes are the nodes' Lease renewals.
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

/// The number of requests to the registry since the start of the server, by verb, both over HTTP and from components in its
/// process. The server closes idle connections, so each call opens its own.
async fn requests(server: &Server) -> Result<BTreeMap<String, u64>> {
    by_verb(&ApiClient::new(server).await?.metrics().await?)
}

fn by_verb(metrics: &str) -> Result<BTreeMap<String, u64>> {
    let mut counts = BTreeMap::new();
    for line in metrics.lines() {
        let Some(sample) = line.strip_prefix("setpoint_registry_requests_total{verb=\"") else {
            continue;
        };
        let (verb, rest) = sample
            .split_once('"')
            .with_context(|| format!("no verb: {line}"))?;
        let value = rest.rsplit(' ').next().unwrap_or_default();
        let value: u64 = value.parse().with_context(|| format!("no number: {line}"))?;
        *counts.entry(verb.to_owned()).or_default() += value;
    }
    ensure!(!counts.is_empty(), "the server has no request metrics");
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_a_verb_are_counted_with_any_outcome() {
        let metrics = "# TYPE setpoint_registry_requests_total counter\n\
            setpoint_registry_requests_total{verb=\"list\",outcome=\"done\"} 40\n\
            setpoint_registry_requests_total{verb=\"list\",outcome=\"refused\"} 2\n\
            setpoint_registry_requests_total{verb=\"watch\",outcome=\"done\"} 7\n\
            setpoint_store_commits_total 9\n";
        let expected = [("list".to_owned(), 42), ("watch".to_owned(), 7)];
        assert_eq!(by_verb(metrics).unwrap(), BTreeMap::from(expected));
    }

    #[test]
    fn a_server_without_request_metrics_is_an_error() {
        assert!(by_verb("apiserver_request_total 1\n").is_err());
    }
}
