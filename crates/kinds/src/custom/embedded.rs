//! Objects within a custom object, where its schema says that a whole object of some kind stands.

use std::sync::LazyLock;

use setpoint_api::field::Errors;
use setpoint_schema::custom::Schema;
use setpoint_schema::shape::Field;
use setpoint_schema::{Pack, Problem as Unknown, Problems, Shape, Tree, prune};

use super::rules::text;
use crate::at::At;
use crate::shared::name::service;
use crate::strategy::{NameRule, Scope};
use crate::{meta, normal};

/// What has only metadata.
static HEAD: LazyLock<Shape> = LazyLock::new(|| {
    let any = Pack::builtin().shape_of("", "v1", "ConfigMap");
    let metadata: Option<&Field> = any.and_then(|shape| shape.member("metadata"));
    let metadata = metadata.expect("the pack has config maps, and they have metadata");
    Shape::new("embedded", false, vec![metadata.clone()])
});

/// Holds the names and metadata of embedded objects to their types, and drops what metadata does not know.
pub(super) fn coerce(schema: &Schema, value: &mut Tree, problems: &mut Problems) {
    if schema.has_embedded() {
        walk(schema, value, "", &mut |object, path| {
            coerce_one(object, path, problems)
        });
    }
}

fn coerce_one(object: &mut Tree, path: &str, problems: &mut Problems) {
    for name in ["apiVersion", "kind"] {
        let wrong = object.get(name).filter(|value| value.as_str().is_none());
        if let Some(value) = wrong {
            let problem = format!("{path}.{name}: Invalid value: {}: must be a string", text(value));
            problems.mismatch.get_or_insert(problem);
        }
    }
    let Some(metadata) = object.find_mut("metadata") else {
        return;
    };
    let shape = HEAD.at(&["metadata"]).expect("every object has metadata");
    let shown = text(metadata);
    let found = prune(shape, metadata);
    if let Some(mismatch) = found.mismatch {
        let problem = format!("{path}.metadata: Invalid value: {shown}: {mismatch}");
        problems.mismatch.get_or_insert(problem);
    }
    problems
        .list
        .extend(found.list.into_iter().map(|problem| match problem {
            Unknown::Unknown(field) => Unknown::Unknown(format!("{path}.metadata.{field}")),
            Unknown::Duplicate(field) => Unknown::Duplicate(format!("{path}.metadata.{field}")),
        }));
    if metadata.get("creationTimestamp").is_some_and(Tree::is_null) {
        metadata.take(&["creationTimestamp"]);
    }
}

/// Holds embedded objects to what holds for every object.
pub(super) fn validate(schema: &Schema, value: &Tree, errors: &Errors) {
    if schema.has_embedded() {
        let mut value = value.clone();
        walk(schema, &mut value, "", &mut |object, path| {
            validate_one(object, path, errors);
        });
    }
}

fn validate_one(object: &Tree, path: &str, errors: &Errors) {
    let at = errors.at(path);
    for name in ["apiVersion", "kind"] {
        match object.get(name) {
            None => at.at(name).required(""),
            Some(Tree::Str(text)) if text.is_empty() => at.at(name).invalid("", "must not be empty"),
            Some(Tree::Str(text)) if name == "apiVersion" && text.matches('/').count() > 1 => {
                at.at(name)
                    .invalid(text.as_str(), &format!("unexpected GroupVersion string: {text}"));
            }
            Some(Tree::Str(text)) if name == "kind" => validate_kind(text, &at.at(name)),
            Some(_) => {}
        }
    }
    let Some(metadata) = object.get("metadata") else {
        return;
    };
    let mut whole = Tree::default();
    whole.set(&["metadata"], metadata.clone());
    if meta::name(&whole).is_empty() {
        meta::set(&mut whole, "name", "fakename");
    }
    // What cannot be brought into its normal form was refused when it was read.
    let _ = normal::normalise(&HEAD, &mut whole);
    let scope = match meta::str(&whole, "namespace") {
        "" => Scope::Cluster,
        _ => Scope::Namespaced,
    };
    meta::validate(
        &At::new(&whole, &HEAD, &at).at("metadata"),
        scope,
        NameRule::PathSegment,
    );
}

fn validate_kind(kind: &str, errors: &Errors) {
    let complaints = service(&kind.to_lowercase());
    if !complaints.is_empty() {
        let detail = format!(
            "may have mixed case, but should otherwise match: {}",
            complaints.join(",")
        );
        errors.invalid(kind, &detail);
    }
}

/// Every embedded object below a value, with its path.
fn walk(schema: &Schema, value: &mut Tree, path: &str, visit: &mut dyn FnMut(&mut Tree, &str)) {
    if schema.embeds && value.as_map().is_some() {
        visit(value, path);
    }
    match value {
        Tree::Map(map) => {
            for (key, value) in map.iter_mut() {
                if let Some(schema) = schema.property(key) {
                    let dot = if path.is_empty() { "" } else { "." };
                    walk(schema, value, &format!("{path}{dot}{key}"), visit);
                } else if let Some(schema) = &schema.additional {
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
