//! Scalars against their types: the JSON type, the parse of the string, and its canonical form.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use compact_str::CompactString;

use super::path::Path;
use crate::shape::{Cardinality, Field, FieldType, last_two};
use crate::time::{self, Precision};
use crate::tree::{Map, Tree};

const QUANTITY_FORM: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const QUANTITY_SUFFIX: &str = "unable to parse quantity's suffix";

/// Why a value does not have the type of its field.
pub(super) enum ScalarError {
    /// The JSON type is wrong; the name is that of the expected type.
    Type(CompactString),
    /// The JSON type is right but the number does not fit.
    Number(&'static str),
    /// An element of a list of bytes is not a byte; holds the description of the value.
    Byte(String),
    /// The string does not parse.
    Text(String),
}

impl ScalarError {
    pub(super) fn text(self, value: &Tree, path: &Path<'_>) -> String {
        match self {
            ScalarError::Type(expected) => path.mismatch(value.type_name(), &expected),
            ScalarError::Number(expected) => path.mismatch(&format!("number {}", literal(value)), expected),
            ScalarError::Byte(actual) => path.mismatch(&actual, "uint8"),
            ScalarError::Text(message) => message,
        }
    }
}

/// Checks a value and brings it into canonical form.
pub(super) fn normalize(field: &Field, value: &mut Tree) -> Result<(), ScalarError> {
    match (&field.value_type, value) {
        (FieldType::String | FieldType::Duration, Tree::Str(_)) | (FieldType::Bool, Tree::Bool(_)) => Ok(()),
        (FieldType::IntOrString, Tree::Str(_)) => Ok(()),
        (FieldType::Int64, Tree::Int(_)) | (FieldType::Double, Tree::Int(_) | Tree::Float(_)) => Ok(()),
        (FieldType::Int32 | FieldType::IntOrString, Tree::Int(number)) => i32::try_from(*number)
            .map(|_| ())
            .map_err(|_| ScalarError::Number("int32")),
        (FieldType::Int32 | FieldType::IntOrString, Tree::Float(_)) => Err(ScalarError::Number("int32")),
        (FieldType::Int64, Tree::Float(_)) => Err(ScalarError::Number("int64")),
        (FieldType::Time, Tree::Str(text)) => normalize_time(text, Precision::Seconds),
        (FieldType::MicroTime, Tree::Str(text)) => normalize_time(text, Precision::Micros),
        (FieldType::Bytes, Tree::Str(text)) => check_base64(text).map_err(ScalarError::Text),
        (FieldType::Bytes, value @ Tree::List(_)) => normalize_byte_list(value),
        (FieldType::Quantity, value) => normalize_quantity(value),
        (FieldType::IntOrString, _) => Err(ScalarError::Type(CompactString::const_new("int32"))),
        (FieldType::Time | FieldType::MicroTime | FieldType::Duration, _) => {
            Err(ScalarError::Type(CompactString::const_new("string")))
        }
        (_, _) => Err(ScalarError::Type(go_type(field).into())),
    }
}

/// The value an element of a list or a map has when it is given as null.
pub(super) fn zero(field_type: &FieldType) -> Tree {
    match field_type {
        FieldType::String | FieldType::Bytes => Tree::Str(CompactString::default()),
        FieldType::Bool => Tree::Bool(false),
        FieldType::Int32 | FieldType::Int64 | FieldType::Double | FieldType::IntOrString => Tree::Int(0),
        FieldType::Quantity => "0".into(),
        FieldType::Duration => "0s".into(),
        FieldType::Shape(reference) if reference.shape().wrap => Tree::Null,
        FieldType::Shape(_) => Tree::Map(Map::default()),
        FieldType::Time | FieldType::MicroTime | FieldType::RawJson => Tree::Null,
        FieldType::SchemaOrBool(_) | FieldType::SchemaOrArray(_) | FieldType::SchemaOrStrings(_) => {
            Tree::Null
        }
    }
}

/// Whether the Go type has its own `UnmarshalJSON`, whose error stops decoding.
pub(super) fn unmarshals_itself(field_type: &FieldType) -> bool {
    matches!(
        field_type,
        FieldType::Time
            | FieldType::MicroTime
            | FieldType::Duration
            | FieldType::Quantity
            | FieldType::IntOrString
    )
}

/// The Go type of a list or a map in error messages.
pub(super) fn whole_type(field: &Field) -> String {
    match (field.declared_type(), field.cardinality) {
        (Some(name), _) => name.into(),
        (None, Cardinality::Map) => format!("map[string]{}", go_type(field)),
        (None, _) => format!("[]{}", go_type(field)),
    }
}

/// The Go type of a field's value, or of its elements, in error messages.
pub(crate) fn go_type(field: &Field) -> &str {
    let element = field.declared_type().map(|name| match field.cardinality {
        Cardinality::One => Some(name),
        Cardinality::List => name.strip_prefix("[]"),
        Cardinality::Map => name.split_once(']').map(|(_, element)| element),
    });
    element.flatten().unwrap_or_else(|| undeclared_go_type(field))
}

fn undeclared_go_type(field: &Field) -> &str {
    match &field.value_type {
        FieldType::String => field.enum_name().map_or("string", last_two),
        FieldType::Bool => "bool",
        FieldType::Int32 => "int32",
        FieldType::Int64 => "int64",
        FieldType::Double => "float64",
        FieldType::Bytes => "[]uint8",
        FieldType::Time => "v1.Time",
        FieldType::MicroTime => "v1.MicroTime",
        FieldType::Duration => "v1.Duration",
        FieldType::Quantity => "resource.Quantity",
        FieldType::IntOrString => "intstr.IntOrString",
        FieldType::RawJson => "runtime.RawExtension",
        FieldType::SchemaOrBool(_) => "v1.JSONSchemaPropsOrBool",
        FieldType::SchemaOrArray(_) => "v1.JSONSchemaPropsOrArray",
        FieldType::SchemaOrStrings(_) => "v1.JSONSchemaPropsOrStringArray",
        FieldType::Shape(reference) => reference.shape().versioned_name(),
    }
}

fn literal(value: &Tree) -> String {
    match value {
        Tree::Int(number) => number.to_string(),
        Tree::Float(number) if number.fract() == 0.0 => format!("{number:.0}"),
        Tree::Float(number) => format!("{number:?}"),
        _ => String::new(),
    }
}

fn normalize_time(text: &mut CompactString, precision: Precision) -> Result<(), ScalarError> {
    if let Some(form) = time::normalize(text, precision).map_err(ScalarError::Text)? {
        *text = form;
    }
    Ok(())
}

/// Quantities may be given as bare numbers; in the tree they are always strings.
fn normalize_quantity(value: &mut Tree) -> Result<(), ScalarError> {
    let text = match value {
        Tree::Str(text) => std::mem::take(text),
        Tree::Int(number) => CompactString::from(number.to_string()),
        Tree::Float(number) => CompactString::from(number.to_string()),
        _ => return Err(ScalarError::Text(QUANTITY_FORM.into())),
    };
    let checked = check_quantity(text.trim());
    *value = Tree::Str(text);
    checked.map_err(|message| ScalarError::Text(message.into()))
}

/// Checks that a string is a quantity; the error has the text of the reference server.
pub fn check_quantity(text: &str) -> Result<(), &'static str> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let whole = unsigned.trim_start_matches(|c: char| c.is_ascii_digit());
    let suffix = match whole.strip_prefix('.') {
        Some(fraction) => fraction.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => whole,
    };
    if text.is_empty() {
        return Err(QUANTITY_FORM);
    }
    match suffix {
        "" | "n" | "u" | "m" | "k" | "M" | "G" | "T" | "P" | "E" => Ok(()),
        "Ki" | "Mi" | "Gi" | "Ti" | "Pi" | "Ei" => Ok(()),
        _ => check_exponent(suffix),
    }
}

fn check_exponent(suffix: &str) -> Result<(), &'static str> {
    let exponent = suffix
        .strip_prefix(['e', 'E'])
        .map(|rest| rest.strip_prefix(['+', '-']).unwrap_or(rest));
    match exponent {
        Some(digits) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => Ok(()),
        _ if suffix
            .bytes()
            .all(|byte| b"eEinumkKMGTP+-0123456789".contains(&byte)) =>
        {
            Err(QUANTITY_SUFFIX)
        }
        _ => Err(QUANTITY_FORM),
    }
}

/// Bytes may be given as a list of numbers; in the tree they are always base64.
fn normalize_byte_list(value: &mut Tree) -> Result<(), ScalarError> {
    let Tree::List(items) = &*value else { return Ok(()) };
    let bytes: Vec<u8> = items.iter().map(byte).collect::<Result<_, _>>()?;
    *value = Tree::Str(STANDARD.encode(bytes).into());
    Ok(())
}

fn byte(value: &Tree) -> Result<u8, ScalarError> {
    let fitting = match value {
        Tree::Null => Some(0),
        Tree::Int(number) => u8::try_from(*number).ok(),
        Tree::Float(_) => None,
        other => return Err(ScalarError::Byte(other.type_name().to_owned())),
    };
    fitting.ok_or_else(|| ScalarError::Byte(format!("number {}", literal(value))))
}

/// Standard base64 with padding; line breaks are passed over.
/// Checks that a string is base64; the error has the text of the reference server.
pub(crate) fn check_base64(text: &str) -> Result<(), String> {
    let wrong = |at: usize| Err(format!("illegal base64 data at input byte {at}"));
    let mut digits = 0usize;
    let mut padding = 0usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'\r' | b'\n' => {}
            b'=' if digits % 4 >= 2 && padding < 4 - digits % 4 => padding += 1,
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' if padding == 0 => digits += 1,
            _ => return wrong(at),
        }
    }
    match (digits + padding) % 4 {
        0 => Ok(()),
        open => wrong(text.len() - open),
    }
}
