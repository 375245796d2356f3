//! What to do about an object, given the states of its owners. Pure.

use setpoint_api::object::OwnerReference;
use setpoint_api::options::DeletionPropagation;

/// The finalizer of an object that is deleted after its dependents.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an object that is deleted once its dependents no longer reference it.
pub(crate) const ORPHAN: &str = "orphan";

/// The state of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnerState {
    /// It exists.
    Solid,
    /// It exists, is terminating, and waits for its dependents to be deleted first.
    WaitingForDependents,
    /// It does not exist, or another object has its name.
    Dangling,
}

/// The object to decide about.
#[derive(Debug, Clone, Default)]
pub(crate) struct Dependent<'a> {
    pub(crate) owners: Vec<(&'a OwnerReference, OwnerState)>,
    pub(crate) finalizers: Vec<String>,
    pub(crate) has_dependents: bool,
    /// Whether one of its own dependents waits for dependents, too: a cycle that would never end.
    pub(crate) is_in_cycle: bool,
}

/// What to do about an object that has owners.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    Keep,
    /// Delete it with this propagation.
    Delete(DeletionPropagation),
    /// Remove the references to these owners.
    Release(Vec<String>),
    /// Stop its references from blocking its owners, then delete it with foreground propagation.
    UnblockAndDelete,
}

/// Decides for one object.
pub(crate) fn decide(dependent: &Dependent<'_>) -> Decision {
    let with = |owner_state: OwnerState| {
        dependent
            .owners
            .iter()
            .filter(move |(_, own)| *own == owner_state)
    };
    if dependent.owners.is_empty() {
        return Decision::Keep;
    }
    if with(OwnerState::Solid).next().is_some() {
        let released = dependent
            .owners
            .iter()
            .filter(|(_, owner_state)| *owner_state != OwnerState::Solid);
        let uids: Vec<String> = released.map(|(owner, _)| owner.uid.to_string()).collect();
        return match uids.is_empty() {
            true => Decision::Keep,
            false => Decision::Release(uids),
        };
    }
    if with(OwnerState::WaitingForDependents).next().is_some() && dependent.has_dependents {
        return match dependent.is_in_cycle {
            true => Decision::UnblockAndDelete,
            false => Decision::Delete(DeletionPropagation::Foreground),
        };
    }
    Decision::Delete(propagation(&dependent.finalizers))
}

/// The propagation that the object's own finalizers already require.
fn propagation(finalizers: &[String]) -> DeletionPropagation {
    let has = |name: &str| finalizers.iter().any(|one| one == name);
    if has(ORPHAN) {
        DeletionPropagation::Orphan
    } else if has(FOREGROUND) {
        DeletionPropagation::Foreground
    } else {
        DeletionPropagation::Background
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(uid: &str) -> OwnerReference {
        OwnerReference {
            uid: uid.into(),
            kind: "ReplicaSet".into(),
            name: uid.into(),
            api_version: "apps/v1".into(),
            controller: false,
            block_owner_deletion: true,
        }
    }

    /// Owners as words: `a` exists, `-a` is gone, `~a` waits for dependents.
    #[track_caller]
    fn check(owners: &str, finalizers: &[&str], has_dependents: bool, expected: Decision) {
        let words: Vec<(OwnerReference, OwnerState)> = owners
            .split_whitespace()
            .map(|word| match word.split_at(1) {
                ("-", uid) => (owner(uid), OwnerState::Dangling),
                ("~", uid) => (owner(uid), OwnerState::WaitingForDependents),
                _ => (owner(word), OwnerState::Solid),
            })
            .collect();
        let dependent = Dependent {
            owners: words
                .iter()
                .map(|(owner, owner_state)| (owner, *owner_state))
                .collect(),
            finalizers: finalizers.iter().map(|one| (*one).to_owned()).collect(),
            has_dependents,
            is_in_cycle: false,
        };
        assert_eq!(decide(&dependent), expected);
    }

    fn release(uids: &[&str]) -> Decision {
        Decision::Release(uids.iter().map(|uid| (*uid).to_owned()).collect())
    }

    #[test]
    fn an_object_with_an_owner_stays() {
        check("", &[], false, Decision::Keep);
        check("a", &[], false, Decision::Keep);
        check("a b", &[], true, Decision::Keep);
    }

    #[test]
    fn an_object_whose_owners_are_all_gone_is_deleted() {
        check(
            "-a",
            &[],
            false,
            Decision::Delete(DeletionPropagation::Background),
        );
        check(
            "-a -b",
            &[],
            true,
            Decision::Delete(DeletionPropagation::Background),
        );
    }

    #[test]
    fn its_own_finalizers_decide_the_propagation() {
        check(
            "-a",
            &[ORPHAN],
            false,
            Decision::Delete(DeletionPropagation::Orphan),
        );
        check(
            "-a",
            &[FOREGROUND],
            false,
            Decision::Delete(DeletionPropagation::Foreground),
        );
    }

    #[test]
    fn one_owner_is_enough_and_the_others_are_released() {
        check("a -b", &[], false, release(&["b"]));
        check("a -b ~c", &[], false, release(&["b", "c"]));
    }

    #[test]
    fn an_owner_waiting_for_dependents_has_them_deleted() {
        check(
            "~a",
            &[],
            false,
            Decision::Delete(DeletionPropagation::Background),
        );
        check(
            "~a -b",
            &[],
            true,
            Decision::Delete(DeletionPropagation::Foreground),
        );
    }

    #[test]
    fn a_cycle_of_waiting_objects_is_broken() {
        let a = owner("a");
        let dependent = Dependent {
            owners: vec![(&a, OwnerState::WaitingForDependents)],
            has_dependents: true,
            is_in_cycle: true,
            ..Dependent::default()
        };
        assert_eq!(decide(&dependent), Decision::UnblockAndDelete);
    }
}
