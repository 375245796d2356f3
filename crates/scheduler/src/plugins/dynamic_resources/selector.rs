//! [`Selectors`]: compiled CEL selectors of devices.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use setpoint_cel::{Environment, EvalError, Program, Type, Value, ValueSchema};

use super::slices::{Attribute, Device};

/// The most that the evaluation of a selector may cost.
const MAX_COST: u64 = 1_000_000;
/// At this number of expressions the cache is emptied.
const MAX_PROGRAMS: usize = 1000;

const HINT: &str = "consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() \
                    for optional fields";

/// Programs by their expression; an error for one that cannot be compiled.
#[derive(Debug, Default)]
pub(super) struct Selectors {
    programs: Mutex<HashMap<String, Arc<Result<Program, String>>>>,
}

/// Why a selector has no result.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SelectorError {
    Compile(String),
    Evaluate(String),
}

static ENVIRONMENT: LazyLock<Environment> = LazyLock::new(|| {
    let attributes = ValueSchema::map(ValueSchema::map(ValueSchema::scalar(Type::Dyn)));
    let quantity = ValueSchema::scalar(Type::Opaque("kubernetes.Quantity"));
    let fields = [
        ("driver".to_owned(), ValueSchema::scalar(Type::String)),
        (
            "allowMultipleAllocations".to_owned(),
            ValueSchema::scalar(Type::Bool),
        ),
        ("attributes".to_owned(), attributes),
        (
            "capacity".to_owned(),
            ValueSchema::map(ValueSchema::map(quantity)),
        ),
    ];
    let device = ValueSchema::object("kubernetes.DRADevice", fields);
    Environment::default().with_variable("device", device)
});

impl Selectors {
    /// Whether the expression selects the device.
    pub(super) fn matches(
        &self,
        expression: &str,
        driver: &str,
        device: &Device,
    ) -> Result<bool, SelectorError> {
        let program = self.program(expression);
        let program = match &*program {
            Ok(program) => program,
            Err(message) => return Err(SelectorError::Compile(message.clone())),
        };
        match program.evaluate(vec![value_of(driver, device)], MAX_COST).value {
            Ok(Value::Bool(matches)) => Ok(matches),
            Ok(other) => Err(SelectorError::Evaluate(format!(
                "CEL result of type {other:?} could not be converted to bool"
            ))),
            Err(error) => Err(SelectorError::Evaluate(with_hint(&error))),
        }
    }

    fn program(&self, expression: &str) -> Arc<Result<Program, String>> {
        let mut programs = self.programs.lock();
        if let Some(program) = programs.get(expression) {
            return program.clone();
        }
        if programs.len() >= MAX_PROGRAMS {
            programs.clear();
        }
        let compiled = ENVIRONMENT.compile(expression);
        let compiled = Arc::new(compiled.map_err(|error| format!("compilation failed: {error}")));
        programs.insert(expression.to_owned(), compiled.clone());
        compiled
    }
}

/// The error with upstream's advice for a missing key.
fn with_hint(error: &EvalError) -> String {
    let message = error.to_string();
    match message.starts_with("no such key") {
        true => format!("{message}. {HINT}"),
        false => message,
    }
}

/// The variable `device`. A domain without attributes or capacities is an empty map.
fn value_of<'a>(driver: &str, device: &Device) -> Value<'a> {
    let attributes = device
        .attributes
        .iter()
        .filter_map(|(name, attribute)| Some((name.as_str(), attribute_value(attribute)?)));
    let capacities = device.capacity.iter();
    let capacities = capacities.map(|(name, capacity)| (name.as_str(), Value::quantity(capacity.value.0)));
    Value::map(vec![
        (Value::string("driver"), Value::string(driver)),
        (
            Value::string("allowMultipleAllocations"),
            Value::Bool(device.allow_multiple_allocations),
        ),
        (Value::string("attributes"), by_domain(driver, attributes)),
        (Value::string("capacity"), by_domain(driver, capacities)),
    ])
}

fn attribute_value<'a>(attribute: &Attribute) -> Option<Value<'a>> {
    let Attribute {
        int,
        bool,
        string,
        version,
    } = attribute;
    let int = int.map(Value::Int);
    let text = || string.as_deref().map(Value::string);
    let version = || version.as_deref().and_then(Value::semver);
    int.or_else(|| bool.map(Value::Bool))
        .or_else(text)
        .or_else(version)
}

/// Values by domain and name; the driver is the domain of names without one.
fn by_domain<'a, 'b>(driver: &'b str, values: impl Iterator<Item = (&'b str, Value<'a>)>) -> Value<'a> {
    let mut domains: BTreeMap<&str, Vec<(Value<'a>, Value<'a>)>> = BTreeMap::new();
    for (name, value) in values {
        let (domain, name) = name.split_once('/').unwrap_or((driver, name));
        domains
            .entry(domain)
            .or_default()
            .push((Value::string(name), value));
    }
    let domains = domains.into_iter();
    let entries = domains.map(|(domain, values)| (Value::string(domain), Value::map(values)));
    Value::map_with_default(entries.collect(), Value::map(Vec::new()))
}
