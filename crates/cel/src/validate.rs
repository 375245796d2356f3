//! Rules beyond types: literals must be homogeneous, and constant arguments must be valid.

use crate::ast::{Call, Expr, ExprKind, ListItem, Literal, MapEntry};
use crate::cel_type::Type;
use crate::check::{TypeMap, mismatch};
use crate::library::{format_clauses, regex};
use crate::source::Issue;
use crate::time;

/// Reports what an expression with correct types still gets wrong.
pub(crate) fn validate(expr: &Expr, checked: &TypeMap) -> Vec<Issue> {
    let mut validator = Validator {
        checked,
        issues: Vec::new(),
    };
    validator.visit(expr, false);
    validator.issues
}

struct Validator<'a> {
    checked: &'a TypeMap,
    issues: Vec<Issue>,
}

impl Validator<'_> {
    fn report(&mut self, at: &Expr, message: String) {
        let offset = at.offset;
        self.issues.push(Issue { offset, message });
    }

    /// Visits a node and those below it. The arguments of `format` may be of different types.
    fn visit(&mut self, expr: &Expr, in_format: bool) {
        let mut in_format = in_format;
        match &expr.kind {
            ExprKind::Call(call) => {
                self.constant_argument(call);
                in_format |= &*call.function == "format";
                if &*call.function == "format" {
                    self.format(expr, call);
                }
            }
            ExprKind::List(items) if !in_format => self.list(items),
            ExprKind::Map(entries) if !in_format => self.map(entries),
            _ => {}
        }
        for child in expr.children() {
            self.visit(child, in_format);
        }
    }

    fn constant_argument(&mut self, call: &Call) {
        let Some(argument) = call.args.first() else {
            return;
        };
        let ExprKind::Literal(Literal::String(text)) = &argument.kind else {
            return;
        };
        let is_valid = match &*call.function {
            "matches" => regex::compile(text).is_ok(),
            "duration" => time::parse_duration(text).is_some(),
            "timestamp" => text.len() > 10 && time::parse_timestamp(text).is_some(),
            _ => true,
        };
        if !is_valid {
            self.report(argument, format!("invalid {} argument", call.function));
        }
    }

    /// The type of an entry; of an optional one, that of its content.
    fn entry_type(&self, expr: &Expr, optional: bool) -> Type {
        match &self.checked.types[expr.id] {
            Type::Optional(inner) if optional => (**inner).clone(),
            own => own.clone(),
        }
    }

    fn list(&mut self, items: &[ListItem]) {
        let Some((first, rest)) = items.split_first() else {
            return;
        };
        let expected = self.entry_type(&first.value, first.optional);
        for item in rest {
            let found = self.entry_type(&item.value, item.optional);
            if found != expected {
                self.report(&item.value, mismatch(&expected, &found));
                return;
            }
        }
    }

    fn map(&mut self, entries: &[MapEntry]) {
        let Some((first, rest)) = entries.split_first() else {
            return;
        };
        let key = self.entry_type(&first.key, false);
        let value = self.entry_type(&first.value, first.optional);
        for entry in rest {
            let found = self.entry_type(&entry.key, false);
            if found != key {
                self.report(&entry.key, mismatch(&key, &found));
            }
            let found = self.entry_type(&entry.value, entry.optional);
            if found != value {
                self.report(&entry.value, mismatch(&value, &found));
            }
        }
    }

    /// Checks the clauses of a literal against the types of a list of arguments.
    fn format(&mut self, expr: &Expr, call: &Call) {
        let (Some(target), Some(list)) = (&call.target, call.args.first()) else {
            return;
        };
        let (ExprKind::Literal(Literal::String(template)), ExprKind::List(items)) =
            (&target.kind, &list.kind)
        else {
            return;
        };
        let clauses = match format_clauses(template) {
            Ok(clauses) => clauses,
            Err(why) => return self.report(expr, why),
        };
        for (at, clause) in clauses.iter().enumerate() {
            let Some(item) = items.get(at) else {
                return self.report(expr, format!("index {at} out of range"));
            };
            let own = &self.checked.types[item.value.id];
            if let Some(why) = unsupported(*clause, own) {
                let name = own.name();
                self.report(
                    &item.value,
                    format!("error during formatting: {why}, was given {name}"),
                );
                return;
            }
        }
        if items.len() > clauses.len() {
            let (expected, found) = (clauses.len(), items.len());
            let message =
                format!("too many arguments supplied to string.format (expected {expected}, got {found})");
            self.report(expr, message);
        }
    }
}

/// Why a clause of `format` does not take values of a type.
fn unsupported(clause: char, own: &Type) -> Option<&'static str> {
    let is_integer = matches!(own, Type::Int | Type::Uint);
    let (is_supported, why) = match clause {
        's' => (
            !matches!(own, Type::Optional(_) | Type::Opaque(_)),
            crate::library::STRING_CLAUSE,
        ),
        'd' => (is_integer, "decimal clause can only be used on integers"),
        'f' => (
            *own == Type::Double,
            "fixed-point clause can only be used on doubles",
        ),
        'b' => (
            is_integer || *own == Type::Bool,
            "only integers and bools can be formatted as binary",
        ),
        'o' => (is_integer, "octal clause can only be used on integers"),
        'x' | 'X' => (
            is_integer || matches!(own, Type::String | Type::Bytes),
            "only integers, byte buffers, and strings can be formatted as hex",
        ),
        _ => (true, ""),
    };
    (!is_supported && *own != Type::Dyn).then_some(why)
}
