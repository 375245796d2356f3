//! Escaping: `html`, `js` and `urlquery`.

use std::fmt::Write;

use crate::format;
use crate::functions::Context;
use crate::unicode::is_print;
use crate::value::{Operand, Value};

/// The text of all arguments, as `print` gives it.
fn text(context: &Context<'_>, args: &[Operand]) -> Result<String, String> {
    let no_value = Value::string("<no value>");
    let printable = |arg| match arg {
        &Value::Nil => &no_value,
        value => value,
    };
    let values = args.iter().map(|arg| printable(&arg.value));
    format::print(values, context.budget())
}

pub(super) fn html(context: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let mut out = String::new();
    for c in text(context, args)?.chars() {
        match c {
            '\0' => out.push('\u{fffd}'),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            c => out.push(c),
        }
    }
    Ok(Value::string(out))
}

pub(super) fn js(context: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let mut out = String::new();
    for c in text(context, args)?.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\'' => out.push_str("\\'"),
            '"' => out.push_str("\\\""),
            '<' => out.push_str("\\u003C"),
            '>' => out.push_str("\\u003E"),
            '&' => out.push_str("\\u0026"),
            '=' => out.push_str("\\u003D"),
            c if c < ' ' || (!c.is_ascii() && !is_print(c)) => {
                write!(out, "\\u{:04X}", u32::from(c)).map_err(|error| error.to_string())?;
            }
            c => out.push(c),
        }
    }
    Ok(Value::string(out))
}

pub(super) fn urlquery(context: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let mut out = String::new();
    for byte in text(context, args)?.bytes() {
        match byte {
            b' ' => out.push('+'),
            b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => out.push(char::from(byte)),
            byte => write!(out, "%{byte:02X}").map_err(|error| error.to_string())?,
        }
    }
    Ok(Value::string(out))
}
