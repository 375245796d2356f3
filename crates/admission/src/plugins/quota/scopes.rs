//! Quota scopes: which pods a quota matches.

use setpoint_schema::Tree;

use super::usage::QuotaKind;
use crate::review;

/// Whether an object is in every scope of a quota. Only pods have scopes.
pub(super) fn match_all(quota: &Tree, kind: QuotaKind, object: &Tree) -> bool {
    let null = Tree::Null;
    let spec = quota.get("spec").unwrap_or(&null);
    let scopes = spec.items("scopes").iter().filter_map(Tree::as_str);
    let selectors = spec
        .get("scopeSelector")
        .map(|selector| selector.items("matchExpressions"));
    let mut selectors = selectors.unwrap_or_default().iter();
    let pod = kind == QuotaKind::Pod;
    let named = |scope: &str| pod && matches(scope, "Exists", &[], object);
    let selected = |selector: &Tree| {
        let text = |field: &str| selector.str_at(&[field]).unwrap_or_default().to_owned();
        pod && matches(
            &text("scopeName"),
            &text("operator"),
            selector.items("values"),
            object,
        )
    };
    scopes.into_iter().all(named) && selectors.all(selected)
}

fn matches(scope: &str, operator: &str, values: &[Tree], pod: &Tree) -> bool {
    let best_effort = || pod.str_at(&["status", "qosClass"]) == Some("BestEffort");
    let ends = || review::has(pod, &["spec", "activeDeadlineSeconds"]);
    match scope {
        "Terminating" => ends(),
        "NotTerminating" => !ends(),
        "BestEffort" => best_effort(),
        "NotBestEffort" => !best_effort(),
        "PriorityClass" => has_class(operator, values, pod),
        "CrossNamespacePodAffinity" => has_cross_namespace_affinity(pod),
        _ => false,
    }
}

fn has_class(operator: &str, values: &[Tree], pod: &Tree) -> bool {
    let class = pod.str_at(&["spec", "priorityClassName"]).unwrap_or_default();
    let listed = values.iter().any(|value| value.as_str() == Some(class));
    match operator {
        "Exists" => !class.is_empty(),
        "DoesNotExist" => class.is_empty(),
        "In" => listed,
        "NotIn" => !listed,
        _ => false,
    }
}

/// Whether the pod has affinity terms on pods of other namespaces.
fn has_cross_namespace_affinity(pod: &Tree) -> bool {
    let crosses =
        |term: &Tree| !term.items("namespaces").is_empty() || review::has(term, &["namespaceSelector"]);
    ["podAffinity", "podAntiAffinity"].iter().any(|field| {
        let Some(affinity) = pod.at(&["spec", "affinity", field]) else {
            return false;
        };
        let required = affinity
            .items("requiredDuringSchedulingIgnoredDuringExecution")
            .iter();
        let preferred = affinity
            .items("preferredDuringSchedulingIgnoredDuringExecution")
            .iter();
        required
            .chain(preferred.filter_map(|term| term.get("podAffinityTerm")))
            .any(crosses)
    })
}
