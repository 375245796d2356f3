//! The rules of custom objects, besides those of their schema.

use compact_str::{CompactString, format_compact};

use setpoint_api::field::{Cause, Errors, FieldError, Shown};
use setpoint_schema::custom::{Report, Subject};
use setpoint_schema::{Problem, Shape, Tree};

use crate::at::At;
use crate::strategy::{NameRule, Part, Scope};
use crate::{meta, parts};

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
fn text(value: &Tree) -> String {
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
