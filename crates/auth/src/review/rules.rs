//! SelfSubjectRulesReview: the caller's rules in a namespace.

use setpoint_api::Status;
use setpoint_registry_api::ReviewRequest;
use setpoint_schema::{Map, Tree};

use super::{Reviews, empty_review, texts};
use crate::authorize::rbac::join_unique;

pub(super) fn review(reviews: &Reviews, request: &ReviewRequest<'_>) -> Result<Tree, Status> {
    let namespace = request.body.str_at(&["spec", "namespace"]).unwrap_or_default();
    if namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    let found = reviews.authorizer.rules_for(request.user, namespace);
    let (mut resources, mut paths) = (Vec::new(), Vec::new());
    for rule in &found.rules {
        if !rule.resources.is_empty() {
            let mut tree = lists(&[
                ("verbs", &rule.verbs),
                ("apiGroups", &rule.api_groups),
                ("resources", &rule.resources),
            ]);
            if !rule.resource_names.is_empty() {
                tree.set(&["resourceNames"], texts(&rule.resource_names));
            }
            resources.push(tree);
        }
        if !rule.non_resource_urls.is_empty() {
            paths.push(lists(&[
                ("verbs", &rule.verbs),
                ("nonResourceURLs", &rule.non_resource_urls),
            ]));
        }
    }
    let mut tree = empty_review(request);
    tree.set(&["spec"], Map::default());
    tree.set(&["status", "resourceRules"], resources);
    tree.set(&["status", "nonResourceRules"], paths);
    tree.set(&["status", "incomplete"], found.incomplete);
    if !found.problems.is_empty() {
        tree.set(&["status", "evaluationError"], join_unique(found.problems));
    }
    Ok(tree)
}

fn lists(fields: &[(&str, &Vec<String>)]) -> Tree {
    let mut tree = Tree::default();
    for (field, list) in fields {
        tree.set(&[field], texts(list));
    }
    tree
}
