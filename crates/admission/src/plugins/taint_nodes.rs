//! TaintNodesByCondition: nothing is put on a new node before somebody has seen that it is ready.
//!
//! Even a node that says so as it comes is tainted: the node lifecycle controller takes the taint away.

use setpoint_api::Status;
use setpoint_registry::{Operation, Review};
use setpoint_schema::Tree;

use crate::about;
use crate::chain::Plugin;

const TAINT: &str = "node.kubernetes.io/not-ready";

/// The rule of new nodes.
#[derive(Debug)]
pub(crate) struct TaintNodesByCondition;

impl Plugin for TaintNodesByCondition {
    fn name(&self) -> &'static str {
        "TaintNodesByCondition"
    }

    fn mutate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        if review.operation != Operation::Create || !about::is(review, "", "nodes") {
            return Ok(());
        }
        let Some(node) = review.object.as_deref_mut() else {
            return Ok(());
        };
        let spec = node.child("spec");
        let same = |taint: &Tree| {
            taint.str_at(&["key"]) == Some(TAINT) && taint.str_at(&["effect"]) == Some("NoSchedule")
        };
        if !spec.items("taints").iter().any(same) {
            let mut taint = Tree::default();
            taint.set(&["key"], TAINT);
            taint.set(&["effect"], "NoSchedule");
            about::push(spec, "taints", taint);
        }
        Ok(())
    }
}
