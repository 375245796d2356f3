//! The versions of a custom kind: what becomes of a document between them.
//!
//! Without a converter versions differ in their schemas only. A document that changes its version keeps what the new
//! one knows.

use std::borrow::Cow;
use std::cmp::Reverse;

use compact_str::CompactString;

use setpoint_schema::Tree;
use setpoint_schema::custom::Schema;

use super::lazy::Lazy;

/// The schemas of all versions.
#[derive(Debug)]
pub(super) struct Versions {
    /// By the name of the version in documents, such as `example.com/v1`.
    pub(super) schemas: Vec<(CompactString, Lazy)>,
    /// The version that documents at rest are given.
    pub(super) stored: CompactString,
}

impl Versions {
    /// The place of a version that there is.
    pub(super) fn place(&self, version: &str) -> usize {
        let place = self.schemas.iter().position(|(own, _)| own == version);
        place.expect("every version has its schema")
    }

    pub(super) fn at(&self, place: usize) -> &Lazy {
        &self.schemas[place].1
    }

    fn schema(&self, version: &str) -> Option<&Schema> {
        let mut schemas = self.schemas.iter();
        let (_, schema) = schemas.find(|(own, _)| own == version)?;
        Some(&schema.compiled().schema)
    }

    /// Brings what was at rest up to the schema of its version, which may have changed since.
    pub(super) fn wake(&self, tree: &mut Tree) {
        let version = tree.str_at(&["apiVersion"]).unwrap_or_default();
        if let Some(schema) = self.schema(version) {
            schema.prune(tree);
            schema.drop_nulls(tree);
            schema.fill(tree);
        }
    }

    /// Makes a document one of another version.
    pub(super) fn convert(&self, tree: &mut Tree, version: &str, schema: &Schema) {
        if tree.str_at(&["apiVersion"]) == Some(version) {
            return;
        }
        schema.prune(tree);
        schema.drop_nulls(tree);
        tree.set(&["apiVersion"], version);
    }

    /// A document in the version that is stored.
    pub(super) fn at_rest<'a>(&self, tree: &'a Tree) -> Cow<'a, Tree> {
        let is_other = tree.str_at(&["apiVersion"]) != Some(&self.stored);
        let stored = is_other.then(|| self.schema(&self.stored)).flatten();
        match stored {
            None => Cow::Borrowed(tree),
            Some(schema) => {
                let mut tree = tree.clone();
                self.convert(&mut tree, &self.stored, schema);
                Cow::Owned(tree)
            }
        }
    }
}

/// How good a version is by its name: `v2` before `v1` before `v2beta1` before `v1alpha1` before anything else.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    maturity: u8,
    major: u64,
    minor: u64,
    /// Names of no known form, the first in the alphabet best.
    other: Reverse<CompactString>,
}

impl Rank {
    pub fn of(version: &str) -> Self {
        let known = numbered(version).map(|(maturity, major, minor)| Rank {
            maturity,
            major,
            minor,
            other: Reverse(CompactString::default()),
        });
        known.unwrap_or_else(|| Rank {
            maturity: 0,
            major: 0,
            minor: 0,
            other: Reverse(version.into()),
        })
    }
}

/// `v1beta2` in numbers: how mature, and both numbers.
fn numbered(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let end = rest
        .find(|next: char| !next.is_ascii_digit())
        .unwrap_or(rest.len());
    let (major, rest) = rest.split_at(end);
    let (maturity, minor) = match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
        _ if rest.is_empty() => (3, "0"),
        (Some(minor), _) => (2, minor),
        (_, Some(minor)) => (1, minor),
        _ => return None,
    };
    let number = |digits: &str| {
        digits
            .bytes()
            .all(|digit| digit.is_ascii_digit())
            .then(|| digits.parse().ok())?
    };
    Some((maturity, number(major)?, number(minor)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ranked_by_maturity_then_by_number() {
        let names = [
            "v10",
            "v2",
            "v1",
            "v11beta2",
            "v10beta3",
            "v3beta1",
            "v12alpha1",
            "v11alpha2",
            "foo1",
            "foo10",
        ];
        let ranks: Vec<Rank> = names.map(Rank::of).into();
        assert!(ranks.is_sorted_by(|left, right| left > right), "{ranks:?}");
    }
}
