//! YAML: bytes to a tree and a tree to text.
//!
//! Plain scalars mean what they mean to the reference server, which reads YAML 1.1: `yes`, `on` and `y` are booleans,
//! `010` is eight, and a date is a string. Only the first document of several is read. A key given twice is no error
//! here: the later value counts, and [`Parsed::duplicates`] names the place.

mod fold;
mod load;
mod scalar;
mod write;

use setpoint_schema::Tree;

pub use write::write;

/// A document and what was odd about it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parsed {
    pub tree: Tree,
    /// One sentence per key given twice, in document order: `line 7: key "replicas" already set in map`.
    pub duplicates: Vec<String>,
}

/// What is wrong with the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("yaml: line {line}: {problem}")]
    Syntax { line: usize, problem: String },
    #[error("yaml: invalid leading UTF-8 octet")]
    Utf8,
    #[error("yaml: document contains excessive aliasing")]
    Aliases,
    #[error("yaml: exceeded max depth of 512")]
    Depth,
    #[error("yaml: unsupported map key of type: {0}")]
    Key(&'static str),
}

/// Reads the first document; a key given twice counts with its later value.
pub fn parse(bytes: &[u8]) -> Result<Tree, Error> {
    read(bytes).map(|parsed| parsed.tree)
}

/// Reads the first document and says which keys were given twice.
pub fn read(bytes: &[u8]) -> Result<Parsed, Error> {
    let text = std::str::from_utf8(bytes).map_err(|_| Error::Utf8)?;
    load::first_document(text.strip_prefix('\u{feff}').unwrap_or(text))
}

#[cfg(test)]
mod tests;
