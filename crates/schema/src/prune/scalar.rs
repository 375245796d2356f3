//! Single values against their types: is the JSON type right, does the text parse, what is its one form.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use compact_str::CompactString;

use super::path::Path;
use crate::shape::{Card, Field, Of, last_two};
use crate::time::{self, Precision};
use crate::tree::{Map, Tree};

const QUANTITY_FORM: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const QUANTITY_SUFFIX: &str = "unable to parse quantity's suffix";

/// Why a value is not of its type.
pub(super) enum Wrong {
    /// The JSON type is wrong; the name is that of the type wanted.
    Type(CompactString),
    /// The JSON type is right but the number does not fit.
    Number(&'static str),
    /// An element of a list of bytes is none; it is told as it is shown.
    Byte(String),
    /// The text does not parse.
    Text(String),
}

impl Wrong {
    pub(super) fn text(self, value: &Tree, path: &Path<'_>) -> String {
        match self {
            Wrong::Type(wanted) => path.mismatch(value.type_name(), &wanted),
            Wrong::Number(wanted) => path.mismatch(&format!("number {}", literal(value)), wanted),
            Wrong::Byte(given) => path.mismatch(&given, "uint8"),
            Wrong::Text(message) => message,
        }
    }
}

/// Checks a value and gives it its one form.
pub(super) fn conform(field: &Field, value: &mut Tree) -> Result<(), Wrong> {
    match (&field.of, value) {
        (Of::String | Of::Duration, Tree::Str(_)) | (Of::Bool, Tree::Bool(_)) => Ok(()),
        (Of::IntOrString, Tree::Str(_)) => Ok(()),
        (Of::Int64, Tree::Int(_)) | (Of::Double, Tree::Int(_) | Tree::Float(_)) => Ok(()),
        (Of::Int32 | Of::IntOrString, Tree::Int(number)) => i32::try_from(*number)
            .map(|_| ())
            .map_err(|_| Wrong::Number("int32")),
        (Of::Int32 | Of::IntOrString, Tree::Float(_)) => Err(Wrong::Number("int32")),
        (Of::Int64, Tree::Float(_)) => Err(Wrong::Number("int64")),
        (Of::Time, Tree::Str(text)) => conform_time(text, Precision::Seconds),
        (Of::MicroTime, Tree::Str(text)) => conform_time(text, Precision::Micros),
        (Of::Bytes, Tree::Str(text)) => check_base64(text),
        (Of::Bytes, value @ Tree::List(_)) => conform_byte_list(value),
        (Of::Quantity, value) => conform_quantity(value),
        (Of::IntOrString, _) => Err(Wrong::Type(CompactString::const_new("int32"))),
        (Of::Time | Of::MicroTime | Of::Duration, _) => Err(Wrong::Type(CompactString::const_new("string"))),
        (_, _) => Err(Wrong::Type(go_type(field).into())),
    }
}

/// The value an element of a list or a map has when it is given as null.
pub(super) fn zero(of: &Of) -> Tree {
    match of {
        Of::String | Of::Bytes => Tree::Str(CompactString::default()),
        Of::Bool => Tree::Bool(false),
        Of::Int32 | Of::Int64 | Of::Double | Of::IntOrString => Tree::Int(0),
        Of::Quantity => "0".into(),
        Of::Duration => "0s".into(),
        Of::Shape(link) if link.shape().wrap => Tree::Null,
        Of::Shape(_) => Tree::Map(Map::default()),
        Of::Time | Of::MicroTime | Of::RawJson => Tree::Null,
        Of::SchemaOrBool(_) | Of::SchemaOrArray(_) | Of::SchemaOrStrings(_) => Tree::Null,
    }
}

/// Whether the type parses its own text, so that a mistake in it ends the reading of the document.
pub(super) fn reads_itself(of: &Of) -> bool {
    matches!(
        of,
        Of::Time | Of::MicroTime | Of::Duration | Of::Quantity | Of::IntOrString
    )
}

/// The name error messages have for a list or a map.
pub(super) fn whole_type(field: &Field) -> String {
    match (field.named(), field.card) {
        (Some(name), _) => name.into(),
        (None, Card::Map) => format!("map[string]{}", go_type(field)),
        (None, _) => format!("[]{}", go_type(field)),
    }
}

/// The name error messages have for a field's type, or for that of its elements.
pub(super) fn go_type(field: &Field) -> &str {
    let element = field.named().map(|name| match field.card {
        Card::One => Some(name),
        Card::List => name.strip_prefix("[]"),
        Card::Map => name.split_once(']').map(|(_, element)| element),
    });
    element.flatten().unwrap_or_else(|| unnamed(field))
}

fn unnamed(field: &Field) -> &str {
    match &field.of {
        Of::String => field.enumeration().map_or("string", last_two),
        Of::Bool => "bool",
        Of::Int32 => "int32",
        Of::Int64 => "int64",
        Of::Double => "float64",
        Of::Bytes => "[]uint8",
        Of::Time => "v1.Time",
        Of::MicroTime => "v1.MicroTime",
        Of::Duration => "v1.Duration",
        Of::Quantity => "resource.Quantity",
        Of::IntOrString => "intstr.IntOrString",
        Of::RawJson => "runtime.RawExtension",
        Of::SchemaOrBool(_) => "v1.JSONSchemaPropsOrBool",
        Of::SchemaOrArray(_) => "v1.JSONSchemaPropsOrArray",
        Of::SchemaOrStrings(_) => "v1.JSONSchemaPropsOrStringArray",
        Of::Shape(link) => link.shape().versioned_name(),
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

fn conform_time(text: &mut CompactString, precision: Precision) -> Result<(), Wrong> {
    if let Some(form) = time::normalize(text, precision).map_err(Wrong::Text)? {
        *text = form;
    }
    Ok(())
}

/// Quantities may be given as bare numbers; in the tree they are always strings.
fn conform_quantity(value: &mut Tree) -> Result<(), Wrong> {
    let text = match value {
        Tree::Str(text) => std::mem::take(text),
        Tree::Int(number) => CompactString::from(number.to_string()),
        Tree::Float(number) => CompactString::from(number.to_string()),
        _ => return Err(Wrong::Text(QUANTITY_FORM.into())),
    };
    let checked = check_quantity(text.trim());
    *value = Tree::Str(text);
    checked.map_err(|message| Wrong::Text(message.into()))
}

/// Whether a text is an amount, and if not, why, in the words of the reference server.
pub fn check_quantity(text: &str) -> Result<(), &'static str> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let whole = unsigned.trim_start_matches(|c: char| c.is_ascii_digit());
    let suffix = match whole.strip_prefix('.') {
        Some(fraction) => fraction.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => whole,
    };
    if !unsigned[..unsigned.len() - suffix.len()]
        .bytes()
        .any(|byte| byte.is_ascii_digit())
    {
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
fn conform_byte_list(value: &mut Tree) -> Result<(), Wrong> {
    let Tree::List(items) = &*value else { return Ok(()) };
    let bytes: Vec<u8> = items.iter().map(byte).collect::<Result<_, _>>()?;
    *value = Tree::Str(STANDARD.encode(bytes).into());
    Ok(())
}

fn byte(value: &Tree) -> Result<u8, Wrong> {
    let fitting = match value {
        Tree::Null => Some(0),
        Tree::Int(number) => u8::try_from(*number).ok(),
        Tree::Float(_) => None,
        other => return Err(Wrong::Byte(other.type_name().to_owned())),
    };
    fitting.ok_or_else(|| Wrong::Byte(format!("number {}", literal(value))))
}

/// Standard base64 with padding; line breaks are passed over.
fn check_base64(text: &str) -> Result<(), Wrong> {
    let wrong = |at: usize| Err(Wrong::Text(format!("illegal base64 data at input byte {at}")));
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
