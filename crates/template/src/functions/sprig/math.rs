//! Integers and floating-point numbers.

use super::super::Type::{Any, Float, Int, String as Text};
use super::super::{Context, Row, row, variadic};
use super::cast::{to_float64, to_int64};
use super::decimal::{self, Operation};
use crate::format;
use crate::value::{ElementType, List, Operand, Value};

pub(super) const ROWS: &[Row] = &[
    row("atoi", &[Text], |_, args| {
        Ok(Value::Int(args[0].as_str().parse().unwrap_or(0)))
    }),
    row("int", &[Any], |_, args| Ok(Value::Int(to_int64(&args[0].value)))),
    row("int64", &[Any], |_, args| int64(to_int64(&args[0].value))),
    row("float64", &[Any], |_, args| float(to_float64(&args[0].value))),
    row("toDecimal", &[Any], to_decimal),
    row("add1", &[Any], |_, args| {
        int64(to_int64(&args[0].value).wrapping_add(1))
    }),
    variadic("add", &[Any], |_, args| {
        int64(
            args.iter()
                .fold(0, |sum: i64, arg| sum.wrapping_add(to_int64(&arg.value))),
        )
    }),
    row("sub", &[Any, Any], |_, args| {
        int64(to_int64(&args[0].value).wrapping_sub(to_int64(&args[1].value)))
    }),
    row("div", &[Any, Any], |_, args| {
        let divisor = to_int64(&args[1].value);
        check_divisor(divisor)?;
        int64(to_int64(&args[0].value).wrapping_div(divisor))
    }),
    row("mod", &[Any, Any], |_, args| {
        let divisor = to_int64(&args[1].value);
        check_divisor(divisor)?;
        int64(to_int64(&args[0].value).wrapping_rem(divisor))
    }),
    variadic("mul", &[Any, Any], |_, args| {
        int64(
            args.iter()
                .fold(1, |product: i64, arg| product.wrapping_mul(to_int64(&arg.value))),
        )
    }),
    variadic("max", &[Any, Any], max),
    variadic("biggest", &[Any, Any], max),
    variadic("min", &[Any, Any], |_, args| {
        int64(args.iter().map(|arg| to_int64(&arg.value)).min().unwrap_or(0))
    }),
    variadic("maxf", &[Any, Any], |_, args| {
        float(
            args.iter()
                .map(|arg| to_float64(&arg.value))
                .fold(f64::NEG_INFINITY, larger),
        )
    }),
    variadic("minf", &[Any, Any], |_, args| {
        float(
            -args
                .iter()
                .map(|arg| -to_float64(&arg.value))
                .fold(f64::NEG_INFINITY, larger),
        )
    }),
    row("ceil", &[Any], |_, args| float(to_float64(&args[0].value).ceil())),
    row("floor", &[Any], |_, args| {
        float(to_float64(&args[0].value).floor())
    }),
    variadic("round", &[Any, Int, Float], round),
    row("add1f", &[Any], |_, args| {
        float(decimal::compute(
            to_float64(&args[0].value),
            &[1.0],
            Operation::Add,
        )?)
    }),
    variadic("addf", &[Any], |_, args| {
        float(decimal::compute(0.0, &floats(args), Operation::Add)?)
    }),
    variadic("subf", &[Any, Any], |_, args| decimals(args, Operation::Subtract)),
    variadic("divf", &[Any, Any], |_, args| decimals(args, Operation::Divide)),
    variadic("mulf", &[Any, Any], |_, args| decimals(args, Operation::Multiply)),
    row("until", &[Int], |context, args| {
        let end = args[0].as_int();
        numbers(context, 0, end, if end < 0 { -1 } else { 1 }).map(ints)
    }),
    row("untilStep", &[Int, Int, Int], |context, args| {
        numbers(context, args[0].as_int(), args[1].as_int(), args[2].as_int()).map(ints)
    }),
    variadic("seq", &[Int], seq),
];

fn int64(value: i64) -> Result<Value, String> {
    Ok(Value::Int64(value))
}

fn float(value: f64) -> Result<Value, String> {
    Ok(Value::Float(value))
}

fn floats(args: &[Operand]) -> Vec<f64> {
    args.iter().map(|arg| to_float64(&arg.value)).collect()
}

fn decimals(args: &[Operand], operation: Operation) -> Result<Value, String> {
    let values = floats(args);
    float(decimal::compute(values[0], &values[1..], operation)?)
}

fn check_divisor(divisor: i64) -> Result<(), String> {
    match divisor {
        0 => Err("runtime error: integer divide by zero".to_owned()),
        _ => Ok(()),
    }
}

fn max(_: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    int64(args.iter().map(|arg| to_int64(&arg.value)).max().unwrap_or(0))
}

/// Go's `math.Max`: not-a-number wins.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else {
        a.max(b)
    }
}

fn round(_: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let threshold = args.get(2).map_or(0.5, |arg| to_float64(&arg.value));
    let power = 10.0_f64.powf(args[1].as_int() as f64);
    let scaled = power * to_float64(&args[0].value);
    let rounded = if scaled.fract() >= threshold {
        scaled.ceil()
    } else {
        scaled.floor()
    };
    float(rounded / power)
}

/// The number whose digits are octal.
fn to_decimal(context: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let text = format::print([&args[0].value], context.budget())?;
    int64(i64::from_str_radix(&text, 8).unwrap_or(0))
}

/// The numbers from start up or down to the end, which is not among them.
fn numbers(context: &Context<'_>, start: i64, end: i64, step: i64) -> Result<Vec<i64>, String> {
    if (end < start && step >= 0) || (end >= start && step <= 0) {
        return Ok(Vec::new());
    }
    let count = (i128::from(end) - i128::from(start))
        .unsigned_abs()
        .div_ceil(u128::from(step.unsigned_abs()));
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    context.charge(count)?;
    Ok((0..count as i64).map(|i| start + i * step).collect())
}

fn ints(numbers: Vec<i64>) -> Value {
    Value::List(List::new(
        ElementType::Int,
        numbers.into_iter().map(Value::Int).collect(),
    ))
}

/// Numbers as text, including the end.
fn seq(context: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let args: Vec<i64> = args.iter().map(Operand::as_int).collect();
    let (start, step, end) = match args[..] {
        [end] => (1, if end < 1 { -1 } else { 1 }, end),
        [start, end] => (start, if end < start { -1 } else { 1 }, end),
        [start, step, end] if end < start && step > 0 => (start, step, start),
        [start, step, end] => (start, step, end),
        _ => return Ok(Value::string("")),
    };
    if args.len() == 3 && end == start && args[2] < start {
        return Ok(Value::string(""));
    }
    let increment = if end < start { -1 } else { 1 };
    let numbers = numbers(context, start, end.saturating_add(increment), step)?;
    let texts: Vec<String> = numbers.iter().map(i64::to_string).collect();
    Ok(Value::string(texts.join(" ")))
}
