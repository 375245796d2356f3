//! Embedded objects: values whose schema has `x-kubernetes-embedded-resource`.

use std::sync::LazyLock;

use setpoint_api::field::Errors;
use setpoint_schema::custom::Schema;
use setpoint_schema::shape::Field;
use setpoint_schema::{Map, Pack, PruneErrors, Shape, StrictError as Unknown, Tree, fields, prune};

use super::rules::text;
use crate::field::FieldRef;
use crate::name::service;
use crate::strategy::{NameRule, Scope};
use crate::{meta, normal_form};

/// A shape with only metadata.
static HEAD: LazyLock<Shape> = LazyLock::new(|| {
    let any = Pack::builtin().shape_of("", "v1", "ConfigMap");
    let metadata: Option<&Field> = any.and_then(|shape| shape.member(fields::METADATA));
    let metadata = metadata.expect("the pack has config maps, and they have metadata");
    Shape::new("embedded", false, vec![metadata.clone()])
});

/// Checks the types of `apiVersion`, `kind` and metadata of embedded objects, and drops unknown metadata fields.
pub(super) fn coerce(schema: &Schema, value: &mut Tree, problems: &mut PruneErrors) {
    coerce_at(schema, value, "", problems);
}

/// The same for a value at a path.
pub fn coerce_at(schema: &Schema, value: &mut Tree, path: &str, problems: &mut PruneErrors) {
    if schema.has_embedded_resource() {
        walk(schema, value, path, &mut |object, path| {
            coerce_one(object, path, problems)
        });
    }
}

fn coerce_one(object: &mut Tree, path: &str, problems: &mut PruneErrors) {
    for name in [fields::API_VERSION, fields::KIND] {
        let wrong = object.get(name).filter(|value| value.as_str().is_none());
        if let Some(value) = wrong {
            let problem = format!("{path}.{name}: Invalid value: {}: must be a string", text(value));
            problems.type_error.get_or_insert(problem);
        }
    }
    let Some(metadata) = object.get_mut(fields::METADATA) else {
        return;
    };
    if metadata.is_null() {
        *metadata = Tree::Map(Map::default());
        return;
    }
    let shape = HEAD.at(&[fields::METADATA]).expect("every object has metadata");
    let shown = text(metadata);
    let found = prune(shape, metadata);
    if let Some(mismatch) = found.type_error {
        let problem = format!("{path}.metadata: Invalid value: {shown}: {mismatch}");
        problems.type_error.get_or_insert(problem);
    }
    problems
        .strict
        .extend(found.strict.into_iter().map(|problem| match problem {
            Unknown::Unknown(field) => Unknown::Unknown(format!("{path}.metadata.{field}")),
            Unknown::Duplicate(field) => Unknown::Duplicate(format!("{path}.metadata.{field}")),
        }));
    // Metadata that cannot be normalised has a type error, which has been reported.
    let _ = normal_form::normalise(shape, metadata);
}

/// Validates embedded objects by the rules of every object.
pub(super) fn validate(schema: &Schema, value: &Tree, errors: &Errors) {
    validate_at(schema, value, "", errors);
}

/// The same for a value at a path. Errors are reported at the root of the collector.
pub fn validate_at(schema: &Schema, value: &Tree, path: &str, errors: &Errors) {
    if schema.has_embedded_resource() {
        let mut value = value.clone();
        walk(schema, &mut value, path, &mut |object, path| {
            validate_one(object, path, &errors.root());
        });
    }
}

fn validate_one(object: &Tree, path: &str, errors: &Errors) {
    let at = match path {
        "" => errors.clone(),
        path => errors.at(path),
    };
    for name in [fields::API_VERSION, fields::KIND] {
        match object.get(name) {
            None => at.at(name).required(""),
            Some(Tree::Str(text)) if text.is_empty() => at.at(name).invalid("", "must not be empty"),
            Some(Tree::Str(text)) if name == fields::API_VERSION && text.matches('/').count() > 1 => {
                at.at(name)
                    .invalid(text.as_str(), &format!("unexpected GroupVersion string: {text}"));
            }
            Some(Tree::Str(text)) if name == fields::KIND => validate_kind(text, &at.at(name)),
            Some(_) => {}
        }
    }
    let Some(metadata) = object.get(fields::METADATA) else {
        return;
    };
    let mut whole = Tree::default();
    whole.set(&[fields::METADATA], metadata.clone());
    if meta::name(&whole).is_empty() {
        meta::set(&mut whole, fields::NAME, "fakename");
    }
    // Metadata that cannot be normalised was rejected when it was decoded.
    let _ = normal_form::normalise(&HEAD, &mut whole);
    let scope = match meta::str(&whole, fields::NAMESPACE) {
        "" => Scope::Cluster,
        _ => Scope::Namespaced,
    };
    meta::validate(
        &FieldRef::new(&whole, &HEAD, &at).at(fields::METADATA),
        scope,
        NameRule::PathSegment,
    );
}

fn validate_kind(kind: &str, errors: &Errors) {
    let violations = service(&kind.to_lowercase());
    if !violations.is_empty() {
        let detail = format!(
            "may have mixed case, but should otherwise match: {}",
            violations.join(",")
        );
        errors.invalid(kind, &detail);
    }
}

/// Visits every embedded object below a value, with its path.
fn walk(schema: &Schema, value: &mut Tree, path: &str, visit: &mut dyn FnMut(&mut Tree, &str)) {
    if schema.embedded_resource && value.as_map().is_some() {
        visit(value, path);
    }
    match value {
        Tree::Map(map) => {
            for (key, value) in map.iter_mut() {
                if let Some(schema) = schema.property(key) {
                    let dot = if path.is_empty() { "" } else { "." };
                    walk(schema, value, &format!("{path}{dot}{key}"), visit);
                } else if let Some(schema) = &schema.additional_properties {
                    walk(schema, value, &format!("{path}[{key}]"), visit);
                }
            }
        }
        Tree::List(items) => {
            let Some(schema) = &schema.items else { return };
            for (at, item) in items.iter_mut().enumerate() {
                walk(schema, item, &format!("{path}[{at}]"), visit);
            }
        }
        _ => {}
    }
}
