//! The namespaces of a case. A list of all namespaces has what earlier cases and the cluster itself have left in others;
//! the recorded cluster and the tested one differ there, whatever the server does.

use std::collections::BTreeSet;

use serde_json::Value;

use super::case::{Case, Step};

const NAMESPACES: &str = "/namespaces/";

/// The names of the namespaces that requests of a case are about.
pub(super) fn own_namespaces(case: &Case) -> BTreeSet<&str> {
    let steps = case.setup.iter().chain(&case.steps).chain(&case.cleanup);
    steps.filter_map(|step| namespace(&step.path)).collect()
}

/// Removes the items of other namespaces from the response to a list of all namespaces.
pub(super) fn retain_own(step: &Step, own: &BTreeSet<&str>, body: &mut Value) {
    if namespace(&step.path).is_some() {
        return;
    }
    let Some(items) = body.get_mut("items").and_then(Value::as_array_mut) else {
        return;
    };
    items.retain(|item| {
        let namespace = item["metadata"]["namespace"].as_str();
        namespace.is_none_or(|namespace| own.contains(namespace))
    });
}

fn namespace(path: &str) -> Option<&str> {
    let (_, rest) = path.split_once(NAMESPACES)?;
    rest.split(['/', '?']).next().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn step(path: &str) -> Step {
        Step {
            path: path.to_owned(),
            ..Step::default()
        }
    }

    #[track_caller]
    fn check(path: &str, expected: &[&str]) {
        let case = Case {
            id: "a".to_owned(),
            area: "a".to_owned(),
            setup: vec![step("/api/v1/namespaces/own/serviceaccounts")],
            steps: vec![step(path)],
            cleanup: Vec::new(),
        };
        let item = |namespace: &str| json!({"metadata": {"name": namespace, "namespace": namespace}});
        let mut body = json!({"items": [item("own"), item("other"), {"metadata": {"name": "cluster"}}]});
        retain_own(&case.steps[0], &own_namespaces(&case), &mut body);
        let items = body["items"].as_array().unwrap().iter();
        let names: Vec<&str> = items
            .map(|item| item["metadata"]["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, expected, "{path}");
    }

    #[test]
    fn a_list_of_all_namespaces_is_compared_in_those_of_the_case() {
        check("/api/v1/configmaps/", &["own", "cluster"]);
        check("/api/v1/configmaps?limit=1", &["own", "cluster"]);
    }

    #[test]
    fn a_list_of_one_namespace_is_compared_as_it_is() {
        check(
            "/api/v1/namespaces/own/configmaps?limit=1",
            &["own", "other", "cluster"],
        );
    }
}
