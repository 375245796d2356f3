//! Declarations of functions, parsed from the table in `functions.txt`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::cel_type::Type;

/// A function and its overloads.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) overloads: Vec<Overload>,
}

/// One signature of a function.
#[derive(Debug)]
pub(crate) struct Overload {
    /// The name in upstream's libraries. Costs depend on it.
    pub(crate) id: &'static str,
    /// Whether the first argument is the target of the call.
    pub(crate) is_member: bool,
    pub(crate) args: Vec<Type>,
    pub(crate) result: Type,
}

static FUNCTIONS: LazyLock<BTreeMap<&'static str, Function>> = LazyLock::new(|| {
    let mut functions = BTreeMap::new();
    for line in include_str!("functions.txt").lines() {
        let words: Vec<&'static str> = line.splitn(3, ' ').collect();
        let [name, id, signature] = words[..] else {
            continue;
        };
        if name == "#" {
            continue;
        }
        let function = functions.entry(name).or_insert_with(|| Function {
            name,
            overloads: Vec::new(),
        });
        function.overloads.push(parse_overload(id, signature));
    }
    functions
});

/// The function of a name.
pub(crate) fn find_function(name: &str) -> Option<&'static Function> {
    FUNCTIONS.get(name.strip_prefix('.').unwrap_or(name))
}

/// The type that an identifier such as `int` names.
pub(crate) fn find_type(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "int" => Type::Int,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "null_type" => Type::Null,
        "string" => Type::String,
        "type" => Type::Type(Type::Dyn.into()),
        "uint" => Type::Uint,
        "optional_type" => Type::optional(Type::Dyn),
        "google.protobuf.Duration" => Type::Duration,
        "google.protobuf.Timestamp" => Type::Timestamp,
        _ => OPAQUE.into_iter().find(|own| *own == name).map(Type::Opaque)?,
    })
}

const OPAQUE: [&str; 11] = [
    "kubernetes.URL",
    "kubernetes.Quantity",
    "kubernetes.NamedFormat",
    "kubernetes.Semver",
    "net.IP",
    "net.CIDR",
    "kubernetes.authorization.Authorizer",
    "kubernetes.authorization.PathCheck",
    "kubernetes.authorization.GroupCheck",
    "kubernetes.authorization.ResourceCheck",
    "kubernetes.authorization.Decision",
];

fn parse_overload(id: &'static str, signature: &'static str) -> Overload {
    let mut parser = SignatureParser { rest: signature };
    let target = (!parser.rest.starts_with('(')).then(|| parser.parse_type());
    if target.is_some() {
        parser.expect(".");
    }
    parser.expect("(");
    let mut args: Vec<Type> = target.clone().into_iter().collect();
    while !parser.take(")") {
        args.push(parser.parse_type());
        parser.take(", ");
    }
    parser.expect(" -> ");
    Overload {
        id,
        is_member: target.is_some(),
        args,
        result: parser.parse_type(),
    }
}

/// Parses the table, which is a part of the program: a malformed line is a bug.
struct SignatureParser {
    rest: &'static str,
}

impl SignatureParser {
    fn take(&mut self, prefix: &str) -> bool {
        let rest = self.rest.strip_prefix(prefix);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, prefix: &str) {
        assert!(
            self.take(prefix),
            "the table of functions has {prefix:?} before {:?}",
            self.rest
        );
    }

    fn parse_type(&mut self) -> Type {
        let is_name = |character: char| character.is_ascii_alphanumeric() || matches!(character, '.' | '_');
        let end = self
            .rest
            .find(|character| !is_name(character))
            .unwrap_or(self.rest.len());
        // The point before the arguments ends the type of a target.
        let name = self.rest[..end].trim_end_matches('.');
        self.rest = &self.rest[name.len()..];
        match name {
            "list" => self.bracketed(Type::list),
            "optional" => self.bracketed(Type::optional),
            "type" => self.bracketed(|inner| Type::Type(inner.into())),
            "map" => {
                self.expect("(");
                let key = self.parse_type();
                self.expect(", ");
                let value = self.parse_type();
                self.expect(")");
                Type::map(key, value)
            }
            "dyn" => Type::Dyn,
            "duration" => Type::Duration,
            "timestamp" => Type::Timestamp,
            name if name.len() == 1 => Type::Param(name),
            name => find_type(name).expect("the table of functions names known types"),
        }
    }

    fn bracketed(&mut self, make: impl Fn(Type) -> Type) -> Type {
        self.expect("(");
        let inner = self.parse_type();
        self.expect(")");
        make(inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(function: &str, expected: &str) {
        let function = find_function(function).unwrap();
        let shown: Vec<String> = function.overloads.iter().map(display).collect();
        assert_eq!(shown.join("; "), expected);
    }

    fn display(overload: &Overload) -> String {
        let args: Vec<String> = overload.args.iter().map(ToString::to_string).collect();
        format!(
            "{} {} -> {}",
            overload.is_member,
            args.join(", "),
            overload.result
        )
    }

    #[test]
    fn the_table_is_parsed() {
        check("ip", "false string -> net.IP; true net.CIDR -> net.IP");
        check("optional.none", "false  -> optional_type(V)");
        check("getQuery", "true kubernetes.URL -> map(string, list(string))");
    }
}
