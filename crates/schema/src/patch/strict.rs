//! What a strict reader finds wrong with a patch itself, before it is applied: keys given twice, and members of JSON
//! patch operations that nobody knows. Unknown fields of the object show later, when the patched document is pruned.

use std::collections::HashSet;

use crate::tree::{Map, Tree};

/// At most this many problems are named.
const MOST_PROBLEMS: usize = 100;

/// The members of an operation.
const MEMBERS: [&str; 4] = ["op", "path", "from", "value"];

/// The problems of a merge patch or a strategic merge patch, in document order.
pub fn merge_problems(patch: &Tree) -> Vec<String> {
    let mut problems = Vec::new();
    duplicates(patch, "", &mut |path| {
        note(&mut problems, format!("duplicate field \"{path}\""))
    });
    problems
}

/// The problems of a JSON patch, in document order.
pub fn json_problems(patch: &Tree) -> Vec<String> {
    let mut problems = Vec::new();
    for (at, operation) in patch.as_list().unwrap_or_default().iter().enumerate() {
        let Some(map) = operation.as_map() else { continue };
        for (key, again) in seen_before(map) {
            let path = format!("[{at}].{key}");
            if !MEMBERS.contains(&key) {
                note(&mut problems, format!("json patch unknown field \"{path}\""));
            } else if again {
                note(&mut problems, format!("json patch duplicate field \"{path}\""));
            }
        }
    }
    problems
}

fn note(problems: &mut Vec<String>, problem: String) {
    if problems.len() < MOST_PROBLEMS && !problems.contains(&problem) {
        problems.push(problem);
    }
}

fn duplicates(value: &Tree, path: &str, found: &mut impl FnMut(&str)) {
    match value {
        Tree::Map(map) => {
            for ((key, again), value) in seen_before(map).into_iter().zip(map.values()) {
                let path = if path.is_empty() {
                    key.to_owned()
                } else {
                    format!("{path}.{key}")
                };
                if again {
                    found(&path);
                }
                duplicates(value, &path, found);
            }
        }
        Tree::List(items) => {
            for (at, item) in items.iter().enumerate() {
                duplicates(item, &format!("{path}[{at}]"), found);
            }
        }
        _ => {}
    }
}

/// Each key of a map, and whether it came before.
fn seen_before(map: &Map) -> Vec<(&str, bool)> {
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
    fn check(problems: Vec<String>, expected: &[&str]) {
        assert_eq!(problems, expected);
    }

    #[test]
    fn a_key_given_twice_is_named_once_with_its_path() {
        let inner = || map(vec![("a", 1.into()), ("a", 2.into()), ("a", 3.into())]);
        check(
            merge_problems(&map(vec![("data", inner())])),
            &["duplicate field \"data.a\""],
        );
        check(
            merge_problems(&map(vec![("l", vec![Tree::Null, inner()].into())])),
            &["duplicate field \"l[1].a\""],
        );
        check(
            merge_problems(&map(vec![("data", map(vec![])), ("data", map(vec![]))])),
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
        check(json_problems(&vec![map(vec![]), operation].into()), &expected);
    }

    fn inner_map() -> Tree {
        map(vec![("foo", 1.into()), ("foo", 2.into())])
    }
}
