//! Decoding a request's body: read it, see that it is what it should be, drop what its kind does not know.
//!
//! What is dropped is an error, a warning or nothing, as the caller chose. Texts are those of the reference server:
//! clients match on them.

mod error;
mod kind;

use setpoint_api::call::Encoding;
use setpoint_schema::{Map, Problem, Problems, Shape, Tree, prune};

use crate::json::{self, MAX_DEPTH, Shallow};
use crate::protobuf::{Envelope, TypeMeta, decode_message, envelope};
use crate::yaml;

pub use error::{DecodeError, Found};
pub use setpoint_api::options::FieldValidation as Validation;

/// A document that is of its shape.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decoded {
    /// Only known fields, each once, `kind` and `apiVersion` set.
    pub tree: Tree,
    /// One sentence for each thing that was dropped, if the caller wants to hear of it.
    pub warnings: Vec<String>,
}

/// Reads a body as a document of a shape.
pub fn decode(
    bytes: &[u8],
    encoding: Encoding,
    shape: &Shape,
    validation: Validation,
) -> Result<Decoded, DecodeError> {
    if encoding == Encoding::Protobuf {
        return decode_protobuf(bytes, shape);
    }
    decode_by(bytes, encoding, shape, validation, |tree| prune(shape, tree))
}

/// Reads a body as a document whose fields a rule of its own prunes. `shape` only says which kind is wanted. There is
/// no protobuf form of such a document.
pub fn decode_by(
    bytes: &[u8],
    encoding: Encoding,
    shape: &Shape,
    validation: Validation,
    prune: impl FnOnce(&mut Tree) -> Problems,
) -> Result<Decoded, DecodeError> {
    let read = match encoding {
        Encoding::Json | Encoding::Protobuf => read_json(bytes),
        Encoding::Yaml => read_yaml(bytes),
    };
    let read = read.map_err(|cause| DecodeError::unrecognized(shape, cause, bytes))?;
    conform(read, shape, validation, bytes, prune)
}

/// Holds a tree that is already read to a shape: what a patch has made, for instance.
pub fn conform_tree(tree: Tree, shape: &Shape, validation: Validation) -> Result<Decoded, DecodeError> {
    conform_tree_by(tree, shape, validation, |tree| prune(shape, tree))
}

/// Holds a tree that is already read to a rule of its own.
pub fn conform_tree_by(
    tree: Tree,
    shape: &Shape,
    validation: Validation,
    prune: impl FnOnce(&mut Tree) -> Problems,
) -> Result<Decoded, DecodeError> {
    let read = Read {
        tree,
        ..Read::default()
    };
    conform(read, shape, validation, b"", prune)
}

/// A document as read, and the duplicates the format itself reports.
#[derive(Default)]
struct Read {
    tree: Tree,
    duplicates: Vec<String>,
    /// Whether parts were too deep to be kept. They must be parts that are dropped anyway.
    is_cut: bool,
}

fn read_json(bytes: &[u8]) -> Result<Read, String> {
    match json::parse_shallow(bytes, 0) {
        Ok(Shallow { tree, is_cut }) => Ok(Read {
            tree,
            is_cut,
            ..Read::default()
        }),
        Err(error) => Err(format!("couldn't get version/kind; json parse error: {error}")),
    }
}

fn read_yaml(bytes: &[u8]) -> Result<Read, String> {
    match yaml::read(bytes) {
        Ok(yaml::Parsed { tree, duplicates }) => Ok(Read {
            tree,
            duplicates,
            is_cut: false,
        }),
        Err(error) => Err(error.to_string()),
    }
}

fn conform(
    read: Read,
    shape: &Shape,
    validation: Validation,
    bytes: &[u8],
    prune: impl FnOnce(&mut Tree) -> Problems,
) -> Result<Decoded, DecodeError> {
    let Read {
        mut tree,
        duplicates,
        is_cut,
    } = read;
    let found = kind::find(&tree, shape).map_err(|cause| DecodeError::unrecognized(shape, cause, bytes))?;
    kind::check(&found, shape, &tree)?;
    kind::fill(&mut tree, &found);
    let problems = prune(&mut tree);
    if let Some(mismatch) = problems.mismatch {
        return Err(DecodeError::unhandled(shape, &found, mismatch));
    }
    if is_cut && is_deep(&tree, MAX_DEPTH) {
        return Err(DecodeError::unrecognized(
            shape,
            json::Error::Depth.to_string(),
            bytes,
        ));
    }
    match validation {
        Validation::Ignore => Ok(Decoded {
            tree,
            warnings: Vec::new(),
        }),
        Validation::Warn => Ok(Decoded {
            tree,
            warnings: warnings(duplicates, &problems.list),
        }),
        Validation::Strict if duplicates.is_empty() && problems.list.is_empty() => Ok(Decoded {
            tree,
            warnings: Vec::new(),
        }),
        Validation::Strict => Err(DecodeError::unhandled(
            shape,
            &found,
            strict_text(&duplicates, &problems.list),
        )),
    }
}

/// Reads a protobuf body. Its kind stands in the envelope and is judged before the message is read; fields it does not
/// know are dropped without a word, as the format means them to be, so there is nothing to be strict about.
fn decode_protobuf(bytes: &[u8], shape: &Shape) -> Result<Decoded, DecodeError> {
    let unrecognized = |cause: String| DecodeError::unrecognized(shape, cause, bytes);
    let Envelope { type_meta, message } =
        envelope::open(bytes).map_err(|error| unrecognized(error.to_string()))?;
    let mut tree = type_fields(type_meta);
    let found = kind::find(&tree, shape).map_err(unrecognized)?;
    kind::check(&found, shape, &tree)?;
    kind::fill(&mut tree, &found);
    decode_message(message, shape, tree.map_or_default())
        .map_err(|error| DecodeError::unhandled(shape, &found, error.to_string()))?;
    Ok(Decoded {
        tree,
        warnings: Vec::new(),
    })
}

/// What an envelope says, as the type fields of a document.
fn type_fields(type_meta: TypeMeta) -> Tree {
    let mut map = Map::with_capacity(8);
    map.push("kind", type_meta.kind);
    map.push("apiVersion", type_meta.api_version);
    map.into()
}

/// Whether so many lists and maps lie within each other.
fn is_deep(tree: &Tree, depth: usize) -> bool {
    match tree {
        Tree::List(items) => depth <= 1 || items.iter().any(|item| is_deep(item, depth - 1)),
        Tree::Map(map) => depth <= 1 || map.iter().any(|(_, value)| is_deep(value, depth - 1)),
        _ => false,
    }
}

fn warnings(duplicates: Vec<String>, problems: &[Problem]) -> Vec<String> {
    duplicates
        .into_iter()
        .chain(problems.iter().map(Problem::to_string))
        .collect()
}

/// All problems in one sentence. Those of the format come first and each on its own line.
pub fn strict_text(duplicates: &[String], problems: &[Problem]) -> String {
    let lines: String = duplicates.iter().map(|line| format!("\n  {line}")).collect();
    let format = (!lines.is_empty()).then(|| format!("yaml: unmarshal errors:{lines}"));
    let all: Vec<String> = format
        .into_iter()
        .chain(problems.iter().map(Problem::to_string))
        .collect();
    format!("strict decoding error: {}", all.join(", "))
}

#[cfg(test)]
mod tests;
