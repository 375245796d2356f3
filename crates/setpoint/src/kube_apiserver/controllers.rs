//! Which of kube-controller-manager's controllers run beside the API server: none, unless the user names some.

use crate::flag_set::Values;

/// The environment variable for suites that cannot set a flag.
pub(super) const VARIABLE: &str = "SETPOINT_CONTROLLERS";

/// kubectl's short names and other usual abbreviations, beside the names in kube-controller-manager.
const SHORT_NAMES: &[(&str, &str)] = &[
    ("cj", "cronjob-controller"),
    ("deploy", "deployment-controller"),
    ("ds", "daemonset-controller"),
    ("gc", "garbage-collector-controller"),
    ("hpa", "horizontal-pod-autoscaler-controller"),
    ("ns", "namespace-controller"),
    ("pdb", "disruption-controller"),
    ("quota", "resourcequota-controller"),
    ("rc", "replicationcontroller-controller"),
    ("rs", "replicaset-controller"),
    ("sa", "serviceaccount-controller"),
    ("sts", "statefulset-controller"),
];

/// The value of `up --controllers`: the flag's, or else the environment variable's.
pub(super) fn selection(values: &Values, variable: Option<&str>) -> String {
    let mut names = values.list("controllers");
    if !values.contains("controllers") {
        let words = variable.unwrap_or_default().split(',').map(str::trim);
        names = words.filter(|word| !word.is_empty()).map(str::to_owned).collect();
    }
    let names: Vec<String> = names.iter().map(|name| full_name(name)).collect();
    match names.is_empty() {
        true => "none".to_owned(),
        false => names.join(","),
    }
}

/// `all` are kube-controller-manager's controllers; the scheduler is a program of its own there.
fn full_name(name: &str) -> String {
    if name == "all" {
        return "-scheduler,*".to_owned();
    }
    let (minus, short) = match name.strip_prefix('-') {
        Some(short) => ("-", short),
        None => ("", name),
    };
    let full = SHORT_NAMES.iter().find(|(known, _)| *known == short);
    format!("{minus}{}", full.map_or(short, |(_, full)| full))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flag_set;
    use crate::kube_apiserver::flags;

    #[track_caller]
    fn check(flag: Option<&str>, variable: Option<&str>, expected: &str) {
        let arguments: Vec<String> = flag.iter().map(|list| format!("--controllers={list}")).collect();
        let (values, _) = flag_set::parse(&flags::all(), &arguments).unwrap();
        assert_eq!(selection(&values, variable), expected);
    }

    #[test]
    fn without_a_list_no_controller_runs() {
        check(None, None, "none");
        check(None, Some(""), "none");
    }

    #[test]
    fn a_list_has_names_and_short_names() {
        check(
            None,
            Some("gc, namespace"),
            "garbage-collector-controller,namespace",
        );
        check(None, Some("all"), "-scheduler,*");
        check(None, Some("*,-ns"), "*,-namespace-controller");
        check(Some("job"), Some("all"), "job");
        check(Some("none"), Some("all"), "none");
    }

    #[test]
    fn every_short_name_is_that_of_a_controller() {
        for (_, name) in SHORT_NAMES {
            assert!(setpoint_controllers::select(&[name]).is_ok(), "{name}");
        }
    }
}
