//! The managed fields of a new object, written as JSON in one walk.
//!
//! They are what [`super::update`] puts into an object that has no managers yet. A new object mostly goes from here to the
//! store, where only the text of its managed fields counts: they are two fifths of a stored pod, so a set and a tree of them
//! cost a good part of a create.
//!
//! Only for shapes without unknown fields, as built-in kinds have.

use std::cmp::Ordering;

use smallvec::SmallVec;

use super::field_set::{FieldSet, FieldSetNode};
use super::managed_fields::{FIELDS_V1, Operation};
use super::path_element::{order, order_pairs, write_keys};
use super::schema_node::{NodeKind, SchemaNode, key_values};
use super::traversal::{ReadMode, same, sorted};
use super::update::{FieldManager, UNMANAGED_FIELDS};
use crate::shape::{Field, ListType, Shape};
use crate::tree::{Map, Tree};
use crate::write::{
    MemberValues, canonical_value, is_set, next_by_name, write_escaped, write_string, write_tree,
};

/// Initial capacity, enough for most objects.
const INITIAL_CAPACITY_BYTES: usize = 4 << 10;

/// Most lists have no more items.
const INLINE_ITEMS: usize = 8;

/// The `managedFields` of a new object without managers, in canonical JSON: the manager owns every field. `None` if it owns
/// nothing.
pub fn managed_fields_of_new(object: &Tree, shape: &Shape, manager: &FieldManager<'_>) -> Option<Vec<u8>> {
    let mut writer = FieldsWriter {
        out: Vec::with_capacity(INITIAL_CAPACITY_BYTES),
        element: Vec::new(),
    };
    writer.open_entry(manager);
    let start = writer.out.len();
    let unowned = UnownedPaths {
        reset: Some(manager.reset),
        unmanaged: Some(&UNMANAGED_FIELDS),
        ..UnownedPaths::default()
    };
    if let Tree::Map(map) = object {
        writer.changed_members(shape, map, unowned);
    }
    if writer.out.len() == start {
        return None;
    }
    writer.close_entry(manager);
    Some(writer.out)
}

/// The paths below one path that no manager owns.
#[derive(Clone, Copy, Default)]
struct UnownedPaths<'a> {
    /// The path itself and everything below.
    whole: bool,
    /// The path itself.
    path: bool,
    reset: Option<&'a FieldSet>,
    unmanaged: Option<&'a FieldSet>,
}

/// The position of a node in the text, which is removed again if the node is empty.
struct Node {
    start: usize,
    /// After its opening brace.
    open: usize,
    /// After its own path, if that is owned.
    children: usize,
}

struct FieldsWriter {
    out: Vec<u8>,
    /// The path element of a list item, before it becomes a JSON string.
    element: Vec<u8>,
}

// === impl UnownedPaths ===

impl<'a> UnownedPaths<'a> {
    fn at(self, field: &str) -> Self {
        if self.reset.is_none() && self.unmanaged.is_none() {
            return Self::default();
        }
        let at = |set: Option<&'a FieldSet>| set.and_then(|set| set.at_field(field));
        let (reset, unmanaged) = (at(self.reset), at(self.unmanaged));
        let is_member = |node: Option<&FieldSetNode>| node.is_some_and(|node| node.member);
        Self {
            whole: is_member(reset),
            path: is_member(unmanaged),
            reset: reset.map(|node| &node.children),
            unmanaged: unmanaged.map(|node| &node.children),
        }
    }
}

// === impl FieldsWriter ===

impl FieldsWriter {
    fn open_entry(&mut self, manager: &FieldManager<'_>) {
        let operation = Operation::Update;
        let id = manager.id(operation);
        self.out.push(b'[');
        for (before, text) in [
            (r#"{"manager":"#, id.manager.as_str()),
            (r#","operation":"#, operation.as_str()),
            (r#","apiVersion":"#, manager.api_version),
            (r#","time":"#, manager.now),
            (r#","fieldsType":"#, FIELDS_V1),
        ] {
            self.out.extend_from_slice(before.as_bytes());
            write_string(text, &mut self.out);
        }
        self.out.extend_from_slice(br#","fieldsV1":{"#);
    }

    fn close_entry(&mut self, manager: &FieldManager<'_>) {
        self.out.push(b'}');
        if !manager.subresource.is_empty() {
            self.out.extend_from_slice(br#","subresource":"#);
            write_string(manager.subresource, &mut self.out);
        }
        self.out.extend_from_slice(b"}]");
    }

    /// The members of a struct that the canonical JSON of a new object has, too: those with another value are owned.
    fn changed_members(&mut self, shape: &Shape, map: &Map, unowned: UnownedPaths<'_>) {
        for_each_member(shape, map, |at, value| match &shape.members()[at].zero {
            Some(zero) if !shape.literal => self.changed_member((shape, at), (zero, value), unowned),
            _ => self.added_member((shape, at), value, unowned),
        });
    }

    /// A field that an empty object has with the value `zero`.
    fn changed_member(
        &mut self,
        (shape, at): (&Shape, usize),
        (zero, value): (&Tree, &Tree),
        unowned: UnownedPaths<'_>,
    ) {
        let field = &shape.members()[at];
        let (schema, unowned) = (SchemaNode::of_field(field), unowned.at(&field.name));
        if unowned.whole || zero == value {
            return;
        }
        debug_assert!(is_without_content(zero), "{} has content when unset", field.name);
        let node = self.open(false, |out| write_member_key(shape, at, out));
        match (schema.kind, value) {
            (NodeKind::List(list), Tree::List(items)) if !schema.atomic && !items.is_empty() => {
                self.items(list, items);
            }
            (NodeKind::Struct(shape), Tree::Map(map)) if !schema.atomic && has_members(shape, map) => {
                self.changed_members(shape, map, unowned);
            }
            (NodeKind::Map(_) | NodeKind::Any, Tree::Map(map)) if !schema.atomic && !map.is_empty() => {
                self.pairs(schema, map, unowned);
            }
            _ if unowned.path || same(schema, zero, value, ReadMode::Canonical) => {}
            _ => return self.out.push(b'}'),
        }
        self.close(node, false);
    }

    /// A member that an empty object does not have. It is owned, with everything in it.
    fn added_member(&mut self, (shape, at): (&Shape, usize), value: &Tree, unowned: UnownedPaths<'_>) {
        let field = &shape.members()[at];
        let (schema, unowned) = (SchemaNode::of_field(field), unowned.at(&field.name));
        self.added(schema, value, unowned, |out| write_member_key(shape, at, out));
    }

    /// A value that is owned, with everything in it.
    fn added(
        &mut self,
        schema: SchemaNode<'_>,
        value: &Tree,
        unowned: UnownedPaths<'_>,
        element: impl FnOnce(&mut Vec<u8>),
    ) {
        if unowned.whole {
            return;
        }
        let has_children = !schema.atomic && matches!(value, Tree::Map(_) | Tree::List(_));
        if !has_children && !unowned.path {
            self.write_comma();
            element(&mut self.out);
            return self.out.extend_from_slice(b"{}");
        }
        let node = self.open(!unowned.path, element);
        self.children(schema, value, unowned);
        self.close(node, !unowned.path);
    }

    fn children(&mut self, schema: SchemaNode<'_>, value: &Tree, unowned: UnownedPaths<'_>) {
        match (schema.kind, value) {
            _ if schema.atomic => {}
            (NodeKind::List(field), Tree::List(items)) => self.items(field, items),
            (NodeKind::Struct(shape), Tree::Map(map)) => {
                for_each_member(shape, map, |at, value| {
                    self.added_member((shape, at), value, unowned)
                });
            }
            (NodeKind::Map(_) | NodeKind::Any, Tree::Map(map)) => self.pairs(schema, map, unowned),
            _ => {}
        }
    }

    fn pairs(&mut self, schema: SchemaNode<'_>, map: &Map, unowned: UnownedPaths<'_>) {
        for (key, value) in sorted(Some(map)) {
            self.added(schema.of_values(), value, unowned.at(key), |out| {
                out.extend_from_slice(b"\"f:");
                write_escaped(key, out);
                out.extend_from_slice(b"\":");
            });
        }
    }

    /// Each item of a set or an associative list is owned, with everything in it. Of duplicates the content is ambiguous.
    fn items(&mut self, list: &Field, items: &[Tree]) {
        let mut keyed: SmallVec<[(ItemKey<'_>, &Tree); INLINE_ITEMS]> = items
            .iter()
            .filter_map(|item| Some((ItemKey::of(list, item)?, item)))
            .collect();
        keyed.sort_by(|left, right| left.0.order(&right.0));
        for duplicates in keyed.chunk_by(|left, right| left.0.order(&right.0).is_eq()) {
            self.element.clear();
            duplicates[0].0.write(&mut self.element);
            let element = std::mem::take(&mut self.element);
            let node = self.open(true, |out| {
                let text = std::str::from_utf8(&element).expect("JSON of strings is UTF-8");
                write_string(text, out);
                out.push(b':');
            });
            self.element = element;
            if let [(_, item)] = duplicates {
                self.children(SchemaNode::of_element(list), item, UnownedPaths::default());
            }
            self.close(node, true);
        }
    }

    fn write_comma(&mut self) {
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
    }

    /// Opens the node of a path element, whose key is written by a function, and writes its own path if that is owned.
    fn open(&mut self, is_owned: bool, element: impl FnOnce(&mut Vec<u8>)) -> Node {
        let start = self.out.len();
        self.write_comma();
        element(&mut self.out);
        self.out.push(b'{');
        let open = self.out.len();
        if is_owned {
            self.out.extend_from_slice(br#"".":{}"#);
        }
        Node {
            start,
            open,
            children: self.out.len(),
        }
    }

    /// Closes a node: an owned path with nothing below is `{}`, and one that is not owned is left out.
    fn close(&mut self, node: Node, is_owned: bool) {
        if self.out.len() == node.children {
            if !is_owned {
                return self.out.truncate(node.start);
            }
            self.out.truncate(node.open);
        }
        self.out.push(b'}');
    }
}

/// Writes the key of a member, `"f:name":`.
fn write_member_key(shape: &Shape, at: usize, out: &mut Vec<u8>) {
    let key = shape.member_key(at);
    out.extend_from_slice(b"\"f:");
    out.extend_from_slice(&key[1..]);
}

/// Visits the members of a struct that its canonical JSON has, by index, sorted by name.
fn for_each_member<'a>(shape: &'a Shape, map: &'a Map, mut visit: impl FnMut(usize, &'a Tree)) {
    let values = MemberValues::of(shape, map);
    let mut ranks = values.by_name(shape);
    while let Some(at) = next_by_name(&mut ranks, shape) {
        let own = values.find(at);
        let value = match shape.literal {
            true => own,
            false => canonical_value(&shape.members()[at], own),
        };
        if let Some(value) = value {
            visit(at, value);
        }
    }
}

fn has_members(shape: &Shape, map: &Map) -> bool {
    let is_written = |(key, value): (&str, &Tree)| {
        let field = shape.member(key);
        field.is_some_and(|field| shape.literal || is_set(field, value))
    };
    map.iter().any(is_written) || !shape.literal && shape.always_written().next().is_some()
}

/// Whether nothing below a value could be owned.
fn is_without_content(zero: &Tree) -> bool {
    match zero {
        Tree::Map(map) => map.is_empty(),
        Tree::List(items) => items.is_empty(),
        _ => true,
    }
}

/// What identifies an item of a list.
enum ItemKey<'a> {
    /// Its keys, sorted by name.
    Keys(SmallVec<[(&'a str, &'a Tree); 2]>),
    /// Its value.
    Value(&'a Tree),
}

impl<'a> ItemKey<'a> {
    /// `None` for an item that cannot be owned.
    fn of(list: &'a Field, item: &'a Tree) -> Option<Self> {
        match (list.list_type, item) {
            (Some(ListType::Map), Tree::Map(map)) => {
                let mut keys: SmallVec<[_; 2]> = key_values(list, map).collect();
                keys.sort_by_key(|(name, _)| *name);
                (!keys.is_empty()).then_some(Self::Keys(keys))
            }
            (Some(ListType::Map), _) | (_, Tree::Map(_) | Tree::List(_) | Tree::Null) => None,
            (_, scalar) => Some(Self::Value(scalar)),
        }
    }

    fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Keys(left), Self::Keys(right)) => order_pairs(left.iter().copied(), right.iter().copied()),
            (Self::Value(left), Self::Value(right)) => order(left, right),
            (Self::Keys(_), Self::Value(_)) => Ordering::Less,
            (Self::Value(_), Self::Keys(_)) => Ordering::Greater,
        }
    }

    /// Writes the path element as it is in `fieldsV1`.
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Keys(keys) => {
                out.extend_from_slice(b"k:");
                write_keys(keys.iter().copied(), out);
            }
            Self::Value(value) => {
                out.extend_from_slice(b"v:");
                write_tree(value, out);
            }
        }
    }
}
