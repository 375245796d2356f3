//! Strict decoding of request bodies: parse, check the kind, drop unknown fields.
//!
//! A dropped field is an error, a warning or ignored, as the request's `fieldValidation` specifies. Messages are
//! kube-apiserver's: clients match on them.

mod error;
mod kind;

use setpoint_api::call::Encoding;
use setpoint_schema::{Map, PruneErrors, Shape, StrictError, Tree, prune};

use crate::json::{self, DepthLimitedTree, MAX_DEPTH};
use crate::protobuf::{Envelope, TypeMeta, decode_message, envelope};
use crate::yaml;

pub use error::{ActualGvk, DecodeError};
pub use kind::read_type_meta;
pub use setpoint_api::options::FieldValidation;

/// An object that conforms to its shape.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DecodedObject {
    /// Only known fields, each once, `kind` and `apiVersion` set.
    pub tree: Tree,
    /// One warning per dropped field, if field validation is `Warn`.
    pub warnings: Vec<String>,
}

/// Decodes a body as an object of a shape.
pub fn decode(
    bytes: &[u8],
    encoding: Encoding,
    shape: &Shape,
    validation: FieldValidation,
) -> Result<DecodedObject, DecodeError> {
    if encoding == Encoding::Protobuf {
        return decode_protobuf(bytes, shape);
    }
    decode_with(bytes, encoding, shape, validation, |tree| prune(shape, tree))
}

/// Decodes a body whose unknown fields are dropped by `prune`, as for custom resources. `shape` only names the expected
/// kind. Such objects have no protobuf form.
pub fn decode_with(
    bytes: &[u8],
    encoding: Encoding,
    shape: &Shape,
    validation: FieldValidation,
    prune: impl FnOnce(&mut Tree) -> PruneErrors,
) -> Result<DecodedObject, DecodeError> {
    let body = match encoding {
        Encoding::Json | Encoding::Protobuf => read_json(bytes),
        Encoding::Yaml => read_yaml(bytes),
    };
    let body = body.map_err(|cause| DecodeError::unrecognized(shape, cause, bytes))?;
    conform(body, shape, validation, bytes, prune)
}

/// Checks and prunes a tree that is already parsed, such as the result of a patch.
pub fn conform_tree(
    tree: Tree,
    shape: &Shape,
    validation: FieldValidation,
) -> Result<DecodedObject, DecodeError> {
    conform_tree_with(tree, shape, validation, |tree| prune(shape, tree))
}

/// Checks a tree that is already parsed, and drops unknown fields with `prune`.
pub fn conform_tree_with(
    tree: Tree,
    shape: &Shape,
    validation: FieldValidation,
    prune: impl FnOnce(&mut Tree) -> PruneErrors,
) -> Result<DecodedObject, DecodeError> {
    let body = ParsedBody {
        tree,
        ..ParsedBody::default()
    };
    conform(body, shape, validation, b"", prune)
}

/// A parsed body, and the duplicate keys that the YAML parser reports.
#[derive(Default)]
struct ParsedBody {
    tree: Tree,
    duplicates: Vec<String>,
    /// Whether containers were nested too deep to keep. They must be in fields that are dropped.
    is_truncated: bool,
}

fn read_json(bytes: &[u8]) -> Result<ParsedBody, String> {
    match json::parse_depth_limited(bytes, 0) {
        Ok(DepthLimitedTree { tree, is_truncated }) => Ok(ParsedBody {
            tree,
            is_truncated,
            ..ParsedBody::default()
        }),
        Err(error) => Err(format!("couldn't get version/kind; json parse error: {error}")),
    }
}

fn read_yaml(bytes: &[u8]) -> Result<ParsedBody, String> {
    match yaml::parse_with_duplicates(bytes) {
        Ok(yaml::ParsedYaml { tree, duplicates }) => Ok(ParsedBody {
            tree,
            duplicates,
            is_truncated: false,
        }),
        Err(error) => Err(error.to_string()),
    }
}

fn conform(
    body: ParsedBody,
    shape: &Shape,
    validation: FieldValidation,
    bytes: &[u8],
    prune: impl FnOnce(&mut Tree) -> PruneErrors,
) -> Result<DecodedObject, DecodeError> {
    let ParsedBody {
        mut tree,
        duplicates,
        is_truncated,
    } = body;
    let actual =
        kind::actual_gvk(&tree, shape).map_err(|cause| DecodeError::unrecognized(shape, cause, bytes))?;
    kind::check_expected(&actual, shape, &tree)?;
    kind::set_type_fields(&mut tree, &actual);
    let problems = prune(&mut tree);
    if let Some(mismatch) = problems.type_error {
        return Err(DecodeError::unhandled(shape, &actual, mismatch));
    }
    if is_truncated && is_deep(&tree, MAX_DEPTH) {
        return Err(DecodeError::unrecognized(
            shape,
            json::Error::Depth.to_string(),
            bytes,
        ));
    }
    match validation {
        FieldValidation::Ignore => Ok(DecodedObject {
            tree,
            warnings: Vec::new(),
        }),
        FieldValidation::Warn => Ok(DecodedObject {
            tree,
            warnings: warnings(duplicates, &problems.strict),
        }),
        FieldValidation::Strict if duplicates.is_empty() && problems.strict.is_empty() => Ok(DecodedObject {
            tree,
            warnings: Vec::new(),
        }),
        FieldValidation::Strict => Err(DecodeError::unhandled(
            shape,
            &actual,
            strict_text(&duplicates, &problems.strict),
        )),
    }
}

/// Decodes a protobuf body. The kind is in the envelope and is checked before the message is decoded. Unknown fields are
/// dropped silently, as protobuf intends, so field validation does not apply.
fn decode_protobuf(bytes: &[u8], shape: &Shape) -> Result<DecodedObject, DecodeError> {
    let unrecognized = |cause: String| DecodeError::unrecognized(shape, cause, bytes);
    let Envelope { type_meta, message } =
        envelope::open(bytes).map_err(|error| unrecognized(error.to_string()))?;
    let mut tree = type_fields(type_meta);
    let actual = kind::actual_gvk(&tree, shape).map_err(unrecognized)?;
    kind::check_expected(&actual, shape, &tree)?;
    kind::set_type_fields(&mut tree, &actual);
    decode_message(message, shape, tree.map_or_default())
        .map_err(|error| DecodeError::unhandled(shape, &actual, error.to_string()))?;
    Ok(DecodedObject {
        tree,
        warnings: Vec::new(),
    })
}

/// The type fields of an object, from its envelope.
fn type_fields(type_meta: TypeMeta) -> Tree {
    let mut map = Map::with_capacity(8);
    map.push("kind", type_meta.kind);
    map.push("apiVersion", type_meta.api_version);
    map.into()
}

/// Whether lists and maps are nested `depth` levels deep.
fn is_deep(tree: &Tree, depth: usize) -> bool {
    match tree {
        Tree::List(items) => depth <= 1 || items.iter().any(|item| is_deep(item, depth - 1)),
        Tree::Map(map) => depth <= 1 || map.iter().any(|(_, value)| is_deep(value, depth - 1)),
        _ => false,
    }
}

fn warnings(duplicates: Vec<String>, problems: &[StrictError]) -> Vec<String> {
    duplicates
        .into_iter()
        .chain(problems.iter().map(StrictError::to_string))
        .collect()
}

/// The message with all problems. Those of the YAML parser come first, each on its own line.
pub fn strict_text(duplicates: &[String], problems: &[StrictError]) -> String {
    let lines: String = duplicates.iter().map(|line| format!("\n  {line}")).collect();
    let format = (!lines.is_empty()).then(|| format!("yaml: unmarshal errors:{lines}"));
    let all: Vec<String> = format
        .into_iter()
        .chain(problems.iter().map(StrictError::to_string))
        .collect();
    format!("strict decoding error: {}", all.join(", "))
}

#[cfg(test)]
mod tests;
