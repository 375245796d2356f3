//! `setpoint explain-scheduling`: for every node, the plugin that rejects a pod or the score of each plugin, now and at the
//! time of the last decision.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use setpoint_client::Http;

use crate::remote;

/// The arguments of `setpoint explain-scheduling`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The pod: `pod/web` or `web`.
    #[arg(value_name = "POD", required_unless_present = "what_if")]
    pub pod: Option<String>,
    /// Explain the pod of a manifest, which need not exist.
    #[arg(long, value_name = "FILE", conflicts_with = "pod")]
    pub what_if: Option<PathBuf>,
    /// The namespace of the pod [default: the namespace of the context].
    #[arg(long, short)]
    pub namespace: Option<String>,
    /// Print the API's response as JSON.
    #[arg(long)]
    pub json: bool,
    /// Path to the kubeconfig file to use for requests [default: $KUBECONFIG or ~/.kube/config].
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
    /// The name of the kubeconfig context to use [default: the current context].
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

/// The API's response.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Explanation {
    pod: String,
    node: Option<String>,
    rejection: Option<Rejection>,
    nodes: Vec<NodeExplanation>,
    last_decision: Option<Decision>,
}

#[derive(Debug, Deserialize)]
struct Rejection {
    plugin: String,
    reasons: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct NodeExplanation {
    node: String,
    rejection: Option<Rejection>,
    #[serde(default)]
    scores: BTreeMap<String, i64>,
    total: Option<i64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Decision {
    time: String,
    node: Option<String>,
    evaluated_nodes: usize,
    feasible_nodes: usize,
    #[serde(default)]
    scores: BTreeMap<String, i64>,
    message: Option<String>,
    /// All nodes as they were then, if that is still known.
    #[serde(default)]
    nodes: Vec<NodeExplanation>,
}

/// Prints the explanation.
pub fn run(args: &Args) -> Result<()> {
    let connection = remote::connection_of(args.kubeconfig.as_deref(), args.context.as_deref())?;
    let namespace = args.namespace.as_deref().or(connection.namespace.as_deref());
    let path = format!("/scheduling/explain/{}", namespace.unwrap_or("default"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let body = runtime.context("cannot start the runtime")?.block_on(async {
        let http = Http::new(&connection)?;
        match (&args.pod, &args.what_if) {
            (Some(pod), _) => Ok(http.get(&format!("{path}/{}", pod_name(pod)?)).await?),
            (None, Some(file)) => {
                let manifest =
                    std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
                Ok::<_, anyhow::Error>(http.post(&path, manifest).await?)
            }
            (None, None) => bail!("a pod or --what-if is required"),
        }
    })?;
    match args.json {
        true => println!("{}", String::from_utf8_lossy(&body)),
        false => print!("{}", render(&serde_json::from_slice(&body)?)),
    }
    Ok(())
}

/// The name of `pod/NAME` or `NAME`.
fn pod_name(text: &str) -> Result<&str> {
    match text.split_once('/') {
        None => Ok(text),
        Some(("pod" | "pods" | "po", name)) => Ok(name),
        Some(_) => bail!("invalid pod {text:?}: expected pod/NAME"),
    }
}

fn render(explanation: &Explanation) -> String {
    let mut text = String::new();
    let node = explanation.node.as_deref().unwrap_or("<none>");
    let _ = writeln!(text, "Pod:   {}\nNode:  {node}", explanation.pod);
    if let Some(decision) = &explanation.last_decision {
        let _ = writeln!(text, "Last decision at {}: {}", decision.time, summary(decision));
        if !decision.nodes.is_empty() {
            text.push_str(&table(&decision.nodes, "THEN"));
        }
    }
    match &explanation.rejection {
        Some(rejection) => {
            let _ = writeln!(text, "Now:   rejected for all nodes by {}", reasons(rejection));
        }
        None => text.push_str(&table(&explanation.nodes, "NOW")),
    }
    text
}

/// The nodes, each with its rejection or its scores.
fn table(nodes: &[NodeExplanation], time: &str) -> String {
    let mut text = String::new();
    let width = nodes.iter().map(|node| node.node.len()).max();
    let width = width.unwrap_or(0).max(4);
    let _ = writeln!(text, "\n{:width$}  {:>5}  {time}", "NODE", "SCORE");
    for node in nodes {
        let total = node
            .total
            .map_or_else(|| "-".to_owned(), |total| total.to_string());
        let why = match &node.rejection {
            Some(rejection) => format!("rejected by {}", reasons(rejection)),
            None => scores(&node.scores),
        };
        let _ = writeln!(text, "{:width$}  {total:>5}  {why}", node.node);
    }
    text
}

fn summary(decision: &Decision) -> String {
    let counts = format!(
        "{} of {} evaluated nodes fitted",
        decision.feasible_nodes, decision.evaluated_nodes
    );
    match (&decision.node, &decision.message) {
        (Some(node), _) => format!("{node} ({counts}) {}", scores(&decision.scores)),
        (None, Some(message)) => message.clone(),
        (None, None) => counts,
    }
}

fn reasons(rejection: &Rejection) -> String {
    format!("{}: {}", rejection.plugin, rejection.reasons.join(", "))
}

fn scores(scores: &BTreeMap<String, i64>) -> String {
    let parts: Vec<String> = scores
        .iter()
        .map(|(plugin, score)| format!("{plugin}={score}"))
        .collect();
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_named_with_or_without_its_resource() {
        assert_eq!(pod_name("web").unwrap(), "web");
        assert_eq!(pod_name("pod/web").unwrap(), "web");
        assert!(pod_name("deployment/web").is_err());
    }

    #[test]
    fn each_node_has_its_rejection_or_its_scores() {
        let explanation = serde_json::json!({
            "pod": "default/web",
            "nodes": [
                {"node": "a", "scores": {"NodeResourcesFit": 70, "TaintToleration": 300}, "total": 370},
                {"node": "node-b", "rejection": {"plugin": "NodeResourcesFit", "reasons": ["Insufficient cpu"]}},
            ],
            "lastDecision": {"time": "2026-01-01T00:00:00Z", "evaluatedNodes": 2, "feasibleNodes": 0,
                             "message": "0/2 nodes are available: 2 Insufficient cpu.",
                             "nodes": [{"node": "a", "rejection": {"plugin": "NodeResourcesFit", "reasons": ["Insufficient cpu"]}}]},
        });
        let expected = "\
Pod:   default/web
Node:  <none>
Last decision at 2026-01-01T00:00:00Z: 0/2 nodes are available: 2 Insufficient cpu.

NODE  SCORE  THEN
a         -  rejected by NodeResourcesFit: Insufficient cpu

NODE    SCORE  NOW
a         370  NodeResourcesFit=70 TaintToleration=300
node-b      -  rejected by NodeResourcesFit: Insufficient cpu
";
        assert_eq!(render(&serde_json::from_value(explanation).unwrap()), expected);
    }
}
