//! JSON Pointers (RFC 6901) and the locations they refer to.
//!
//! Like in the reference server, a pointer is parsed from its first slash on, and array indexes may be negative: they
//! count from the end.

use std::borrow::Cow;

use super::error::Error;
use crate::tree::{Map, Tree};

/// The container that a pointer refers into, and the key or index in it.
pub(super) struct Location<'t, 'p> {
    pub(super) container: Container<'t>,
    pub(super) key: Cow<'p, str>,
}

pub(super) enum Container<'t> {
    Map(&'t mut Map),
    List(&'t mut Vec<Tree>),
}

/// The location of a pointer, if every node on its path is a map or a list. The location itself may be absent.
pub(super) fn find<'t, 'p>(tree: &'t mut Tree, pointer: &'p str) -> Option<Location<'t, 'p>> {
    let (steps, key) = split(pointer)?;
    let mut node = tree;
    for step in steps {
        node = child(node, &step)?;
    }
    let container = match node {
        Tree::Map(map) => Container::Map(map),
        Tree::List(items) => Container::List(items),
        _ => return None,
    };
    Some(Location { container, key })
}

/// Visits every map on the path of a pointer, as far as the path exists.
pub(super) fn walk(tree: &mut Tree, pointer: &str, mut visit: impl FnMut(&mut Map)) {
    let Some((steps, _)) = split(pointer) else { return };
    let mut node = Some(tree);
    for step in steps.map(Some).chain([None]) {
        let Some(here) = node else { return };
        if let Tree::Map(map) = here {
            visit(map);
        }
        node = step.and_then(|step| child(here, &step));
    }
}

/// The value at a pointer, if there is one.
pub(super) fn find_value<'t>(tree: &'t mut Tree, pointer: &str) -> Option<&'t mut Tree> {
    let (steps, key) = split(pointer)?;
    steps.chain([key]).try_fold(tree, |node, step| child(node, &step))
}

fn split(pointer: &str) -> Option<(impl Iterator<Item = Cow<'_, str>>, Cow<'_, str>)> {
    let (_, steps) = pointer.split_once('/')?;
    let (way, key) = match steps.rsplit_once('/') {
        Some((way, key)) => (Some(way), key),
        None => (None, steps),
    };
    Some((
        way.into_iter().flat_map(|way| way.split('/')).map(unescape),
        unescape(key),
    ))
}

fn child<'t>(node: &'t mut Tree, step: &str) -> Option<&'t mut Tree> {
    match node {
        Tree::Map(map) => map.get_mut(step),
        Tree::List(items) => {
            let at = index(step, items.len()).ok()?;
            items.get_mut(at)
        }
        _ => None,
    }
}

/// `~1` stands for a slash and `~0` for a tilde; other tildes stand for themselves.
fn unescape(step: &str) -> Cow<'_, str> {
    if !step.contains('~') {
        return step.into();
    }
    // The order matters: `~01` is the escaped form of `~1`, so slashes come first.
    step.replace("~1", "/").replace("~0", "~").into()
}

/// Parses an index into a list of `length` items. Negative numbers count from the end.
pub(super) fn index(text: &str, length: usize) -> Result<usize, Error> {
    let not_a_number = || Error::inapplicable(format!("strconv.Atoi: parsing {text:?}: invalid syntax"));
    let number: i64 = text.parse().map_err(|_| not_a_number())?;
    let length = length as i64;
    match number {
        _ if number >= length || number < -length => Err(Error::inapplicable(format!(
            "Unable to access invalid index: {number}: invalid index referenced"
        ))),
        0.. => Ok(number as usize),
        _ => Ok((number + length) as usize),
    }
}

// === impl Container ===

impl Container<'_> {
    /// The value at a key. An absent key of a map is `None`; an index beyond the list is an error.
    pub(super) fn value(&self, key: &str) -> Result<Option<&Tree>, Error> {
        let value = match self {
            Container::Map(map) => map.get(key),
            Container::List(items) => Some(&items[index(key, items.len())?]),
        };
        Ok(value.filter(|value| !value.is_null()))
    }

    /// Sets a key, or inserts before an index; `-` is the end of the list.
    pub(super) fn add(&mut self, key: &str, value: Tree) -> Result<(), Error> {
        match self {
            Container::Map(map) => drop(map.insert(key, value)),
            Container::List(items) if key == "-" => items.push(value),
            Container::List(items) => items.insert(index(key, items.len() + 1)?, value),
        }
        Ok(())
    }

    /// Sets a key, present or not, or an index, which must exist.
    pub(super) fn replace(&mut self, key: &str, value: Tree) -> Result<(), Error> {
        match self {
            Container::Map(map) => drop(map.insert(key, value)),
            Container::List(items) => {
                let at = index(key, items.len())?;
                items[at] = value;
            }
        }
        Ok(())
    }

    /// Removes a key or an index, which must exist, and returns its value.
    pub(super) fn remove(&mut self, key: &str) -> Result<Tree, Error> {
        match self {
            Container::Map(map) => map.remove(key).ok_or_else(|| {
                Error::inapplicable(format!("Unable to remove nonexistent key: {key}: missing value"))
            }),
            Container::List(items) => Ok(items.remove(index(key, items.len())?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(step: &str, name: &str) {
        assert_eq!(unescape(step), name);
    }

    #[test]
    fn escapes_are_undone_once() {
        check("a~1b", "a/b");
        check("a~0b", "a~b");
        check("~01", "~1");
        check("~2~", "~2~");
    }

    #[track_caller]
    fn check_index(text: &str, length: usize, at: Option<usize>) {
        assert_eq!(index(text, length).ok(), at);
    }

    #[test]
    fn an_index_counts_from_either_end() {
        check_index("0", 2, Some(0));
        check_index("1", 2, Some(1));
        check_index("2", 2, None);
        check_index("-1", 2, Some(1));
        check_index("-2", 2, Some(0));
        check_index("-3", 2, None);
        check_index("x", 2, None);
        check_index("", 2, None);
        check_index("99999999999999999999", 2, None);
    }
}
