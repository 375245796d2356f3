//! Named formats: `format.dns1123Label().validate(text)`.

use base64::Engine;
use regex::Regex;
use setpoint_api::name;

use super::{Builtin, no_such_overload, url};
use crate::opaque::Opaque;
use crate::value::Value;

/// A format of strings.
#[derive(Debug)]
pub struct Format {
    pub(crate) name: &'static str,
    /// The messages of the rules that a text violates.
    validate: fn(&str) -> Vec<String>,
    /// The length of the regular expression that costs are computed from.
    pub(crate) regex_size: u64,
}

const fn format(name: &'static str, validate: fn(&str) -> Vec<String>, regex_size: u64) -> Format {
    Format {
        name,
        validate,
        regex_size,
    }
}

/// By their name in `format.named()`.
static FORMATS: [(&str, Format); 13] = [
    (
        "dns1123Label",
        format("DNS1123Label", name::check_dns1123_label, 30),
    ),
    (
        "dns1123Subdomain",
        format("DNS1123Subdomain", name::check_dns1123_subdomain, 60),
    ),
    ("dns1035Label", format("DNS1035Label", check_dns1035_label, 30)),
    (
        "qualifiedName",
        format("QualifiedName", name::check_qualified_name, 60),
    ),
    (
        "dns1123LabelPrefix",
        format(
            "DNS1123LabelPrefix",
            |text| name::check_dns1123_label(&without_dash(text)),
            30,
        ),
    ),
    (
        "dns1123SubdomainPrefix",
        format(
            "DNS1123SubdomainPrefix",
            |text| name::check_dns1123_subdomain(&without_dash(text)),
            60,
        ),
    ),
    (
        "dns1035LabelPrefix",
        format(
            "DNS1035LabelPrefix",
            |text| check_dns1035_label(&without_dash(text)),
            30,
        ),
    ),
    ("labelValue", format("LabelValue", name::check_label_value, 40)),
    (
        "uri",
        format("URI", |text| url::parse(text).err().into_iter().collect(), 1104),
    ),
    (
        "uuid",
        format(
            "uuid",
            |text| unless(is_uuid(text), "does not match the UUID format"),
            72,
        ),
    ),
    (
        "byte",
        format(
            "byte",
            |text| {
                let decoded = base64::engine::general_purpose::STANDARD.decode(text);
                unless(decoded.is_ok(), "invalid base64")
            },
            84,
        ),
    ),
    (
        "date",
        format(
            "date",
            |text| {
                unless(
                    text.len() == 10 && crate::time::parse_timestamp(text).is_some(),
                    "invalid date",
                )
            },
            72,
        ),
    ),
    (
        "datetime",
        format(
            "datetime",
            |text| {
                unless(
                    text.len() > 10 && crate::time::parse_timestamp(text).is_some(),
                    "invalid datetime",
                )
            },
            72,
        ),
    ),
];

pub(super) const FUNCTIONS: &[(&str, Builtin)] = &[
    ("format.named", find_format),
    ("validate", validate),
    ("format.dns1123Label", |_, _| constant("dns1123Label")),
    ("format.dns1123Subdomain", |_, _| constant("dns1123Subdomain")),
    ("format.dns1035Label", |_, _| constant("dns1035Label")),
    ("format.qualifiedName", |_, _| constant("qualifiedName")),
    ("format.dns1123LabelPrefix", |_, _| constant("dns1123LabelPrefix")),
    ("format.dns1123SubdomainPrefix", |_, _| {
        constant("dns1123SubdomainPrefix")
    }),
    ("format.dns1035LabelPrefix", |_, _| constant("dns1035LabelPrefix")),
    ("format.labelValue", |_, _| constant("labelValue")),
    ("format.uri", |_, _| constant("uri")),
    ("format.uuid", |_, _| constant("uuid")),
    ("format.byte", |_, _| constant("byte")),
    ("format.date", |_, _| constant("date")),
    ("format.datetime", |_, _| constant("datetime")),
];

type Outcome<'a> = Result<Value<'a>, String>;

fn find(name: &str) -> Option<Value<'static>> {
    let found = FORMATS.iter().find(|(own, _)| *own == name)?;
    Some(Value::Opaque(Opaque::Format(&found.1)))
}

fn constant<'a>(name: &str) -> Outcome<'a> {
    find(name).ok_or_else(|| format!("unknown format {name:?}"))
}

fn find_format<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    match args {
        [Value::String(name)] => Ok(find(name.as_str()).map_or(Value::NONE, Value::some)),
        _ => no_such_overload(),
    }
}

fn validate<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    match args {
        [Value::Opaque(Opaque::Format(format)), Value::String(text)] => {
            let violations = (format.validate)(text.as_str());
            if violations.is_empty() {
                return Ok(Value::NONE);
            }
            let violations = violations.into_iter().map(Value::string).collect();
            Ok(Value::some(Value::list(violations)))
        }
        _ => no_such_overload(),
    }
}

fn unless(is_valid: bool, message: &str) -> Vec<String> {
    if is_valid {
        Vec::new()
    } else {
        vec![message.to_owned()]
    }
}

/// A prefix may end with a dash, which stands for the rest of the name.
fn without_dash(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => format!("{rest}a"),
        _ => text.to_owned(),
    }
}

const DNS1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

fn check_dns1035_label(text: &str) -> Vec<String> {
    let mut violations = unless(text.len() <= 63, "must be no more than 63 characters");
    let starts_with_letter = text.starts_with(|first: char| first.is_ascii_lowercase());
    if !starts_with_letter || !name::is_dns1123_label(text) {
        violations.push(DNS1035.to_owned());
    }
    violations
}

fn is_uuid(text: &str) -> bool {
    let digits: String = text.chars().filter(|character| *character != '-').collect();
    let has_dashes = text.len() == 36 && [8, 13, 18, 23].iter().all(|at| text.as_bytes()[*at] == b'-');
    (has_dashes || text.len() == 32)
        && digits.len() == 32
        && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}
