//! The members of an object that are written, in order. An object sets few of the members of its type.

use crate::shape::Shape;
use crate::tree::{Map, Tree};

/// No type has more members than this; a test of the pack checks it.
pub(crate) const MAX_MEMBERS: usize = 128;

/// The members of an object to be written: those that it has, and those that are always written.
pub(crate) struct MemberValues<'a> {
    map: &'a Map,
    /// For each member the index of its pair, counted from 1, or 0 if it has none. The last of duplicate pairs counts.
    pair_indexes: [u16; MAX_MEMBERS],
    /// The members that are still to be written, as bits.
    members: u128,
}

impl<'a> MemberValues<'a> {
    pub(crate) fn of(shape: &Shape, map: &'a Map) -> Self {
        let mut values = Self {
            map,
            pair_indexes: [0; MAX_MEMBERS],
            members: 0,
        };
        let mut next = 0;
        for (pair, (key, _)) in map.pairs().iter().enumerate() {
            if let Some(at) = shape.position_of(key, next) {
                values.pair_indexes[at] = pair as u16 + 1;
                values.visit(Some(at));
                next = at + 1;
            }
        }
        shape.always_written().for_each(|at| values.visit(Some(at)));
        values
    }

    /// Adds a member to those that are written.
    pub(super) fn visit(&mut self, at: Option<usize>) {
        if let Some(at) = at {
            self.members |= 1 << at;
        }
    }

    pub(super) fn has(&self, at: usize) -> bool {
        self.members & (1 << at) != 0
    }

    /// The members as bits in the order of their names, for [`next_by_name`].
    pub(crate) fn by_name(&self, shape: &Shape) -> u128 {
        let (mut members, mut ranks) = (self.members, 0);
        while members != 0 {
            ranks |= 1 << shape.rank_by_name(members.trailing_zeros() as usize);
            members &= members - 1;
        }
        ranks
    }

    /// The value of a member, if the object has it.
    pub(crate) fn find(&self, member: usize) -> Option<&'a Tree> {
        let pair = self.pair_indexes[member].checked_sub(1)?;
        Some(&self.map.pairs()[usize::from(pair)].1)
    }

    /// The next member in the order of the shape.
    pub(super) fn next_index(&mut self) -> Option<usize> {
        let at = self.members.trailing_zeros() as usize;
        self.members &= self.members.checked_sub(1)?;
        Some(at)
    }

    pub(super) fn at(&self, member: usize) -> &'a Tree {
        self.find(member).unwrap_or(&Tree::Null)
    }
}

/// Takes the first of the members that are bits in the order of their names.
pub(crate) fn next_by_name(ranks: &mut u128, shape: &Shape) -> Option<usize> {
    let rank = ranks.trailing_zeros() as usize;
    *ranks &= ranks.checked_sub(1)?;
    Some(shape.member_of_rank(rank))
}
