//! What becomes of an object, judged by what became of its owners: pure.

use setpoint_api::object::Owner;
use setpoint_api::options::Propagation;

/// The finalizer of an object that goes after its dependents.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an object that goes once its dependents have let go of it.
pub(crate) const ORPHAN: &str = "orphan";

/// What became of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is there.
    Solid,
    /// It is there, on its way out, and waits for its dependents to go first.
    Waiting,
    /// It is gone, or another object has its name.
    Gone,
}

/// What is known of the object itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Dependent<'a> {
    pub(crate) owners: Vec<(&'a Owner, Fate)>,
    pub(crate) finalizers: Vec<String>,
    pub(crate) has_dependents: bool,
    /// Whether one of its own dependents waits for dependents, too: a circle in which everyone waits.
    pub(crate) is_in_circle: bool,
}

/// What to do about an object that has owners.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Keep,
    /// Delete it, in this way.
    Delete(Propagation),
    /// Take the references to these owners away.
    Release(Vec<String>),
    /// Stop its references from blocking its owners, then delete it in the foreground.
    UnblockAndDelete,
}

/// Judges one object.
pub(crate) fn judge(dependent: &Dependent<'_>) -> Verdict {
    let with = |fate: Fate| dependent.owners.iter().filter(move |(_, own)| *own == fate);
    if dependent.owners.is_empty() {
        return Verdict::Keep;
    }
    if with(Fate::Solid).next().is_some() {
        let let_go = dependent.owners.iter().filter(|(_, fate)| *fate != Fate::Solid);
        let uids: Vec<String> = let_go.map(|(owner, _)| owner.uid.to_string()).collect();
        return match uids.is_empty() {
            true => Verdict::Keep,
            false => Verdict::Release(uids),
        };
    }
    if with(Fate::Waiting).next().is_some() && dependent.has_dependents {
        return match dependent.is_in_circle {
            true => Verdict::UnblockAndDelete,
            false => Verdict::Delete(Propagation::Foreground),
        };
    }
    Verdict::Delete(propagation(&dependent.finalizers))
}

/// What the object's own finalizers ask for stays in force.
fn propagation(finalizers: &[String]) -> Propagation {
    let has = |name: &str| finalizers.iter().any(|one| one == name);
    if has(ORPHAN) {
        Propagation::Orphan
    } else if has(FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(uid: &str) -> Owner {
        Owner {
            uid: uid.into(),
            kind: "ReplicaSet".into(),
            name: uid.into(),
            api_version: "apps/v1".into(),
            controller: false,
            blocks_deletion: true,
        }
    }

    /// Owners as words: `a` is there, `-a` is gone, `~a` waits.
    #[track_caller]
    fn check(owners: &str, finalizers: &[&str], has_dependents: bool, expected: Verdict) {
        let words: Vec<(Owner, Fate)> = owners
            .split_whitespace()
            .map(|word| match word.split_at(1) {
                ("-", uid) => (owner(uid), Fate::Gone),
                ("~", uid) => (owner(uid), Fate::Waiting),
                _ => (owner(word), Fate::Solid),
            })
            .collect();
        let dependent = Dependent {
            owners: words.iter().map(|(owner, fate)| (owner, *fate)).collect(),
            finalizers: finalizers.iter().map(|one| (*one).to_owned()).collect(),
            has_dependents,
            is_in_circle: false,
        };
        assert_eq!(judge(&dependent), expected);
    }

    fn release(uids: &[&str]) -> Verdict {
        Verdict::Release(uids.iter().map(|uid| (*uid).to_owned()).collect())
    }

    #[test]
    fn an_object_with_an_owner_stays() {
        check("", &[], false, Verdict::Keep);
        check("a", &[], false, Verdict::Keep);
        check("a b", &[], true, Verdict::Keep);
    }

    #[test]
    fn an_object_whose_owners_are_all_gone_is_deleted() {
        check("-a", &[], false, Verdict::Delete(Propagation::Background));
        check("-a -b", &[], true, Verdict::Delete(Propagation::Background));
    }

    #[test]
    fn its_own_finalizers_say_how() {
        check("-a", &[ORPHAN], false, Verdict::Delete(Propagation::Orphan));
        check(
            "-a",
            &[FOREGROUND],
            false,
            Verdict::Delete(Propagation::Foreground),
        );
    }

    #[test]
    fn one_owner_is_enough_and_the_others_are_let_go() {
        check("a -b", &[], false, release(&["b"]));
        check("a -b ~c", &[], false, release(&["b", "c"]));
    }

    #[test]
    fn an_owner_that_waits_takes_its_dependents_along() {
        check("~a", &[], false, Verdict::Delete(Propagation::Background));
        check("~a -b", &[], true, Verdict::Delete(Propagation::Foreground));
    }

    #[test]
    fn a_circle_of_waiting_objects_is_broken() {
        let a = owner("a");
        let dependent = Dependent {
            owners: vec![(&a, Fate::Waiting)],
            has_dependents: true,
            is_in_circle: true,
            ..Dependent::default()
        };
        assert_eq!(judge(&dependent), Verdict::UnblockAndDelete);
    }
}
