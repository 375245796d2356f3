//! Rules of custom objects besides those of their schema.

use std::collections::{BTreeSet, HashMap, HashSet};

use compact_str::{CompactString, format_compact};

use setpoint_api::field::{ErrorType, Errors, FieldError};
use setpoint_api::go_quote::go_quote;
use setpoint_api::name;
use setpoint_schema::custom::{SchemaViolation, ViolationKind};
use setpoint_schema::patch::{go_text, go_type};
use setpoint_schema::{Map, Shape, StrictError, Tree, fields};

use crate::field::FieldRef;
use crate::kind::ScalePaths;
use crate::strategy::{NameRule, Scope, SubresourceKind};
use crate::{meta, top_level};

/// At most this many duplicate fields are reported, as of a built-in kind.
const MAX_DUPLICATES: usize = 100;

/// Maps above this size are checked for duplicate keys by hashing.
const SCANNED_PAIRS: usize = 16;

/// Finalizers that need no domain.
const STANDARD_FINALIZERS: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];

pub(super) fn validate_metadata(object: &Tree, head: &Shape, scope: Scope, errors: &Errors) {
    let metadata = FieldRef::new(object, head, errors).at(fields::METADATA);
    meta::validate(&metadata, scope, NameRule::Subdomain);
}

/// Validates an update of the metadata. Kubernetes applies these rules once for every kind and once more for custom ones,
/// and lists each cause as often.
pub(super) fn validate_metadata_update(object: &Tree, old: &Tree, head: &Shape, errors: &Errors) {
    let new = FieldRef::new(object, head, errors).at(fields::METADATA);
    for _ in 0..2 {
        meta::validate_update(&new, &FieldRef::read_only(old, head).at(fields::METADATA));
        meta::validate_common(&new);
    }
}

/// Keeps the fields that the request may not change, and increments the generation if the spec changes.
pub(super) fn prepare_update(
    object: &mut Tree,
    old: &Tree,
    subresource: Option<SubresourceKind>,
    has_status: bool,
) {
    match subresource {
        Some(SubresourceKind::Status) => keep_all_but_status(object, old),
        _ if has_status => top_level::keep(object, old, fields::STATUS),
        _ => {}
    }
    let but: &[&str] = match has_status {
        true => &[fields::METADATA, fields::STATUS],
        false => &[fields::METADATA],
    };
    if differ_except(object, old, but) {
        let generation = meta::int(old, fields::GENERATION);
        meta::set(object, fields::GENERATION, generation + 1);
    }
}

/// Whether any field differs, except these. Null differs from absent, and an integer from a float.
fn differ_except(object: &Tree, old: &Tree, except: &[&str]) -> bool {
    let is_compared =
        |name: &str| name != fields::KIND && name != fields::API_VERSION && !except.contains(&name);
    let names = [object, old].into_iter().filter_map(Tree::as_map);
    let mut names = names.flat_map(Map::keys).filter(|name| is_compared(name));
    names.any(|name| match (object.get(name), old.get(name)) {
        (Some(value), Some(old)) => !value.unordered_eq(old),
        (value, old) => value.is_some() || old.is_some(),
    })
}

/// A status update keeps even the metadata, except for `managedFields`.
fn keep_all_but_status(object: &mut Tree, old: &Tree) {
    top_level::keep_all_except(object, old, &[fields::METADATA, fields::STATUS]);
    let owners = meta::find(object, fields::MANAGED_FIELDS).cloned();
    let version = meta::find(object, fields::RESOURCE_VERSION).cloned();
    top_level::keep(object, old, fields::METADATA);
    for (field, value) in [
        (fields::MANAGED_FIELDS, owners),
        (fields::RESOURCE_VERSION, version),
    ] {
        match value {
            Some(value) => meta::set(object, field, value),
            None => meta::clear(object, field),
        }
    }
}

/// Validates the fields that the scale subresource reads.
pub(super) fn validate_scale(object: &Tree, scale: Option<&ScalePaths>, errors: &Errors) {
    let Some(paths) = scale else { return };
    validate_number(object, &paths.replicas, errors);
    validate_scale_status(object, scale, errors);
}

pub(super) fn validate_scale_status(object: &Tree, scale: Option<&ScalePaths>, errors: &Errors) {
    let Some(paths) = scale else { return };
    validate_number(object, &paths.status_replicas, errors);
    let Some(path) = &paths.selector else { return };
    match nested(object, path) {
        Ok(None | Some(Tree::Str(_))) => {}
        Ok(Some(other)) => errors
            .at(&dotted(path))
            .invalid("", &accessor_error(path, other, "string")),
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
        Ok(Some(other)) => errors.invalid(0_i64, &accessor_error(path, other, "int64")),
        Err(why) => errors.invalid(0_i64, &why),
    }
}

/// The value at a path, or the error if one of its parents is not an object.
fn nested<'a>(object: &'a Tree, path: &[String]) -> Result<Option<&'a Tree>, String> {
    let mut current = object;
    for (at, name) in path.iter().enumerate() {
        if current.is_null() {
            return Ok(None);
        }
        let Some(map) = current.as_map() else {
            return Err(accessor_error(&path[..=at], current, "map[string]interface{}"));
        };
        match map.get(name) {
            Some(value) => current = value,
            None => return Ok(None),
        }
    }
    Ok(Some(current))
}

/// Kubernetes' message for a value of the wrong type at a path.
fn accessor_error(path: &[String], value: &Tree, expected: &str) -> String {
    let found = if value.is_null() { "<nil>" } else { go_type(value) };
    let shown = go_text(value);
    let path = dotted(path);
    format!("{path} accessor error: {shown} is of the type {found}, expected {expected}")
}

fn dotted(path: &[String]) -> String {
    format!(".{}", path.join("."))
}

/// Warnings about new finalizers with unqualified or invalid names.
pub(super) fn finalizer_warnings(object: &Tree, old: Option<&Tree>) -> Vec<String> {
    let names = |object: &Tree| -> BTreeSet<String> {
        let metadata = object.get(fields::METADATA);
        let names = metadata
            .map_or(&[][..], |metadata| metadata.items(fields::FINALIZERS))
            .iter();
        names.filter_map(Tree::as_str).map(str::to_owned).collect()
    };
    let before = old.map(names).unwrap_or_default();
    let new = names(object);
    new.difference(&before)
        .flat_map(|name| warnings_of_one_finalizer(name))
        .collect()
}

fn warnings_of_one_finalizer(finalizer: &str) -> Vec<String> {
    let warning = |what: &str| format!("metadata.finalizers: {finalizer:?}: {what}");
    let mut warnings: Vec<String> = name::check_qualified_name(finalizer)
        .iter()
        .map(|what| warning(what))
        .collect();
    if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer) {
        let including = if finalizer.contains('.') {
            " including a path (/)"
        } else {
            ""
        };
        warnings.push(warning(&format!(
            "prefer a domain-qualified finalizer name{including} to avoid accidental conflicts with other finalizer writers"
        )));
    }
    warnings
}

/// Reports the errors of a status schema: their messages have paths relative to the status.
pub(super) fn report_status(reports: Vec<SchemaViolation>, errors: &Errors) {
    let prefixed: Vec<SchemaViolation> = reports
        .into_iter()
        .map(|report| SchemaViolation {
            path: Some(match report.path.as_deref() {
                None | Some("") => fields::STATUS.to_owned(),
                Some(path) => format!("status.{path}"),
            }),
            ..report
        })
        .collect();
    self::report(&prefixed, errors);
}

/// Errors after which CEL rules are not evaluated.
pub(super) const BLOCKING_CAUSES: &[ErrorType] = &[
    ErrorType::NotSupported,
    ErrorType::Required,
    ErrorType::TooLong,
    ErrorType::TooMany,
    ErrorType::TypeInvalid,
];

pub(super) fn report_unevaluated_rules(errors: &Errors) {
    errors.push(FieldError {
        path: "<nil>".to_owned(),
        error_type: ErrorType::Invalid,
        message: "Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation".to_owned(),
    });
}

/// Reports schema errors.
pub(super) fn report(reports: &[SchemaViolation], errors: &Errors) {
    for report in reports {
        if errors.is_full() {
            return;
        }
        errors.push(field_error(report));
    }
}

/// A schema error as a field error.
pub fn field_error(report: &SchemaViolation) -> FieldError {
    let (cause, message) = match &report.kind {
        ViolationKind::Required => (ErrorType::Required, "Required value".to_owned()),
        ViolationKind::TypeInvalid { value: shown, detail } => {
            let message = format!("Invalid value: {}: {detail}", text(shown));
            (ErrorType::TypeInvalid, message)
        }
        ViolationKind::Invalid { value: shown, detail } => (
            ErrorType::Invalid,
            format!("Invalid value: {}: {detail}", text(shown)),
        ),
        ViolationKind::NotSupported { value, supported } => {
            let supported: Vec<String> = supported.iter().map(quoted).collect();
            let message = format!(
                "Unsupported value: {}: supported values: {}",
                text(value),
                supported.join(", ")
            );
            (ErrorType::NotSupported, message)
        }
        ViolationKind::TooLong { max: most } => {
            let unit = if *most == 1 { "byte" } else { "bytes" };
            (
                ErrorType::TooLong,
                format!("Too long: may not be more than {most} {unit}"),
            )
        }
        ViolationKind::TooMany { count, max: most } => {
            let unit = if *most == 1 { "item" } else { "items" };
            let message = format!("Too many: {count}: must have at most {most} {unit}");
            (ErrorType::TooMany, message)
        }
        ViolationKind::Duplicate { value } => {
            (ErrorType::Duplicate, format!("Duplicate value: {}", text(value)))
        }
    };
    FieldError {
        path: report.path.clone().unwrap_or_else(|| "<nil>".to_owned()),
        error_type: cause,
        message,
    }
}

/// A value as error messages print it: a string as Go quotes it, all else as JSON with sorted keys.
pub(super) fn text(value: &Tree) -> String {
    if let Tree::Str(value) = value {
        return go_quote(value);
    }
    let mut text = Vec::new();
    setpoint_schema::write::write_tree(&value.sorted(), &mut text);
    String::from_utf8(text).unwrap_or_default()
}

/// Error messages show supported values as quoted strings, whatever their type.
fn quoted(value: &Tree) -> String {
    match value {
        Tree::Str(_) => text(value),
        other => go_quote(&text(other)),
    }
}

/// Drops duplicate fields, of which the last one counts, and returns their paths.
pub(super) fn drop_duplicates(tree: &mut Tree) -> Vec<StrictError> {
    let mut found = Vec::new();
    drop_at(tree, &mut String::new(), &mut found);
    found
}

/// Visits the value at a path, which is the same again when this returns. It is not copied for each value, since a key
/// may be as long as the request body.
fn drop_at(tree: &mut Tree, path: &mut String, found: &mut Vec<StrictError>) {
    let length = path.len();
    match tree {
        Tree::Map(map) => {
            drop_duplicate_keys(map, path, found);
            for (key, value) in map.iter_mut() {
                if matches!(value, Tree::Map(_) | Tree::List(_)) {
                    if length > 0 {
                        path.push('.');
                    }
                    path.push_str(key);
                    drop_at(value, path, found);
                    path.truncate(length);
                }
            }
        }
        Tree::List(items) => {
            for (at, item) in items.iter_mut().enumerate() {
                path.push_str(&format!("[{at}]"));
                drop_at(item, path, found);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

fn has_duplicate_keys(map: &Map) -> bool {
    let pairs = map.pairs();
    match pairs.len() {
        0..=SCANNED_PAIRS => {
            (1..pairs.len()).any(|at| pairs[..at].iter().any(|(key, _)| *key == pairs[at].0))
        }
        _ => {
            let mut seen = HashSet::with_capacity(pairs.len());
            !pairs.iter().all(|(key, _)| seen.insert(key))
        }
    }
}

/// Drops all but the last pair of each key, and reports the key once.
fn drop_duplicate_keys(map: &mut Map, path: &str, found: &mut Vec<StrictError>) {
    if !has_duplicate_keys(map) {
        return;
    }
    let pairs = map.pairs().iter().enumerate();
    let last: HashMap<CompactString, usize> = pairs
        .map(|(at, (key, _))| (CompactString::from(key.as_str()), at))
        .collect();
    let (mut at, mut reported) = (0, HashSet::new());
    map.retain(|key, _| {
        let is_last = last.get(key) == Some(&at);
        at += 1;
        if !is_last && found.len() < MAX_DUPLICATES && reported.insert(CompactString::from(key)) {
            found.push(StrictError::Duplicate(join(path, key).into()));
        }
        is_last
    });
}

fn join(path: &str, key: &str) -> CompactString {
    match path {
        "" => key.into(),
        path => format_compact!("{path}.{key}"),
    }
}
