//! No source makes the compiler panic, and no evaluation goes beyond its limit.

use proptest::prelude::*;
use setpoint_cel::{Environment, EvalError, ListSemantics, Type, Value, ValueSchema};

const LIMIT: u64 = 10_000;
/// The most that one step may cost beyond the limit: it is charged before the limit is checked.
const MAX_STEP: u64 = 10_000_000;

const TOKENS: [&str; 58] = [
    "a",
    "b",
    "1",
    "2",
    "0",
    "-",
    "1u",
    "1.5",
    "'x'",
    "b'x'",
    "r'y'",
    "true",
    "false",
    "null",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ".",
    "?",
    ":",
    ",",
    "+",
    "*",
    "/",
    "%",
    "==",
    "<",
    "&&",
    "||",
    "!",
    "in",
    "has(",
    ".map(a, ",
    ".all(a, ",
    ".filter(a, ",
    ".exists_one(a, ",
    ".size()",
    ".?",
    "[?",
    ".orValue(",
    "optional.of(",
    "duration(",
    "int(",
    "string(",
    "type(",
    ".matches(",
    ".format(",
    "lists.range(",
    ".flatten()",
    ".sort()",
    ".sortBy(a, ",
    "ip(",
    "quantity(",
    ".replace(",
    "dyn(",
];

fn environment() -> Environment {
    let list = ValueSchema::list(ValueSchema::scalar(Type::Int), ListSemantics::Atomic);
    Environment::default()
        .with_variable("a", ValueSchema::scalar(Type::Dyn))
        .with_variable("b", list)
}

proptest! {
    #[test]
    fn any_text_compiles_or_is_an_error(source in ".{0,60}") {
        let _ = environment().compile(&source);
    }

    #[test]
    fn any_tokens_compile_or_are_an_error(tokens in prop::collection::vec(prop::sample::select(&TOKENS[..]), 0..24)) {
        if let Ok(program) = environment().compile(&tokens.join(" ")) {
            let evaluation = program.evaluate(vec![Value::Int(1), Value::Null], LIMIT);
            prop_assert!(evaluation.cost <= LIMIT + MAX_STEP);
        }
    }
}

#[test]
fn an_evaluation_stops_at_its_limit() {
    let source = "lists.range(1000).all(a, lists.range(1000).all(b, a + b >= 0))";
    let program = Environment::default().compile(source).unwrap();
    let evaluation = program.evaluate(Vec::new(), LIMIT);
    assert_eq!(evaluation.value.unwrap_err(), EvalError::CostExceeded);
    assert!(evaluation.cost < 2 * LIMIT);
}

#[test]
fn lists_that_double_are_not_copied() {
    let doubled = "[1, 2]".to_owned() + &".map(x, [x, x]).flatten()".repeat(30);
    let program = Environment::default().compile(&doubled).unwrap();
    let evaluation = program.evaluate(Vec::new(), LIMIT);
    assert_eq!(evaluation.value.unwrap_err(), EvalError::CostExceeded);
}
