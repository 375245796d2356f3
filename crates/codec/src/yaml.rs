//! YAML: parsing to a tree, writing from a tree.
//!
//! Plain scalars are resolved as kube-apiserver does, by YAML 1.1: `yes`, `on` and `y` are booleans, `010` is eight, and
//! a date is a string. Of a stream, [`parse`] reads the first YAML document and [`parse_all`] each of them. A duplicate key
//! is not an error here: the last value wins, and [`ParsedYaml::duplicates`] has the line.

mod fold;
mod load;
mod scalar;
mod write;

use setpoint_schema::Tree;

pub use write::write;

/// A parsed YAML document and its duplicate keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParsedYaml {
    pub tree: Tree,
    /// One message per duplicate key, in text order: `line 7: key "replicas" already set in map`. At most a thousand.
    pub duplicates: Vec<String>,
}

/// A YAML syntax error, with kube-apiserver's message.
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

/// Parses the first YAML document; of duplicate keys the last value wins.
pub fn parse(bytes: &[u8]) -> Result<Tree, Error> {
    parse_with_duplicates(bytes).map(|parsed| parsed.tree)
}

/// Parses the first YAML document and reports duplicate keys.
pub fn parse_with_duplicates(bytes: &[u8]) -> Result<ParsedYaml, Error> {
    load::first_document(text(bytes)?)
}

/// Parses every YAML document of a stream; of duplicate keys the last value wins. One without content is null.
pub fn parse_all(bytes: &[u8]) -> Result<Vec<Tree>, Error> {
    load::all_documents(text(bytes)?)
}

fn text(bytes: &[u8]) -> Result<&str, Error> {
    let text = std::str::from_utf8(bytes).map_err(|_| Error::Utf8)?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

#[cfg(test)]
mod tests;
