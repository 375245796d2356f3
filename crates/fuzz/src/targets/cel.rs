//! CEL expressions: any text compiles or is an error, and an evaluation stops at its cost limit.

use setpoint_cel::{Environment, ListSemantics, Type, ValueSchema};
use setpoint_schema::Tree;

use super::Target;
use crate::corpus;

pub(super) const TARGET: Target = Target {
    name: "cel",
    cost: 20,
    seeds: || corpus::lines("expressions.txt"),
    run,
};

/// The cost at which an evaluation stops.
const LIMIT: u64 = 20_000;

/// The most that one step may cost beyond the limit: it is charged before the limit is checked.
const MAX_STEP: u64 = 10_000_000;

fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let environment = Environment::default()
        .with_variable("self", schema())
        .with_variable("any", ValueSchema::scalar(Type::Dyn));
    let Ok(program) = environment.compile(text) else {
        return;
    };
    let object = object();
    let variables = vec![program.bind(0, &object), program.bind(1, &object)];
    let evaluation = program.evaluate(variables, LIMIT);
    let cost = evaluation.cost;
    assert!(cost <= LIMIT + MAX_STEP, "{text:?} costs {cost}");
}

fn schema() -> ValueSchema {
    let text = || ValueSchema::scalar(Type::String).with_max_size(100);
    ValueSchema::object(
        "self",
        [
            ("text".to_owned(), text()),
            ("number".to_owned(), ValueSchema::scalar(Type::Int)),
            (
                "set".to_owned(),
                ValueSchema::list(text(), ListSemantics::Set).with_max_size(10),
            ),
            ("map".to_owned(), ValueSchema::map(text()).with_max_size(10)),
        ],
    )
}

fn object() -> Tree {
    let mut object = Tree::default();
    object.set(&["text"], "abc");
    object.set(&["number"], 5);
    object.set(&["set"], vec![Tree::from("a"), Tree::from("b")]);
    object.set(&["map", "key"], "value");
    object
}
