//! Validation errors by field path (upstream: `field.Error`, `field.ErrorList`, `field.Path`).
//!
//! Validation rules report into [`Errors`], a collector that knows its field path in the object; all errors are
//! returned together. Messages are Kubernetes', since tools match on them.

use std::cell::RefCell;
use std::fmt::{self, Display, Write};
use std::rc::Rc;

use compact_str::CompactString;

/// Bytes of messages after which further errors are not collected: an object with a million invalid fields is rejected
/// with the first of them.
const MAX_MESSAGE_BYTES: usize = 1024 * 1024;

/// One validation error: the field path, the type of the error and its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    pub path: String,
    pub error_type: ErrorType,
    /// The message after the path: `Invalid value: "x": must be ...`.
    pub message: String,
}

/// The type of a validation error (upstream: `field.ErrorType`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorType {
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

/// A collector of validation errors, positioned at one field path. All copies report into the same list.
///
/// ```
/// use setpoint_api::field::Errors;
///
/// let errors = Errors::default();
/// errors.at("spec").at("containers").index(0).at("name").required("");
/// errors.at("data").key("a b").invalid("a b", "a valid key has no blanks");
/// let messages: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
/// assert_eq!(messages, [
///     "spec.containers[0].name: Required value",
///     r#"data[a b]: Invalid value: "a b": a valid key has no blanks"#,
/// ]);
/// ```
#[derive(Debug, Clone)]
pub struct Errors {
    collected: Rc<RefCell<ErrorList>>,
    path: Option<Rc<FieldPath>>,
    /// Whether the collector tracks paths at all.
    tracks_path: bool,
}

/// The errors of all copies of a collector.
#[derive(Debug, Default)]
struct ErrorList {
    list: Vec<FieldError>,
    /// Length of the paths and messages in the list.
    bytes: usize,
    warnings: Vec<String>,
}

/// The field path of a collector, linked from the last step back to the root. Its text is built only for an error.
#[derive(Debug)]
struct FieldPath {
    parent: Option<Rc<FieldPath>>,
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
            collected: Rc::default(),
            path: None,
            tracks_path: true,
        }
    }
}

impl Errors {
    /// A collector that does not track paths, for callers that only need to know whether there is any error: cheaper,
    /// and valid objects are the common case. Its errors have no paths.
    pub fn without_paths() -> Self {
        Self {
            tracks_path: false,
            ..Self::default()
        }
    }

    /// The same collector at the root: for errors about the object as a whole.
    pub fn root(&self) -> Errors {
        Errors {
            collected: self.collected.clone(),
            path: None,
            tracks_path: self.tracks_path,
        }
    }

    /// The same collector at a child field. A dotted name is several fields.
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
        match self.tracks_path {
            true => self.below(step()),
            false => Errors {
                collected: self.collected.clone(),
                path: None,
                tracks_path: false,
            },
        }
    }

    #[cold]
    fn below(&self, step: Step) -> Errors {
        let parent = self.path.clone();
        Errors {
            collected: self.collected.clone(),
            path: Some(Rc::new(FieldPath { parent, step })),
            tracks_path: true,
        }
    }

    /// The field path as text, as errors print it.
    pub fn path(&self) -> String {
        self.path.as_ref().map(ToString::to_string).unwrap_or_default()
    }

    pub fn required(&self, detail: &str) {
        self.report(ErrorType::Required, || {
            with_detail("Required value".to_owned(), detail)
        });
    }

    /// The value is printed as JSON: pass strings as `&str`, numbers as numbers.
    pub fn invalid(&self, value: impl DisplayJson, detail: &str) {
        self.report(ErrorType::Invalid, || {
            with_detail(format!("Invalid value: {}", value.display_json()), detail)
        });
    }

    /// The value is invalid as a whole and too large to print (upstream: `field.OmitValueType`).
    pub fn invalid_omitting_value(&self, detail: &str) {
        self.report(ErrorType::Invalid, || {
            with_detail("Invalid value".to_owned(), detail)
        });
    }

    /// The supported values are listed in the order of the slice.
    pub fn not_supported(&self, value: impl DisplayJson, supported: &[&str]) {
        self.report(ErrorType::NotSupported, || {
            let mut message = format!("Unsupported value: {}", value.display_json());
            if !supported.is_empty() {
                let list: Vec<String> = supported.iter().map(DisplayJson::display_json).collect();
                let _ = write!(message, ": supported values: {}", list.join(", "));
            }
            message
        });
    }

    pub fn duplicate(&self, value: impl DisplayJson) {
        self.report(ErrorType::Duplicate, || {
            format!("Duplicate value: {}", value.display_json())
        });
    }

    pub fn not_found(&self, value: impl DisplayJson) {
        self.report(ErrorType::NotFound, || {
            format!("Not found: {}", value.display_json())
        });
    }

    /// The value is not found, with a detail on where it was expected.
    pub fn not_found_with_detail(&self, value: impl DisplayJson, detail: &str) {
        self.report(ErrorType::NotFound, || {
            with_detail(format!("Not found: {}", value.display_json()), detail)
        });
    }

    pub fn forbidden(&self, detail: &str) {
        self.report(ErrorType::Forbidden, || {
            with_detail("Forbidden".to_owned(), detail)
        });
    }

    /// The value is a duplicate, with a detail on what it duplicates.
    pub fn duplicate_with_detail(&self, value: impl DisplayJson, detail: &str) {
        self.report(ErrorType::Duplicate, || {
            with_detail(format!("Duplicate value: {}", value.display_json()), detail)
        });
    }

    /// The value has another type than the field.
    pub fn type_invalid(&self, value: impl DisplayJson, detail: &str) {
        self.report(ErrorType::TypeInvalid, || {
            with_detail(format!("Invalid value: {}", value.display_json()), detail)
        });
    }

    pub fn too_long(&self, max_bytes: usize) {
        self.report(ErrorType::TooLong, || {
            format!("Too long: may not be more than {max_bytes} bytes")
        });
    }

    /// The value has too many characters, as opposed to bytes.
    pub fn too_long_characters(&self, max: usize) {
        self.report(ErrorType::TooLong, || {
            format!("Too long: may not be more than {max} characters")
        });
    }

    pub fn too_many(&self, count: usize, max: usize) {
        let noun = if max == 1 { "item" } else { "items" };
        self.report(ErrorType::TooMany, || {
            format!("Too many: {count}: must have at most {max} {noun}")
        });
    }

    pub fn internal(&self, detail: impl Display) {
        self.report(ErrorType::Internal, || format!("Internal error: {detail}"));
    }

    /// Adds an error that has its path and message already.
    pub fn push(&self, error: FieldError) {
        let mut collected = self.collected.borrow_mut();
        if collected.bytes < MAX_MESSAGE_BYTES {
            collected.bytes += error.path.len() + error.message.len();
            collected.list.push(error);
        }
    }

    /// Adds a warning about the object: a violation that is tolerated.
    pub fn warn(&self, warning: String) {
        let mut collected = self.collected.borrow_mut();
        if collected.bytes < MAX_MESSAGE_BYTES {
            collected.bytes += warning.len();
            collected.warnings.push(warning);
        }
    }

    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.collected.borrow_mut().warnings)
    }

    /// Whether further errors are not collected.
    pub fn is_full(&self) -> bool {
        self.collected.borrow().bytes >= MAX_MESSAGE_BYTES
    }

    /// Whether an error of one of these types was reported.
    pub fn has_any(&self, types: &[ErrorType]) -> bool {
        self.collected
            .borrow()
            .list
            .iter()
            .any(|error| types.contains(&error.error_type))
    }

    pub fn is_empty(&self) -> bool {
        self.collected.borrow().list.is_empty()
    }

    /// The number of errors so far, at any path: a rule may compare it to detect whether another rule reported one.
    pub fn len(&self) -> usize {
        self.collected.borrow().list.len()
    }

    pub fn into_vec(self) -> Vec<FieldError> {
        self.collected.take().list
    }

    fn report(&self, error_type: ErrorType, message: impl FnOnce() -> String) {
        if self.is_full() {
            return;
        }
        self.push(FieldError {
            path: self.path(),
            error_type,
            message: message(),
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

impl Display for FieldPath {
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

// === impl ErrorType ===

impl ErrorType {
    /// The `reason` of the cause in `details.causes`.
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

/// Values as error messages print them: in JSON.
pub trait DisplayJson {
    fn display_json(&self) -> String;
}

impl<T: serde::Serialize + ?Sized> DisplayJson for T {
    fn display_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_collected_up_to_a_limit_of_bytes() {
        let errors = Errors::default();
        for index in 0..1000 {
            errors
                .at("spec")
                .index(index)
                .invalid("x".repeat(10_000), "is wrong");
        }
        assert!(errors.is_full());
        assert_eq!(errors.len(), 105);
    }

    #[test]
    fn a_collector_without_paths_still_counts_errors() {
        let errors = Errors::without_paths();
        assert!(errors.is_empty());
        errors.at("spec").index(0).key("a").required("");
        assert_eq!(errors.len(), 1);
        assert_eq!(errors.at("spec").path(), "");
        assert_eq!(errors.into_vec()[0].to_string(), ": Required value");
    }
}
