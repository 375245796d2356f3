//! The functions of the language and of Kubernetes' libraries, a file each.
//!
//! A function gets its arguments, the target of a call first, and decides by their types; the checker has made sure that
//! an overload fits as far as the types are known.

pub(crate) mod authorizer;
pub(crate) mod convert;
pub(crate) mod cost;
pub(crate) mod format;
pub(crate) mod json_patch;
mod lists;
mod network;
mod operators;
mod optional;
mod quantity;
pub(crate) mod regex;
pub(crate) mod semver;
mod strings;
mod time;
pub(crate) mod url;

pub(crate) use strings::{STRING_CLAUSE, format_clauses};

use ::regex::Regex;

use crate::value::Value;

/// The code of a function. The second argument is the regular expression of a constant pattern.
pub(crate) type Builtin = for<'a> fn(&[Value<'a>], Option<&Regex>) -> Result<Value<'a>, String>;

/// A function by its name.
pub(crate) fn find(name: &str) -> Option<(&'static str, Builtin)> {
    let name = name.strip_prefix('.').unwrap_or(name);
    let tables: [&[(&'static str, Builtin)]; 14] = [
        operators::FUNCTIONS,
        convert::FUNCTIONS,
        strings::FUNCTIONS,
        lists::FUNCTIONS,
        time::FUNCTIONS,
        regex::FUNCTIONS,
        optional::FUNCTIONS,
        url::FUNCTIONS,
        network::FUNCTIONS,
        quantity::FUNCTIONS,
        semver::FUNCTIONS,
        format::FUNCTIONS,
        authorizer::FUNCTIONS,
        json_patch::FUNCTIONS,
    ];
    let mut all = tables.into_iter().flatten();
    all.find(|(own, _)| *own == name).copied()
}

/// The error of arguments that no overload takes.
pub(crate) fn no_such_overload<T>() -> Result<T, String> {
    Err("no such overload".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_declared_function_has_code() {
        let special = [
            "_?_:_",
            "_&&_",
            "_||_",
            "@not_strictly_false",
            "_[_]",
            "_[?_]",
            "_?._",
            "or",
            "orValue",
        ];
        for line in include_str!("../functions.txt").lines() {
            let name = line.split(' ').next().unwrap();
            let is_known = name == "#" || special.contains(&name) || find(name).is_some();
            assert!(is_known, "{name}");
        }
    }
}
