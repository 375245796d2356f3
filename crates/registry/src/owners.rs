//! Owners that a document names twice are named once, and its author is told.

use setpoint_kinds::meta;
use setpoint_schema::Tree;

/// When the owners are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// As the document comes in.
    Sent,
    /// After admission has changed it, which is where a patch is looked at.
    Admitted,
}

/// Drops owners that are named again, and says whom.
pub(crate) fn dedup(object: &mut Tree, moment: Moment) -> Option<String> {
    let owners = meta::find(object, "ownerReferences")?.as_list()?;
    let is_again = |at: usize| owners[..at].contains(&owners[at]);
    let again: Vec<usize> = (0..owners.len()).filter(|at| is_again(*at)).collect();
    if again.is_empty() {
        return None;
    }
    let uid = |at: &usize| owners[*at].str_at(&["uid"]).unwrap_or_default().to_owned();
    let uids: Vec<String> = again.iter().map(uid).collect();
    let once = owners.iter().enumerate().filter(|(at, _)| !again.contains(at));
    let once: Vec<Tree> = once.map(|(_, owner)| owner.clone()).collect();
    meta::set(object, "ownerReferences", once);
    let when = match moment {
        Moment::Sent => "",
        Moment::Admitted => " after mutating admission happens",
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
    fn an_owner_that_is_named_again_is_dropped_and_told() {
        let json = br#"{"metadata":{"ownerReferences":[{"name":"a","uid":"1"},{"name":"b","uid":"1"},{"name":"a","uid":"1"}]}}"#;
        let mut object = setpoint_codec::json::parse(json).unwrap();
        let told = dedup(&mut object, Moment::Sent).unwrap();
        assert!(told.ends_with("duplicate UID(s) observed: 1"), "{told}");
        assert_eq!(
            meta::find(&object, "ownerReferences")
                .unwrap()
                .as_list()
                .unwrap()
                .len(),
            2
        );
        assert_eq!(dedup(&mut object, Moment::Sent), None);
    }
}
