//! The rules of custom objects, besides those of their schema.

use std::collections::BTreeSet;

use compact_str::{CompactString, format_compact};

use setpoint_api::field::{Cause, Errors, FieldError, Shown};
use setpoint_api::name;
use setpoint_schema::custom::{Report, Subject};
use setpoint_schema::patch::{go_text, go_type};
use setpoint_schema::{Problem, Shape, Tree};

use crate::at::At;
use crate::kind::Scale;
use crate::strategy::{NameRule, Part, Scope};
use crate::{meta, parts};

/// Finalizers that need no domain.
const STANDARD_FINALIZERS: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];

pub(super) fn validate_metadata(object: &Tree, head: &Shape, scope: Scope, errors: &Errors) {
    let metadata = At::new(object, head, errors).at("metadata");
    meta::validate(&metadata, scope, NameRule::Subdomain);
}

pub(super) fn validate_metadata_update(object: &Tree, old: &Tree, head: &Shape, errors: &Errors) {
    let new = At::new(object, head, errors).at("metadata");
    meta::validate_update(&new, &At::reading(old, head).at("metadata"));
}

/// Keeps what the request is not about, and counts what changes what the object asks for.
pub(super) fn prepare_update(object: &mut Tree, old: &Tree, part: Option<(Part, &str)>, has_status: bool) {
    match part {
        Some((Part::Status, _)) => keep_all_but_status(object, old),
        _ if has_status => parts::keep(object, old, "status"),
        _ => {}
    }
    let but: &[&str] = match has_status {
        true => &["metadata", "status"],
        false => &["metadata"],
    };
    if parts::differ_besides(object, old, but) {
        let generation = meta::int(old, "generation");
        meta::set(object, "generation", generation + 1);
    }
}

/// An update of the status leaves even the metadata alone, but for who owns what.
fn keep_all_but_status(object: &mut Tree, old: &Tree) {
    parts::keep_all_but(object, old, &["metadata", "status"]);
    let owners = meta::find(object, "managedFields").cloned();
    let version = meta::find(object, "resourceVersion").cloned();
    parts::keep(object, old, "metadata");
    for (field, value) in [("managedFields", owners), ("resourceVersion", version)] {
        match value {
            Some(value) => meta::set(object, field, value),
            None => meta::clear(object, field),
        }
    }
}

/// Holds the numbers that a scale shows to what a scale can show.
pub(super) fn validate_scale(object: &Tree, scale: Option<&Scale>, errors: &Errors) {
    let Some(paths) = scale else { return };
    validate_number(object, &paths.replicas, errors);
    validate_scale_status(object, scale, errors);
}

pub(super) fn validate_scale_status(object: &Tree, scale: Option<&Scale>, errors: &Errors) {
    let Some(paths) = scale else { return };
    validate_number(object, &paths.status_replicas, errors);
    let Some(path) = &paths.selector else { return };
    match nested(object, path) {
        Ok(None | Some(Tree::Str(_))) => {}
        Ok(Some(other)) => errors
            .at(&dotted(path))
            .invalid("", &misplaced(path, other, "string")),
        Err(why) => errors.at(&dotted(path)).invalid("", &why),
    }
}

fn validate_number(object: &Tree, path: &[String], errors: &Errors) {
    let errors = errors.at(&dotted(path));
    match nested(object, path) {
        Ok(None) => {}
        Ok(Some(Tree::Int(number))) if *number < 0 => {
            errors.invalid(*number, "should be a non-negative integer")
        }
        Ok(Some(Tree::Int(number))) if *number > i64::from(i32::MAX) => {
            errors.invalid(*number, &format!("should be less than or equal to {}", i32::MAX));
        }
        Ok(Some(Tree::Int(_))) => {}
        Ok(Some(other)) => errors.invalid(0_i64, &misplaced(path, other, "int64")),
        Err(why) => errors.invalid(0_i64, &why),
    }
}

/// What stands at a path, or why nothing can.
fn nested<'a>(object: &'a Tree, path: &[String]) -> Result<Option<&'a Tree>, String> {
    let mut place = object;
    for (at, name) in path.iter().enumerate() {
        if place.is_null() {
            return Ok(None);
        }
        let Some(map) = place.as_map() else {
            return Err(misplaced(&path[..=at], place, "map[string]interface{}"));
        };
        match map.get(name) {
            Some(value) => place = value,
            None => return Ok(None),
        }
    }
    Ok(Some(place))
}

/// The words of the reference server for a value of a type that cannot stand at a path.
fn misplaced(path: &[String], value: &Tree, wanted: &str) -> String {
    let found = if value.is_null() { "<nil>" } else { go_type(value) };
    let shown = go_text(value);
    let path = dotted(path);
    format!("{path} accessor error: {shown} is of the type {found}, expected {wanted}")
}

fn dotted(path: &[String]) -> String {
    format!(".{}", path.join("."))
}

/// Names of finalizers that are new and badly chosen.
pub(super) fn warn_of_finalizers(object: &Tree, old: Option<&Tree>) -> Vec<String> {
    let names = |object: &Tree| -> BTreeSet<String> {
        let metadata = object.get("metadata");
        let names = metadata
            .map_or(&[][..], |metadata| metadata.items("finalizers"))
            .iter();
        names.filter_map(Tree::as_str).map(str::to_owned).collect()
    };
    let before = old.map(names).unwrap_or_default();
    let new = names(object);
    new.difference(&before)
        .flat_map(|name| warnings_of_finalizer(name))
        .collect()
}

fn warnings_of_finalizer(finalizer: &str) -> Vec<String> {
    let say = |what: &str| format!("metadata.finalizers: {finalizer:?}: {what}");
    let mut warnings: Vec<String> = name::qualified(finalizer).iter().map(|what| say(what)).collect();
    if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer) {
        let including = if finalizer.contains('.') {
            " including a path (/)"
        } else {
            ""
        };
        warnings.push(say(&format!(
            "prefer a domain-qualified finalizer name{including} to avoid accidental conflicts with other finalizer writers"
        )));
    }
    warnings
}

/// Hands on what a schema found in the status alone: the messages name places within it.
pub(super) fn report_status(reports: Vec<Report>, errors: &Errors) {
    let placed: Vec<Report> = reports
        .into_iter()
        .map(|report| Report {
            path: report.path.map(|path| format!("status.{path}")),
            ..report
        })
        .collect();
    self::report(&placed, errors);
}

/// What makes it pointless to judge expressions.
pub(super) const BLOCKING: &[Cause] = &[
    Cause::NotSupported,
    Cause::Required,
    Cause::TooLong,
    Cause::TooMany,
    Cause::TypeInvalid,
];

pub(super) fn report_unchecked(errors: &Errors) {
    errors.push(FieldError {
        path: "<nil>".to_owned(),
        cause: Cause::Invalid,
        message: "Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation".to_owned(),
    });
}

/// Hands on what a schema found.
pub(super) fn report(reports: &[Report], errors: &Errors) {
    for report in reports {
        errors.push(field_error(report));
    }
}

/// What a schema found, as a caller is told.
pub(crate) fn field_error(report: &Report) -> FieldError {
    let (cause, message) = match &report.subject {
        Subject::Required => (Cause::Required, "Required value".to_owned()),
        Subject::Missing { detail } => (Cause::Required, format!("Required value: {detail}")),
        Subject::Forbidden { detail } => (Cause::Forbidden, format!("Forbidden: {detail}")),
        Subject::InvalidWhole { detail } => (Cause::Invalid, format!("Invalid value: {detail}")),
        Subject::Mistyped { shown, detail } => {
            let message = format!("Invalid value: {}: {detail}", text(shown));
            (Cause::TypeInvalid, message)
        }
        Subject::Invalid { shown, detail } => (
            Cause::Invalid,
            format!("Invalid value: {}: {detail}", text(shown)),
        ),
        Subject::Unsupported { value, supported } => {
            let supported: Vec<String> = supported.iter().map(quoted).collect();
            let message = format!(
                "Unsupported value: {}: supported values: {}",
                text(value),
                supported.join(", ")
            );
            (Cause::NotSupported, message)
        }
        Subject::TooLong { most } => {
            let unit = if *most == 1 { "byte" } else { "bytes" };
            (
                Cause::TooLong,
                format!("Too long: may not be more than {most} {unit}"),
            )
        }
        Subject::TooMany { count, most } => {
            let unit = if *most == 1 { "item" } else { "items" };
            let message = format!("Too many: {count}: must have at most {most} {unit}");
            (Cause::TooMany, message)
        }
        Subject::Duplicate { value } => (Cause::Duplicate, format!("Duplicate value: {}", text(value))),
    };
    FieldError {
        path: report.path.clone().unwrap_or_else(|| "<nil>".to_owned()),
        cause,
        message,
    }
}

/// A value in JSON.
pub(super) fn text(value: &Tree) -> String {
    let mut text = Vec::new();
    setpoint_schema::write::write_tree(value, &mut text);
    String::from_utf8(text).unwrap_or_default()
}

/// Supported values are shown as texts, whatever they are.
fn quoted(value: &Tree) -> String {
    match value {
        Tree::Str(_) => text(value),
        other => text(other).shown(),
    }
}

/// Of a field that is given twice the later counts; which ones were.
pub(super) fn drop_duplicates(tree: &mut Tree) -> Vec<Problem> {
    let mut found = Vec::new();
    drop_at(tree, "", &mut found);
    found
}

fn drop_at(tree: &mut Tree, path: &str, found: &mut Vec<Problem>) {
    match tree {
        Tree::Map(map) => {
            let keys: Vec<CompactString> = map.pairs().iter().map(|(key, _)| key.clone()).collect();
            let repeated = |at: usize| keys[at + 1..].contains(&keys[at]);
            let mut at = 0;
            map.retain(|key, _| {
                let twice = repeated(at);
                at += 1;
                if twice {
                    let problem = Problem::Duplicate(join(path, key).into());
                    if !found.contains(&problem) {
                        found.push(problem);
                    }
                }
                !twice
            });
            for (key, value) in map.iter_mut() {
                if matches!(value, Tree::Map(_) | Tree::List(_)) {
                    drop_at(value, &join(path, key), found);
                }
            }
        }
        Tree::List(items) => {
            for (at, item) in items.iter_mut().enumerate() {
                drop_at(item, &format!("{path}[{at}]"), found);
            }
        }
        _ => {}
    }
}

fn join(path: &str, key: &str) -> CompactString {
    match path {
        "" => key.into(),
        path => format_compact!("{path}.{key}"),
    }
}
