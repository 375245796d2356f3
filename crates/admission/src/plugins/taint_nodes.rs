//! TaintNodesByCondition: nothing is put on a new node before it has said that it is ready.
//!
//! A node that says so as it comes is taken at its word: whoever would take the taint away again would do so at once.

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
        let ready = is_ready(node);
        let spec = node.child("spec");
        let same = |taint: &Tree| {
            taint.str_at(&["key"]) == Some(TAINT) && taint.str_at(&["effect"]) == Some("NoSchedule")
        };
        if !ready && !spec.items("taints").iter().any(same) {
            let mut taint = Tree::default();
            taint.set(&["key"], TAINT);
            taint.set(&["effect"], "NoSchedule");
            about::push(spec, "taints", taint);
        }
        Ok(())
    }
}

fn is_ready(node: &Tree) -> bool {
    let conditions = node.get("status").map(|status| status.items("conditions"));
    let mut conditions = conditions.unwrap_or_default().iter();
    conditions.any(|condition| {
        condition.str_at(&["type"]) == Some("Ready") && condition.str_at(&["status"]) == Some("True")
    })
}
