//! JSON Patch (RFC 6902): a list of operations, executed in order until one fails.

use std::collections::HashSet;

use super::copy::copy;
use super::error::Error;
use super::{merge, pointer};
use crate::tree::Tree;
use crate::write::write_tree;

/// A patch with more operations is rejected.
pub const MAX_OPERATIONS: usize = 10_000;

/// The limit for all `copy` operations of a patch together.
pub const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// One operation as it was sent. A missing member is an error only when the operation is executed.
struct Operation<'p> {
    op: Option<&'p str>,
    path: Option<&'p str>,
    from: Option<&'p str>,
    value: Option<&'p Tree>,
}

pub(super) fn apply(tree: &mut Tree, patch: &Tree) -> Result<(), Error> {
    let operations = read(patch)?;
    let mut copied_bytes = 0;
    for operation in &operations {
        operation.execute(tree, &mut copied_bytes)?;
    }
    sort_touched(tree, &operations);
    Ok(())
}

fn read(patch: &Tree) -> Result<Vec<Operation<'_>>, Error> {
    let items = match patch {
        Tree::List(items) => items.as_slice(),
        Tree::Null => &[],
        other => return Err(malformed(other, "Go value of type []handlers.jsonPatchOp")),
    };
    let operations = items.iter().map(Operation::read).collect::<Result<Vec<_>, _>>()?;
    if operations.len() > MAX_OPERATIONS {
        return Err(Error::TooManyOperations {
            max: MAX_OPERATIONS,
            got: operations.len(),
        });
    }
    Ok(operations)
}

fn malformed(value: &Tree, expected: &str) -> Error {
    Error::Malformed(format!(
        "error decoding patch: json: cannot unmarshal {} into {expected}",
        value.type_name()
    ))
}

// === impl Operation ===

impl<'p> Operation<'p> {
    fn read(item: &'p Tree) -> Result<Self, Error> {
        if !matches!(item, Tree::Map(_) | Tree::Null) {
            return Err(malformed(item, "Go value of type handlers.jsonPatchOp"));
        }
        Ok(Operation {
            op: text(item, "op")?,
            path: text(item, "path")?,
            from: text(item, "from")?,
            value: item.get("value"),
        })
    }

    fn execute(&self, tree: &mut Tree, copied_bytes: &mut usize) -> Result<(), Error> {
        match self.op {
            Some("add") => self.add(tree),
            Some("remove") => self.remove(tree),
            Some("replace") => self.replace(tree),
            Some("move") => self.relocate(tree),
            Some("copy") => self.copy(tree, copied_bytes),
            Some("test") => self.test(tree),
            other => Err(Error::inapplicable(format!(
                "Unexpected kind: {}",
                other.unwrap_or("unknown")
            ))),
        }
    }

    fn add(&self, tree: &mut Tree) -> Result<(), Error> {
        add_at(tree, self.path()?, self.value_or_null())
    }

    fn remove(&self, tree: &mut Tree) -> Result<(), Error> {
        let path = self.path()?;
        let missing =
            || format!("remove operation does not apply: doc is missing path: {path:?}: missing value");
        let mut location = pointer::find(tree, path).ok_or_else(|| Error::inapplicable(missing()))?;
        let removed = location.container.remove(&location.key);
        removed.map(drop).map_err(|error| within("remove", path, &error))
    }

    fn replace(&self, tree: &mut Tree) -> Result<(), Error> {
        let path = self.path()?;
        if path.is_empty() {
            return self.replace_all(tree);
        }
        let mut location = locate(
            tree,
            path,
            "replace operation does not apply: doc is missing path",
        )?;
        location.container.replace(&location.key, self.value_or_null())
    }

    fn replace_all(&self, tree: &mut Tree) -> Result<(), Error> {
        match self.value_or_null() {
            value @ (Tree::Map(_) | Tree::List(_)) => *tree = value,
            other => {
                return Err(Error::inapplicable(format!(
                    "a JSON document cannot be a {}",
                    other.type_name()
                )));
            }
        }
        Ok(())
    }

    fn relocate(&self, tree: &mut Tree) -> Result<(), Error> {
        let from = self.from()?;
        let mut location = locate(
            tree,
            from,
            "move operation does not apply: doc is missing from path",
        )?;
        let removed = location.container.remove(&location.key);
        let value = removed.map_err(|error| within("move", &location.key, &error))?;
        let path = self.path()?;
        let missing = "move operation does not apply: doc is missing destination path";
        let mut location = locate(tree, path, missing)?;
        let added = location.container.add(&location.key, value);
        added.map_err(|error| within("move", path, &error))
    }

    /// Copies a value. An absent key of a map is copied as null.
    fn copy(&self, tree: &mut Tree, copied_bytes: &mut usize) -> Result<(), Error> {
        let missing = "copy operation does not apply: doc is missing from path";
        let from = locate(tree, self.from()?, missing)?;
        let value = from.container.value(&from.key)?.cloned().unwrap_or_default();
        *copied_bytes += json_bytes(&value);
        if *copied_bytes > MAX_COPIED_BYTES {
            return Err(Error::inapplicable(format!(
                "copying {copied_bytes} bytes exceeds the limit of {MAX_COPIED_BYTES}"
            )));
        }
        add_at(tree, self.path()?, value)
    }

    fn test(&self, tree: &mut Tree) -> Result<(), Error> {
        let path = self.path()?;
        let holds = match path {
            "" => self.value.is_some_and(|value| equal(tree, value)),
            _ => self.holds(&locate(
                tree,
                path,
                "test operation does not apply: is missing path",
            )?)?,
        };
        match holds {
            true => Ok(()),
            false => Err(Error::TestFailed(path.to_owned())),
        }
    }

    /// Whether the value equals the expected one. An absent key equals null.
    fn holds(&self, location: &pointer::Location<'_, '_>) -> Result<bool, Error> {
        let actual = location.container.value(&location.key)?;
        Ok(match (actual, self.value.filter(|value| !value.is_null())) {
            (None, None) => true,
            (Some(actual), Some(value)) => equal(actual, value),
            _ => false,
        })
    }

    fn path(&self) -> Result<&'p str, Error> {
        self.path
            .ok_or_else(|| Error::inapplicable("operation missing path field: missing value"))
    }

    fn from(&self) -> Result<&'p str, Error> {
        self.from
            .ok_or_else(|| Error::inapplicable("operation, missing from field: missing value"))
    }

    /// The value to be written; an absent one is null.
    fn value_or_null(&self) -> Tree {
        self.value.map(copy).unwrap_or_default()
    }
}

fn text<'p>(item: &'p Tree, name: &str) -> Result<Option<&'p str>, Error> {
    match item.get(name) {
        None | Some(Tree::Null) => Ok(None),
        Some(Tree::Str(text)) => Ok(Some(text)),
        Some(other) => Err(malformed(
            other,
            &format!("Go struct field jsonPatchOp.{name} of type string"),
        )),
    }
}

/// The location of a path. `missing` is the message if its parent does not exist.
fn locate<'t, 'p>(
    tree: &'t mut Tree,
    path: &'p str,
    missing: &str,
) -> Result<pointer::Location<'t, 'p>, Error> {
    pointer::find(tree, path).ok_or_else(|| Error::inapplicable(format!("{missing}: {path}: missing value")))
}

fn add_at(tree: &mut Tree, path: &str, value: Tree) -> Result<(), Error> {
    let missing = || format!("add operation does not apply: doc is missing path: {path:?}: missing value");
    let mut location = pointer::find(tree, path).ok_or_else(|| Error::inapplicable(missing()))?;
    let added = location.container.add(&location.key, value);
    added.map_err(|error| within("add", path, &error))
}

/// An error of the location that an operation changes.
fn within(operation: &str, path: &str, error: &Error) -> Error {
    Error::inapplicable(format!("error in {operation} for path: '{path}': {error}"))
}

fn json_bytes(value: &Tree) -> usize {
    let mut bytes = Vec::new();
    write_tree(value, &mut bytes);
    bytes.len()
}

/// Equality regardless of the order of keys. An integer does not equal a float, and null does not equal absent.
fn equal(left: &Tree, right: &Tree) -> bool {
    match (left, right) {
        (Tree::Map(left), Tree::Map(right)) => {
            let (left, right) = (merge::sorted_pairs(left), merge::sorted_pairs(right));
            let same =
                |(left, right): (&(&str, &Tree), &(&str, &Tree))| left.0 == right.0 && equal(left.1, right.1);
            left.len() == right.len() && left.iter().zip(&right).all(same)
        }
        (Tree::List(left), Tree::List(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| equal(left, right))
        }
        _ => left == right,
    }
}

/// Sorts the maps on the paths of the operations.
fn sort_touched(tree: &mut Tree, operations: &[Operation<'_>]) {
    if let Tree::Map(map) = tree {
        merge::sort(map);
    }
    let mut seen = HashSet::new();
    for path in operations
        .iter()
        .flat_map(|operation| [operation.path, operation.from])
        .flatten()
    {
        if seen.insert(pointer::container_pointer(path)) {
            pointer::walk(tree, path, merge::sort);
        }
    }
}

#[cfg(test)]
mod tests;
