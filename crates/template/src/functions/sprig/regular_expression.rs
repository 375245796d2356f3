//! Regular expressions. The syntax is RE2's, which Go and the `regex` crate share; matching takes linear time.

use regex::{Regex, RegexBuilder};

use super::super::Type::{Int, String as Text};
use super::super::{Context, Row, row};
use super::text::{text, truth};
use crate::value::{ElementType, List, Operand, Value};

pub(super) const ROWS: &[Row] = &[
    row("regexMatch", &[Text, Text], |_, args| {
        truth(compile(&args[0]).is_ok_and(|regex| regex.is_match(args[1].as_str())))
    }),
    row("mustRegexMatch", &[Text, Text], |_, args| {
        truth(compile(&args[0])?.is_match(args[1].as_str()))
    }),
    row("regexFind", &[Text, Text], |_, args| {
        find(&must_compile(&args[0])?, args)
    }),
    row("mustRegexFind", &[Text, Text], |_, args| {
        find(&compile(&args[0])?, args)
    }),
    row("regexFindAll", &[Text, Text, Int], |_, args| {
        find_all(&must_compile(&args[0])?, args)
    }),
    row("mustRegexFindAll", &[Text, Text, Int], |_, args| {
        find_all(&compile(&args[0])?, args)
    }),
    row("regexReplaceAll", &[Text, Text, Text], |context, args| {
        replace_all(context, &must_compile(&args[0])?, args, true)
    }),
    row("mustRegexReplaceAll", &[Text, Text, Text], |context, args| {
        replace_all(context, &compile(&args[0])?, args, true)
    }),
    row("regexReplaceAllLiteral", &[Text, Text, Text], |context, args| {
        replace_all(context, &must_compile(&args[0])?, args, false)
    }),
    row(
        "mustRegexReplaceAllLiteral",
        &[Text, Text, Text],
        |context, args| replace_all(context, &compile(&args[0])?, args, false),
    ),
    row("regexSplit", &[Text, Text, Int], |_, args| {
        Ok(split(&must_compile(&args[0])?, args))
    }),
    row("mustRegexSplit", &[Text, Text, Int], |_, args| {
        Ok(split(&compile(&args[0])?, args))
    }),
    row("regexQuoteMeta", &[Text], |_, args| {
        text(quote_meta(args[0].as_str()))
    }),
];

/// The largest compiled expression.
const MAX_COMPILED_BYTES: usize = 1 << 20;

fn compile(pattern: &Operand) -> Result<Regex, String> {
    let pattern = pattern.as_str();
    let regex = RegexBuilder::new(pattern).size_limit(MAX_COMPILED_BYTES).build();
    regex.map_err(|error| describe(pattern, &error.to_string()))
}

fn must_compile(pattern: &Operand) -> Result<Regex, String> {
    let quoted = match crate::quote::can_backquote(pattern.as_str()) {
        true => format!("`{}`", pattern.as_str()),
        false => crate::quote::quote(pattern.as_str()),
    };
    compile(pattern).map_err(|error| format!("regexp: Compile({quoted}): {error}"))
}

/// The error in the words of Go's `regexp`, for the errors that both have.
fn describe(pattern: &str, error: &str) -> String {
    let problem = error
        .lines()
        .last()
        .unwrap_or_default()
        .trim_start_matches("error: ");
    let text = match problem {
        "unclosed character class" => {
            let open = pattern.rfind('[').unwrap_or(0);
            format!("missing closing ]: `{}`", &pattern[open..])
        }
        "unclosed group" => format!("missing closing ): `{pattern}`"),
        "unopened group" => format!("unexpected ): `{pattern}`"),
        "repetition operator missing expression" => {
            let operator = pattern.chars().find(|c| "*+?".contains(*c)).unwrap_or('*');
            format!("missing argument to repetition operator: `{operator}`")
        }
        problem => format!("{problem}: `{pattern}`"),
    };
    format!("error parsing regexp: {text}")
}

fn find(regex: &Regex, args: &[Operand]) -> Result<Value, String> {
    text(regex.find(args[1].as_str()).map_or("", |found| found.as_str()))
}

fn limit(arg: &Operand) -> usize {
    usize::try_from(arg.as_int()).unwrap_or(usize::MAX)
}

fn find_all(regex: &Regex, args: &[Operand]) -> Result<Value, String> {
    let matches = regex.find_iter(args[1].as_str()).take(limit(&args[2]));
    let matches: Vec<&str> = matches.map(|found| found.as_str()).collect();
    Ok(match matches.is_empty() {
        true => Value::List(List::nil(ElementType::String)),
        false => Value::strings(matches),
    })
}

fn replace_all(
    context: &Context<'_>,
    regex: &Regex,
    args: &[Operand],
    expands: bool,
) -> Result<Value, String> {
    let (source, template) = (args[1].as_str(), args[2].as_str());
    let mut out = String::new();
    let mut end = 0;
    for captures in regex.captures_iter(source) {
        let Some(all) = captures.get(0) else { continue };
        out.push_str(&source[end..all.start()]);
        match expands {
            true => captures.expand(template, &mut out),
            false => out.push_str(template),
        }
        end = all.end();
        context.charge(all.len() + template.len() + 1)?;
        if out.len() > context.limits().output_bytes {
            return Err("the replacement is too large".to_owned());
        }
    }
    out.push_str(&source[end..]);
    text(out)
}

/// The pieces between matches, by the rules of Go's `Regexp.Split`.
fn split(regex: &Regex, args: &[Operand]) -> Value {
    let (source, count) = (args[1].as_str(), args[2].as_int());
    if count == 0 {
        return Value::List(List::nil(ElementType::String));
    }
    if !regex.as_str().is_empty() && source.is_empty() {
        return Value::strings([""]);
    }
    let (mut start, mut end) = (0, 0);
    let mut pieces = Vec::new();
    for found in regex.find_iter(source) {
        if count > 0 && pieces.len() as i64 == count - 1 {
            break;
        }
        end = found.start();
        if found.end() != 0 {
            pieces.push(&source[start..end]);
        }
        start = found.end();
    }
    if end != source.len() {
        pieces.push(&source[start..]);
    }
    Value::strings(pieces)
}

fn quote_meta(value: &str) -> String {
    let mut out = String::new();
    for c in value.chars() {
        if r"\.+*?()|[]{}^$".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
