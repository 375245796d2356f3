//! What a scheduling rule is: a [`Filter`] that says where a pod can run, a [`Score`] that says where it would be
//! better off.
//!
//! A rule is pure: it sees one pod and one node and knows nothing of caches, clocks or the API. Each is a file in
//! [`crate::plugins`] and a line in its list.

use std::borrow::Cow;
use std::fmt;

use crate::node_info::{NodeInfo, Offer};
use crate::pod_info::PodInfo;

/// The best a [`Score`] can give.
pub const MAX_SCORE: i64 = 100;

/// A rule that a node must keep.
pub trait Filter: fmt::Debug + Send + Sync {
    /// The rule's name as Kubernetes has it.
    fn name(&self) -> &'static str;

    /// Whether the pod can run there. Asked for every pod and node: it must be cheap.
    fn fits(&self, pod: &PodInfo, node: &NodeInfo, offer: &Offer) -> bool;

    /// Why the pod does not fit. Only asked where it does not, and only when it fits nowhere.
    fn reasons(&self, pod: &PodInfo, node: &NodeInfo, offer: &Offer) -> Vec<Cow<'static, str>>;
}

/// A rule that prefers one node to another.
pub trait Score: fmt::Debug + Send + Sync {
    /// The rule's name as Kubernetes has it.
    fn name(&self) -> &'static str;

    /// How much this rule counts against the others.
    fn weight(&self) -> i64 {
        1
    }

    /// How well off the pod would be, from 0 to [`MAX_SCORE`].
    fn score(&self, pod: &PodInfo, node: &NodeInfo, offer: &Offer) -> i64;
}

/// The rules that a scheduler follows, in the order they are asked.
#[derive(Debug)]
pub struct Profile {
    pub filters: Vec<Box<dyn Filter>>,
    pub scores: Vec<Box<dyn Score>>,
}

impl Profile {
    /// The first filter that the node does not pass.
    pub(crate) fn find_refusal(&self, pod: &PodInfo, node: &NodeInfo, offer: &Offer) -> Option<&dyn Filter> {
        let mut filters = self.filters.iter().map(AsRef::as_ref);
        filters.find(|filter: &&dyn Filter| !filter.fits(pod, node, offer))
    }

    pub(crate) fn score(&self, pod: &PodInfo, node: &NodeInfo, offer: &Offer) -> i64 {
        let scores = self.scores.iter();
        scores.map(|one| one.weight() * one.score(pod, node, offer)).sum()
    }
}
