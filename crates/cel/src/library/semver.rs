//! Semantic versions.

use std::cmp::Ordering;
use std::sync::Arc;

use regex::Regex;

use super::{Builtin, no_such_overload};
use crate::opaque::Opaque;
use crate::value::Value;

pub(super) const FUNCTIONS: &[(&str, Builtin)] = &[
    ("semver", parse_args),
    ("isSemver", is_semver),
    ("major", |args, _| number(args, |own| own.numbers[0])),
    ("minor", |args, _| number(args, |own| own.numbers[1])),
    ("patch", |args, _| number(args, |own| own.numbers[2])),
];

/// A semantic version. Build metadata is not compared.
#[derive(Debug, PartialEq, Eq)]
pub struct Semver {
    numbers: [u64; 3],
    pre_release: Vec<Identifier>,
}

/// A part of a pre-release. Numbers come before words.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Word(String),
}

type Outcome<'a> = Result<Value<'a>, String>;

fn text_and_mode<'b>(args: &'b [Value<'_>]) -> Option<(&'b str, bool)> {
    match args {
        [Value::String(text)] => Some((text.as_str(), false)),
        [Value::String(text), Value::Bool(normalizes)] => Some((text.as_str(), *normalizes)),
        _ => None,
    }
}

fn parse_args<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    match text_and_mode(args) {
        Some((text, normalizes)) => Ok(Value::Opaque(Opaque::Semver(Arc::new(parse(text, normalizes)?)))),
        None => no_such_overload(),
    }
}

fn is_semver<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    match text_and_mode(args) {
        Some((text, normalizes)) => Ok(Value::Bool(parse(text, normalizes).is_ok())),
        None => no_such_overload(),
    }
}

fn number<'a>(args: &[Value<'a>], run: impl FnOnce(&Semver) -> u64) -> Outcome<'a> {
    match args {
        [Value::Opaque(Opaque::Semver(own))] => Ok(Value::Int(run(own).cast_signed())),
        _ => no_such_overload(),
    }
}

pub(super) fn order(args: &[Value<'_>]) -> Result<Ordering, String> {
    match args {
        [
            Value::Opaque(Opaque::Semver(own)),
            Value::Opaque(Opaque::Semver(other)),
        ] => Ok(own.cmp(other)),
        _ => no_such_overload(),
    }
}

fn parse(text: &str, normalizes: bool) -> Result<Semver, String> {
    match normalizes {
        true => parse_strict(&normalize(text)?),
        false => parse_strict(text),
    }
}

/// Removes a `v` and leading zeros, and adds missing numbers.
fn normalize(text: &str) -> Result<String, String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text.splitn(3, '.').map(without_zeros).collect();
    if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
        return Err("short version cannot contain PreRelease/Build meta data".to_owned());
    }
    parts.resize(3, "0".to_owned());
    Ok(parts.join("."))
}

fn without_zeros(part: &str) -> String {
    if part.len() <= 1 {
        return part.to_owned();
    }
    let rest = part.trim_start_matches('0');
    match rest.starts_with(|character: char| character.is_ascii_digit()) {
        true => rest.to_owned(),
        false => format!("0{rest}"),
    }
}

pub(crate) fn parse_strict(text: &str) -> Result<Semver, String> {
    if text.is_empty() {
        return Err("Version string empty".to_owned());
    }
    let parts: Vec<&str> = text.splitn(3, '.').collect();
    let [major, minor, rest] = parts[..] else {
        return Err("No Major.Minor.Patch elements found".to_owned());
    };
    let (rest, build) = split(rest, '+');
    let (patch, pre_release) = split(rest, '-');
    let numbers = [
        parse_number(major, "Major")?,
        parse_number(minor, "Minor")?,
        parse_number(patch, "Patch")?,
    ];
    let pre_release: Result<Vec<Identifier>, String> = match pre_release {
        None => Ok(Vec::new()),
        Some(text) => text.split('.').map(parse_identifier).collect(),
    };
    if let Some(part) = build.and_then(|build| build.split('.').find(|part| !is_identifier(part))) {
        return match part {
            "" => Err("Build meta data is empty".to_owned()),
            part => Err(format!("Invalid character(s) found in build meta data {part:?}")),
        };
    }
    Ok(Semver {
        numbers,
        pre_release: pre_release?,
    })
}

fn split(text: &str, separator: char) -> (&str, Option<&str>) {
    match text.split_once(separator) {
        Some((head, tail)) => (head, Some(tail)),
        None => (text, None),
    }
}

fn is_identifier(part: &str) -> bool {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !part.is_empty() && part.bytes().all(is_valid)
}

fn parse_number(text: &str, name: &str) -> Result<u64, String> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!(
            "Invalid character(s) found in {} number {text:?}",
            name.to_lowercase()
        ));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{name} number must not contain leading zeroes {text:?}"));
    }
    text.parse()
        .map_err(|_| format!("strconv.ParseUint: parsing {text:?}: value out of range"))
}

fn parse_identifier(part: &str) -> Result<Identifier, String> {
    if part.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if part.bytes().all(|byte| byte.is_ascii_digit()) {
        if part.len() > 1 && part.starts_with('0') {
            return Err(format!(
                "Numeric PreRelease version must not contain leading zeroes {part:?}"
            ));
        }
        let number = part.parse().map(Identifier::Number);
        return number.map_err(|_| format!("strconv.ParseUint: parsing {part:?}: value out of range"));
    }
    match is_identifier(part) {
        true => Ok(Identifier::Word(part.to_owned())),
        false => Err(format!("Invalid character(s) found in prerelease {part:?}")),
    }
}

impl Ord for Semver {
    fn cmp(&self, other: &Self) -> Ordering {
        let pre_releases = || match (self.pre_release.is_empty(), other.pre_release.is_empty()) {
            // A release comes after its pre-releases.
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            _ => self.pre_release.cmp(&other.pre_release),
        };
        self.numbers.cmp(&other.numbers).then_with(pre_releases)
    }
}

impl PartialOrd for Semver {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
