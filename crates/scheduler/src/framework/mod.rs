//! The plugin interface: a [`Filter`] decides whether a pod can run on a node, a [`Score`] ranks the nodes that fit.
//!
//! A plugin is pure: it sees one pod and one node, and no caches, clocks or API. Each is a file in
//! [`crate::plugins`] and a line in its list.

use std::borrow::Cow;
use std::fmt;

use crate::node_info::{NodeInfo, NodeProperties};
use crate::pod_info::PodInfo;

/// The highest score of a [`Score`] plugin.
pub const MAX_SCORE: i64 = 100;

/// A plugin that rules out nodes.
pub trait Filter: fmt::Debug + Send + Sync {
    /// The plugin's name in Kubernetes.
    fn name(&self) -> &'static str;

    /// Whether the pod can run there. Called for every pod and node: it must be cheap.
    fn fits(&self, pod: &PodInfo, node: &NodeInfo, properties: &NodeProperties) -> bool;

    /// Why the pod does not fit. Called only for nodes that fail, and only when the pod fits nowhere.
    fn reasons(&self, pod: &PodInfo, node: &NodeInfo, properties: &NodeProperties) -> Vec<Cow<'static, str>>;
}

/// A plugin that ranks nodes.
pub trait Score: fmt::Debug + Send + Sync {
    /// The plugin's name in Kubernetes.
    fn name(&self) -> &'static str;

    /// The weight of this plugin in the sum of scores.
    fn weight(&self) -> i64 {
        1
    }

    /// The score of the node for the pod, from 0 to [`MAX_SCORE`].
    fn score(&self, pod: &PodInfo, node: &NodeInfo, properties: &NodeProperties) -> i64;
}

/// The plugins of a scheduler, in the order they are called.
#[derive(Debug)]
pub struct Profile {
    pub filters: Vec<Box<dyn Filter>>,
    pub scores: Vec<Box<dyn Score>>,
}

impl Profile {
    /// The first filter that the node does not pass.
    pub(crate) fn first_failing_filter(
        &self,
        pod: &PodInfo,
        node: &NodeInfo,
        properties: &NodeProperties,
    ) -> Option<&dyn Filter> {
        let mut filters = self.filters.iter().map(AsRef::as_ref);
        filters.find(|filter: &&dyn Filter| !filter.fits(pod, node, properties))
    }

    pub(crate) fn score(&self, pod: &PodInfo, node: &NodeInfo, properties: &NodeProperties) -> i64 {
        let scores = self.scores.iter();
        scores
            .map(|one| one.weight() * one.score(pod, node, properties))
            .sum()
    }
}
