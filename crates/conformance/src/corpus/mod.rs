//! Requests of our own, good and bad, for every kind: made from one small object each.
//!
//! `corpus/kinds.yaml` has the objects; from each come the verbs, the patches, and the broken variants. `corpus/apply.yaml`
//! has writes by turns, step by step. What is made is a case in the form of the recordings, so whatever can replay those can
//! replay this. Start reading at [`cases`].

mod broken;
mod entry;
mod lists;
mod patches;
mod steps;
mod turns;
mod verbs;

use crate::transcript::Case;

pub use entry::Entry;

/// The name of the namespace that a run works in, unless it is told another.
pub const NAMESPACE: &str = "corpus";

/// Every case of the corpus.
pub fn cases(namespace: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    for entry in entries(namespace) {
        cases.extend(verbs::cases(&entry));
        cases.extend(patches::cases(&entry));
        cases.extend(broken::cases(&entry));
    }
    cases.extend(lists::cases(namespace));
    cases.extend(turns::cases(namespace));
    cases
}

/// Every kind's small object, in this namespace.
pub fn entries(namespace: &str) -> Vec<Entry> {
    entry::all(namespace)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn requests(area: &str) -> usize {
        let cases = cases(NAMESPACE);
        let own = cases.iter().filter(|case| case.area == area);
        own.map(|case| case.steps.len()).sum()
    }

    #[test]
    fn there_are_hundreds_of_requests_and_of_patches() {
        assert!(requests("verbs") + requests("lists") >= 300);
        assert!(requests("broken") >= 300);
        assert!(
            cases(NAMESPACE)
                .iter()
                .filter(|case| case.area == "patches")
                .count()
                >= 300
        );
    }

    #[test]
    fn there_are_hundreds_of_writes_by_turns() {
        assert!(requests("turns") >= 600, "{}", requests("turns"));
    }

    #[test]
    fn every_case_has_a_name_of_its_own() {
        let cases = cases(NAMESPACE);
        let names: HashSet<&str> = cases.iter().map(|case| case.id.as_str()).collect();
        assert_eq!(names.len(), cases.len());
    }

    #[test]
    fn every_kind_has_a_case_of_every_sort() {
        let cases = cases(NAMESPACE);
        for entry in entries(NAMESPACE) {
            for area in ["verbs", "broken"] {
                let id = format!("{area}.{}.", entry.id);
                assert!(cases.iter().any(|case| case.id.starts_with(&id)), "{id}");
            }
        }
    }
}
