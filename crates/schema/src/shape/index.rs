//! Index of a shape's members by name: a small hash table, since every key of every object is looked up.

use crate::name::hash;

/// Open-addressing hash table of member indexes. A slot holds an index counted from 1, or 0 if it is free; collisions
/// take the next free slot.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    /// Its length is a power of two, at most half of it is used. Empty if there are no members.
    slots: Box<[u16]>,
}

impl Index {
    pub(super) fn of<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> Self {
        if names.len() == 0 {
            return Index::default();
        }
        let mut slots = vec![0; (2 * names.len()).next_power_of_two()];
        let last = slots.len() - 1;
        for (at, name) in names.enumerate() {
            let mut slot = hash(name) as usize & last;
            while slots[slot] != 0 {
                slot = (slot + 1) & last;
            }
            slots[slot] = at as u16 + 1;
        }
        Index {
            slots: slots.into_boxed_slice(),
        }
    }

    /// The index of the member whose name has this hash; `is_it` compares the name at an index.
    pub(super) fn find(&self, hash: u32, is_it: impl Fn(usize) -> bool) -> Option<usize> {
        let last = self.slots.len().checked_sub(1)?;
        let mut slot = hash as usize & last;
        loop {
            let at = usize::from(self.slots[slot]).checked_sub(1)?;
            if is_it(at) {
                return Some(at);
            }
            slot = (slot + 1) & last;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(names: &[&str]) {
        let index = Index::of(names.iter().copied());
        for (at, name) in names.iter().enumerate() {
            assert_eq!(index.find(hash(name), |found| names[found] == *name), Some(at));
        }
        assert_eq!(index.find(hash("absent"), |found| names[found] == "absent"), None);
    }

    #[test]
    fn every_member_is_found_by_its_name_and_no_other() {
        check(&[]);
        check(&["a"]);
        check(&["kind", "apiVersion", "metadata", "spec", "status"]);
        check(&[
            "sameBeginningAndEnd",
            "sameBeginningXXXAndEnd",
            "sameBeginning",
            "",
        ]);
        let many: Vec<String> = (0..1000).map(|n| format!("member{n}OfMany")).collect();
        check(&many.iter().map(String::as_str).collect::<Vec<_>>());
    }
}
