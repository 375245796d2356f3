//! Command lines of Go programs: the flags of kube-apiserver and etcd, parsed as spf13/pflag and Go's `flag` package do.
//!
//! clap cannot do it: a flag may be repeated, a boolean flag takes a value only after `=`, and test suites compare the
//! error texts.

use std::collections::BTreeMap;
use std::fmt;

use setpoint_api::go_duration;

/// A flag that a program accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flag {
    pub name: &'static str,
    pub value_type: ValueType,
}

/// The type of a flag's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueType {
    /// `true` or `false`; without a value `true`.
    Bool,
    Int,
    Float,
    Duration,
    /// Any text. Of several the last is used.
    Text,
    /// A list, comma separated. The lists of repeated flags are joined.
    List,
    /// Any text, commas included. The values of repeated flags are a list.
    Texts,
    /// `--version`: without a value `true`, otherwise any text.
    Version,
}

/// The values of the flags of a command line, in their order.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Values(BTreeMap<&'static str, Vec<String>>);

/// Why a command line is invalid. The texts are those of pflag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Error {
    UnknownFlag(String),
    UnknownShorthand {
        letter: char,
        argument: String,
    },
    BadSyntax(String),
    NeedsArgument(String),
    InvalidValue {
        flag: String,
        value: String,
        reason: String,
    },
}

/// Parses a command line. Returns the values, and the arguments that are not flags.
///
/// Flags have one or two dashes, as in Go's `flag` package; a flag of one letter is a flag like any other. Underscores in
/// names are dashes, as kube-apiserver normalizes them.
pub(crate) fn parse(flags: &[Flag], arguments: &[String]) -> Result<(Values, Vec<String>), Error> {
    let mut values = Values::default();
    let mut positional = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == "--" {
            positional.extend(rest.by_ref().cloned());
            break;
        }
        let Some((name, value)) = split(argument)? else {
            positional.push(argument.clone());
            continue;
        };
        let flag = find(flags, &name, argument)?;
        let value = match value {
            Some(value) => value,
            None if matches!(flag.value_type, ValueType::Bool | ValueType::Version) => "true".to_owned(),
            None => rest
                .next()
                .cloned()
                .ok_or_else(|| Error::NeedsArgument(argument.clone()))?,
        };
        flag.check(&value)?;
        values.0.entry(flag.name).or_default().push(value);
    }
    Ok((values, positional))
}

/// The name and the value of an argument; `None` if it is no flag.
fn split(argument: &str) -> Result<Option<(String, Option<String>)>, Error> {
    let Some(flag) = argument.strip_prefix('-').filter(|flag| !flag.is_empty()) else {
        return Ok(None);
    };
    let flag = flag.strip_prefix('-').unwrap_or(flag);
    if flag.starts_with(['-', '=']) {
        return Err(Error::BadSyntax(argument.to_owned()));
    }
    let (name, value) = match flag.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (flag, None),
    };
    Ok(Some((name.replace('_', "-"), value)))
}

fn find<'a>(flags: &'a [Flag], name: &str, argument: &str) -> Result<&'a Flag, Error> {
    flags.iter().find(|flag| flag.name == name).ok_or_else(|| {
        match (argument.starts_with("--"), name.chars().next()) {
            (false, Some(letter)) => Error::UnknownShorthand {
                letter,
                argument: argument.to_owned(),
            },
            _ => Error::UnknownFlag(name.to_owned()),
        }
    })
}

// === impl Flag ===

impl Flag {
    pub(crate) const fn new(name: &'static str, value_type: ValueType) -> Self {
        Self { name, value_type }
    }

    fn check(&self, value: &str) -> Result<(), Error> {
        let syntax = |function: &str| format!("strconv.{function}: parsing {value:?}: invalid syntax");
        let reason = match self.value_type {
            ValueType::Bool if parse_bool(value).is_none() => syntax("ParseBool"),
            ValueType::Int if value.parse::<i64>().is_err() => syntax("ParseInt"),
            ValueType::Float if value.parse::<f64>().is_err() => syntax("ParseFloat"),
            ValueType::Duration if go_duration::parse(value).is_err() => {
                format!("time: invalid duration {value:?}")
            }
            _ => return Ok(()),
        };
        Err(Error::InvalidValue {
            flag: self.name.to_owned(),
            value: value.to_owned(),
            reason,
        })
    }
}

/// Go's `strconv.ParseBool`.
fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

// === impl Values ===

impl Values {
    /// The value of a flag, of several the last; `None` if it is not set or set to an empty text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let last = self.0.get(name).and_then(|values| values.last());
        last.map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The value of a boolean flag; `None` if it is not set.
    pub(crate) fn bool(&self, name: &str) -> Option<bool> {
        self.text(name).and_then(parse_bool)
    }

    /// The items of a list.
    pub(crate) fn list(&self, name: &str) -> Vec<String> {
        let items = self.texts(name).flat_map(|value| value.split(','));
        items.filter(|item| !item.is_empty()).map(str::to_owned).collect()
    }

    /// All values of a flag, as they are.
    pub(crate) fn texts(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.get(name).into_iter().flatten().map(String::as_str)
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Sets a flag that the command line does not set.
    pub(crate) fn set_default(&mut self, name: &'static str, value: String) {
        self.0.entry(name).or_insert_with(|| vec![value]);
    }
}

// === impl Error ===

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownFlag(name) => write!(f, "unknown flag: --{name}"),
            Self::UnknownShorthand { letter, argument } => {
                write!(f, "unknown shorthand flag: {letter:?} in {argument}")
            }
            Self::BadSyntax(argument) => write!(f, "bad flag syntax: {argument}"),
            Self::NeedsArgument(argument) => write!(f, "flag needs an argument: {argument}"),
            Self::InvalidValue { flag, value, reason } => {
                write!(f, "invalid argument {value:?} for \"--{flag}\" flag: {reason}")
            }
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAGS: &[Flag] = &[
        Flag::new("allow-privileged", ValueType::Bool),
        Flag::new("secure-port", ValueType::Int),
        Flag::new("event-ttl", ValueType::Duration),
        Flag::new("cert-dir", ValueType::Text),
        Flag::new("authorization-mode", ValueType::List),
        Flag::new("v", ValueType::Int),
    ];

    fn parse_line(line: &str) -> Result<(Values, Vec<String>), Error> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(FLAGS, &arguments)
    }

    #[track_caller]
    fn check(line: &str, flag: &str, expected: Option<&str>) {
        assert_eq!(parse_line(line).unwrap().0.text(flag), expected);
    }

    #[track_caller]
    fn check_error(line: &str, expected: &str) {
        assert_eq!(parse_line(line).unwrap_err().to_string(), expected);
    }

    #[test]
    fn a_value_follows_an_equals_sign_or_is_the_next_argument() {
        check("--cert-dir=/a", "cert-dir", Some("/a"));
        check("--cert-dir /a", "cert-dir", Some("/a"));
        check("--cert_dir=/a", "cert-dir", Some("/a"));
        check("-v 2", "v", Some("2"));
        check("-v=2", "v", Some("2"));
        check("--cert-dir=", "cert-dir", None);
        check("", "cert-dir", None);
    }

    #[test]
    fn a_boolean_flag_takes_no_next_argument() {
        let (values, positional) = parse_line("--allow-privileged false").unwrap();
        assert_eq!(values.bool("allow-privileged"), Some(true));
        assert_eq!(positional, ["false"]);
        check("--allow-privileged=F", "allow-privileged", Some("F"));
    }

    #[test]
    fn of_repeated_values_the_last_is_used_and_lists_are_joined() {
        check("--cert-dir=/a --cert-dir=/b", "cert-dir", Some("/b"));
        let (values, _) = parse_line("--authorization-mode=Node,RBAC --authorization-mode Webhook").unwrap();
        assert_eq!(values.list("authorization-mode"), ["Node", "RBAC", "Webhook"]);
    }

    #[test]
    fn errors_have_the_texts_of_pflag() {
        check_error("--x=1", "unknown flag: --x");
        check_error("-x", "unknown shorthand flag: 'x' in -x");
        check_error("--=1", "bad flag syntax: --=1");
        check_error("--cert-dir", "flag needs an argument: --cert-dir");
        check_error(
            "--secure-port=https",
            "invalid argument \"https\" for \"--secure-port\" flag: strconv.ParseInt: parsing \"https\": invalid syntax",
        );
        check_error(
            "--allow-privileged=yes",
            "invalid argument \"yes\" for \"--allow-privileged\" flag: strconv.ParseBool: parsing \"yes\": invalid syntax",
        );
        check_error(
            "--event-ttl=soon",
            "invalid argument \"soon\" for \"--event-ttl\" flag: time: invalid duration \"soon\"",
        );
    }
}
