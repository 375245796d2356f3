//! Strict decoding errors of the patch itself, before it is applied: duplicate keys, and unknown members of JSON Patch
//! operations. Unknown fields of the object are reported later, when the patched object is pruned.

use std::collections::HashSet;

use crate::tree::{Map, Tree};

/// At most this many errors are reported.
const MAX_ERRORS: usize = 100;

/// The members of an operation.
const MEMBERS: [&str; 4] = ["op", "path", "from", "value"];

/// The strict errors of a merge patch or a strategic merge patch, in input order.
pub fn merge_strict_errors(patch: &Tree) -> Vec<String> {
    let mut errors = Vec::new();
    duplicates(patch, &mut String::new(), &mut |path| {
        push_unique(&mut errors, || format!("duplicate field \"{path}\""))
    });
    errors
}

/// The strict errors of a JSON Patch, in input order.
pub fn json_strict_errors(patch: &Tree) -> Vec<String> {
    let mut errors = Vec::new();
    for (at, operation) in patch.as_list().unwrap_or_default().iter().enumerate() {
        let Some(map) = operation.as_map() else { continue };
        for (key, again) in keys_with_duplicates(map) {
            let path = format!("[{at}].{key}");
            if !MEMBERS.contains(&key) {
                push_unique(&mut errors, || format!("json patch unknown field \"{path}\""));
            } else if again {
                push_unique(&mut errors, || format!("json patch duplicate field \"{path}\""));
            }
        }
    }
    errors
}

fn push_unique(errors: &mut Vec<String>, error: impl FnOnce() -> String) {
    if errors.len() >= MAX_ERRORS {
        return;
    }
    let error = error();
    if !errors.contains(&error) {
        errors.push(error);
    }
}

/// Visits the value at a path, which is the same again when this returns. It is not copied for each value, since a key
/// may be as long as the patch.
fn duplicates(value: &Tree, path: &mut String, found: &mut impl FnMut(&str)) {
    let length = path.len();
    match value {
        Tree::Map(map) => {
            for ((key, again), value) in keys_with_duplicates(map).into_iter().zip(map.values()) {
                if length > 0 {
                    path.push('.');
                }
                path.push_str(key);
                if again {
                    found(path);
                }
                duplicates(value, path, found);
                path.truncate(length);
            }
        }
        Tree::List(items) => {
            for (at, item) in items.iter().enumerate() {
                path.push_str(&format!("[{at}]"));
                duplicates(item, path, found);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

/// Each key of a map, and whether it is a duplicate.
fn keys_with_duplicates(map: &Map) -> Vec<(&str, bool)> {
    let mut seen = HashSet::with_capacity(map.len());
    map.keys().map(|key| (key, !seen.insert(key))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: Vec<(&str, Tree)>) -> Tree {
        let mut map = Map::default();
        pairs.into_iter().for_each(|(key, value)| map.push(key, value));
        map.into()
    }

    #[track_caller]
    fn check(errors: Vec<String>, expected: &[&str]) {
        assert_eq!(errors, expected);
    }

    #[test]
    fn a_duplicate_key_is_reported_once_with_its_path() {
        let inner = || map(vec![("a", 1.into()), ("a", 2.into()), ("a", 3.into())]);
        check(
            merge_strict_errors(&map(vec![("data", inner())])),
            &["duplicate field \"data.a\""],
        );
        check(
            merge_strict_errors(&map(vec![("l", vec![Tree::Null, inner()].into())])),
            &["duplicate field \"l[1].a\""],
        );
        check(
            merge_strict_errors(&map(vec![("data", map(vec![])), ("data", map(vec![]))])),
            &["duplicate field \"data\""],
        );
    }

    #[test]
    fn an_operation_has_four_members() {
        let operation = map(vec![
            ("op", "add".into()),
            ("op", "add".into()),
            ("foo", 1.into()),
            ("value", inner_map()),
        ]);
        let expected = [
            "json patch duplicate field \"[1].op\"",
            "json patch unknown field \"[1].foo\"",
        ];
        check(
            json_strict_errors(&vec![map(vec![]), operation].into()),
            &expected,
        );
    }

    fn inner_map() -> Tree {
        map(vec![("foo", 1.into()), ("foo", 2.into())])
    }
}
