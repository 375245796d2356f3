//! What every node may do, whichever it is.

use std::sync::LazyLock;

use super::super::{Attributes, Rule};
use super::{Answer, NOTHING_TO_SAY};

const READ: [&str; 3] = ["get", "list", "watch"];

/// Only resources that are not divided among nodes are looked up here.
static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    vec![
        Rule::on(&["create"], &["authentication.k8s.io"], &["tokenreviews"]),
        Rule::on(
            &["create"],
            &["authorization.k8s.io"],
            &["subjectaccessreviews", "localsubjectaccessreviews"],
        ),
        Rule::on(&READ, &[""], &["services"]),
        Rule::on(
            &["create", "update", "patch"],
            &["", "events.k8s.io"],
            &["events"],
        ),
        Rule::on(&["get"], &[""], &["endpoints"]),
        Rule::on(
            &["create", "get", "list", "watch"],
            &["certificates.k8s.io"],
            &["certificatesigningrequests"],
        ),
        Rule::on(&READ, &["certificates.k8s.io"], &["clustertrustbundles"]),
        Rule::on(&READ, &["storage.k8s.io"], &["csidrivers"]),
        Rule::on(&READ, &["node.k8s.io"], &["runtimeclasses"]),
    ]
});

pub(super) fn ask(attributes: &Attributes<'_>) -> Answer {
    match RULES.iter().any(|rule| rule.allows(attributes)) {
        true => Ok(()),
        false => NOTHING_TO_SAY,
    }
}
