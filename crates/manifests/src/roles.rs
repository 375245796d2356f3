//! The role of a program, and who has it.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use serde_json::{Value, json};
use setpoint_runtime::Rights;

use crate::list::from;

/// Resources of one group with the same verbs are one rule.
pub(crate) fn role(name: &str, rights: &Rights) -> ClusterRole {
    let mut alike: BTreeMap<(&str, Vec<&str>), Vec<&str>> = BTreeMap::new();
    for (resource, verbs) in rights.iter() {
        let verbs = verbs.iter().copied().collect();
        let rule = alike.entry((resource.group.as_str(), verbs)).or_default();
        rule.push(&resource.resource);
    }
    let rule = |((group, verbs), resources): ((&str, Vec<&str>), Vec<&str>)| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let rules: Vec<Value> = alike.into_iter().map(rule).collect();
    from(json!({"metadata": {"name": name}, "rules": rules}))
}

/// Gives the role to the program's account.
pub(crate) fn binding(name: &str, namespace: &str) -> ClusterRoleBinding {
    from(json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    }))
}
