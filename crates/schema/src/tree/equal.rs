//! Semantic equality of trees.

use compact_str::CompactString;

use super::{Map, Tree};

impl Tree {
    /// Semantic equality: null equals absent, and the order of keys does not matter.
    pub fn semantic_eq(&self, other: &Tree) -> bool {
        match (self, other) {
            (Tree::Map(left), Tree::Map(right)) => maps_semantic_eq(left, right),
            (Tree::List(left), Tree::List(right)) => {
                left.len() == right.len()
                    && left
                        .iter()
                        .zip(right)
                        .all(|(left, right)| left.semantic_eq(right))
            }
            (Tree::Int(left), Tree::Float(right)) | (Tree::Float(right), Tree::Int(left)) => {
                *left as f64 == *right
            }
            _ => self == other,
        }
    }

    /// Equality of all values, in which only the order of keys does not matter: null differs from absent, and an integer
    /// from a float.
    pub fn unordered_eq(&self, other: &Tree) -> bool {
        match (self, other) {
            (Tree::Map(left), Tree::Map(right)) => {
                let mut pairs = left.iter();
                left.len() == right.len()
                    && pairs.all(|(key, value)| right.get(key).is_some_and(|other| value.unordered_eq(other)))
            }
            (Tree::List(left), Tree::List(right)) => {
                let mut pairs = left.iter().zip(right);
                left.len() == right.len() && pairs.all(|(left, right)| left.unordered_eq(right))
            }
            _ => self == other,
        }
    }

    /// The same value with the keys of every map in order.
    pub fn sorted(&self) -> Tree {
        match self {
            Tree::Map(map) => {
                let pairs = map.pairs().iter();
                let mut pairs: Vec<_> = pairs
                    .map(|(key, value)| (CompactString::from(key.as_str()), value.sorted()))
                    .collect();
                pairs.sort_by(|left, right| left.0.cmp(&right.0));
                pairs.into_iter().collect::<Map>().into()
            }
            Tree::List(items) => Tree::List(items.iter().map(Tree::sorted).collect()),
            scalar => scalar.clone(),
        }
    }
}

fn maps_semantic_eq(left: &Map, right: &Map) -> bool {
    covers(left, right)
        && right
            .iter()
            .all(|(key, value)| value.is_null() || present(left, key).is_some())
}

fn covers(left: &Map, right: &Map) -> bool {
    left.keys()
        .all(|key| match (present(left, key), present(right, key)) {
            (None, None) => true,
            (Some(left), Some(right)) => left.semantic_eq(right),
            _ => false,
        })
}

fn present<'a>(map: &'a Map, key: &str) -> Option<&'a Tree> {
    map.get(key).filter(|value| !value.is_null())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(left: &[(&str, Tree)], right: &[(&str, Tree)], semantic: bool, json: bool) {
        let map = |pairs: &[(&str, Tree)]| {
            let pairs = pairs
                .iter()
                .map(|(key, value)| (compact_str::CompactString::from(*key), value.clone()));
            Tree::from(pairs.collect::<Map>())
        };
        let (left, right) = (map(left), map(right));
        assert_eq!(
            (left.semantic_eq(&right), left.unordered_eq(&right)),
            (semantic, json)
        );
    }

    #[test]
    fn null_is_absent_for_a_type_and_a_value_in_json() {
        let (a, b) = (("a", Tree::Int(1)), ("b", Tree::Null));
        check(&[a.clone(), b.clone()], &[b.clone(), a.clone()], true, true);
        check(&[a.clone(), b.clone()], std::slice::from_ref(&a), true, false);
        check(&[a], &[("a", Tree::Int(2))], false, false);
    }
}
