//! [`Diagnosis`]: why each node was ruled out, and the message that Kubernetes makes of it.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::fmt;

use crate::framework::{Code, Rejection};
use crate::state::NodeIndex;

/// The rejections of a scheduling cycle.
#[derive(Debug, Default, Clone)]
pub struct Diagnosis {
    /// The number of nodes in the cluster.
    pub all_nodes: usize,
    /// The rejection of each node that was filtered.
    pub nodes: Vec<(NodeIndex, Rejection)>,
    /// The rejection of all other nodes.
    pub absent: Option<Rejection>,
    /// The plugins that rejected the pod: events that they registered wake it.
    pub unschedulable_plugins: BTreeSet<&'static str>,
    /// The plugins that wait for something outside.
    pub pending_plugins: BTreeSet<&'static str>,
    /// The message of the PreFilter plugin that rejected all nodes.
    pub pre_filter_message: Option<String>,
    /// The message of the PostFilter plugins.
    pub post_filter_message: String,
}

impl Diagnosis {
    pub fn new(all_nodes: usize) -> Self {
        Self {
            all_nodes,
            ..Self::default()
        }
    }

    pub(crate) fn add(&mut self, node: NodeIndex, rejection: Rejection) {
        self.add_plugin(&rejection);
        self.nodes.push((node, rejection));
    }

    pub(crate) fn add_plugin(&mut self, rejection: &Rejection) {
        match (rejection.plugin, rejection.code) {
            ("", _) | (_, Code::Error) => {}
            (plugin, Code::Pending) => {
                self.pending_plugins.insert(plugin);
                self.unschedulable_plugins.insert(plugin);
            }
            (plugin, _) => drop(self.unschedulable_plugins.insert(plugin)),
        }
    }

    /// The rejection of a node.
    pub fn rejection(&self, node: NodeIndex) -> Option<&Rejection> {
        let explicit = self.nodes.iter().find(|(own, _)| *own == node);
        explicit.map(|(_, rejection)| rejection).or(self.absent.as_ref())
    }
}

/// Upstream's text: `0/5 nodes are available: 2 Insufficient cpu, 3 Too many pods. preemption: ...`.
impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0/{} nodes are available:", self.all_nodes)?;
        match &self.pre_filter_message {
            Some(message) => write!(f, " {message}.")?,
            None => {
                let reasons = self.count_reasons();
                if !reasons.is_empty() {
                    write!(f, " {}.", reasons.join(", "))?;
                }
            }
        }
        if !self.post_filter_message.is_empty() {
            write!(f, " {}", self.post_filter_message)?;
        }
        Ok(())
    }
}

impl Diagnosis {
    /// The number of nodes with each reason, as `count reason`, sorted as text.
    fn count_reasons(&self) -> Vec<String> {
        let mut counts: HashMap<&Cow<'static, str>, usize> = HashMap::new();
        for reason in self.nodes.iter().flat_map(|(_, rejection)| rejection.reasons()) {
            *counts.entry(reason).or_default() += 1;
        }
        let absent = self.all_nodes.saturating_sub(self.nodes.len());
        if absent > 0 {
            for reason in self.absent.iter().flat_map(Rejection::reasons) {
                *counts.entry(reason).or_default() += absent;
            }
        }
        let counts = counts.into_iter();
        let mut reasons: Vec<String> = counts
            .map(|(reason, count)| format!("{count} {reason}"))
            .collect();
        reasons.sort();
        reasons
    }
}
