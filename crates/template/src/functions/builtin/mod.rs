//! The functions of `text/template`.

mod comparison;
mod escape;
mod index;

use super::Type::{Any, Reflect, String as Text};
use super::{Context, Form, Row, row, variadic};
use crate::format;
use crate::value::{Operand, Value};

pub(super) fn rows() -> Vec<Row> {
    let special = |name, form| Row {
        name,
        params: &[Reflect, Reflect],
        is_variadic: true,
        form,
        body: |_, _| Ok(Value::Nil),
    };
    vec![
        special("and", Form::ShortCircuit),
        special("or", Form::ShortCircuit),
        special("call", Form::Call),
        row("not", &[Reflect], |_, args| {
            Ok(Value::Bool(!args[0].value.is_true()))
        }),
        variadic("eq", &[Reflect, Reflect], comparison::eq),
        row("ne", &[Reflect, Reflect], comparison::ne),
        row("lt", &[Reflect, Reflect], comparison::lt),
        row("le", &[Reflect, Reflect], comparison::le),
        row("gt", &[Reflect, Reflect], comparison::gt),
        row("ge", &[Reflect, Reflect], comparison::ge),
        variadic("index", &[Reflect, Reflect], index::index),
        variadic("slice", &[Reflect, Reflect], index::slice),
        row("len", &[Reflect], index::len),
        variadic("print", &[Any], print),
        variadic("printf", &[Text, Any], printf),
        variadic("println", &[Any], println),
        variadic("html", &[Any], escape::html),
        variadic("js", &[Any], escape::js),
        variadic("urlquery", &[Any], escape::urlquery),
    ]
}

fn print(context: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let values = args.iter().map(|arg| &arg.value);
    format::print(values, context.budget()).map(Value::string)
}

fn println(context: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let values = args.iter().map(|arg| &arg.value);
    format::println(values, context.budget()).map(Value::string)
}

fn printf(context: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let values: Vec<&Value> = args[1..].iter().map(|arg| &arg.value).collect();
    format::printf(args[0].as_str(), &values, context.budget()).map(Value::string)
}
