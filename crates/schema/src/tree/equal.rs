//! When two documents mean the same, though they are written differently.

use super::{Map, Tree};

impl Tree {
    /// Whether two documents mean the same: null is absent, and the order of keys says nothing.
    pub fn means_same(&self, other: &Tree) -> bool {
        match (self, other) {
            (Tree::Map(left), Tree::Map(right)) => maps_mean_same(left, right),
            (Tree::List(left), Tree::List(right)) => {
                left.len() == right.len()
                    && left.iter().zip(right).all(|(left, right)| left.means_same(right))
            }
            (Tree::Int(left), Tree::Float(right)) | (Tree::Float(right), Tree::Int(left)) => {
                *left as f64 == *right
            }
            _ => self == other,
        }
    }

    /// The same value with the keys of every map in order.
    pub fn sorted(&self) -> Tree {
        match self {
            Tree::Map(map) => {
                let pairs = map.pairs().iter();
                let mut pairs: Vec<_> = pairs.map(|(key, value)| (key.clone(), value.sorted())).collect();
                pairs.sort_by(|left, right| left.0.cmp(&right.0));
                pairs.into_iter().collect::<Map>().into()
            }
            Tree::List(items) => Tree::List(items.iter().map(Tree::sorted).collect()),
            scalar => scalar.clone(),
        }
    }
}

fn maps_mean_same(left: &Map, right: &Map) -> bool {
    covers(left, right)
        && right
            .iter()
            .all(|(key, value)| value.is_null() || present(left, key).is_some())
}

fn covers(left: &Map, right: &Map) -> bool {
    left.keys()
        .all(|key| match (present(left, key), present(right, key)) {
            (None, None) => true,
            (Some(left), Some(right)) => left.means_same(right),
            _ => false,
        })
}

fn present<'a>(map: &'a Map, key: &str) -> Option<&'a Tree> {
    map.get(key).filter(|value| !value.is_null())
}
