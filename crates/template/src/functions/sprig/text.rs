//! Strings: trimming, searching, splitting, joining, quoting and indenting.

use std::collections::BTreeMap;

use super::super::Type::{Any, Int, String as Text};
use super::super::{Context, Row, row, variadic};
use super::cast::{to_text, to_texts};
use crate::format;
use crate::quote;
use crate::unicode::is_space;
use crate::value::{ElementType, Map, Operand, Value};

pub(super) const ROWS: &[Row] = &[
    row("hello", &[], |_, _| text("Hello!")),
    row("trim", &[Text], |_, args| {
        text(args[0].as_str().trim_matches(is_space))
    }),
    row("trimAll", &[Text, Text], trim_all),
    row("trimall", &[Text, Text], trim_all),
    row("trimSuffix", &[Text, Text], |_, args| {
        let value = args[1].as_str();
        text(value.strip_suffix(args[0].as_str()).unwrap_or(value))
    }),
    row("trimPrefix", &[Text, Text], |_, args| {
        let value = args[1].as_str();
        text(value.strip_prefix(args[0].as_str()).unwrap_or(value))
    }),
    row("repeat", &[Int, Text], repeat),
    row("substr", &[Int, Int, Text], substr),
    row("trunc", &[Int, Text], trunc),
    row("nospace", &[Text], |_, args| {
        text(without_spaces(args[0].as_str()))
    }),
    row("contains", &[Text, Text], |_, args| {
        truth(args[1].as_str().contains(args[0].as_str()))
    }),
    row("hasPrefix", &[Text, Text], |_, args| {
        truth(args[1].as_str().starts_with(args[0].as_str()))
    }),
    row("hasSuffix", &[Text, Text], |_, args| {
        truth(args[1].as_str().ends_with(args[0].as_str()))
    }),
    variadic("quote", &[Any], quote_all),
    variadic("squote", &[Any], squote_all),
    variadic("cat", &[Any], cat),
    row("indent", &[Int, Text], |context, args| indent(context, args, "")),
    row("nindent", &[Int, Text], |context, args| {
        indent(context, args, "\n")
    }),
    row("replace", &[Text, Text, Text], replace),
    row("plural", &[Text, Text, Int], |_, args| {
        text(args[usize::from(args[2].as_int() != 1)].as_str())
    }),
    row("toString", &[Any], |context, args| {
        Ok(Value::string(to_text(context, &args[0].value)?))
    }),
    row("toStrings", &[Any], |context, args| {
        Ok(Value::strings(to_texts(context, &args[0].value)?))
    }),
    row("join", &[Text, Any], |context, args| {
        let items = to_texts(context, &args[1].value)?;
        context.charge(items.len().saturating_mul(args[0].as_str().len()))?;
        text(items.join(args[0].as_str()))
    }),
    row("split", &[Text, Text], |_, args| {
        numbered(split(args[1].as_str(), args[0].as_str(), -1))
    }),
    row("splitn", &[Text, Int, Text], |_, args| {
        numbered(split(args[2].as_str(), args[0].as_str(), args[1].as_int()))
    }),
    row("splitList", &[Text, Text], |_, args| {
        Ok(Value::strings(split(args[1].as_str(), args[0].as_str(), -1)))
    }),
    row("fail", &[Text], |_, args| Err(args[0].as_str().to_owned())),
];

pub(super) fn text(text: impl Into<std::rc::Rc<str>>) -> Result<Value, String> {
    Ok(Value::string(text))
}

pub(super) fn truth(value: bool) -> Result<Value, String> {
    Ok(Value::Bool(value))
}

/// The string without spaces. As in Sprig, each byte is taken as a character.
fn without_spaces(value: &str) -> String {
    value.bytes().map(char::from).filter(|c| !is_space(*c)).collect()
}

fn trim_all(_: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let cut = args[0].as_str();
    text(args[1].as_str().trim_matches(|c| cut.contains(c)))
}

fn repeat(context: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let count = usize::try_from(args[0].as_int()).map_err(|_| "strings: negative Repeat count")?;
    context.charge(count.saturating_mul(args[1].as_str().len()).saturating_add(1))?;
    text(args[1].as_str().repeat(count))
}

/// Bytes of a string from start to end. A character that is cut becomes U+FFFD.
pub(super) fn bytes(value: &str, start: i64, end: i64) -> Result<String, String> {
    let length = value.len() as i64;
    if end < 0 || end > length {
        return Err(format!(
            "runtime error: slice bounds out of range [:{end}]{}",
            with_length(end, length)
        ));
    }
    if start < 0 || start > end {
        let to = if start < 0 { String::new() } else { end.to_string() };
        return Err(format!("runtime error: slice bounds out of range [{start}:{to}]"));
    }
    let range = usize::try_from(start).unwrap_or(0)..usize::try_from(end).unwrap_or(0);
    Ok(String::from_utf8_lossy(&value.as_bytes()[range]).into_owned())
}

fn with_length(end: i64, length: i64) -> String {
    if end < 0 {
        String::new()
    } else {
        format!(" with length {length}")
    }
}

fn substr(_: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let (start, end, value) = (args[0].as_int(), args[1].as_int(), args[2].as_str());
    let length = value.len() as i64;
    if start < 0 {
        return text(bytes(value, 0, end)?);
    }
    match end < 0 || end > length {
        true => text(bytes(value, start, length)?),
        false => text(bytes(value, start, end)?),
    }
}

fn trunc(_: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let (count, value) = (args[0].as_int(), args[1].as_str());
    let length = value.len() as i64;
    if count < 0 && length + count > 0 {
        return text(bytes(value, length + count, length)?);
    }
    match count >= 0 && length > count {
        true => text(bytes(value, 0, count)?),
        false => text(value),
    }
}

fn quote_all(context: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let values = args.iter().filter(|arg| !matches!(arg.value, Value::Nil));
    let quoted = values.map(|arg| Ok(quote::quote(&to_text(context, &arg.value)?)));
    text(quoted.collect::<Result<Vec<String>, String>>()?.join(" "))
}

fn squote_all(context: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let values = args.iter().filter(|arg| !matches!(arg.value, Value::Nil));
    let quoted = values.map(|arg| {
        Ok(format!(
            "'{}'",
            format::print_verb(&arg.value, 'v', context.budget())?
        ))
    });
    text(quoted.collect::<Result<Vec<String>, String>>()?.join(" "))
}

fn cat(context: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let values = args.iter().filter(|arg| !matches!(arg.value, Value::Nil));
    let texts = values.map(|arg| format::print_verb(&arg.value, 'v', context.budget()));
    text(texts.collect::<Result<Vec<String>, String>>()?.join(" "))
}

fn indent(context: &Context<'_>, args: &[Operand], before: &str) -> Result<Value, String> {
    let spaces = usize::try_from(args[0].as_int()).map_err(|_| "strings: negative Repeat count")?;
    let value = args[1].as_str();
    let lines = value.matches('\n').count() + 1;
    context.charge(spaces.saturating_mul(lines))?;
    let pad = " ".repeat(spaces);
    text(format!(
        "{before}{pad}{}",
        value.replace('\n', &format!("\n{pad}"))
    ))
}

fn replace(context: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let (old, new, value) = (args[0].as_str(), args[1].as_str(), args[2].as_str());
    let matches = value.matches(old).count();
    context.charge(matches.saturating_mul(new.len()))?;
    text(value.replace(old, new))
}

/// The pieces between separators, at most `limit` unless it is negative. An empty separator splits characters.
pub(super) fn split(value: &str, separator: &str, limit: i64) -> Vec<String> {
    let limit = match limit {
        0 => return Vec::new(),
        limit => usize::try_from(limit).unwrap_or(usize::MAX),
    };
    if !separator.is_empty() {
        return value.splitn(limit, separator).map(str::to_owned).collect();
    }
    let mut pieces: Vec<String> = Vec::new();
    let mut rest = value;
    while let Some(c) = rest.chars().next() {
        if pieces.len() + 1 == limit {
            pieces.push(rest.to_owned());
            break;
        }
        pieces.push(c.to_string());
        rest = &rest[c.len_utf8()..];
    }
    pieces
}

/// A `map[string]string` with the keys `_0`, `_1` and so on.
fn numbered(pieces: Vec<String>) -> Result<Value, String> {
    let entry = |(i, piece): (usize, String)| (format!("_{i}"), Value::string(piece));
    let entries: BTreeMap<String, Value> = pieces.into_iter().enumerate().map(entry).collect();
    Ok(Value::Map(Map::new(ElementType::String, entries)))
}
