//! Quota scopes: which pods a quota matches.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{QuotaKind, QuotaObject};

/// The scopes of a quota: the fields of its spec that select pods.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Scopes {
    scopes: Vec<String>,
    scope_selector: ScopeSelector,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ScopeSelector {
    match_expressions: Vec<Requirement>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Requirement {
    scope_name: String,
    operator: String,
    values: Vec<String>,
}

/// The affinity of a pod, limited to the namespaces that it depends on.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Affinity {
    pod_affinity: Terms,
    pod_anti_affinity: Terms,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Terms {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Vec<Term>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    preferred: Vec<WeightedTerm>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WeightedTerm {
    pod_affinity_term: Term,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Term {
    namespaces: Vec<IgnoredAny>,
    namespace_selector: Option<IgnoredAny>,
}

impl Scopes {
    /// Whether an object is in every scope. Only pods have scopes.
    pub fn match_all(&self, kind: QuotaKind, object: &QuotaObject) -> bool {
        let is_pod = kind == QuotaKind::Pod;
        let named = |scope: &String| is_pod && matches(scope, "Exists", &[], object);
        let selected =
            |one: &Requirement| is_pod && matches(&one.scope_name, &one.operator, &one.values, object);
        self.scopes.iter().all(named) && self.scope_selector.match_expressions.iter().all(selected)
    }
}

fn matches(scope: &str, operator: &str, values: &[String], pod: &QuotaObject) -> bool {
    let is_best_effort = pod.status.qos_class == "BestEffort";
    let ends = pod.spec.active_deadline_seconds.is_some();
    match scope {
        "Terminating" => ends,
        "NotTerminating" => !ends,
        "BestEffort" => is_best_effort,
        "NotBestEffort" => !is_best_effort,
        "PriorityClass" => has_class(operator, values, &pod.spec.priority_class_name),
        "CrossNamespacePodAffinity" => pod.spec.affinity.crosses_namespaces(),
        _ => false,
    }
}

fn has_class(operator: &str, values: &[String], class: &str) -> bool {
    let is_listed = values.iter().any(|value| value == class);
    match operator {
        "Exists" => !class.is_empty(),
        "DoesNotExist" => class.is_empty(),
        "In" => is_listed,
        "NotIn" => !is_listed,
        _ => false,
    }
}

impl Affinity {
    /// Whether it has terms on pods of other namespaces.
    fn crosses_namespaces(&self) -> bool {
        [&self.pod_affinity, &self.pod_anti_affinity].iter().any(|terms| {
            let preferred = terms.preferred.iter().map(|term| &term.pod_affinity_term);
            terms
                .required
                .iter()
                .chain(preferred)
                .any(Term::crosses_namespaces)
        })
    }
}

impl Term {
    fn crosses_namespaces(&self) -> bool {
        !self.namespaces.is_empty() || self.namespace_selector.is_some()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(quota: Value, pod: Value, expected: bool) {
        let scopes: Scopes = serde_json::from_value(quota).unwrap();
        let pod: QuotaObject = serde_json::from_value(pod).unwrap();
        assert_eq!(scopes.match_all(QuotaKind::Pod, &pod), expected);
    }

    #[test]
    fn a_pod_is_in_the_scopes_that_its_fields_name() {
        let ends = json!({"spec": {"activeDeadlineSeconds": 5}, "status": {"qosClass": "BestEffort"}});
        check(json!({}), ends.clone(), true);
        check(
            json!({"scopes": ["Terminating", "BestEffort"]}),
            ends.clone(),
            true,
        );
        check(
            json!({"scopes": ["Terminating", "NotBestEffort"]}),
            ends.clone(),
            false,
        );
        check(json!({"scopes": ["NotTerminating"]}), ends, false);
        check(json!({"scopes": ["Other"]}), json!({}), false);
    }

    #[test]
    fn a_priority_class_is_selected_by_an_operator() {
        let scope = |operator: &str, values: &[&str]| {
            json!({"scopeSelector": {"matchExpressions": [
                {"scopeName": "PriorityClass", "operator": operator, "values": values}]}})
        };
        let pod = json!({"spec": {"priorityClassName": "high"}});
        check(scope("In", &["high"]), pod.clone(), true);
        check(scope("NotIn", &["high"]), pod.clone(), false);
        check(scope("Exists", &[]), pod.clone(), true);
        check(scope("DoesNotExist", &[]), pod, false);
    }

    #[test]
    fn affinity_to_pods_of_other_namespaces_is_a_scope() {
        let scope = || json!({"scopes": ["CrossNamespacePodAffinity"]});
        let term = json!({"podAffinityTerm": {"namespaceSelector": {}}});
        let preferred = json!({"preferredDuringSchedulingIgnoredDuringExecution": [term]});
        check(
            scope(),
            json!({"spec": {"affinity": {"podAntiAffinity": preferred}}}),
            true,
        );
        let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": [{"namespaces": ["a"]}]});
        check(
            scope(),
            json!({"spec": {"affinity": {"podAffinity": required}}}),
            true,
        );
        let own = json!({"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "a"}]});
        check(
            scope(),
            json!({"spec": {"affinity": {"podAffinity": own}}}),
            false,
        );
    }

    #[test]
    fn only_pods_have_scopes() {
        let scopes: Scopes = serde_json::from_value(json!({"scopes": ["NotTerminating"]})).unwrap();
        assert!(!scopes.match_all(QuotaKind::Service, &QuotaObject::default()));
        assert!(Scopes::default().match_all(QuotaKind::Service, &QuotaObject::default()));
    }
}
