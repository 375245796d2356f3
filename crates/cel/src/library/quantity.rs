//! Quantities.

use std::cmp::Ordering;

use regex::Regex;
use setpoint_api::quantity::{Format, ParseQuantityError, Quantity};

use super::{Builtin, no_such_overload, semver};
use crate::opaque::Opaque;
use crate::value::Value;

pub(super) const FUNCTIONS: &[(&str, Builtin)] = &[
    ("quantity", parse),
    ("isQuantity", is_quantity),
    ("sign", |args, _| {
        one(args, |own| Ok(Value::Int(own.cmp(&Quantity::ZERO) as i64)))
    }),
    ("asApproximateFloat", |args, _| {
        one(args, |own| Ok(Value::Double(own.as_approximate_f64())))
    }),
    ("asInteger", |args, _| {
        one(args, |own| {
            let whole = own.as_i64().map(Value::Int);
            whole.ok_or_else(|| "cannot convert value to integer".to_owned())
        })
    }),
    ("isInteger", |args, _| {
        one(args, |own| Ok(Value::Bool(own.as_i64().is_some())))
    }),
    ("add", |args, _| two(args, |own, other| own + other)),
    ("sub", |args, _| two(args, |own, other| own - other)),
    ("isGreaterThan", |args, _| {
        order(args, |order| Value::Bool(order.is_gt()))
    }),
    ("isLessThan", |args, _| {
        order(args, |order| Value::Bool(order.is_lt()))
    }),
    ("compareTo", |args, _| {
        order(args, |order| Value::Int(order as i64))
    }),
];

type Outcome<'a> = Result<Value<'a>, String>;

fn parse<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    match args {
        [Value::String(text)] => match text.as_str().parse::<Quantity>() {
            Ok(quantity) => Ok(Value::Opaque(Opaque::Quantity(quantity))),
            Err(error) => Err(message(error).to_owned()),
        },
        _ => no_such_overload(),
    }
}

fn message(error: ParseQuantityError) -> &'static str {
    match error {
        ParseQuantityError::FormatWrong => {
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        }
        ParseQuantityError::Numeric => "unable to parse numeric part of quantity",
        ParseQuantityError::Suffix => "unable to parse quantity's suffix",
    }
}

fn is_quantity<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    match args {
        [Value::String(text)] => Ok(Value::Bool(text.as_str().parse::<Quantity>().is_ok())),
        _ => no_such_overload(),
    }
}

fn one<'a>(args: &[Value<'a>], run: impl FnOnce(Quantity) -> Outcome<'a>) -> Outcome<'a> {
    match args {
        [Value::Opaque(Opaque::Quantity(own))] => run(*own),
        _ => no_such_overload(),
    }
}

fn two<'a>(args: &[Value<'a>], run: impl FnOnce(Quantity, Quantity) -> Quantity) -> Outcome<'a> {
    let (own, other) = match args {
        [
            Value::Opaque(Opaque::Quantity(own)),
            Value::Opaque(Opaque::Quantity(other)),
        ] => (*own, *other),
        [Value::Opaque(Opaque::Quantity(own)), Value::Int(other)] => {
            (*own, Quantity::new(*other, Format::DecimalExponent))
        }
        _ => return no_such_overload(),
    };
    Ok(Value::Opaque(Opaque::Quantity(run(own, other))))
}

/// The order of two quantities, or of two versions, which have functions of the same names.
fn order<'a>(args: &[Value<'a>], run: impl FnOnce(Ordering) -> Value<'a>) -> Outcome<'a> {
    match args {
        [
            Value::Opaque(Opaque::Quantity(own)),
            Value::Opaque(Opaque::Quantity(other)),
        ] => Ok(run(own.cmp(other))),
        _ => semver::order(args).map(run),
    }
}
