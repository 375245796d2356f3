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
use crate::write::{canonical_value, is_set, write_escaped, write_string, write_tree};

/// Initial capacity, enough for most objects.
const INITIAL_CAPACITY_BYTES: usize = 4 << 10;

/// Most structs have no more fields that are set.
const INLINE_FIELDS: usize = 16;

/// The `managedFields` of a new object without managers, in canonical JSON: the manager owns every field. `None` if it owns
/// nothing.
pub fn managed_fields_of_new(object: &Tree, shape: &Shape, manager: &FieldManager<'_>) -> Option<Vec<u8>> {
    let mut writer = FieldsWriter {
        out: Vec::with_capacity(INITIAL_CAPACITY_BYTES),
        element: Vec::new(),
    };
    writer.open_entry(manager);
    let start = writer.out.len();
    let unowned = Unowned {
        reset: Some(manager.reset),
        unmanaged: Some(&UNMANAGED_FIELDS),
        ..Unowned::default()
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
struct Unowned<'a> {
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

// === impl Unowned ===

impl<'a> Unowned<'a> {
    fn at(self, field: &str) -> Self {
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
    fn changed_members(&mut self, shape: &Shape, map: &Map, unowned: Unowned<'_>) {
        for (field, value) in members(shape, map) {
            let node = SchemaNode::of_field(field);
            match &field.zero {
                Some(zero) if !shape.literal => self.changed_field(field, node, (zero, value), unowned),
                _ => self.added_field(&field.name, node, value, unowned),
            }
        }
    }

    /// A field that an empty object has with the value `zero`.
    fn changed_field(
        &mut self,
        field: &Field,
        schema: SchemaNode<'_>,
        (zero, value): (&Tree, &Tree),
        unowned: Unowned<'_>,
    ) {
        let unowned = unowned.at(&field.name);
        if unowned.whole || zero == value {
            return;
        }
        debug_assert!(is_without_content(zero), "{} has content when unset", field.name);
        let node = self.open_field(&field.name, false);
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

    /// A field that an empty object does not have. It is owned, with everything in it.
    fn added_field(&mut self, name: &str, schema: SchemaNode<'_>, value: &Tree, unowned: Unowned<'_>) {
        let unowned = unowned.at(name);
        if unowned.whole {
            return;
        }
        let node = self.open_field(name, !unowned.path);
        self.children(schema, value, unowned);
        self.close(node, !unowned.path);
    }

    fn children(&mut self, schema: SchemaNode<'_>, value: &Tree, unowned: Unowned<'_>) {
        match (schema.kind, value) {
            _ if schema.atomic => {}
            (NodeKind::List(field), Tree::List(items)) => self.items(field, items),
            (NodeKind::Struct(shape), Tree::Map(map)) => {
                for (field, value) in members(shape, map) {
                    self.added_field(&field.name, SchemaNode::of_field(field), value, unowned);
                }
            }
            (NodeKind::Map(_) | NodeKind::Any, Tree::Map(map)) => self.pairs(schema, map, unowned),
            _ => {}
        }
    }

    fn pairs(&mut self, schema: SchemaNode<'_>, map: &Map, unowned: Unowned<'_>) {
        for (key, value) in sorted(Some(map)) {
            self.added_field(key, schema.of_values(), value, unowned);
        }
    }

    /// Each item of a set or an associative list is owned, with everything in it. Of duplicates the content is ambiguous.
    fn items(&mut self, list: &Field, items: &[Tree]) {
        let mut keyed: SmallVec<[(ItemKey<'_>, &Tree); INLINE_FIELDS]> = items
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
            });
            self.element = element;
            if let [(_, item)] = duplicates {
                self.children(SchemaNode::of_element(list), item, Unowned::default());
            }
            self.close(node, true);
        }
    }

    fn open_field(&mut self, name: &str, is_owned: bool) -> Node {
        self.open(is_owned, |out| {
            out.extend_from_slice(b"\"f:");
            write_escaped(name, out);
            out.push(b'"');
        })
    }

    /// Opens the node of a path element, and writes its own path if that is owned.
    fn open(&mut self, is_owned: bool, element: impl FnOnce(&mut Vec<u8>)) -> Node {
        let start = self.out.len();
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
        element(&mut self.out);
        self.out.extend_from_slice(b":{");
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

/// The members of a struct that its canonical JSON has, sorted by name. The last of duplicate keys counts.
fn members<'a>(shape: &'a Shape, map: &'a Map) -> SmallVec<[(&'a Field, &'a Tree); INLINE_FIELDS]> {
    let members = shape.members();
    let mut found: SmallVec<[(u16, usize, &Tree); INLINE_FIELDS]> = SmallVec::new();
    let mut next = 0;
    for (key, value) in map.iter() {
        if let Some(at) = shape.position(key, next) {
            found.push((shape.rank_by_name(at), at, value));
            next = at + 1;
        }
    }
    if !shape.literal {
        for at in shape.always_written() {
            if !found.iter().any(|(_, other, _)| *other == at) {
                found.push((shape.rank_by_name(at), at, &Tree::Null));
            }
        }
    }
    found.sort_by_key(|(rank, ..)| *rank);
    found.dedup_by(|later, earlier| {
        let again = later.0 == earlier.0;
        if again {
            earlier.2 = later.2;
        }
        again
    });
    let values = found.into_iter().filter_map(|(_, at, value)| {
        let field = &members[at];
        let value = match shape.literal {
            true => Some(value),
            false => canonical_value(field, Some(value)),
        };
        Some((field, value?))
    });
    values.collect()
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
