//! JSON Patch (RFC 6902): a list of operations, executed in order until one fails.

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
    sort_map(tree);
    for operation in &operations {
        operation.sort_path(tree, operation.from);
        if operation.op == Some("copy") {
            operation.sort_path(tree, operation.path);
        }
        operation.execute(tree, &mut copied_bytes)?;
        operation.sort_path(tree, operation.path);
    }
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

    /// Sorts the maps on the path: the reference server decodes them, and encodes them with sorted keys from then on. A
    /// value that was compared by a test is decoded as a whole.
    fn sort_path(&self, tree: &mut Tree, path: Option<&str>) {
        let Some(path) = path else { return };
        pointer::walk(tree, path, merge::sort);
        if self.op == Some("test")
            && let Some(value) = pointer::find_value(tree, path)
        {
            sort_all(value);
        }
    }

    fn add(&self, tree: &mut Tree) -> Result<(), Error> {
        let path = self
            .path
            .ok_or_else(|| missing("add operation failed to decode path"))?;
        let absent = || {
            missing(&format!(
                "add operation does not apply: doc is missing path: \"{path}\""
            ))
        };
        let mut location = pointer::find(tree, path).ok_or_else(absent)?;
        let added = location.container.add(&location.key, self.value_or_null());
        added.map_err(|error| error.within(&format!("error in add for path: '{path}'")))
    }

    fn remove(&self, tree: &mut Tree) -> Result<(), Error> {
        let path = self
            .path
            .ok_or_else(|| missing("remove operation failed to decode path"))?;
        let absent = || {
            missing(&format!(
                "remove operation does not apply: doc is missing path: \"{path}\""
            ))
        };
        let mut location = pointer::find(tree, path).ok_or_else(absent)?;
        let removed = location.container.remove(&location.key);
        removed
            .map(drop)
            .map_err(|error| error.within(&format!("error in remove for path: '{path}'")))
    }

    fn replace(&self, tree: &mut Tree) -> Result<(), Error> {
        let path = self.path("replace")?;
        if path.is_empty() {
            return self.replace_all(tree);
        }
        let absent = |what: &str| {
            missing(&format!(
                "replace operation does not apply: doc is missing {what}: {path}"
            ))
        };
        let mut location = pointer::find(tree, path).ok_or_else(|| absent("path"))?;
        let replaced = location.container.replace(&location.key, self.value_or_null());
        replaced.map_err(|_| absent("key"))
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
        let from = self.from("move")?;
        let absent = || {
            missing(&format!(
                "move operation does not apply: doc is missing from path: {from}"
            ))
        };
        let mut location = pointer::find(tree, from).ok_or_else(absent)?;
        let value = location.container.remove(&location.key);
        let within = |error: Error| error.within(&format!("error in move for path: '{}'", location.key));
        let value = value.map_err(within)?;
        let path = self.path("move")?;
        let absent = || {
            missing(&format!(
                "move operation does not apply: doc is missing destination path: {path}"
            ))
        };
        let mut location = pointer::find(tree, path).ok_or_else(absent)?;
        let added = location.container.add(&location.key, value);
        added.map_err(|error| error.within(&format!("error in move for path: '{path}'")))
    }

    /// Copies a value. An absent key of a map is copied as null.
    fn copy(&self, tree: &mut Tree, copied_bytes: &mut usize) -> Result<(), Error> {
        let from = self.from("copy")?;
        let absent = || {
            missing(&format!(
                "copy operation does not apply: doc is missing from path: {from}"
            ))
        };
        let location = pointer::find(tree, from).ok_or_else(absent)?;
        let value = location.container.value(&location.key);
        let value = value.map_err(|error| error.within(&format!("error in copy for from: '{from}'")))?;
        let value = value.cloned().unwrap_or_default();
        *copied_bytes += json_bytes(&value);
        if *copied_bytes > MAX_COPIED_BYTES {
            return Err(Error::inapplicable(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {copied_bytes}, exceeding the limit {MAX_COPIED_BYTES}"
            )));
        }
        let path = self
            .path
            .ok_or_else(|| missing("copy operation failed to decode path"))?;
        let absent = || {
            missing(&format!(
                "copy operation does not apply: doc is missing destination path: {path}"
            ))
        };
        let mut location = pointer::find(tree, path).ok_or_else(absent)?;
        let added = location.container.add(&location.key, value);
        added.map_err(|error| error.within("error while adding value during copy"))
    }

    fn test(&self, tree: &mut Tree) -> Result<(), Error> {
        let path = self.path("test")?;
        let absent = || missing(&format!("test operation does not apply: is missing path: {path}"));
        let holds = match path {
            "" => self.value.is_some_and(|value| equal(tree, value)),
            _ => {
                let location = pointer::find(tree, path).ok_or_else(absent)?;
                let holds = self.holds(&location);
                holds.map_err(|error| error.within(&format!("error in test for path: '{path}'")))?
            }
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

    fn path(&self, operation: &str) -> Result<&'p str, Error> {
        let absent = || {
            missing(&format!(
                "{operation} operation failed to decode path: operation missing path field"
            ))
        };
        self.path.ok_or_else(absent)
    }

    fn from(&self, operation: &str) -> Result<&'p str, Error> {
        let absent = || {
            missing(&format!(
                "{operation} operation failed to decode from: operation, missing from field"
            ))
        };
        self.from.ok_or_else(absent)
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

fn missing(what: &str) -> Error {
    Error::inapplicable(format!("{what}: missing value"))
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

fn sort_map(tree: &mut Tree) {
    if let Tree::Map(map) = tree {
        merge::sort(map);
    }
}

/// Sorts a value's maps at every depth.
fn sort_all(tree: &mut Tree) {
    sort_map(tree);
    match tree {
        Tree::Map(map) => map.iter_mut().for_each(|(_, value)| sort_all(value)),
        Tree::List(items) => items.iter_mut().for_each(sort_all),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
