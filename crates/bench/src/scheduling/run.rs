//! One workload: the cluster is prepared, the pods are created and bound, and the CPU time per pod is reported.

use std::{
    collections::HashMap,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    check,
    objects::{self, Workload, ZONES},
};
use crate::{
    api::{
        Setting,
        load::{self, Load},
        objects::PODS,
        request::Template,
        server::{Server, ServerComponents, new_dir},
        workloads::exchange::Exchange,
    },
    controllers::api_client::ApiClient,
    report::{Goal, Measurement, Report},
};

const NODES: &str = "/api/v1/nodes";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const PRIORITY_CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
/// How long a start, or the pods that are left, may take.
const LIMIT: Duration = Duration::from_secs(900);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Long enough for the work after a start to complete.
const SETTLE: Duration = Duration::from_secs(3);
/// The objects of one page of the list that is checked.
const PAGE: usize = 5_000;

/// CPU time of the server and the wall time of a phase.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    pub(super) cpu: Duration,
    pub(super) wall: Duration,
}

/// The workload, the nodes, the pods and the workers of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) workload: Workload,
    pub(super) nodes: u64,
    pub(super) pods: u64,
    /// `None` for the scheduler's own number.
    pub(super) workers: Option<u32>,
}

/// The results of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) plan: Plan,
    pub(super) create_and_bind: Cost,
    /// Not measured for workloads that are more than pods that wait.
    pub(super) alone: Option<Cost>,
}

impl Plan {
    pub(super) fn new(workload: Workload, nodes: u64, pods: u64, workers: Option<u32>) -> Self {
        // For preemption the nodes are full of four pods each, of which every second one is replaced.
        let pods = match workload {
            Workload::Preemption => nodes * 2,
            _ => pods,
        };
        Self {
            workload,
            nodes,
            pods,
            workers,
        }
    }

    /// The workload and its numbers, for messages.
    pub(super) fn describe(&self) -> String {
        let workers = self
            .workers
            .map_or_else(String::new, |n| format!(", {n} workers"));
        let (name, nodes, pods) = (self.workload.name(), self.nodes, self.pods);
        format!("{name}, {nodes} nodes, {pods} pods{workers}")
    }
}

/// Measures one plan.
pub(super) async fn measure(setting: &Setting, plan: Plan, report: &mut Report) -> Result<Row> {
    let workload = plan.workload;
    let online = create_and_bind(setting, plan).await?;
    let measurement = measurement(plan, "create_and_bind", &online);
    report.add(match workload {
        Workload::Plain => measurement.goal(Goal::AtMost(390.0)),
        _ => measurement,
    });
    let rate = plan.pods as f64 / online.wall.as_secs_f64();
    report.add(Measurement::new("scheduling", line(plan, "rate"), rate, "pod/s").operations(plan.pods));
    let mut row = Row {
        plan,
        create_and_bind: online,
        alone: None,
    };
    if matches!(workload, Workload::Preemption | Workload::Churn) {
        return Ok(row);
    }
    let alone = bind_alone(setting, plan).await?;
    let goal = match workload {
        Workload::Plain => 180.0,
        _ => 540.0,
    };
    report.add(self::measurement(plan, "alone", &alone).goal(Goal::AtMost(goal)));
    row.alone = Some(alone);
    Ok(row)
}

fn measurement(plan: Plan, what: &str, cost: &Cost) -> Measurement {
    let cpu = per_pod(cost, plan.pods);
    Measurement::new("scheduling", line(plan, what), cpu, "us/pod")
        .cpu(cpu)
        .operations(plan.pods)
}

/// The name of a line: `plain_create_and_bind_5000_nodes_50000_pods`.
fn line(plan: Plan, what: &str) -> String {
    let (nodes, pods) = (plan.nodes, plan.pods);
    let workers = plan.workers.map_or_else(String::new, |n| format!("_{n}_workers"));
    format!(
        "{}_{what}_{nodes}_nodes_{pods}_pods{workers}",
        plan.workload.name()
    )
}

pub(super) fn per_pod(cost: &Cost, pods: u64) -> f64 {
    cost.cpu.as_secs_f64() * 1e6 / pods as f64
}

/// Creates the pods while the scheduler runs, and waits until all are bound.
async fn create_and_bind(setting: &Setting, plan: Plan) -> Result<Cost> {
    let dir = new_dir(setting)?;
    let server = start(setting, plan, dir.path(), true).await?;
    let zones = create_nodes(setting, &server, plan.nodes).await?;
    if plan.workload == Workload::Preemption {
        fill_nodes(setting, &server, plan.nodes).await?;
    }
    sleep(SETTLE).await;
    let (cpu, begin) = (server.cpu_time()?, Instant::now());
    match plan.workload {
        Workload::Churn => create_with_churn(setting, &server, plan).await?,
        _ => create_pods(setting, &server, plan).await?,
    }
    let mut client = ApiClient::new(&server).await?;
    wait_until_bound(&mut client).await?;
    let cost = Cost {
        cpu: server.cpu_time()? - cpu,
        wall: begin.elapsed(),
    };
    let pods = list(&mut client).await?;
    check::check(plan.workload, &pods, &zones)?;
    server.stop().await?;
    Ok(cost)
}

/// Fills every node with four pods of a lower priority.
async fn fill_nodes(setting: &Setting, server: &Server, nodes: u64) -> Result<()> {
    let class = objects::high_priority_class().to_string();
    let mut client = ApiClient::new(server).await?;
    client.send_ok("POST", PRIORITY_CLASSES, &class).await?;
    let low = objects::low_priority_pod();
    create(setting, server, (PODS, &low), (0, nodes * 4)).await?;
    // Another connection: the server closes one that was idle for half a minute.
    wait_until_bound(&mut ApiClient::new(server).await?).await
}

/// Starts the server on pods that wait for a node, and subtracts what a start without the scheduler costs.
async fn bind_alone(setting: &Setting, plan: Plan) -> Result<Cost> {
    let dir = new_dir(setting)?;
    let server = start(setting, plan, dir.path(), false).await?;
    let zones = create_nodes(setting, &server, plan.nodes).await?;
    create_pods(setting, &server, plan).await?;
    server.stop().await?;
    let server = start(setting, plan, dir.path(), false).await?;
    sleep(SETTLE).await;
    let without = server.cpu_time()?;
    server.stop().await?;
    let begin = Instant::now();
    let server = start(setting, plan, dir.path(), true).await?;
    let mut client = ApiClient::new(&server).await?;
    wait_until_bound(&mut client).await?;
    let cost = Cost {
        cpu: server.cpu_time()?.saturating_sub(without),
        wall: begin.elapsed(),
    };
    let pods = list(&mut client).await?;
    check::check(plan.workload, &pods, &zones)?;
    server.stop().await?;
    Ok(cost)
}

async fn start(setting: &Setting, plan: Plan, dir: &Path, with_scheduler: bool) -> Result<Server> {
    let components = match with_scheduler {
        false => ServerComponents::ApiOnly,
        true => ServerComponents::Scheduler {
            workers: plan.workers,
        },
    };
    Server::setpoint(setting, dir, components).await
}

/// Creates the nodes, in turn in each zone. Returns the zone of each.
pub(super) async fn create_nodes(
    setting: &Setting,
    server: &Server,
    count: u64,
) -> Result<HashMap<String, u64>> {
    let mut zones = HashMap::new();
    let share = count.div_ceil(ZONES);
    for zone in 0..ZONES {
        let first = zone * share;
        let here = share.min(count.saturating_sub(first));
        create(setting, server, (NODES, &objects::node(zone)), (first, here)).await?;
        zones.extend((first..first + here).map(|number| (format!("node-{number:08}"), zone)));
    }
    // Without the node lifecycle controller nothing removes the taint that admission sets on a new node.
    let taints = json!({"spec": {"taints": null}}).to_string();
    let path = format!("{NODES}/node-########");
    let template = Template::with_encoding("PATCH", &path, crate::api::request::MERGE, taints.as_bytes());
    apply(setting, server, (template, 200), (0, count)).await?;
    Ok(zones)
}

async fn create_pods(setting: &Setting, server: &Server, plan: Plan) -> Result<()> {
    let groups = plan.workload.groups(plan.nodes, plan.pods);
    let share = plan.pods.div_ceil(groups);
    for group in 0..groups {
        let here = share.min(plan.pods.saturating_sub(group * share));
        create(setting, server, (PODS, &plan.workload.pod(group)), (0, here)).await?;
    }
    Ok(())
}

/// Creates the pods while, after each hundredth of them, a node and a Service come and go.
async fn create_with_churn(setting: &Setting, server: &Server, plan: Plan) -> Result<()> {
    let mut client = ApiClient::new(server).await?;
    let pod = plan.workload.pod(0);
    let share = plan.pods.div_ceil(100);
    for step in 0..100 {
        let mut node = objects::node(0);
        node["spec"]["unschedulable"] = json!(true);
        let node = node.to_string().replace("########", "churn");
        client.send_ok("POST", NODES, &node).await?;
        let service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "churn"},
            "spec": {"ports": [{"port": 80}], "selector": {"app": "churn"}},
        });
        client.send_ok("POST", SERVICES, &service.to_string()).await?;
        let first = step * share;
        let here = share.min(plan.pods.saturating_sub(first));
        create(setting, server, (PODS, &pod), (first, here)).await?;
        // The new node is unschedulable, so that no pod is on it.
        client
            .send_ok("DELETE", &format!("{NODES}/node-churn"), "")
            .await?;
        client.send_ok("DELETE", &format!("{SERVICES}/churn"), "").await?;
    }
    Ok(())
}

/// Creates `count` objects from the number `first` on.
pub(super) async fn create(
    setting: &Setting,
    server: &Server,
    (path, object): (&str, &Value),
    range: (u64, u64),
) -> Result<()> {
    let template = Template::with_body("POST", path, &object.to_string());
    apply(setting, server, (template, 201), range).await
}

async fn apply(
    setting: &Setting,
    server: &Server,
    (template, status): (Template, u16),
    (first, operations): (u64, u64),
) -> Result<()> {
    let load = Load {
        clients: setting.clients,
        operations,
        first,
    };
    load::apply(server, &load, |_| Exchange::new(template.clone(), status)).await?;
    Ok(())
}

/// Waits until no pod is without a node.
pub(super) async fn wait_until_bound(client: &mut ApiClient) -> Result<()> {
    let begin = Instant::now();
    let path = format!("{PODS}?limit=1&fieldSelector=spec.nodeName%3D");
    while begin.elapsed() < LIMIT {
        let left = client.send_ok("GET", &path, "").await?;
        if left["items"].as_array().is_some_and(Vec::is_empty) {
            return Ok(());
        }
        sleep(POLL_INTERVAL).await;
    }
    bail!("pods are left without a node after {LIMIT:?}");
}

/// All pods, in pages.
pub(super) async fn list(client: &mut ApiClient) -> Result<Vec<Value>> {
    let (mut pods, mut token) = (Vec::new(), String::new());
    loop {
        let path = format!("{PODS}?limit={PAGE}&continue={token}");
        let mut page = client.send_ok("GET", &path, "").await?;
        let items = page["items"].as_array_mut().context("a list has items")?;
        pods.append(items);
        match page["metadata"]["continue"].as_str() {
            Some(next) if !next.is_empty() => token = next.to_owned(),
            _ => return Ok(pods),
        }
    }
}
