//! `format`: a string with clauses such as `%s` and `%.3f`.

use std::fmt::Write as _;

use regex::Regex;

use super::super::convert::double_to_string;
use super::super::no_such_overload;
use crate::time;
use crate::value::{Text, Value};

const CLAUSES: &str = "sdfebxXo";
/// What `%s` prints.
pub(crate) const STRING_CLAUSE: &str = "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps";
const DEFAULT_PRECISION: usize = 6;
const MAX_PRECISION: usize = 1000;

pub(super) fn format<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Result<Value<'a>, String> {
    let [Value::String(template), Value::List(list)] = args else {
        return no_such_overload();
    };
    let mut output = String::new();
    let mut next = 0;
    for segment in segments(template.as_str())? {
        let (clause, precision) = match segment {
            Segment::Text(text) => {
                output.push_str(text);
                continue;
            }
            Segment::Clause(clause, precision) => (clause, precision),
        };
        let value = list
            .get(next)
            .ok_or_else(|| format!("index {next} out of range"))?;
        next += 1;
        write_clause(&mut output, clause, precision, &value).map_err(|why| {
            let own = value.type_of().name();
            format!("error during formatting: {why}, was given {own}")
        })?;
    }
    Ok(Value::String(Text::Shared(output.into())))
}

/// The clauses of a template, such as `s` and `d`.
pub(crate) fn clauses(template: &str) -> Result<Vec<char>, String> {
    let clauses = segments(template)?.into_iter();
    Ok(clauses
        .filter_map(|segment| match segment {
            Segment::Clause(clause, _) => Some(clause),
            Segment::Text(_) => None,
        })
        .collect())
}

enum Segment<'a> {
    Text(&'a str),
    /// A clause and its precision.
    Clause(char, Option<usize>),
}

fn segments(template: &str) -> Result<Vec<Segment<'_>>, String> {
    let mut segments = Vec::new();
    let mut rest = template;
    while let Some(at) = rest.find('%') {
        segments.push(Segment::Text(&rest[..at]));
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            segments.push(Segment::Text("%"));
            rest = after;
            continue;
        }
        let mut precision = None;
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(|character: char| !character.is_ascii_digit());
            let (digits, after) = after.split_at(end.ok_or("could not find end of precision specifier")?);
            precision = Some(parse_precision(digits)?);
            rest = after;
        }
        let clause = rest.chars().next().ok_or("unexpected end of string")?;
        if !CLAUSES.contains(clause) {
            return Err(unknown_clause(clause));
        }
        segments.push(Segment::Clause(clause, precision));
        rest = &rest[clause.len_utf8()..];
    }
    segments.push(Segment::Text(rest));
    Ok(segments)
}

fn parse_precision(digits: &str) -> Result<usize, String> {
    let precision: usize = digits.parse().map_err(|_| {
        format!(
            "could not parse formatting clause: error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing {digits:?}: invalid syntax"
        )
    })?;
    match precision > MAX_PRECISION {
        true => Err(format!(
            "precision {precision} exceeds maximum allowed precision {MAX_PRECISION}"
        )),
        false => Ok(precision),
    }
}

fn write_clause(
    output: &mut String,
    clause: char,
    precision: Option<usize>,
    value: &Value<'_>,
) -> Result<(), String> {
    match (clause, value) {
        ('s', value) => output.push_str(&display(value)?),
        ('d', Value::Int(number)) => output.push_str(&number.to_string()),
        ('d', Value::Uint(number)) => output.push_str(&number.to_string()),
        ('d', _) => return Err("decimal clause can only be used on integers".to_owned()),
        ('f', value) => {
            let number = as_double(value).ok_or("fixed-point clause can only be used on doubles")?;
            output.push_str(&fixed_point(number, precision.unwrap_or(DEFAULT_PRECISION)));
        }
        ('e', value) => {
            let number = as_double(value).ok_or("scientific clause can only be used on doubles")?;
            output.push_str(&scientific(number));
        }
        ('b', Value::Int(number)) => output.push_str(&signed(*number, |unsigned| format!("{unsigned:b}"))),
        ('b', Value::Uint(number)) => write_to(output, format_args!("{number:b}")),
        ('b', Value::Bool(value)) => output.push(if *value { '1' } else { '0' }),
        ('b', _) => return Err("only integers and bools can be formatted as binary".to_owned()),
        ('o', Value::Int(number)) => output.push_str(&signed(*number, |unsigned| format!("{unsigned:o}"))),
        ('o', Value::Uint(number)) => write_to(output, format_args!("{number:o}")),
        ('o', _) => return Err("octal clause can only be used on integers".to_owned()),
        ('x' | 'X', value) => output.push_str(&hexadecimal(value, clause == 'X')?),
        (other, _) => return Err(unknown_clause(other)),
    }
    Ok(())
}

fn unknown_clause(clause: char) -> String {
    format!("could not parse formatting clause: unrecognized formatting clause \"{clause}\"")
}

fn write_to(output: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = output.write_fmt(text);
}

fn as_double(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Double(number) => Some(*number),
        _ => None,
    }
}

/// Symbols as in the English locale.
fn not_finite(number: f64) -> String {
    match (number.is_nan(), number > 0.0) {
        (true, _) => "NaN",
        (_, true) => "\u{221e}",
        _ => "-\u{221e}",
    }
    .to_owned()
}

/// A number with this many decimal places, and commas between groups of three digits.
fn fixed_point(number: f64, precision: usize) -> String {
    if !number.is_finite() {
        return not_finite(number);
    }
    let text = format!("{number:.precision$}");
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let (sign, digits) = whole.split_at(usize::from(whole.starts_with('-')));
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}{fraction}")
}

/// A number such as `1.234500\u{d7}10\u{2070}\u{b3}`, always with six decimal places.
fn scientific(number: f64) -> String {
    if !number.is_finite() {
        return not_finite(number);
    }
    let text = format!("{number:.DEFAULT_PRECISION$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ("\u{207b}", digits),
        None => ("", exponent),
    };
    let digits = format!("{digits:0>2}");
    let raised: String = digits.chars().map(superscript).collect();
    format!("{mantissa}\u{d7}10{sign}{raised}")
}

fn superscript(digit: char) -> char {
    match digit {
        '1' => '\u{b9}',
        '2' => '\u{b2}',
        '3' => '\u{b3}',
        _ => char::from_u32(0x2070 + digit.to_digit(10).unwrap_or_default()).unwrap_or(digit),
    }
}

fn signed(number: i64, show: impl Fn(u64) -> String) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", show(number.unsigned_abs()))
}

fn hexadecimal(value: &Value<'_>, is_upper: bool) -> Result<String, String> {
    let bytes = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let text = match value {
        Value::Int(number) => signed(*number, |unsigned| format!("{unsigned:x}")),
        Value::Uint(number) => format!("{number:x}"),
        Value::String(text) => bytes(text.as_str().as_bytes()),
        Value::Bytes(own) => bytes(own),
        _ => return Err("only integers, byte buffers, and strings can be formatted as hex".to_owned()),
    };
    Ok(if is_upper { text.to_uppercase() } else { text })
}

/// A value as `%s` prints it.
fn display(value: &Value<'_>) -> Result<String, String> {
    Ok(match value {
        Value::String(text) => text.as_str().to_owned(),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Double(number) => double_to_string(*number),
        Value::Duration(duration) => time::format_duration(*duration),
        Value::Timestamp(timestamp) => timestamp.to_string(),
        other => return display_nested(other),
    })
}

/// A value in a list or a map: strings are quoted, and durations and timestamps have the form of calls.
fn display_nested(value: &Value<'_>) -> Result<String, String> {
    Ok(match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Double(number) if number.is_finite() => format!("{number:.6}"),
        Value::Double(number) => format!("{:?}", double_to_string(*number)),
        Value::String(text) => format!("{:?}", text.as_str()),
        Value::Bytes(bytes) => format!("b{:?}", String::from_utf8_lossy(bytes)),
        Value::Duration(duration) => format!("duration({:?})", time::format_duration(*duration)),
        Value::Timestamp(timestamp) => format!("timestamp(\"{timestamp}\")"),
        Value::Type(own) => own.name(),
        Value::List(list) => {
            let items: Result<Vec<String>, String> = list.iter().map(|item| display_nested(&item)).collect();
            format!("[{}]", items?.join(", "))
        }
        Value::Map(map) => {
            let mut entries = Vec::new();
            for (key, value) in map.entries() {
                entries.push(format!("{}:{}", display_nested(&key)?, display_nested(&value)?));
            }
            entries.sort();
            format!("{{{}}}", entries.join(", "))
        }
        Value::Optional(_) | Value::Opaque(_) => return Err(STRING_CLAUSE.to_owned()),
    })
}
