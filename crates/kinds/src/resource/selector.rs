//! CEL expressions of device selectors: they are compiled, and their cost is estimated, when they are written.

use std::sync::LazyLock;

use setpoint_cel::{CompileError, Environment, Type, ValueSchema};
use setpoint_schema::fields;
use setpoint_strategy::FieldRef;

const MAX_SELECTORS: usize = 32;
const EXPRESSION_BYTES: usize = 10 * 1024;

/// The most that one expression may cost by its estimate.
const MAX_COST: u64 = 1_000_000;

/// The most characters of a driver's name.
const DRIVER_CHARACTERS: u64 = 63;
/// The most characters of an attribute.
const ATTRIBUTE_CHARACTERS: u64 = 64;
/// The most attributes, or capacities, of a device.
const MAX_ATTRIBUTES: u64 = 32;

/// Whether expressions are new, or those of the stored object, which are not compiled again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expressions {
    New,
    Stored,
}

/// The environment of the variable `device`.
static ENVIRONMENT: LazyLock<Environment> = LazyLock::new(|| {
    let by_domain = |value: ValueSchema| {
        let names = ValueSchema::map(value).with_max_size(MAX_ATTRIBUTES);
        ValueSchema::map(names).with_max_size(MAX_ATTRIBUTES)
    };
    let attribute = ValueSchema::scalar(Type::Dyn).with_max_size(ATTRIBUTE_CHARACTERS);
    let quantity = ValueSchema::scalar(Type::Opaque("kubernetes.Quantity"));
    let driver = ValueSchema::scalar(Type::String).with_max_size(DRIVER_CHARACTERS);
    let fields = [
        ("driver".to_owned(), driver),
        (
            "allowMultipleAllocations".to_owned(),
            ValueSchema::scalar(Type::Bool).with_max_size(1),
        ),
        ("attributes".to_owned(), by_domain(attribute)),
        ("capacity".to_owned(), by_domain(quantity)),
    ];
    Environment::default().with_variable("device", ValueSchema::object("kubernetes.DRADevice", fields))
});

/// Validates selectors.
pub(super) fn validate(selectors: &FieldRef<'_>, expressions: Expressions) {
    if selectors.len() > MAX_SELECTORS {
        return;
    }
    for selector in selectors.items() {
        let cel = selector.at(fields::CEL);
        if !cel.is_set() {
            cel.required("");
        } else if expressions == Expressions::New {
            validate_expression(&cel.at(fields::EXPRESSION));
        }
    }
}

fn validate_expression(expression: &FieldRef<'_>) {
    if expression.str().len() > EXPRESSION_BYTES {
        return expression.too_long(EXPRESSION_BYTES);
    }
    match ENVIRONMENT.compile(expression.str()) {
        Ok(program) => match program.result_type() {
            Type::Bool | Type::Dyn if program.estimated_cost().max > MAX_COST => {
                expression.forbidden("too complex, exceeds cost limit");
            }
            Type::Bool | Type::Dyn => {}
            other => {
                expression.invalid(&format!(
                    "must evaluate to bool or the unknown type, not {}",
                    other.canonical_name()
                ));
            }
        },
        Err(error @ CompileError::Invalid(_)) => expression.invalid(&format!("compilation failed: {error}")),
        Err(CompileError::Program { message, .. }) => {
            expression
                .errors()
                .internal(format!("program instantiation failed: {message}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::field::Errors;
    use setpoint_schema::{Pack, Tree};

    use super::*;

    #[track_caller]
    fn check(expression: &str, expected: &[&str]) {
        let mut selector = Tree::default();
        selector.set(&["cel", "expression"], expression);
        let mut class = Tree::default();
        class.set(&["spec", "selectors"], vec![selector]);
        let shape = Pack::builtin()
            .shape_of("resource.k8s.io", "v1", "DeviceClass")
            .unwrap();
        let errors = Errors::default();
        let class = FieldRef::new(&class, shape, &errors);
        let selectors = class.at(fields::SPEC).at(fields::SELECTORS);
        validate(&selectors, Expressions::Stored);
        assert!(errors.is_empty());
        validate(&selectors, Expressions::New);
        let found: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{expression}");
    }

    #[test]
    fn a_selector_evaluates_to_a_boolean() {
        check(r#"device.driver == "example.com""#, &[]);
        check(r#"device.attributes["example.com"].healthy"#, &[]);
        check(
            "device.driver",
            &[
                "spec.selectors[0].cel.expression: Invalid value: \"device.driver\": must evaluate to bool or the \
               unknown type, not string",
            ],
        );
        check(
            "\"text\"",
            &[
                "spec.selectors[0].cel.expression: Invalid value: \"\\\"text\\\"\": must evaluate to bool or the \
               unknown type, not string",
            ],
        );
    }

    #[test]
    fn a_selector_that_cannot_be_compiled_is_rejected_when_it_is_written() {
        check(
            "devices",
            &[
                "spec.selectors[0].cel.expression: Invalid value: \"devices\": compilation failed: ERROR: \
               <input>:1:1: undeclared reference to 'devices' (in container '')\n | devices\n | ^",
            ],
        );
    }

    #[test]
    fn a_selector_that_costs_too_much_is_rejected() {
        let all = "device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, \
                   device.attributes.all(d, a == b && c == d))))";
        check(
            all,
            &["spec.selectors[0].cel.expression: Forbidden: too complex, exceeds cost limit"],
        );
    }
}
