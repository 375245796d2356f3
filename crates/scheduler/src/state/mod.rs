//! [`ClusterState`]: the scheduler's view of the cluster, shared by all scheduling cycles: the nodes as columns, the pods on
//! them, and counters that follow from both.
//!
//! The state runs ahead of the caches: a pod that is about to be bound is *assumed* on its node at once, so that the next
//! cycle counts it. The bound pod, once seen in the cache, confirms the assumption; a failed binding takes it back.
//!
//! Invariant: columns, counters and terms always equal what a pass over `pods` would compute. Each change of a node or of
//! its pods gives the node a new sequence number; a plan is valid as long as the sequence it saw is current.
//!
//! Start reading at [`ClusterState`], then [`node_table`] and [`topology`].

mod existing_terms;
mod history;
mod images;
mod node_properties;
mod node_table;
mod nominated;
pub mod topology;
pub mod topology_column;

use std::collections::HashMap;
use std::sync::Arc;

use compact_str::CompactString;
use setpoint_api::{Key, ResourceVersion, Stored};

pub use history::PastState;
use history::{Before, History};

pub use existing_terms::{ExistingTerm, ExistingTerms, TermKind};
pub use images::ImageStates;
pub use node_properties::NodeProperties;
pub use node_table::{NodeCopy, NodeIndex, NodeRef, NodeTable};
pub use nominated::NominatedPods;
pub use topology::{NamespaceLabels, NamespaceSet, TopologyCounts, TopologyTerm};
pub use topology_column::{DomainId, TopologyColumn};

use crate::pod_info::PodInfo;

/// Nodes, pods and the counters over them.
#[derive(Debug, Default)]
pub struct ClusterState {
    nodes: NodeTable,
    /// Every pod that uses a node: exactly these are counted.
    pods: HashMap<Key, PodEntry>,
    topology: topology::TopologyIndex,
    columns: topology_column::TopologyColumns,
    existing_terms: ExistingTerms,
    namespaces: NamespaceLabels,
    images: ImageStates,
    nominated: NominatedPods,
    /// The number of changes.
    sequence: u64,
    /// The number of the last change of a Node object.
    nodes_sequence: u64,
    /// Every pod up to this version is counted.
    observed: ResourceVersion,
    history: History,
}

#[derive(Debug)]
struct PodEntry {
    pod: Arc<PodInfo>,
    node: NodeIndex,
    is_assumed: bool,
}

/// A change of a Node object.
#[derive(Debug, Clone)]
pub struct NodeChange {
    pub name: CompactString,
    pub old: Option<Arc<NodeProperties>>,
    pub new: Option<Arc<NodeProperties>>,
}

impl ClusterState {
    /// The state that replaces this one before everything is listed again. Its sequences go on, so that no result of this
    /// state holds in it. Assumed pods whose binding the list does not show yet are kept: their nodes are used.
    #[must_use]
    pub fn replacement(&self, is_pending: impl Fn(&PodInfo) -> bool) -> Self {
        let mut state = Self {
            sequence: self.sequence + 1,
            nodes_sequence: self.sequence + 1,
            history: History::from(self.sequence + 1),
            ..Self::default()
        };
        let assumed = self.pods.values().filter(|entry| entry.is_assumed);
        for entry in assumed.filter(|entry| is_pending(&entry.pod)) {
            state.assume(entry.pod.clone());
        }
        state
    }

    pub fn nodes(&self) -> &NodeTable {
        &self.nodes
    }

    pub fn node(&self, index: NodeIndex) -> NodeRef<'_> {
        self.nodes.node(index)
    }

    /// The node of that name, if it has a Node object.
    pub fn find_node(&self, name: &str) -> Option<NodeRef<'_>> {
        let node = self.nodes.node(self.nodes.find(name)?);
        node.find_properties().is_some().then_some(node)
    }

    /// The number of nodes with a Node object.
    pub fn len(&self) -> usize {
        self.nodes.live().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of changes so far.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The number of the last change of a Node object.
    pub fn nodes_sequence(&self) -> u64 {
        self.nodes_sequence
    }

    /// The version up to which every pod is counted.
    pub fn observed(&self) -> ResourceVersion {
        self.observed
    }

    /// All pods up to this version are counted.
    pub fn set_observed(&mut self, version: ResourceVersion) {
        self.observed = version;
    }

    /// The domain of each node by a topology key.
    pub fn topology(&self, key: &str) -> Arc<TopologyColumn> {
        self.columns.column(key, &self.nodes, self.sequence)
    }

    /// Pods that match a term, counted by domain and by node. The first use of a term counts all pods.
    pub fn matching_pods(&self, term: &TopologyTerm) -> Arc<TopologyCounts> {
        self.topology.counts(term, || {
            let mut counts = TopologyCounts::default();
            let column = self.topology(&term.topology_key);
            let pods = self.pods.values();
            for entry in pods.filter(|entry| term.matches(&entry.pod, &self.namespaces)) {
                counts.add(entry.node, column.domain(entry.node), 1);
            }
            counts.set_sequence(self.sequence);
            counts
        })
    }

    /// The affinity terms of the pods on nodes.
    pub fn existing_terms(&self) -> &ExistingTerms {
        &self.existing_terms
    }

    /// The labels of each namespace.
    pub fn namespaces(&self) -> &NamespaceLabels {
        &self.namespaces
    }

    pub fn images(&self) -> &ImageStates {
        &self.images
    }

    /// The pods that wait for the node that preemption nominated for them.
    pub fn nominated(&self) -> &NominatedPods {
        &self.nominated
    }

    /// Nominates a pod to a node, instead of an earlier one. Filters of other pods see both nodes change.
    pub fn nominate(&mut self, pod: Arc<PodInfo>, node: &str) {
        self.remove_nomination(&pod.key);
        let (key, nomination) = (pod.key.clone(), None);
        self.history
            .record(self.sequence, Before::Nomination { key, nomination });
        self.nominated.set(pod, node);
        self.touch(node);
    }

    /// Removes the nomination of a pod.
    pub fn remove_nomination(&mut self, key: &Key) {
        if let Some((pod, node)) = self.nominated.remove(key) {
            let (key, nomination) = (key.clone(), Some((pod, node.clone())));
            self.history
                .record(self.sequence, Before::Nomination { key, nomination });
            self.touch(&node);
        }
    }

    /// Whether the pod with this uid is on some node.
    pub fn contains(&self, key: &Key, uid: &str) -> bool {
        self.pods.get(key).is_some_and(|entry| entry.pod.uid == uid)
    }

    /// Whether the pod with this uid is assumed, and its binding not confirmed.
    pub fn is_assumed(&self, key: &Key, uid: &str) -> bool {
        let entry = self.pods.get(key);
        entry.is_some_and(|entry| entry.is_assumed && entry.pod.uid == uid)
    }

    pub fn find_pod(&self, key: &Key) -> Option<&Arc<PodInfo>> {
        self.pods.get(key).map(|entry| &entry.pod)
    }

    /// The number of pods on nodes.
    pub fn pod_count(&self) -> usize {
        self.pods.len()
    }

    /// The number of pods among them whose binding is not confirmed.
    pub fn assumed_pods(&self) -> usize {
        self.pods.values().filter(|entry| entry.is_assumed).count()
    }

    /// All pods on nodes.
    pub fn pods(&self) -> impl Iterator<Item = &Arc<PodInfo>> {
        self.pods.values().map(|entry| &entry.pod)
    }

    /// Adds or updates a node; `None` if nothing changed that matters to scheduling.
    pub fn set_node(&mut self, object: &Stored) -> Option<NodeChange> {
        let properties = Arc::new(NodeProperties::read(object));
        self.change_node(object.key().name(), Some(properties))
    }

    /// Removes the Node object. Pods bound to it stay counted until they are deleted, too.
    pub fn remove_node(&mut self, name: &str) -> Option<NodeChange> {
        self.change_node(name, None)
    }

    /// Adds or updates a pod, on whichever node it was before. Returns its previous version.
    pub fn set_pod(&mut self, pod: Arc<PodInfo>) -> Option<Arc<PodInfo>> {
        if let Some(entry) = self
            .pods
            .get_mut(&pod.key)
            .filter(|entry| is_same(&entry.pod, &pod))
        {
            entry.is_assumed = false;
            return Some(entry.pod.clone());
        }
        self.put_pod(pod, false)
    }

    /// Counts a pod on the node that was chosen for it, until its binding is confirmed or taken back.
    pub fn assume(&mut self, pod: Arc<PodInfo>) {
        self.remove_nomination(&pod.key);
        self.put_pod(pod, true);
    }

    /// Confirms the binding of an assumed pod if `new` differs from the version it was assumed by in its node alone: then
    /// the object need not be decoded. Returns whether that is so.
    pub fn confirm(&mut self, old: &Stored, new: &Stored) -> bool {
        let Some(entry) = self.pods.get_mut(new.key()).filter(|entry| entry.is_assumed) else {
            return false;
        };
        let pod = &entry.pod;
        let node = new.field("spec.nodeName").unwrap_or_default();
        // A pod is assigned by a Binding only, which changes nothing else that is counted.
        let is_own =
            pod.uid == new.uid() && pod.resource_version == old.resource_version() && pod.node == node;
        let was_bound = old.field("spec.nodeName").is_some_and(|node| !node.is_empty());
        let is_same = old.header().labels == new.header().labels && !new.header().deleting;
        entry.is_assumed = !(is_own && !was_bound && is_same);
        !entry.is_assumed
    }

    /// Removes a pod from its node.
    pub fn remove_pod(&mut self, key: &Key) -> Option<Arc<PodInfo>> {
        let entry = self.pods.remove(key)?;
        let (key, pod) = (key.clone(), Some(entry.pod.clone()));
        self.history.record(self.sequence, Before::Pod { key, pod });
        self.sequence += 1;
        self.count(&entry.pod, entry.node, -1);
        self.nodes.remove_pod(entry.node, &entry.pod, self.sequence);
        self.nodes.remove_unused(entry.node, self.sequence);
        Some(entry.pod)
    }

    /// Sets the labels of a namespace; `None` removes it. Returns whether they changed.
    pub fn set_namespace(
        &mut self,
        name: &str,
        labels: Option<Box<[(CompactString, CompactString)]>>,
    ) -> bool {
        if self.namespaces.get(name) == labels.as_ref() {
            return false;
        }
        self.sequence += 1;
        match labels {
            Some(labels) => drop(self.namespaces.insert(name.into(), labels)),
            None => drop(self.namespaces.remove(name)),
        }
        self.topology.namespaces_relabeled();
        true
    }

    /// Gives a node a new sequence.
    fn touch(&mut self, node: &str) {
        self.sequence += 1;
        if let Some(index) = self.nodes.find(node) {
            self.nodes.touch(index, self.sequence);
        }
    }

    fn put_pod(&mut self, pod: Arc<PodInfo>, is_assumed: bool) -> Option<Arc<PodInfo>> {
        let old = self.remove_pod(&pod.key);
        if pod.uses_node() {
            let key = pod.key.clone();
            self.history.record(self.sequence, Before::Pod { key, pod: None });
            self.sequence += 1;
            let node = self.nodes.row_of(&pod.node);
            self.nodes.add_pod(node, pod.clone(), self.sequence);
            self.count(&pod, node, 1);
            let entry = PodEntry {
                pod: pod.clone(),
                node,
                is_assumed,
            };
            self.pods.insert(pod.key.clone(), entry);
        }
        old
    }

    fn count(&mut self, pod: &PodInfo, node: NodeIndex, by: i64) {
        let (columns, nodes, sequence) = (&self.columns, &self.nodes, self.sequence);
        let change = topology::CountChange {
            pod,
            node,
            domain: &|key: &str| columns.column(key, nodes, sequence).domain(node),
            by,
            sequence,
        };
        let was_swept = self.topology.pod_changed(&change, &self.namespaces);
        self.existing_terms.pod_changed(&change);
        if was_swept {
            let (topology, existing) = (&self.topology, &self.existing_terms);
            self.columns
                .retain(|key| topology.uses(key) || existing.uses(key));
        }
    }

    fn change_node(&mut self, name: &str, new: Option<Arc<NodeProperties>>) -> Option<NodeChange> {
        let index = self.nodes.row_of(name);
        let old = self.nodes.node(index).find_properties().cloned();
        if old == new {
            self.nodes.remove_unused(index, self.sequence);
            return None;
        }
        let before = Before::Node {
            name: name.into(),
            properties: old.clone(),
        };
        self.history.record(self.sequence, before);
        self.sequence += 1;
        self.images.node_changed(old.as_deref(), new.as_deref());
        self.nodes_sequence = self.sequence;
        let changes = self.columns.node_relabeled(index, new.as_deref());
        self.topology.node_relabeled(index, &changes, self.sequence);
        self.existing_terms.node_relabeled(index, &changes, self.sequence);
        self.nodes.set_properties(index, new.clone(), self.sequence);
        self.nodes.remove_unused(index, self.sequence);
        let name = name.into();
        Some(NodeChange { name, old, new })
    }
}

/// Whether nothing that is counted changed. The resource version alone may differ.
fn is_same(old: &PodInfo, new: &PodInfo) -> bool {
    let version = new.resource_version;
    let old = PodInfo {
        resource_version: version,
        nominated_node: new.nominated_node.clone(),
        started: new.started,
        is_resizing: new.is_resizing,
        ..old.clone()
    };
    old == *new
}

#[cfg(test)]
mod tests;
