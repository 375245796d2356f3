//! Strings. Positions are counted in characters.

use regex::Regex;

use super::{Builtin, lists, no_such_overload};
use crate::value::Value;

mod format;
mod quote;

pub(crate) use format::{STRING_CLAUSE, clauses as format_clauses};

pub(super) const FUNCTIONS: &[(&str, Builtin)] = &[
    ("contains", |args, _| test(args, |text, part| text.contains(part))),
    ("startsWith", |args, _| {
        test(args, |text, part| text.starts_with(part))
    }),
    ("endsWith", |args, _| {
        test(args, |text, part| text.ends_with(part))
    }),
    ("charAt", char_at),
    ("indexOf", index_of),
    ("lastIndexOf", last_index_of),
    ("lowerAscii", |args, _| map(args, str::to_ascii_lowercase)),
    ("upperAscii", |args, _| map(args, str::to_ascii_uppercase)),
    ("trim", |args, _| map(args, |text| text.trim().to_owned())),
    ("strings.quote", |args, _| map(args, quote::quote)),
    ("jsonpatch.escapeKey", |args, _| {
        map(args, |text| text.replace('~', "~0").replace('/', "~1"))
    }),
    ("replace", replace),
    ("split", split),
    ("substring", substring),
    ("join", join),
    ("format", format::format),
];

type Outcome<'a> = Result<Value<'a>, String>;

fn test<'a>(args: &[Value<'a>], run: impl FnOnce(&str, &str) -> bool) -> Outcome<'a> {
    match args {
        [Value::String(text), Value::String(part)] => Ok(Value::Bool(run(text.as_str(), part.as_str()))),
        _ => no_such_overload(),
    }
}

fn map<'a>(args: &[Value<'a>], run: impl FnOnce(&str) -> String) -> Outcome<'a> {
    match args {
        [Value::String(text)] => Ok(Value::string(run(text.as_str()))),
        _ => no_such_overload(),
    }
}

fn out_of_range<T>(index: i64) -> Result<T, String> {
    Err(format!("index out of range: {index}"))
}

fn position(index: usize) -> Value<'static> {
    Value::Int(i64::try_from(index).unwrap_or(i64::MAX))
}

fn char_at<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    let [Value::String(text), Value::Int(index)] = args else {
        return no_such_overload();
    };
    let length = text.as_str().chars().count();
    match usize::try_from(*index) {
        Ok(at) if at <= length => {
            let found: String = text.as_str().chars().skip(at).take(1).collect();
            Ok(Value::string(found))
        }
        _ => out_of_range(*index),
    }
}

fn index_of<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    let (text, part, from) = match args {
        [Value::String(text), Value::String(part)] => (text, part, 0),
        [Value::String(text), Value::String(part), Value::Int(from)] => (text, part, *from),
        [Value::List(list), item] => return Ok(lists::position_of(list, item)),
        _ => return no_such_overload(),
    };
    let (text, part) = (text.as_str(), part.as_str());
    if part.is_empty() && args.len() == 2 {
        return Ok(Value::Int(0));
    }
    let length = text.chars().count();
    let Some(skipped) = usize::try_from(from).ok().filter(|from| *from <= length) else {
        return out_of_range(from);
    };
    if part.is_empty() {
        return Ok(Value::Int(from));
    }
    let start = byte_offset(text, skipped);
    let found = text[start..].find(part);
    Ok(found.map_or(Value::Int(-1), |at| {
        position(skipped + text[start..start + at].chars().count())
    }))
}

fn last_index_of<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    let (text, part, up_to) = match args {
        [Value::String(text), Value::String(part)] => (text.as_str(), part.as_str(), None),
        [Value::String(text), Value::String(part), Value::Int(up_to)] => {
            (text.as_str(), part.as_str(), Some(*up_to))
        }
        [Value::List(list), item] => return Ok(lists::last_position_of(list, item)),
        _ => return no_such_overload(),
    };
    let length = text.chars().count();
    let up_to = match up_to {
        None => length,
        Some(up_to) => match usize::try_from(up_to) {
            Ok(at) if at <= length => at,
            _ => return out_of_range(up_to),
        },
    };
    if part.is_empty() {
        return Ok(position(up_to));
    }
    let end = byte_offset(text, up_to.saturating_add(part.chars().count()).min(length));
    let found = text[..end].rfind(part);
    Ok(found.map_or(Value::Int(-1), |at| position(text[..at].chars().count())))
}

fn byte_offset(text: &str, characters: usize) -> usize {
    text.char_indices()
        .nth(characters)
        .map_or(text.len(), |(offset, _)| offset)
}

fn replace<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    match args {
        [Value::String(text), Value::String(old), Value::String(new)] => {
            Ok(Value::string(text.as_str().replace(old.as_str(), new.as_str())))
        }
        [
            Value::String(text),
            Value::String(old),
            Value::String(new),
            Value::Int(limit),
        ] => {
            let limit = usize::try_from(*limit).unwrap_or(usize::MAX);
            Ok(Value::string(text.as_str().replacen(
                old.as_str(),
                new.as_str(),
                limit,
            )))
        }
        _ => no_such_overload(),
    }
}

fn split<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    let (text, separator, limit) = match args {
        [Value::String(text), Value::String(separator)] => (text.as_str(), separator.as_str(), -1),
        [Value::String(text), Value::String(separator), Value::Int(limit)] => {
            (text.as_str(), separator.as_str(), *limit)
        }
        _ => return no_such_overload(),
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let parts: Vec<&str> = match (separator, limit) {
        (_, 0) => Vec::new(),
        ("", _) => split_characters(text, limit),
        _ => text.splitn(limit, separator).collect(),
    };
    Ok(Value::list(parts.into_iter().map(Value::string).collect()))
}

fn split_characters(text: &str, limit: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if parts.len() + 1 == limit {
            parts.push(rest);
            break;
        }
        let (head, tail) = rest.split_at(first.len_utf8());
        parts.push(head);
        rest = tail;
    }
    parts
}

fn substring<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    let (text, start, end) = match args {
        [Value::String(text), Value::Int(start)] => (text.as_str(), *start, None),
        [Value::String(text), Value::Int(start), Value::Int(end)] => (text.as_str(), *start, Some(*end)),
        _ => return no_such_overload(),
    };
    let length = text.chars().count();
    let within = |index: i64| usize::try_from(index).ok().filter(|at| *at <= length);
    if let Some(end) = end
        && start > end
    {
        return Err(format!("invalid substring range. start: {start}, end: {end}"));
    }
    let Some(from) = within(start) else {
        return out_of_range(start);
    };
    let to = match end {
        None => length,
        Some(end) => match within(end) {
            Some(to) => to,
            None => return out_of_range(end),
        },
    };
    let (from, to) = (byte_offset(text, from), byte_offset(text, to));
    Ok(Value::string(&text[from..to]))
}

fn join<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    let (list, separator) = match args {
        [Value::List(list)] => (list, ""),
        [Value::List(list), Value::String(separator)] => (list, separator.as_str()),
        _ => return no_such_overload(),
    };
    let mut joined = String::new();
    for (at, item) in list.iter().enumerate() {
        let Some(text) = item.as_str() else {
            return Err(format!("join: invalid input: {}", item.display()));
        };
        if at > 0 {
            joined.push_str(separator);
        }
        joined.push_str(text);
    }
    Ok(Value::string(joined))
}
