//! The JSON and protobuf views of a shape, computed once when the shape is built.
//!
//! A type has up to a hundred members, of which an object sets few. The lists and orders here let a walk visit the members
//! that are set and those that always have a value, instead of all.

use super::index::Index;
use super::proto::{self, ProtoField};
use super::{Field, Shape, inlined};
use crate::write::write_string;

#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    pub(super) members: Vec<Field>,
    /// Indexes into `members`, sorted by name.
    pub(super) by_name: Vec<u16>,
    /// For each member its index in `by_name`.
    ranks: Vec<u16>,
    /// Indexes of the members that canonical JSON has even if they are unset.
    always_written: Vec<u16>,
    /// Indexes of the members with a constant default.
    defaulted: Vec<u16>,
    /// The members as keys, `"name":`, one after the other.
    keys: Vec<u8>,
    /// For each member the end of its key in `keys`.
    key_ends: Vec<u32>,
    pub(super) index: Index,
    /// The protobuf view, sorted by number.
    pub(super) proto_fields: Vec<ProtoField>,
}

impl Layout {
    pub(super) fn of(shape: &Shape) -> Self {
        let mut members = Vec::with_capacity(shape.fields.len() + 2);
        if shape.type_meta {
            members.extend(["kind", "apiVersion"].map(Field::string));
        }
        flatten(&shape.fields, &mut members);
        let mut by_name: Vec<u16> = (0..members.len() as u16).collect();
        by_name.sort_by(|left, right| members[*left as usize].name.cmp(&members[*right as usize].name));
        let mut ranks = vec![0; members.len()];
        for (rank, at) in by_name.iter().enumerate() {
            ranks[usize::from(*at)] = rank as u16;
        }
        let (keys, key_ends) = keys(&members);
        Layout {
            always_written: indexes(&members, |member| member.zero.is_some()),
            defaulted: indexes(&members, |member| member.default.is_some()),
            index: Index::of(members.iter().map(|member| member.name.as_str())),
            proto_fields: proto::proto_fields(shape),
            by_name,
            ranks,
            keys,
            key_ends,
            members,
        }
    }
}

fn flatten(fields: &[Field], into: &mut Vec<Field>) {
    for field in fields {
        match inlined(field) {
            Some(shape) => flatten(&shape.fields, into),
            None => into.push(field.clone()),
        }
    }
}

fn indexes(members: &[Field], is_in: impl Fn(&Field) -> bool) -> Vec<u16> {
    let members = members.iter().enumerate().filter(|(_, member)| is_in(member));
    members.map(|(at, _)| at as u16).collect()
}

fn keys(members: &[Field]) -> (Vec<u8>, Vec<u32>) {
    let (mut keys, mut ends) = (Vec::new(), Vec::with_capacity(members.len()));
    for member in members {
        write_string(&member.name, &mut keys);
        keys.push(b':');
        ends.push(u32::try_from(keys.len()).expect("the keys of a type are far below four gigabytes"));
    }
    keys.shrink_to_fit();
    (keys, ends)
}

impl Shape {
    /// The position of a member, by its index in [`Shape::members`], among the members sorted by name.
    pub(crate) fn rank_by_name(&self, at: usize) -> u16 {
        self.layout.ranks[at]
    }

    /// The index of the member at a position among the members sorted by name.
    pub(crate) fn member_of_rank(&self, rank: usize) -> usize {
        usize::from(self.layout.by_name[rank])
    }

    /// The indexes of the members that canonical JSON has even if they are unset, in order.
    pub(crate) fn always_written(&self) -> impl Iterator<Item = usize> {
        self.layout.always_written.iter().map(|at| usize::from(*at))
    }

    /// The members with a constant default.
    pub fn defaulted_members(&self) -> impl Iterator<Item = &Field> {
        let defaulted = self.layout.defaulted.iter();
        defaulted.map(|at| &self.layout.members[usize::from(*at)])
    }

    /// A member as a key in JSON, `"name":`.
    pub(crate) fn member_key(&self, at: usize) -> &[u8] {
        let ends = &self.layout.key_ends;
        let start = at.checked_sub(1).map_or(0, |before| ends[before]);
        &self.layout.keys[start as usize..ends[at] as usize]
    }
}
