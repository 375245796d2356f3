//! The corpus: valid and invalid requests for every kind, generated from one small object each.
//!
//! `corpus/kinds.yaml` has the objects; each gives cases for the verbs, the patches, and invalid variants.
//! `corpus/apply.yaml` has writes of several managers, step by step. A case has the format of the recordings, so the same
//! code runs both. Start reading at [`cases`].

mod custom;
mod entry;
mod invalid;
mod lists;
mod manager_writes;
mod patches;
pub(crate) mod steps;
mod verbs;

use crate::transcript::Case;

pub use custom::CustomKind;
pub use entry::Entry;

/// The default namespace of a run.
pub const NAMESPACE: &str = "corpus";

/// Every case of the corpus.
pub fn cases(namespace: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    for entry in entries(namespace) {
        cases.extend(verbs::cases(&entry));
        cases.extend(patches::cases(&entry));
        cases.extend(invalid::cases(&entry));
    }
    cases.extend(lists::cases(namespace));
    cases.extend(manager_writes::cases(namespace));
    cases
}

/// The small object of every kind, in this namespace.
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
    fn there_are_hundreds_of_manager_writes() {
        assert!(requests("writes") >= 600, "{}", requests("writes"));
    }

    #[test]
    fn case_ids_are_unique() {
        let cases = cases(NAMESPACE);
        let names: HashSet<&str> = cases.iter().map(|case| case.id.as_str()).collect();
        assert_eq!(names.len(), cases.len());
    }

    #[test]
    fn every_kind_has_a_case_of_every_area() {
        let cases = cases(NAMESPACE);
        for entry in entries(NAMESPACE) {
            for area in ["verbs", "broken"] {
                let id = format!("{area}.{}.", entry.id);
                assert!(cases.iter().any(|case| case.id.starts_with(&id)), "{id}");
            }
        }
    }
}
