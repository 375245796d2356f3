//! What of a value breaks the rules of its schema.
//!
//! The order of the reports and their words are those of the reference server. An update is judged leniently: what
//! stands unchanged where it stood before may break the rules.

use super::compile::number;
use super::{Bound, Rules, Schema, Type, formats};
use crate::shape::ListType;
use crate::tree::{Map, Tree};

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Where, such as `spec.a[0].b`; nothing where the reference server does not say.
    pub path: Option<String>,
    pub subject: Subject,
}

/// What is wrong, by the sort of error a caller is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    Required,
    /// As required, with a reason of its own.
    Missing {
        detail: String,
    },
    Forbidden {
        detail: String,
    },
    /// An object or list is wrong as a whole, which is too much to show.
    InvalidWhole {
        detail: String,
    },
    /// The value is not of its type or format.
    Mistyped {
        shown: Tree,
        detail: String,
    },
    Invalid {
        shown: Tree,
        detail: String,
    },
    Unsupported {
        value: Tree,
        supported: Vec<Tree>,
    },
    TooLong {
        most: u64,
    },
    TooMany {
        count: u64,
        most: u64,
    },
    Duplicate {
        value: Tree,
    },
}

/// A value, what stood there before, and where that is.
#[derive(Clone, Copy)]
struct Place<'a> {
    value: &'a Tree,
    old: Option<&'a Tree>,
    path: &'a str,
}

impl Schema {
    /// Reports what is wrong with the parts of a document that have a schema. `old` is what was there before an update.
    pub fn validate(&self, document: &Tree, old: Option<&Tree>) -> Vec<Report> {
        let mut reports = Vec::new();
        let place = Place {
            value: document,
            old,
            path: "",
        };
        self.check(place, &mut reports);
        reports
    }

    /// Reports what is wrong with one value at a path.
    pub fn validate_at(&self, value: &Tree, path: &str) -> Vec<Report> {
        let mut reports = Vec::new();
        let place = Place {
            value,
            old: None,
            path,
        };
        self.check(place, &mut reports);
        reports
    }

    /// Reports what is wrong at a place, unless it was so before.
    fn check(&self, place: Place<'_>, reports: &mut Vec<Report>) {
        let before = reports.len();
        self.check_anew(place, reports);
        let wrong = reports.len() > before;
        if wrong && place.old.is_some_and(|old| self.is_unchanged(place.value, old)) {
            reports.truncate(before);
        }
    }

    fn check_anew(&self, place: Place<'_>, reports: &mut Vec<Report>) {
        if place.value.is_null() && (self.nullable || self.of.is_none()) {
            return;
        }
        self.check_type(place, reports);
        let none = Rules::default();
        let rules = self.rules.as_deref().unwrap_or(&none);
        check_alternatives(rules, place, reports);
        match place.value {
            Tree::Str(text) => check_string(rules, text, place, reports),
            Tree::Int(_) | Tree::Float(_) => self.check_number(rules, place, reports),
            Tree::List(items) => self.check_list(rules, items, place, reports),
            _ => {}
        }
        check_enumeration(rules, place, reports);
        if let Tree::Map(map) = place.value {
            self.check_object(rules, map, place, reports);
        }
    }

    fn check_type(&self, place: Place<'_>, reports: &mut Vec<Report>) {
        let Some(of) = self.of else { return };
        let fits = match (of, place.value) {
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
        if !fits {
            let found = word_of(place.value);
            let detail = format!("{} in body must be of type {}: {found:?}", place.path, of.name());
            let shown = Tree::from(found);
            reports.push(place.report(Subject::Mistyped { shown, detail }));
        }
    }

    fn check_number(&self, rules: &Rules, place: Place<'_>, reports: &mut Vec<Report>) {
        let Some(value) = number(Some(place.value)) else {
            return;
        };
        if let Some(complaint) = misfit(self.of, rules.format.as_deref(), value) {
            let detail = format!("Checked value must be of type {complaint} in {}", place.path);
            reports.push(nowhere(detail));
        }
        let say = |what: String| place.invalid(place.value.clone(), format!("{} in body {what}", place.path));
        if let Some(factor) = rules.multiple_of
            && (value / factor).fract() != 0.0
        {
            reports.push(say(format!("should be a multiple of {}", plain(factor))));
        }
        if let Some((most, bound)) = rules.maximum {
            match bound {
                Bound::Inclusive if value > most => {
                    reports.push(say(format!("should be less than or equal to {}", plain(most))));
                }
                Bound::Exclusive if value >= most => {
                    reports.push(say(format!("should be less than {}", plain(most))))
                }
                _ => {}
            }
        }
        if let Some((least, bound)) = rules.minimum {
            match bound {
                Bound::Inclusive if value < least => {
                    reports.push(say(format!(
                        "should be greater than or equal to {}",
                        plain(least)
                    )));
                }
                Bound::Exclusive if value <= least => {
                    reports.push(say(format!("should be greater than {}", plain(least))));
                }
                _ => {}
            }
        }
    }

    fn check_list(&self, rules: &Rules, items: &[Tree], place: Place<'_>, reports: &mut Vec<Report>) {
        let count = items.len() as u64;
        if let Some(schema) = &self.items {
            for (at, item) in items.iter().enumerate() {
                let path = format!("{}[{at}]", place.path);
                let place = Place {
                    value: item,
                    old: self.counterpart(item, place.old),
                    path: &path,
                };
                schema.check(place, reports);
            }
        }
        if let Some(least) = rules.min_items.filter(|least| count < *least) {
            let detail = format!("{} in body should have at least {least} items", place.path);
            reports.push(place.invalid(Tree::Int(count as i64), detail));
        }
        if let Some(most) = rules.max_items.filter(|most| count > *most) {
            reports.push(place.report(Subject::TooMany { count, most }));
        }
    }

    /// The item of the list before that is the same one, if the list says how to tell.
    pub(super) fn counterpart<'a>(&self, item: &Tree, old: Option<&'a Tree>) -> Option<&'a Tree> {
        if self.list_type != Some(ListType::Map) {
            return None;
        }
        let is_it = |other: &&Tree| self.list_keys.iter().all(|key| item.get(key) == other.get(key));
        old?.as_list()?.iter().find(is_it)
    }

    fn check_object(&self, rules: &Rules, map: &Map, place: Place<'_>, reports: &mut Vec<Report>) {
        let count = map.len() as u64;
        if let Some(least) = rules.min_properties.filter(|least| count < *least) {
            let detail = format!("{} in body should have at least {least} properties", place.path);
            reports.push(place.invalid(Tree::Int(count as i64), detail));
        }
        if let Some(most) = rules.max_properties.filter(|most| count > *most) {
            reports.push(place.report(Subject::TooMany { count, most }));
        }
        let missing = rules.required.iter().filter(|name| !map.contains_key(name));
        for name in missing {
            reports.push(Report {
                path: Some(join(place.path, name)),
                subject: Subject::Required,
            });
        }
        for (name, value) in map.iter() {
            let Some(schema) = self.under(name) else { continue };
            let path = join(place.path, name);
            let place = Place {
                value,
                old: place.old.and_then(|old| old.get(name)),
                path: &path,
            };
            schema.check(place, reports);
        }
    }
}

fn check_alternatives(rules: &Rules, place: Place<'_>, reports: &mut Vec<Report>) {
    let judged = |schema: &Schema| {
        let mut found = Vec::new();
        schema.check_anew(place, &mut found);
        found
    };
    if !rules.any_of.is_empty() {
        let found: Vec<Vec<Report>> = rules.any_of.iter().map(judged).collect();
        if found.iter().all(|found| !found.is_empty()) {
            let detail = format!("{:?} must validate at least one schema (anyOf)", place.path);
            reports.push(nowhere(detail));
            reports.extend(found.into_iter().min_by_key(Vec::len).into_iter().flatten());
        }
    }
    if !rules.one_of.is_empty() {
        let found: Vec<Vec<Report>> = rules.one_of.iter().map(judged).collect();
        let valid = found.iter().filter(|found| found.is_empty()).count();
        if valid != 1 {
            let what = match valid {
                0 => "Found none valid".to_owned(),
                valid => format!("Found {valid} valid alternatives"),
            };
            let detail = format!(
                "{:?} must validate one and only one schema (oneOf). {what}",
                place.path
            );
            reports.push(nowhere(detail));
            if valid == 0 {
                reports.extend(found.into_iter().min_by_key(Vec::len).into_iter().flatten());
            }
        }
    }
    if !rules.all_of.is_empty() {
        let found: Vec<Report> = rules.all_of.iter().flat_map(judged).collect();
        if !found.is_empty() {
            reports.extend(found);
            let detail = format!("{:?} must validate all the schemas (allOf)", place.path);
            reports.push(nowhere(detail));
        }
    }
    if rules.not.as_ref().is_some_and(|not| judged(not).is_empty()) {
        let detail = format!("{:?} must not validate the schema (not)", place.path);
        reports.push(nowhere(detail));
    }
}

fn check_string(rules: &Rules, text: &str, place: Place<'_>, reports: &mut Vec<Report>) {
    let length = text.chars().count() as u64;
    let say = |what: String| place.invalid(place.value.clone(), format!("{} in body {what}", place.path));
    // Of these three only the first is told.
    if let Some(most) = rules.max_length.filter(|most| length > *most) {
        reports.push(place.report(Subject::TooLong { most }));
    } else if let Some(least) = rules.min_length.filter(|least| length < *least) {
        reports.push(say(format!("should be at least {least} chars long")));
    } else if let Some(pattern) = rules.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
        reports.push(say(format!("should match '{}'", pattern.text)));
    }
    if let Some(format) = rules.format.as_deref()
        && !formats::fits(format, text)
    {
        let shown = place.value.clone();
        let detail = format!("{} in body must be of type {format}: {text:?}", place.path);
        reports.push(place.report(Subject::Mistyped { shown, detail }));
    }
}

fn check_enumeration(rules: &Rules, place: Place<'_>, reports: &mut Vec<Report>) {
    let known = |value: &Tree| value.means_same(place.value);
    if !rules.enumeration.is_empty() && !rules.enumeration.iter().any(known) {
        reports.push(place.report(Subject::Unsupported {
            value: place.value.clone(),
            supported: rules.enumeration.clone(),
        }));
    }
}

/// What a number is not, though its type or format says so.
fn misfit(of: Option<Type>, format: Option<&str>, value: f64) -> Option<&'static str> {
    match (of?, format) {
        (Type::Integer, Some("int32")) if value.fract() != 0.0 || value.abs() > f64::from(i32::MAX) => {
            Some("integer with format int32")
        }
        (Type::Integer, _) if value.fract() != 0.0 => Some("integer (default format)"),
        _ => None,
    }
}

/// The type of a value in messages.
pub(super) fn word_of(value: &Tree) -> &'static str {
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

/// A number as messages show it.
fn plain(number: f64) -> String {
    format!("{number}")
}

pub(super) fn join(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    }
}

/// A report of which the reference server does not say where it belongs.
fn nowhere(detail: String) -> Report {
    Report {
        path: None,
        subject: Subject::Invalid {
            shown: Tree::from(""),
            detail,
        },
    }
}

impl Place<'_> {
    fn report(&self, subject: Subject) -> Report {
        Report {
            path: Some(self.path.to_owned()),
            subject,
        }
    }

    fn invalid(&self, shown: Tree, detail: String) -> Report {
        self.report(Subject::Invalid { shown, detail })
    }
}
