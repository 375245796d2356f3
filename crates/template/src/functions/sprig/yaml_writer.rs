//! YAML text of values, in the style of `sigs.k8s.io/yaml`.

use std::cmp::Ordering;
use std::sync::LazyLock;

use regex::Regex;

use super::json_writer;
use crate::functions::Context;
use crate::time_format;
use crate::unicode::{is_digit, is_letter, is_print};
use crate::value::{MAX_DEPTH, Value};

/// The YAML text of a value, without a newline at its end.
pub(super) fn to_yaml(context: &Context<'_>, value: &Value) -> Result<String, String> {
    let mut out = String::new();
    let mut writer = Writer {
        context,
        out: &mut out,
    };
    writer.node(value, 0)?;
    Ok(out.trim_end_matches('\n').to_owned())
}

struct Writer<'a, 'c> {
    context: &'a Context<'c>,
    out: &'a mut String,
}

impl Writer<'_, '_> {
    /// A value at the start of a line or after an indicator, with its newline.
    fn node(&mut self, value: &Value, indent: usize) -> Result<(), String> {
        self.context.charge(1 + super::super::size(value))?;
        if indent > 2 * MAX_DEPTH {
            return Err(format!("yaml: values deeper than {MAX_DEPTH} levels"));
        }
        match value {
            Value::List(list) if !list.items().is_empty() => self.list(list.items(), indent),
            Value::Map(map) if !map.is_empty() => self.map(map.entries(), indent),
            _ => {
                let text = self.scalar(value, indent)?;
                self.out.push_str(&text);
                self.out.push('\n');
                Ok(())
            }
        }
    }

    fn pad(&mut self, i: usize, indent: usize) {
        if i > 0 {
            self.out.push_str(&" ".repeat(indent));
        }
    }

    fn list(&mut self, items: &[Value], indent: usize) -> Result<(), String> {
        for (i, item) in items.iter().enumerate() {
            self.pad(i, indent);
            self.out.push_str("- ");
            self.node(item, indent + 2)?;
        }
        Ok(())
    }

    fn map(&mut self, mut entries: Vec<(String, Value)>, indent: usize) -> Result<(), String> {
        entries.sort_by(|a, b| compare_keys(&a.0, &b.0));
        for (i, (key, value)) in entries.iter().enumerate() {
            self.pad(i, indent);
            let key = string(key, indent);
            self.out.push_str(&key);
            self.out.push(':');
            match value {
                Value::List(list) if !list.items().is_empty() => {
                    self.out.push('\n');
                    self.out.push_str(&" ".repeat(indent));
                    self.node(value, indent)?;
                }
                Value::Map(map) if !map.is_empty() => {
                    self.out.push('\n');
                    self.out.push_str(&" ".repeat(indent + 2));
                    self.node(value, indent + 2)?;
                }
                _ => {
                    self.out.push(' ');
                    self.node(value, indent)?;
                }
            }
        }
        Ok(())
    }

    fn scalar(&self, value: &Value, indent: usize) -> Result<String, String> {
        Ok(match value {
            _ if value.is_nil() => "null".to_owned(),
            Value::Bool(value) => value.to_string(),
            Value::Float(number) => float(*number)?,
            Value::String(text) => string(text, indent),
            Value::List(_) => "[]".to_owned(),
            Value::Map(_) => "{}".to_owned(),
            Value::Time(time) => string(&time_format::format(time, time_format::RFC3339_NANO), indent),
            Value::Version(version) => string(&version.to_string(), indent),
            Value::Complex(..) | Value::Function(_) => {
                return Err(format!("json: unsupported type: {}", value.type_name()));
            }
            value => value.as_integer().unwrap_or(0).to_string(),
        })
    }
}

/// A number; whole ones are integers in YAML.
fn float(number: f64) -> Result<String, String> {
    let json = json_writer::float(number)?;
    match json.parse::<i64>() {
        Ok(_) => Ok(json),
        Err(_) => Ok(crate::format::format_float(number, 'g', None)),
    }
}

/// Texts that YAML would read as something else than a string.
static RESOLVED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"^(?:|~|null|Null|NULL|true|True|TRUE|false|False|FALSE|y|Y|yes|Yes|YES|n|N|no|No|NO|on|On|ON|off|Off|OFF|<<",
        r"|[-+]?[0-9][0-9_]*|[-+]?0x[0-9a-fA-F_]+|[-+]?0b[01_]+|[-+]?0o[0-7_]+",
        r"|[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.nan|\.NaN|\.NAN",
        r"|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?",
        r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:(?:[Tt]|[ \t]+)[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]*)?.*)?)$"
    ))
    .expect("the pattern is constant")
});

/// A string: plain, quoted, or as a block if it has several lines.
fn string(text: &str, indent: usize) -> String {
    let is_special = |c: char| !is_print(c) && c != '\n';
    if text.chars().any(is_special) {
        return double_quoted(text);
    }
    if text.contains('\n') {
        return match text.starts_with(' ') || text.contains(" \n") || text.trim_matches('\n').is_empty() {
            true => double_quoted(text),
            false => literal(text, indent),
        };
    }
    if RESOLVED.is_match(text) {
        return double_quoted(text);
    }
    match is_plain(text) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "''")),
    }
}

/// A block with its lines as they are.
fn literal(text: &str, indent: usize) -> String {
    let pad = " ".repeat(indent + 2);
    let body = text.trim_end_matches('\n');
    let hint = match text.len() - body.len() {
        0 => "-",
        1 => "",
        _ => "+",
    };
    let lines = body.split('\n').map(|line| match line {
        "" => String::new(),
        line => format!("{pad}{line}"),
    });
    let extra = "\n".repeat((text.len() - body.len()).saturating_sub(1));
    format!("|{hint}\n{}{extra}", lines.collect::<Vec<_>>().join("\n"))
}

fn double_quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\0' => out.push_str("\\0"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            '\u{1b}' => out.push_str("\\e"),
            c if is_print(c) => out.push(c),
            c if u32::from(c) < 0x100 => out.push_str(&format!("\\x{:02X}", u32::from(c))),
            c if u32::from(c) < 0x10000 => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push_str(&format!("\\U{:08X}", u32::from(c))),
        }
    }
    out.push('"');
    out
}

/// Whether a text of one line can stand without quotes.
fn is_plain(text: &str) -> bool {
    let mut chars = text.chars();
    let first = chars.next().unwrap_or(' ');
    let second = chars.next();
    let is_indicator = "#,[]{}&*!|>'\"%@`".contains(first)
        || (matches!(first, '?' | ':' | '-') && second.is_none_or(|c| c == ' '));
    !is_indicator
        && !text.starts_with(' ')
        && !text.ends_with(' ')
        && !text.starts_with("---")
        && !text.starts_with("...")
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.ends_with(':')
}

/// The order of keys: letters after other characters, and numbers by their value.
fn compare_keys(a: &str, b: &str) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let Some(i) = a.iter().zip(&b).position(|(a, b)| a != b) else {
        return a.len().cmp(&b.len());
    };
    match (is_letter(a[i]), is_letter(b[i])) {
        (true, true) => return a[i].cmp(&b[i]),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    let is_inside_number = (a[i] == '0' || b[i] == '0')
        && a[..i]
            .iter()
            .rev()
            .take_while(|c| is_digit(**c))
            .any(|c| *c != '0');
    let number = |chars: &[char]| {
        let digits = chars[i..].iter().take_while(|c| is_digit(**c));
        let start = (i64::from(is_inside_number), 0_usize);
        digits.fold(start, |(number, count), c| {
            let digit = i64::from(c.to_digit(10).unwrap_or(0));
            (number.wrapping_mul(10).wrapping_add(digit), count + 1)
        })
    };
    number(&a).cmp(&number(&b)).then_with(|| a[i].cmp(&b[i]))
}
