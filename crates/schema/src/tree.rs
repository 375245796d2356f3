//! The tree of a parsed object, with its keys in input order.
//!
//! A node takes 32 bytes. Short strings and keys live inside the node, so a typical object costs one allocation per
//! list or map. Whole numbers stay whole: an integer that fits `i64` is an [`Tree::Int`], everything else that is a
//! number is a [`Tree::Float`].

mod de;
mod equal;
mod hash;
mod key;
mod map;
mod ser;

pub use de::from_tree;
pub use key::Key;
pub use map::Map;
pub use ser::to_tree;

use compact_str::CompactString;

/// One node of a parsed object.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Tree {
    /// No value. In a Kubernetes object this means the same as an absent key.
    #[default]
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(CompactString),
    List(Vec<Tree>),
    Map(Map),
}

/// Why a tree could not be deserialized into a typed value, or a typed value serialized into a tree.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

impl Tree {
    /// The node at a path of map keys, if every key on it is present.
    pub fn at(&self, path: &[&str]) -> Option<&Tree> {
        path.iter().try_fold(self, |node, key| node.get(key))
    }

    /// The node at a path of map keys, to be changed in place.
    pub fn at_mut(&mut self, path: &[&str]) -> Option<&mut Tree> {
        path.iter().try_fold(self, |node, key| node.get_mut(key))
    }

    /// The string at a path; absent, null and other types are all `None`.
    pub fn str_at(&self, path: &[&str]) -> Option<&str> {
        self.at(path)?.as_str()
    }

    /// Sets the value at a path. A node on the path that is absent or not a map becomes a map.
    pub fn set(&mut self, path: &[&str], value: impl Into<Tree>) {
        let mut node = self;
        for key in path {
            node = node.map_or_default().entry(key);
        }
        *node = value.into();
    }

    /// Takes the value at a path out of the tree.
    pub fn take(&mut self, path: &[&str]) -> Option<Tree> {
        let (last, parents) = path.split_last()?;
        self.at_mut(parents)?.as_map_mut()?.remove(last)
    }

    /// The value of a key, if this is a map that has it.
    pub fn get(&self, key: &str) -> Option<&Tree> {
        self.as_map()?.get(key)
    }

    /// The value of a key, to be changed in place.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Tree> {
        self.as_map_mut()?.get_mut(key)
    }

    pub fn as_str(&self) -> Option<&str> {
        if let Tree::Str(text) = self {
            Some(text)
        } else {
            None
        }
    }

    pub fn as_i64(&self) -> Option<i64> {
        if let Tree::Int(number) = self {
            Some(*number)
        } else {
            None
        }
    }

    pub fn as_bool(&self) -> Option<bool> {
        if let Tree::Bool(value) = self {
            Some(*value)
        } else {
            None
        }
    }

    pub fn as_list(&self) -> Option<&[Tree]> {
        if let Tree::List(items) = self {
            Some(items)
        } else {
            None
        }
    }

    pub fn as_list_mut(&mut self) -> Option<&mut Vec<Tree>> {
        if let Tree::List(items) = self {
            Some(items)
        } else {
            None
        }
    }

    pub fn as_map(&self) -> Option<&Map> {
        if let Tree::Map(map) = self {
            Some(map)
        } else {
            None
        }
    }

    pub fn as_map_mut(&mut self) -> Option<&mut Map> {
        if let Tree::Map(map) = self {
            Some(map)
        } else {
            None
        }
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Tree::Null)
    }

    /// The map in this node; any other value is replaced by an empty map.
    pub fn map_or_default(&mut self) -> &mut Map {
        if !matches!(self, Tree::Map(_)) {
            *self = Tree::Map(Map::default());
        }
        self.as_map_mut().expect("the node was just made a map")
    }

    /// Sets a key unless it already has a value. Null counts as absent.
    pub fn set_default(&mut self, key: &str, value: impl Into<Tree>) {
        let node = self.map_or_default().entry(key);
        if node.is_null() {
            *node = value.into();
        }
    }

    /// The map under a key; an absent or other value is replaced by an empty map.
    pub fn child(&mut self, key: &str) -> &mut Tree {
        let node = self.map_or_default().entry(key);
        node.map_or_default();
        node
    }

    /// The value of a present key, to be changed in place. Null counts as absent.
    pub fn find_mut(&mut self, key: &str) -> Option<&mut Tree> {
        self.get_mut(key).filter(|node| !node.is_null())
    }

    /// The items of the list under a key, to be changed in place.
    pub fn items_mut(&mut self, key: &str) -> impl Iterator<Item = &mut Tree> {
        self.get_mut(key)
            .and_then(Tree::as_list_mut)
            .into_iter()
            .flatten()
    }

    /// The items of the list under a key.
    pub fn items(&self, key: &str) -> &[Tree] {
        self.get(key).and_then(Tree::as_list).unwrap_or_default()
    }

    /// The JSON type name of this node, as error messages use it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Tree::Null => "null",
            Tree::Bool(_) => "bool",
            Tree::Int(_) | Tree::Float(_) => "number",
            Tree::Str(_) => "string",
            Tree::List(_) => "array",
            Tree::Map(_) => "object",
        }
    }
}

// === impl From for Tree ===

impl From<bool> for Tree {
    fn from(value: bool) -> Self {
        Tree::Bool(value)
    }
}

impl From<i64> for Tree {
    fn from(number: i64) -> Self {
        Tree::Int(number)
    }
}

impl From<i32> for Tree {
    fn from(number: i32) -> Self {
        Tree::Int(number.into())
    }
}

impl From<f64> for Tree {
    fn from(number: f64) -> Self {
        Tree::Float(number)
    }
}

impl From<&str> for Tree {
    fn from(text: &str) -> Self {
        Tree::Str(text.into())
    }
}

impl From<String> for Tree {
    fn from(text: String) -> Self {
        Tree::Str(text.into())
    }
}

impl From<CompactString> for Tree {
    fn from(text: CompactString) -> Self {
        Tree::Str(text)
    }
}

impl From<Vec<Tree>> for Tree {
    fn from(items: Vec<Tree>) -> Self {
        Tree::List(items)
    }
}

impl From<Map> for Tree {
    fn from(map: Map) -> Self {
        Tree::Map(map)
    }
}

#[cfg(test)]
pub(crate) mod tests;
