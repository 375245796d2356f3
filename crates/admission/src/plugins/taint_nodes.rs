//! TaintNodesByCondition: no pod is scheduled to a new node before the node lifecycle controller has seen that it is ready.
//!
//! Where this process schedules pods, a node that is created with a Ready condition is not tainted: the controller, which
//! may not run, would remove the taint at once.

use setpoint_api::Status;
use setpoint_registry_api::{Operation, Review};
use setpoint_schema::{Tree, fields};

use crate::chain::Plugin;
use crate::review;

const TAINT: &str = "node.kubernetes.io/not-ready";

/// Taints new nodes as not ready.
#[derive(Debug)]
pub(crate) struct TaintNodesByCondition {
    /// Whether nodes that are created ready are tainted, too.
    pub(crate) taints_ready_nodes: bool,
}

impl Plugin for TaintNodesByCondition {
    fn name(&self) -> &'static str {
        "TaintNodesByCondition"
    }

    fn mutate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        if review.operation != Operation::Create || !review::is_resource(review, "", "nodes") {
            return Ok(());
        }
        let Some(node) = review.object.as_deref_mut() else {
            return Ok(());
        };
        let is_exempt = !self.taints_ready_nodes && is_ready(node);
        let spec = node.child(fields::SPEC);
        let same = |taint: &Tree| {
            taint.str_at(&[fields::KEY]) == Some(TAINT)
                && taint.str_at(&[fields::EFFECT]) == Some("NoSchedule")
        };
        if !is_exempt && !spec.items(fields::TAINTS).iter().any(same) {
            let mut taint = Tree::default();
            taint.set(&[fields::KEY], TAINT);
            taint.set(&[fields::EFFECT], "NoSchedule");
            review::push(spec, "taints", taint);
        }
        Ok(())
    }
}

fn is_ready(node: &Tree) -> bool {
    let conditions = node.get("status").map(|status| status.items(fields::CONDITIONS));
    let mut conditions = conditions.unwrap_or_default().iter();
    conditions.any(|condition| {
        condition.str_at(&[fields::TYPE]) == Some("Ready")
            && condition.str_at(&[fields::STATUS]) == Some("True")
    })
}
