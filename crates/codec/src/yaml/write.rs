//! Writes a tree as block YAML, as kube-apiserver does: keys sorted, lists not indented.

use std::fmt::Write;

use setpoint_schema::{Map, Tree};

use super::fold::ScalarWriter;
use super::scalar;

/// A longer key is written as an explicit key, after `?`, as kube-apiserver does.
const SIMPLE_KEY_BYTES: usize = 128;

/// The tree as YAML text, with a line break at the end.
pub fn write(tree: &Tree) -> String {
    let mut out = String::new();
    match tree {
        Tree::Map(map) if !map.is_empty() => write_map(map, 0, &mut out),
        Tree::List(items) if !items.is_empty() => write_list(items, 0, &mut out),
        other => {
            write_scalar(other, 0, &mut out);
            out.push('\n');
        }
    }
    out
}

/// Writes the lines of a map; the first continues the last line of the output.
fn write_map(map: &Map, indent: usize, out: &mut String) {
    let mut pairs: Vec<_> = map.iter().collect();
    pairs.sort_by(|left, right| left.0.cmp(right.0));
    for (at, (key, value)) in pairs.into_iter().enumerate() {
        if at > 0 {
            pad(indent, out);
        }
        if key.len() > SIMPLE_KEY_BYTES {
            write_long_pair(key, value, indent, out);
            continue;
        }
        write_text(key, &mut ScalarWriter::single_line(out));
        out.push(':');
        write_value(value, indent, out);
    }
}

/// Writes a long key after `?`, and its value on a line of its own: no reader accepts a key of more than
/// 1024 characters otherwise.
fn write_long_pair(key: &str, value: &Tree, indent: usize, out: &mut String) {
    out.push_str("? ");
    write_text(key, &mut ScalarWriter::folded(indent + 2, out));
    out.push('\n');
    pad(indent, out);
    out.push_str(": ");
    write_item(value, indent + 2, out);
}

fn write_value(value: &Tree, indent: usize, out: &mut String) {
    match value {
        Tree::Map(map) if !map.is_empty() => {
            out.push('\n');
            pad(indent + 2, out);
            write_map(map, indent + 2, out);
        }
        Tree::List(items) if !items.is_empty() => {
            out.push('\n');
            pad(indent, out);
            write_list(items, indent, out);
        }
        other => {
            out.push(' ');
            write_scalar(other, indent + 2, out);
            out.push('\n');
        }
    }
}

/// Writes the lines of a list; the first continues the last line of the output.
fn write_list(items: &[Tree], indent: usize, out: &mut String) {
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            pad(indent, out);
        }
        out.push_str("- ");
        write_item(item, indent + 2, out);
    }
}

/// Writes a value that begins on the last line of the output.
fn write_item(item: &Tree, indent: usize, out: &mut String) {
    match item {
        Tree::Map(map) if !map.is_empty() => write_map(map, indent, out),
        Tree::List(inner) if !inner.is_empty() => write_list(inner, indent, out),
        other => {
            write_scalar(other, indent, out);
            out.push('\n');
        }
    }
}

fn pad(indent: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', indent));
}

fn write_scalar(value: &Tree, indent: usize, out: &mut String) {
    match value {
        Tree::Null => out.push_str("null"),
        Tree::List(_) => out.push_str("[]"),
        Tree::Map(_) => out.push_str("{}"),
        Tree::Str(text) if is_block(text) => write_block(text, indent, out),
        Tree::Str(text) => write_text(text, &mut ScalarWriter::folded(indent, out)),
        Tree::Bool(value) => write!(out, "{value}").expect("a string takes any text"),
        Tree::Int(number) => write!(out, "{number}").expect("a string takes any text"),
        Tree::Float(number) => write_float(*number, out),
    }
}

fn write_float(number: f64, out: &mut String) {
    let mut bytes = Vec::new();
    setpoint_schema::write::write_number(number, &mut bytes);
    out.push_str(&String::from_utf8_lossy(&bytes));
}

fn write_text(text: &str, line: &mut ScalarWriter<'_>) {
    if text.is_empty() || text.chars().any(needs_escape) {
        return line.double_quoted(text, escape);
    }
    match (scalar::is_ambiguous(text), is_plain(text)) {
        (false, true) => line.plain(text),
        (true, true) => line.double_quoted(text, escape),
        _ => line.single_quoted(text),
    }
}

/// Whether a text has several lines of printable characters, so that a literal block can hold it.
fn is_block(text: &str) -> bool {
    text.contains('\n')
        && !text.starts_with([' ', '\n', '\t'])
        && text.chars().all(|c| c == '\n' || !needs_escape(c))
}

fn write_block(text: &str, indent: usize, out: &mut String) {
    let body = text.trim_end_matches('\n');
    out.push_str(match text.len() - body.len() {
        0 => "|-",
        1 => "|",
        _ => "|+",
    });
    let lines = text.strip_suffix('\n').unwrap_or(text);
    for line in lines.split('\n') {
        out.push('\n');
        if !line.is_empty() {
            pad(indent, out);
            out.push_str(line);
        }
    }
}

/// Whether a text may be written unquoted, apart from its type.
fn is_plain(text: &str) -> bool {
    let Some(first) = text.chars().next() else {
        return false;
    };
    let special_first = ",[]{}#&*!|>'\"%@`".contains(first);
    let dash_first = "-?:".contains(first) && text[1..].chars().next().is_none_or(|next| next == ' ');
    let framed = text.starts_with("---") || text.starts_with("...");
    let spaced = text.starts_with(' ') || text.ends_with(' ');
    !(special_first
        || dash_first
        || framed
        || spaced
        || text.contains(": ")
        || text.contains(" #")
        || text.ends_with(':'))
}

fn needs_escape(c: char) -> bool {
    c.is_control() || matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}')
}

/// The escape of a character within double quotes, if it needs one.
fn escape(c: char) -> Option<String> {
    Some(match c {
        '"' => "\\\"".to_owned(),
        '\\' => "\\\\".to_owned(),
        '\n' => "\\n".to_owned(),
        '\t' => "\\t".to_owned(),
        '\r' => "\\r".to_owned(),
        c if needs_escape(c) && (c as u32) < 0x100 => format!("\\x{:02x}", c as u32),
        c if needs_escape(c) => format!("\\u{:04x}", c as u32),
        _ => return None,
    })
}
