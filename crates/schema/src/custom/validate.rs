//! Validation of values against their schema.
//!
//! The order of the violations and their texts are those of the reference server. Updates are ratcheted: the violations
//! of an unchanged value are tolerated.

use std::sync::Arc;

use super::alternatives::check_alternatives;
use super::path::Path;
use super::{Schema, Type, ValueValidation, formats};
use crate::tree::{Map, Tree};

/// One violation of a schema.
#[derive(Clone, Debug, PartialEq)]
pub struct SchemaViolation {
    /// The field path, such as `spec.a[0].b`; `None` where the reference server reports none.
    pub path: Option<String>,
    pub kind: ViolationKind,
}

pub(super) type Violations = Vec<SchemaViolation>;

/// Violations after which the rest of a value is not validated: it is rejected anyway.
const MAX_VIOLATIONS: usize = 10_000;

/// Bytes of paths after which the rest is not validated either: a key may be as long as the request body.
const MAX_PATH_BYTES: usize = 4 * 1024 * 1024;

/// Whether the violations are so many, or so long, that no more are reported. A path of the last violation's length
/// is assumed for all.
pub(super) fn is_full(violations: &Violations) -> bool {
    let last = violations.last().and_then(|last| last.path.as_ref());
    let bytes = violations.len() * last.map_or(0, String::len);
    violations.len() >= MAX_VIOLATIONS || bytes > MAX_PATH_BYTES
}

/// The kind of violation, by `field.Error` type.
#[derive(Clone, Debug, PartialEq)]
pub enum ViolationKind {
    Required,
    /// The value does not have the type or format of the schema.
    TypeInvalid {
        value: Tree,
        detail: String,
    },
    Invalid {
        value: Tree,
        detail: String,
    },
    NotSupported {
        value: Tree,
        supported: Arc<[Tree]>,
    },
    TooLong {
        max: u64,
    },
    TooMany {
        count: u64,
        max: u64,
    },
    Duplicate {
        value: Tree,
    },
}

/// A value, the old value it is correlated with on update, and their path.
#[derive(Clone, Copy)]
pub(super) struct CorrelatedValue<'a> {
    pub(super) value: &'a Tree,
    old: Option<&'a Tree>,
    pub(super) path: Path<'a>,
}

impl Schema {
    /// Reports the violations of an object. `old` is the stored object on update.
    pub fn validate(&self, object: &Tree, old: Option<&Tree>) -> Vec<SchemaViolation> {
        let mut violations = Vec::new();
        let current = CorrelatedValue {
            value: object,
            old,
            path: Path::root(""),
        };
        self.check(current, &mut violations);
        violations
    }

    /// Reports the violations of one value at a path.
    pub fn validate_at(&self, value: &Tree, path: &str) -> Vec<SchemaViolation> {
        let mut violations = Vec::new();
        let current = CorrelatedValue {
            value,
            old: None,
            path: Path::root(path),
        };
        self.check(current, &mut violations);
        violations
    }

    /// Reports the violations of a value, unless it is unchanged by the update (ratcheting).
    fn check(&self, current: CorrelatedValue<'_>, violations: &mut Violations) {
        let before = violations.len();
        self.check_unratcheted(current, violations);
        let wrong = violations.len() > before;
        if wrong
            && current
                .old
                .is_some_and(|old| self.is_unchanged(current.value, old))
        {
            violations.truncate(before);
        }
    }

    pub(super) fn check_unratcheted(&self, current: CorrelatedValue<'_>, violations: &mut Violations) {
        if current.value.is_null() && (self.nullable || self.value_type.is_none()) || is_full(violations) {
            return;
        }
        self.check_type(current, violations);
        let no_validation = ValueValidation::default();
        let rules = self.value_validation.as_deref().unwrap_or(&no_validation);
        check_alternatives(rules, current, violations);
        match current.value {
            Tree::Str(text) => check_string(rules, text, current, violations),
            Tree::Int(_) | Tree::Float(_) => self.check_number(rules, current, violations),
            Tree::List(items) => self.check_list(rules, items, current, violations),
            _ => {}
        }
        check_enumeration(rules, current, violations);
        if let Tree::Map(map) = current.value {
            self.check_object(rules, map, current, violations);
        }
    }

    /// Checks the type. As in the reference server, a format of strings also admits lists, and a value of another type is
    /// reported by the formats instead of the types.
    fn check_type(&self, current: CorrelatedValue<'_>, violations: &mut Violations) {
        let Some(of) = self.value_type else { return };
        let fits = match (of, current.value) {
            (Type::Object, Tree::Map(_))
            | (Type::Array, Tree::List(_))
            | (Type::String, Tree::Str(_))
            | (Type::Boolean, Tree::Bool(_))
            | (Type::Integer, Tree::Int(_))
            | (Type::Number, Tree::Int(_) | Tree::Float(_))
            | (Type::IntOrString, Tree::Int(_) | Tree::Str(_)) => true,
            (Type::Integer, Tree::Float(number)) => number.fract() == 0.0,
            _ => false,
        };
        if fits {
            return;
        }
        let format = self.recognized_format().filter(|_| !current.value.is_null());
        let is_text_or_list = matches!(current.value, Tree::Str(_) | Tree::List(_));
        let (expected, found) = match format {
            Some(_) if is_text_or_list && !matches!(of, Type::Integer | Type::Number) => return,
            Some(format) if !is_text_or_list => (format, format_name(current.value)),
            _ => (of.name(), type_name(current.value)),
        };
        let detail = format!("{} in body must be of type {expected}: {found:?}", current.path);
        let value = Tree::from(found);
        violations.push(current.violation(ViolationKind::TypeInvalid { value, detail }));
    }

    /// The format, unless validation ignores it.
    pub(super) fn recognized_format(&self) -> Option<&str> {
        let format = self.value_validation.as_deref()?.format.as_deref()?;
        let name = self.value_type.map_or("", Type::name);
        formats::is_recognized(name, format).then_some(format)
    }

    fn check_list(
        &self,
        rules: &ValueValidation,
        items: &[Tree],
        current: CorrelatedValue<'_>,
        violations: &mut Violations,
    ) {
        let count = items.len() as u64;
        if let Some(schema) = &self.items {
            let old_items = self.correlated_items(current.old);
            for (at, item) in items.iter().enumerate() {
                let current = CorrelatedValue {
                    value: item,
                    old: old_items.find(item),
                    path: current.path.index(at),
                };
                schema.check(current, violations);
            }
        }
        if let Some(min) = rules.min_items.filter(|min| count < *min) {
            let detail = format!("{} in body should have at least {min} items", current.path);
            violations.push(current.invalid(Tree::Int(count as i64), detail));
        }
        if let Some(max) = rules.max_items.filter(|max| count > *max) {
            violations.push(current.violation(ViolationKind::TooMany { count, max }));
        }
    }

    fn check_object(
        &self,
        rules: &ValueValidation,
        map: &Map,
        current: CorrelatedValue<'_>,
        violations: &mut Violations,
    ) {
        let count = map.len() as u64;
        if let Some(min) = rules.min_properties.filter(|min| count < *min) {
            let detail = format!("{} in body should have at least {min} properties", current.path);
            violations.push(current.invalid(Tree::Int(count as i64), detail));
        }
        if let Some(max) = rules.max_properties.filter(|max| count > *max) {
            violations.push(current.violation(ViolationKind::TooMany { count, max }));
        }
        let missing = rules.required.iter().filter(|name| !map.contains_key(name));
        for name in missing {
            violations.push(SchemaViolation {
                path: Some(current.path.field(name).to_string()),
                kind: ViolationKind::Required,
            });
        }
        for (name, value) in map.iter() {
            let Some(schema) = self.child(name) else { continue };
            let current = CorrelatedValue {
                value,
                old: current.old.and_then(|old| old.get(name)),
                path: current.path.field(name),
            };
            schema.check(current, violations);
        }
    }
}

fn check_string(
    rules: &ValueValidation,
    text: &str,
    current: CorrelatedValue<'_>,
    violations: &mut Violations,
) {
    let length = text.chars().count() as u64;
    let invalid =
        |what: String| current.invalid(current.value.clone(), format!("{} in body {what}", current.path));
    // Only the first of these three violations is reported.
    if let Some(max) = rules.max_length.filter(|max| length > *max) {
        violations.push(current.violation(ViolationKind::TooLong { max }));
    } else if let Some(min) = rules.min_length.filter(|min| length < *min) {
        violations.push(invalid(format!("should be at least {min} chars long")));
    } else if let Some(pattern) = rules.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
        violations.push(invalid(format!("should match '{}'", pattern.text)));
    }
    if let Some(format) = rules.format.as_deref()
        && !formats::matches(format, text)
    {
        let value = current.value.clone();
        let detail = format!("{} in body must be of type {format}: {text:?}", current.path);
        violations.push(current.violation(ViolationKind::TypeInvalid { value, detail }));
    }
}

fn check_enumeration(rules: &ValueValidation, current: CorrelatedValue<'_>, violations: &mut Violations) {
    if !rules.enum_values.is_empty() && !rules.enum_values.contains(current.value) {
        violations.push(current.violation(ViolationKind::NotSupported {
            value: current.value.clone(),
            supported: rules.enum_values.values().clone(),
        }));
    }
}

/// The JSON type name of a value in messages.
pub fn type_name(value: &Tree) -> &'static str {
    match value {
        Tree::Null => "null",
        Tree::Bool(_) => "boolean",
        Tree::Int(_) => "integer",
        Tree::Float(_) => "number",
        Tree::Str(_) => "string",
        Tree::List(_) => "array",
        Tree::Map(_) => "object",
    }
}

/// The format that the reference server infers from a value.
fn format_name(value: &Tree) -> &'static str {
    match value {
        Tree::Int(_) => "int64",
        Tree::Float(_) => "float64",
        _ => "",
    }
}

/// A violation that the reference server reports without a path.
pub(super) fn without_path(detail: String) -> SchemaViolation {
    SchemaViolation {
        path: None,
        kind: ViolationKind::Invalid {
            value: Tree::from(""),
            detail,
        },
    }
}

impl CorrelatedValue<'_> {
    fn violation(&self, kind: ViolationKind) -> SchemaViolation {
        SchemaViolation {
            path: Some(self.path.to_string()),
            kind,
        }
    }

    pub(super) fn invalid(&self, value: Tree, detail: String) -> SchemaViolation {
        self.violation(ViolationKind::Invalid { value, detail })
    }
}
