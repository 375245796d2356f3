//! Removal of duplicate `metadata.ownerReferences`, with the warning that Kubernetes returns for them.

use std::collections::HashSet;

use setpoint_schema::{Tree, fields};
use setpoint_strategy::meta;

/// When the references are deduplicated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// After the body is decoded.
    Decoded,
    /// After mutating admission, which is where Kubernetes deduplicates a patched object.
    Mutated,
}

/// Drops duplicate owner references. Returns the warning that names their UIDs.
pub(crate) fn dedup(object: &mut Tree, phase: Phase) -> Option<String> {
    let owners = meta::find(object, "ownerReferences")?.as_list()?;
    if owners.len() < 2 {
        return None;
    }
    let mut seen = HashSet::with_capacity(owners.len());
    let (unique, duplicates): (Vec<&Tree>, Vec<&Tree>) = owners.iter().partition(|owner| seen.insert(*owner));
    if duplicates.is_empty() {
        return None;
    }
    let uid = |owner: &&Tree| owner.str_at(&[fields::UID]).unwrap_or_default().to_owned();
    let uids: Vec<String> = duplicates.iter().map(uid).collect();
    let unique: Vec<Tree> = unique.into_iter().cloned().collect();
    meta::set(object, "ownerReferences", unique);
    let when = match phase {
        Phase::Decoded => "",
        Phase::Mutated => " after mutating admission happens",
    };
    Some(format!(
        ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
        uids.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duplicate_owner_is_dropped_with_a_warning() {
        let json = br#"{"metadata":{"ownerReferences":[{"name":"a","uid":"1"},{"name":"b","uid":"1"},{"name":"a","uid":"1"}]}}"#;
        let mut object = setpoint_codec::json::parse(json).unwrap();
        let warning = dedup(&mut object, Phase::Decoded).unwrap();
        assert!(warning.ends_with("duplicate UID(s) observed: 1"), "{warning}");
        assert_eq!(
            meta::find(&object, "ownerReferences")
                .unwrap()
                .as_list()
                .unwrap()
                .len(),
            2
        );
        assert_eq!(dedup(&mut object, Phase::Decoded), None);
    }
}
