//! Patches that expressions compute, and their application to the object under review.

use setpoint_api::options::FieldValidation;
use setpoint_api::{Gvk, Status};
use setpoint_cel::Value;
use setpoint_registry_api::Review;
use setpoint_schema::apply::merge_configuration;
use setpoint_schema::{Shape, Tree, fields, patch};
use setpoint_strategy::{Kind, normal_form};

use super::compiled::CompiledMutation;
use crate::expressions::{BUDGET, CompiledExpression, CompiledVariable, Evaluator, Inputs};
use crate::object_form::ObjectForm;

/// The greatest integer that upstream writes to a JSON patch as a number; others are texts.
const MAX_SAFE_INTEGER: i64 = (1 << 53) - 1;

/// Why a mutation fails.
#[derive(Debug)]
pub(super) enum PatchError {
    /// An error of the policy, which its failure policy may ignore.
    Message(String),
    /// An error that rejects the request in any case.
    Status(Box<Status>),
}

impl From<String> for PatchError {
    fn from(message: String) -> Self {
        Self::Message(message)
    }
}

impl PatchError {
    fn internal(cause: impl std::fmt::Display) -> Self {
        Self::Status(Box::new(Status::internal(cause)))
    }
}

/// The object under review with a mutation applied, in the version of the form; none if it stays as it is.
pub(super) fn patch(
    review: &Review<'_>,
    (mutation, variables): (&CompiledMutation, &[CompiledVariable]),
    (kind, form): (&Gvk, &ObjectForm),
    inputs: &Inputs<'_>,
) -> Result<Option<Tree>, PatchError> {
    let Some(object) = inputs.object else {
        return Ok(None);
    };
    match mutation {
        CompiledMutation::ApplyConfiguration(expression) => {
            let value = evaluate(expression, variables, inputs)?;
            let merged = apply_configuration(&value, object, kind, form)?;
            conform_merged(review, form, merged, kind).map(Some)
        }
        CompiledMutation::JsonPatch(expression) => {
            let operations = operations(&evaluate(expression, variables, inputs)?)?;
            let mut patched = object.clone();
            match patch::apply_json(&mut patched, &operations) {
                Ok(()) => conform_patched(review, form, patched).map(Some),
                Err(patch::Error::TestFailed(_)) => Ok(None),
                Err(error) => Err(PatchError::Message(format!("JSON Patch: {error}"))),
            }
        }
    }
}

fn evaluate<'a>(
    expression: &'a CompiledExpression,
    variables: &'a [CompiledVariable],
    inputs: &'a Inputs<'a>,
) -> Result<Value<'a>, String> {
    if let Some(error) = expression.error() {
        return Err(error.to_string());
    }
    let mut evaluator = Evaluator::new(inputs, variables, BUDGET);
    evaluator
        .evaluate(expression)
        .map_err(|error| error.to_string())?
}

/// Merges the fields that an expression has constructed into the object.
fn apply_configuration(
    value: &Value<'_>,
    object: &Tree,
    kind: &Gvk,
    form: &ObjectForm,
) -> Result<Tree, PatchError> {
    check_type_names(value)?;
    let mut configuration = value.to_tree().ok_or_else(unsupported)?;
    configuration.set(&[fields::API_VERSION], kind.api_version());
    configuration.set(&[fields::KIND], kind.kind.clone());
    let merged = merge_configuration(object, &configuration, form.shape());
    merged.map_err(|error| PatchError::Message(format!("error applying patch: {error}")))
}

fn check_type_names(value: &Value<'_>) -> Result<(), String> {
    let errors = value.type_name_errors();
    match errors.is_empty() {
        true => Ok(()),
        false => Err(format!("type mismatch: {}", errors.join("\n"))),
    }
}

fn unsupported() -> String {
    "JSONPath valueExpression evaluated to a type that could not marshal to JSON".to_owned()
}

/// The operations of a JSON patch.
fn operations(patches: &Value<'_>) -> Result<Tree, PatchError> {
    let mut operations = Vec::new();
    for patch in patches.items() {
        if let Some(value) = patch.find("value") {
            check_type_names(&value)?;
        }
        let mut operation = patch.to_tree().ok_or_else(unsupported)?;
        for required in ["op", "path"] {
            if operation.get(required).is_none() {
                operation.set(&[required], "");
            }
        }
        if operation.str_at(&[fields::FROM]) == Some("") {
            operation.take(&[fields::FROM]);
        }
        if let Some(value) = operation.get_mut(fields::VALUE) {
            write_large_integers_as_text(value);
        }
        operations.push(operation);
    }
    Ok(Tree::List(operations))
}

fn write_large_integers_as_text(value: &mut Tree) {
    match value {
        Tree::Int(number) if number.unsigned_abs() > MAX_SAFE_INTEGER.unsigned_abs() => {
            *value = Tree::from(number.to_string());
        }
        Tree::List(items) => items.iter_mut().for_each(write_large_integers_as_text),
        Tree::Map(map) => map
            .iter_mut()
            .for_each(|(_, value)| write_large_integers_as_text(value)),
        _ => {}
    }
}

/// The merged object in normal form. A value that has the type of the schema and not that of its field, such as a
/// fraction in an integer, is an error of the policy.
fn conform_merged(
    review: &Review<'_>,
    form: &ObjectForm,
    merged: Tree,
    kind: &Gvk,
) -> Result<Tree, PatchError> {
    let unfit = |cause: String| {
        let number = cause.contains("cannot unmarshal number");
        let cause = match cause.rsplit_once(" of type ") {
            Some((_, expected)) if number => format!("cannot convert float64 to {expected}"),
            _ if cause.contains("base64") => format!("error decoding from json: {cause}"),
            _ => cause,
        };
        let kind = display(kind);
        PatchError::Message(format!(
            "unable to convert unstructured object to {kind}: {cause}"
        ))
    };
    match form {
        ObjectForm::Kind(kind) => {
            let conformed = kind.conform(merged, FieldValidation::Ignore);
            prepare(
                review,
                &**kind,
                conformed.map_err(|error| unfit(error.cause()))?.tree,
            )
        }
        ObjectForm::Body(shape) => normalise_body(shape, merged),
    }
}

/// The patched object in normal form. A built-in kind must not have unknown fields.
fn conform_patched(review: &Review<'_>, form: &ObjectForm, patched: Tree) -> Result<Tree, PatchError> {
    match form {
        ObjectForm::Kind(kind) => {
            let conformed = match kind.info().is_custom {
                true => kind.conform_admitted(patched),
                false => kind.conform(patched, FieldValidation::Strict),
            };
            let tree = conformed
                .map_err(|error| PatchError::internal(error.cause()))?
                .tree;
            prepare(review, &**kind, tree)
        }
        ObjectForm::Body(shape) => normalise_body(shape, patched),
    }
}

/// The body of a subresource, without unknown fields and in normal form.
fn normalise_body(shape: &Shape, mut body: Tree) -> Result<Tree, PatchError> {
    setpoint_schema::prune(shape, &mut body);
    normal_form::normalise(shape, &mut body).map_err(PatchError::internal)?;
    Ok(body)
}

fn prepare(review: &Review<'_>, kind: &dyn Kind, mut tree: Tree) -> Result<Tree, PatchError> {
    kind.prepare_input(&mut tree).map_err(PatchError::internal)?;
    kind.default_for_request(&mut tree, review.facts);
    Ok(tree)
}

fn display(kind: &Gvk) -> String {
    let version = kind.api_version();
    let slash = if version.contains('/') { "" } else { "/" };
    format!("{slash}{version}, Kind={}", kind.kind)
}
