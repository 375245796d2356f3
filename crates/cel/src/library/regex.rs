//! Regular expressions: `matches`, `find` and `findAll`.

use regex::Regex;

use super::{Builtin, no_such_overload};
use crate::plan::Step;
use crate::value::Value;

pub(super) const FUNCTIONS: &[(&str, Builtin)] =
    &[("matches", matches), ("find", find), ("findAll", find_all)];

/// The memory of a compiled expression.
const MAX_BYTES: usize = 1 << 20;

/// Compiles the pattern of a call if it is a constant, so that it is compiled once.
pub(crate) fn of_constant(function: &str, args: &[Step]) -> Result<Option<Regex>, String> {
    match (function, args.get(1)) {
        ("matches" | "find" | "findAll", Some(Step::Constant(Value::String(pattern)))) => {
            compile(pattern.as_str()).map(Some)
        }
        _ => Ok(None),
    }
}

pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    regex::RegexBuilder::new(pattern)
        .size_limit(MAX_BYTES)
        .build()
        .map_err(|_| format!("error parsing regexp: `{pattern}`"))
}

/// Runs with the pattern's expression, compiled now if it is not a constant.
fn with<'a, T>(
    args: &[Value<'a>],
    compiled: Option<&Regex>,
    run: impl FnOnce(&str, &Regex) -> T,
) -> Result<T, String> {
    let (Some(Value::String(text)), Some(Value::String(pattern))) = (args.first(), args.get(1)) else {
        return no_such_overload();
    };
    match compiled {
        Some(compiled) => Ok(run(text.as_str(), compiled)),
        None => Ok(run(text.as_str(), &compile(pattern.as_str())?)),
    }
}

fn matches<'a>(args: &[Value<'a>], compiled: Option<&Regex>) -> Result<Value<'a>, String> {
    with(args, compiled, |text, regex| Value::Bool(regex.is_match(text)))
}

fn find<'a>(args: &[Value<'a>], compiled: Option<&Regex>) -> Result<Value<'a>, String> {
    with(args, compiled, |text, regex| {
        Value::string(regex.find(text).map_or("", |found| found.as_str()))
    })
}

fn find_all<'a>(args: &[Value<'a>], compiled: Option<&Regex>) -> Result<Value<'a>, String> {
    let limit = match args.get(2) {
        None => usize::MAX,
        Some(Value::Int(limit)) => usize::try_from(*limit).unwrap_or(usize::MAX),
        Some(_) => return no_such_overload(),
    };
    with(args, compiled, |text, regex| {
        let found = regex.find_iter(text).take(limit);
        Value::list(found.map(|one| Value::string(one.as_str())).collect())
    })
}
