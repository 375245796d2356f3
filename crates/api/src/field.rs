//! What the caller got wrong, field by field.
//!
//! Rules report into [`Errors`], which knows where in the document it stands; all reports come back together. The
//! wording is Kubernetes', since tools match on it.

use std::cell::RefCell;
use std::fmt::{self, Display, Write};
use std::rc::Rc;

use compact_str::CompactString;

/// One field that is wrong, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    pub path: String,
    pub cause: Cause,
    /// What stands behind the path in a message: `Invalid value: "x": must be ...`.
    pub message: String,
}

/// The sort of an error, as `details.causes` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    NotFound,
    Required,
    Duplicate,
    Invalid,
    NotSupported,
    Forbidden,
    TooLong,
    TooMany,
    Internal,
    TypeInvalid,
}

/// A collector of errors that stands at one place in the document. Copies report into the same list.
///
/// ```
/// use setpoint_api::field::Errors;
///
/// let errors = Errors::default();
/// errors.at("spec").at("containers").index(0).at("name").required("");
/// errors.at("data").key("a b").invalid("a b", "a valid key has no blanks");
/// let found: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
/// assert_eq!(found, [
///     "spec.containers[0].name: Required value",
///     r#"data[a b]: Invalid value: "a b": a valid key has no blanks"#,
/// ]);
/// ```
#[derive(Debug, Clone)]
pub struct Errors {
    found: Rc<RefCell<Vec<FieldError>>>,
    place: Option<Rc<Place>>,
    /// Whether places are kept at all.
    placed: bool,
}

/// Where a collector stands, from the last step back to the root. The text of a path is only made when there is
/// something to report.
#[derive(Debug)]
struct Place {
    parent: Option<Rc<Place>>,
    step: Step,
}

#[derive(Debug)]
enum Step {
    Field(CompactString),
    Key(CompactString),
    Index(usize),
}

// === impl Errors ===

impl Default for Errors {
    fn default() -> Self {
        Self {
            found: Rc::default(),
            place: None,
            placed: true,
        }
    }
}

impl Errors {
    /// A collector that keeps no places: for whoever only wants to know whether anything is wrong, which is cheap to
    /// learn and mostly not the case. Its reports name no paths.
    pub fn unplaced() -> Self {
        Self {
            placed: false,
            ..Self::default()
        }
    }

    /// The same collector at no place: for reports about the document as a whole.
    pub fn root(&self) -> Errors {
        Errors {
            found: self.found.clone(),
            place: None,
            placed: self.placed,
        }
    }

    /// The same collector at a field of this place. A dotted name is several fields.
    #[inline]
    pub fn at(&self, name: &str) -> Errors {
        self.step(|| Step::Field(name.into()))
    }

    /// The same collector at an entry of this map.
    #[inline]
    pub fn key(&self, key: &str) -> Errors {
        self.step(|| Step::Key(key.into()))
    }

    /// The same collector at an item of this list.
    #[inline]
    pub fn index(&self, index: usize) -> Errors {
        self.step(|| Step::Index(index))
    }

    #[inline]
    fn step(&self, step: impl FnOnce() -> Step) -> Errors {
        let place = || {
            let parent = self.place.clone();
            Rc::new(Place { parent, step: step() })
        };
        Errors {
            found: self.found.clone(),
            place: self.placed.then(place),
            placed: self.placed,
        }
    }

    /// The path to this place, as reports show it.
    pub fn path(&self) -> String {
        self.place.as_ref().map(ToString::to_string).unwrap_or_default()
    }

    pub fn required(&self, detail: &str) {
        self.report(Cause::Required, with_detail("Required value".to_owned(), detail));
    }

    /// The value is shown as JSON would write it: give strings as `&str`, numbers as numbers.
    pub fn invalid(&self, value: impl Shown, detail: &str) {
        self.report(
            Cause::Invalid,
            with_detail(format!("Invalid value: {}", value.shown()), detail),
        );
    }

    /// The value is wrong as a whole, and too much of it to be shown.
    pub fn invalid_whole(&self, detail: &str) {
        self.report(Cause::Invalid, with_detail("Invalid value".to_owned(), detail));
    }

    /// The supported values are listed in the order given.
    pub fn not_supported(&self, value: impl Shown, supported: &[&str]) {
        let mut message = format!("Unsupported value: {}", value.shown());
        if !supported.is_empty() {
            let list: Vec<String> = supported.iter().map(Shown::shown).collect();
            let _ = write!(message, ": supported values: {}", list.join(", "));
        }
        self.report(Cause::NotSupported, message);
    }

    pub fn duplicate(&self, value: impl Shown) {
        self.report(Cause::Duplicate, format!("Duplicate value: {}", value.shown()));
    }

    pub fn not_found(&self, value: impl Shown) {
        self.report(Cause::NotFound, format!("Not found: {}", value.shown()));
    }

    /// The value is not found, with words on where it was looked for.
    pub fn not_found_because(&self, value: impl Shown, detail: &str) {
        let message = format!("Not found: {}", value.shown());
        self.report(Cause::NotFound, with_detail(message, detail));
    }

    pub fn forbidden(&self, detail: &str) {
        self.report(Cause::Forbidden, with_detail("Forbidden".to_owned(), detail));
    }

    /// The value is said to be there already, with words on what that means.
    pub fn duplicate_because(&self, value: impl Shown, detail: &str) {
        let message = format!("Duplicate value: {}", value.shown());
        self.report(Cause::Duplicate, with_detail(message, detail));
    }

    /// The value is of another type than the field.
    pub fn type_invalid(&self, value: impl Shown, detail: &str) {
        let message = format!("Invalid value: {}", value.shown());
        self.report(Cause::TypeInvalid, with_detail(message, detail));
    }

    pub fn too_long(&self, most_bytes: usize) {
        self.report(
            Cause::TooLong,
            format!("Too long: may not be more than {most_bytes} bytes"),
        );
    }

    /// The value has too many characters, however many bytes they are.
    pub fn too_long_characters(&self, most: usize) {
        self.report(
            Cause::TooLong,
            format!("Too long: may not be more than {most} characters"),
        );
    }

    pub fn too_many(&self, count: usize, most: usize) {
        let noun = if most == 1 { "item" } else { "items" };
        self.report(
            Cause::TooMany,
            format!("Too many: {count}: must have at most {most} {noun}"),
        );
    }

    pub fn internal(&self, detail: impl Display) {
        self.report(Cause::Internal, format!("Internal error: {detail}"));
    }

    /// Adds an error that has been worded already.
    pub fn push(&self, error: FieldError) {
        self.found.borrow_mut().push(error);
    }

    /// Whether something of one of these sorts was reported.
    pub fn has_any(&self, causes: &[Cause]) -> bool {
        self.found
            .borrow()
            .iter()
            .any(|error| causes.contains(&error.cause))
    }

    pub fn is_empty(&self) -> bool {
        self.found.borrow().is_empty()
    }

    /// How many reports there are so far, at whatever place: a rule may ask whether another found something.
    pub fn len(&self) -> usize {
        self.found.borrow().len()
    }

    pub fn into_vec(self) -> Vec<FieldError> {
        self.found.take()
    }

    fn report(&self, cause: Cause, message: String) {
        self.found.borrow_mut().push(FieldError {
            path: self.path(),
            cause,
            message,
        });
    }
}

fn with_detail(mut message: String, detail: &str) -> String {
    if !detail.is_empty() {
        message.push_str(": ");
        message.push_str(detail);
    }
    message
}

impl Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = &self.parent {
            write!(f, "{parent}")?;
        }
        match &self.step {
            Step::Field(name) if self.parent.is_none() => f.write_str(name),
            Step::Field(name) => write!(f, ".{name}"),
            Step::Key(key) => write!(f, "[{key}]"),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}

// === impl FieldError ===

impl Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

// === impl Cause ===

impl Cause {
    /// The reason as `details.causes` has it.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::Internal => "InternalError",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }
}

/// A value as messages show it: in JSON.
pub trait Shown {
    fn shown(&self) -> String;
}

impl<T: serde::Serialize + ?Sized> Shown for T {
    fn shown(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_without_places_still_knows_that_something_is_wrong() {
        let errors = Errors::unplaced();
        assert!(errors.is_empty());
        errors.at("spec").index(0).key("a").required("");
        assert_eq!(errors.len(), 1);
        assert_eq!(errors.at("spec").path(), "");
        assert_eq!(errors.into_vec()[0].to_string(), ": Required value");
    }
}
