//! Default values in schemas: each must be valid by the schema that declares it, and fulfil its validation rules.

use setpoint_api::field::{ErrorType, Errors, FieldError};
use setpoint_schema::custom::{Schema, SchemaViolation, Type, type_name};
use setpoint_schema::{PruneErrors, Tree, fields};
use setpoint_strategy::custom::validation_rules::{RUNTIME_COST_BUDGET, RuleTarget, RuleValidator};
use setpoint_strategy::custom::{embedded, field_error};
use setpoint_strategy::display::RawJson;

use super::Node;

/// Where a default is, as far as its validation depends on it.
#[derive(Clone)]
struct Context<'a> {
    /// The innermost object above, with its type and metadata.
    object: &'a Schema,
    /// The path from that object.
    path: Vec<Step<'a>>,
    /// Whether the value is in the type or metadata of that object.
    is_inside_meta: bool,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Field(&'a str),
    Item,
}

/// Validates the defaults of a structural schema. Returns whether all are valid.
pub(super) fn validate(root: &Node<'_>, schema: &Schema) -> bool {
    if !schema.has_defaults() {
        return true;
    }
    let mut schema = schema.clone();
    schema.embedded_resource = true;
    let reported = root.errors.len();
    let mut budget = RUNTIME_COST_BUDGET;
    let context = Context {
        object: &schema,
        path: Vec::new(),
        is_inside_meta: false,
    };
    validate_node(root, &schema, &context, &mut budget);
    root.errors.len() == reported
}

/// Validates the default of a node and those below it; `additionalProperties` have none. `None` once the rules have used up
/// the budget.
fn validate_node(node: &Node<'_>, schema: &Schema, context: &Context<'_>, budget: &mut u64) -> Option<()> {
    let own;
    let mut context = context;
    if schema.embedded_resource {
        own = Context {
            object: schema,
            path: Vec::new(),
            is_inside_meta: false,
        };
        context = &own;
    }
    if let Some(default) = node.at(fields::DEFAULT) {
        validate_default(&default, schema, context, budget)?;
        report_unknown_type(&default, node.str(fields::TYPE), schema);
    }
    if let (Some(items), Some(schema)) = (node.schema(fields::ITEMS), &schema.items) {
        validate_node(&items, schema, &context.step(Step::Item), budget)?;
    }
    for (name, property) in node.properties() {
        let mut context = context.step(Step::Field(name));
        context.is_inside_meta |=
            schema.embedded_resource && matches!(name, fields::METADATA | fields::API_VERSION | fields::KIND);
        if let Some(schema) = schema.property(name) {
            validate_node(&property, schema, &context, budget)?;
        }
    }
    Some(())
}

impl<'a> Context<'a> {
    fn step(&self, step: Step<'a>) -> Self {
        let mut child = self.clone();
        child.path.push(step);
        child
    }

    /// An object that has the value at the path, and nothing else besides its type.
    fn surround(&self, value: &Tree) -> Tree {
        let mut object = self
            .path
            .iter()
            .rev()
            .fold(value.clone(), |value, step| match step {
                Step::Field(name) => {
                    let mut object = Tree::default();
                    object.set(&[name], value);
                    object
                }
                Step::Item => vec![value].into(),
            });
        object.set_default(fields::KIND, "Validation");
        object.set_default(fields::API_VERSION, "validation/v1");
        object
    }
}

/// Validates one default. Each check is made only if the ones before found nothing, except that of unknown fields.
fn validate_default(
    default: &Node<'_>,
    schema: &Schema,
    context: &Context<'_>,
    budget: &mut u64,
) -> Option<()> {
    if context.is_inside_meta {
        if let Some(error) = metadata_error(context, default.value) {
            let detail = format!("must result in valid metadata: {error}");
            default
                .errors
                .invalid(RawJson::from_tree(&default.value.sorted()), &detail);
            return Some(());
        }
    } else {
        if schema.would_prune(default.value) {
            default.errors.invalid(
                RawJson::from_tree(&default.value.sorted()),
                "must not have unknown fields",
            );
        }
        if !are_embedded_objects_valid(default, schema) {
            return Some(());
        }
    }
    let violations = without_int_or_string(schema).validate_at(default.value, "");
    if violations.is_empty() {
        return evaluate_rules(default, schema, std::ptr::eq(schema, context.object), budget);
    }
    report_violations(default, &violations);
    Some(())
}

/// The errors of the type and metadata of an object with this default.
fn metadata_error(context: &Context<'_>, default: &Tree) -> Option<String> {
    let mut object = context.surround(default);
    let mut schema = context.object.clone();
    schema.embedded_resource = true;
    let mut problems = PruneErrors::default();
    embedded::coerce_at(&schema, &mut object, "", &mut problems);
    if problems.type_error.is_some() {
        return problems.type_error;
    }
    let errors = Errors::default();
    embedded::validate_at(&schema, &object, "", &errors);
    let errors = errors.into_vec();
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    match &texts[..] {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}

fn are_embedded_objects_valid(default: &Node<'_>, schema: &Schema) -> bool {
    let path = default.errors.path();
    let reported = default.errors.len();
    let mut value = default.value.clone();
    let mut problems = PruneErrors::default();
    embedded::coerce_at(schema, &mut value, &path, &mut problems);
    match problems.type_error {
        Some(error) => {
            let (path, message) = error.split_once(": ").unwrap_or(("", &error));
            default.errors.push(FieldError {
                path: path.to_owned(),
                error_type: ErrorType::Invalid,
                message: message.to_owned(),
            });
        }
        None => embedded::validate_at(schema, &value, &path, &default.errors),
    }
    default.errors.len() == reported
}

/// Evaluates the rules as on an update that changes nothing, and as on a create.
fn evaluate_rules(
    default: &Node<'_>,
    schema: &Schema,
    is_resource_root: bool,
    budget: &mut u64,
) -> Option<()> {
    let Some(validator) = RuleValidator::compile(schema, is_resource_root) else {
        return Some(());
    };
    let reported = default.errors.len();
    let validate = |old| {
        let target = RuleTarget {
            value: default.value,
            old,
            is_ratcheted: false,
        };
        validator.validate(schema, target, *budget, &default.errors)
    };
    let mut left = validate(Some(default.value));
    if default.errors.len() == reported {
        left = left.min(validate(None));
    }
    *budget = left?;
    Some(())
}

/// Reports a default of a type that does not exist.
fn report_unknown_type(default: &Node<'_>, value_type: &str, schema: &Schema) {
    if !value_type.is_empty() && schema.value_type.is_none() {
        let found = type_name(default.value);
        default.errors.type_invalid(
            found,
            &format!(" in body must be of type {value_type}: {found:?}"),
        );
    }
}

fn report_violations(default: &Node<'_>, violations: &[SchemaViolation]) {
    let path = default.errors.path();
    for violation in violations {
        let at = violation.path.as_deref().unwrap_or_default();
        let at = match at {
            "" => path.clone(),
            at if at.starts_with('[') => format!("{path}{at}"),
            at => format!("{path}.{at}"),
        };
        default.errors.push(field_error(&SchemaViolation {
            path: Some(at),
            kind: violation.kind.clone(),
        }));
    }
}

/// The same schema without the type of values that are integers or strings: Kubernetes does not check it in defaults.
fn without_int_or_string(schema: &Schema) -> Schema {
    let mut schema = schema.clone();
    if schema.value_type == Some(Type::IntOrString) {
        schema.value_type = None;
    }
    let strip = |inner: Box<Schema>| Box::new(without_int_or_string(&inner));
    schema.items = schema.items.map(strip);
    schema.additional_properties = schema.additional_properties.map(strip);
    for (_, property) in &mut schema.properties {
        *property = without_int_or_string(property);
    }
    schema
}
