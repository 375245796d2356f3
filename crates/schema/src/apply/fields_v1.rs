//! A field set in JSON: the `fieldsV1` of a managed fields entry.
//!
//! Each path element is a key, and the set below it its value. `{}` is a path that is in the set with nothing below; a path that
//! is in the set with something below has the key `.` first.

use super::field_set::{FieldSet, FieldSetNode};
use super::path_element::{InvalidPathElement, PathElement};
use crate::tree::{Map, Tree};

const SELF: &str = ".";

impl FieldSet {
    /// The set as `fieldsV1`, its keys in canonical order.
    pub fn to_fields_v1(&self) -> Tree {
        write_children(self, Map::with_capacity(self.len()))
    }

    /// Parses `fieldsV1`. Anything but a map is an empty set.
    pub fn from_fields_v1(fields: &Tree) -> Result<FieldSet, InvalidPathElement> {
        read(fields).map(|node| node.children)
    }
}

fn write(node: &FieldSetNode) -> Tree {
    if node.children.is_empty() {
        return Map::default().into();
    }
    let mut map = Map::with_capacity(usize::from(node.member) + node.children.len());
    if node.member {
        map.push(SELF, Map::default());
    }
    write_children(&node.children, map)
}

fn write_children(set: &FieldSet, mut map: Map) -> Tree {
    for (element, node) in set.iter() {
        map.push(element.to_text(), write(node));
    }
    map.into()
}

fn read(fields: &Tree) -> Result<FieldSetNode, InvalidPathElement> {
    let Some(map) = fields.as_map() else {
        return Ok(FieldSetNode::leaf());
    };
    let (mut children, mut has_self) = (FieldSet::default(), false);
    for (key, below) in map.iter() {
        if key == SELF {
            has_self = true;
        } else if let Some(element) = PathElement::from_text(key)? {
            children.push(element, read(below)?);
        }
    }
    let mut node = FieldSetNode::of(children);
    node.member = has_self || node.children.is_empty();
    Ok(node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::write_tree;

    #[track_caller]
    fn check(input: &str, written: &str, paths: &[&str]) {
        let tree = serde_json::from_str(input).unwrap();
        let set = FieldSet::from_fields_v1(&tree).unwrap();
        let mut out = Vec::new();
        write_tree(&set.to_fields_v1(), &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), written);
        assert_eq!(set.paths(), paths);
    }

    #[test]
    fn an_empty_map_is_the_path_itself() {
        check(
            r#"{"f:data":{"f:a":{}}}"#,
            r#"{"f:data":{"f:a":{}}}"#,
            &[".data.a"],
        );
        check("{}", "{}", &[]);
        check(r#"{"f:data":{".":{}}}"#, r#"{"f:data":{}}"#, &[".data"]);
    }

    #[test]
    fn the_path_itself_comes_before_what_is_below_and_numbers_are_in_order() {
        let input = r#"{"f:l":{"k:{\"n\":10}":{"f:n":{},".":{}},"k:{\"n\":9}":{}},"f:a":{}}"#;
        let written = r#"{"f:a":{},"f:l":{"k:{\"n\":9}":{},"k:{\"n\":10}":{".":{},"f:n":{}}}}"#;
        check(input, written, &[".a", ".l[n=9]", ".l[n=10]", ".l[n=10].n"]);
    }

    #[test]
    fn unknown_path_elements_are_skipped() {
        check(r#"{"f:a":{},"z:b":{}}"#, r#"{"f:a":{}}"#, &[".a"]);
    }
}
