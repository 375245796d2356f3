//! JSON text of values, as Go's `encoding/json` writes it.

use std::fmt::Write;

use crate::format::format_float;
use crate::functions::Context;
use crate::time_format;
use crate::value::{MAX_DEPTH, Value};

/// The style of the text.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Style {
    /// Whether there is a line for each element, with this many spaces per level.
    pub(super) indent: Option<usize>,
    /// Whether `<`, `>` and `&` are written as they are.
    pub(super) is_raw: bool,
}

pub(super) fn to_json(context: &Context<'_>, value: &Value, style: Style) -> Result<String, String> {
    let mut out = String::new();
    let mut writer = Writer {
        context,
        style,
        out: &mut out,
    };
    writer.write(value, 0)?;
    context.charge(out.len())?;
    Ok(out)
}

struct Writer<'a, 'c> {
    context: &'a Context<'c>,
    style: Style,
    out: &'a mut String,
}

impl Writer<'_, '_> {
    fn write(&mut self, value: &Value, depth: usize) -> Result<(), String> {
        self.context.charge(1 + super::super::size(value))?;
        if depth > MAX_DEPTH {
            return Err(format!("json: values deeper than {MAX_DEPTH} levels"));
        }
        match value {
            _ if value.is_nil() => self.out.push_str("null"),
            Value::Bool(value) => self.out.push_str(if *value { "true" } else { "false" }),
            Value::Float(number) => self.out.push_str(&float(*number)?),
            Value::String(text) => self.string(text),
            Value::Time(time) => {
                let text = time_format::format(time, time_format::RFC3339_NANO);
                self.string(&text);
            }
            Value::Version(version) => self.string(&version.to_string()),
            Value::List(list) => self.list(list.items(), depth)?,
            Value::Map(map) => self.map(&map.entries(), depth)?,
            Value::Complex(..) | Value::Function(_) => {
                return Err(format!("json: unsupported type: {}", value.type_name()));
            }
            value => {
                let number = value.as_integer().unwrap_or(0);
                self.out.push_str(&number.to_string());
            }
        }
        Ok(())
    }

    fn list(&mut self, items: &[Value], depth: usize) -> Result<(), String> {
        self.out.push('[');
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                self.out.push(',');
            }
            self.newline(depth + 1);
            self.write(item, depth + 1)?;
        }
        if !items.is_empty() {
            self.newline(depth);
        }
        self.out.push(']');
        Ok(())
    }

    fn map(&mut self, entries: &[(String, Value)], depth: usize) -> Result<(), String> {
        self.out.push('{');
        for (i, (key, value)) in entries.iter().enumerate() {
            if i > 0 {
                self.out.push(',');
            }
            self.newline(depth + 1);
            self.string(key);
            self.out.push(':');
            if self.style.indent.is_some() {
                self.out.push(' ');
            }
            self.write(value, depth + 1)?;
        }
        if !entries.is_empty() {
            self.newline(depth);
        }
        self.out.push('}');
        Ok(())
    }

    fn newline(&mut self, depth: usize) {
        if let Some(indent) = self.style.indent {
            self.out.push('\n');
            self.out.push_str(&" ".repeat(indent * depth));
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                c if c < ' '
                    || matches!(c, '\u{2028}' | '\u{2029}')
                    || (!self.style.is_raw && matches!(c, '<' | '>' | '&')) =>
                {
                    // Writing to a string cannot fail.
                    let _ = write!(self.out, "\\u{:04x}", u32::from(c));
                }
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }
}

/// A number in the decimal form, or with an exponent if it is very small or large.
pub(super) fn float(value: f64) -> Result<String, String> {
    if !value.is_finite() {
        return Err(format!(
            "json: unsupported value: {}",
            format_float(value, 'g', None)
        ));
    }
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        let text = format_float(value, 'e', None);
        return Ok(text.replace("e-0", "e-"));
    }
    Ok(format_float(value, 'f', None))
}
