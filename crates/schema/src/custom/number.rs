//! Validation of numbers (upstream: kube-openapi `pkg/validation/validate/values.go`). Whole numbers are compared as
//! such, unless the limit itself does not fit the type and format of the schema.

use super::compile::number;
use super::validate::{CorrelatedValue, Violations, without_path};
use super::{Bound, Schema, Type, ValueValidation};
use crate::patch::go_text;
use crate::tree::Tree;

/// The greatest difference of a quotient from a whole number, relative to both.
const EPSILON: f64 = 1e-9;

/// The greatest whole number that JSON numbers represent exactly.
const MAX_EXACT: f64 = 9_007_199_254_740_991.0;

/// A minimum or maximum.
struct Limit {
    /// The name in the error if the limit does not fit the schema.
    name: &'static str,
    value: f64,
    bound: Bound,
    /// The messages of an inclusive and of an exclusive limit.
    texts: [&'static str; 2],
    is_outside: fn(f64, f64) -> bool,
}

impl Schema {
    pub(super) fn check_number(
        &self,
        rules: &ValueValidation,
        current: CorrelatedValue<'_>,
        violations: &mut Violations,
    ) {
        violations.extend(self.range_mismatch(current.value, "Checked", current));
        if let Some(factor) = rules.multiple_of {
            self.check_factor(factor, current, violations);
        }
        if let Some((value, bound)) = rules.minimum {
            let limit = Limit {
                name: "Minimum boundary",
                value,
                bound,
                texts: ["should be greater than or equal to", "should be greater than"],
                is_outside: |value, min| value < min,
            };
            self.check_limit(&limit, current, violations);
        }
        if let Some((value, bound)) = rules.maximum {
            let limit = Limit {
                name: "Maximum boundary",
                value,
                bound,
                texts: ["should be less than or equal to", "should be less than"],
                is_outside: |value, max| value > max,
            };
            self.check_limit(&limit, current, violations);
        }
    }

    fn check_limit(&self, limit: &Limit, current: CorrelatedValue<'_>, violations: &mut Violations) {
        let Some(value) = number(Some(current.value)) else {
            return;
        };
        let shown = self.comparable(limit.value, limit.name, current, violations);
        let compared = number(Some(&shown)).unwrap_or_default();
        let is_exclusive = limit.bound == Bound::Exclusive;
        if (limit.is_outside)(value, compared) || is_exclusive && value == compared {
            let text = limit.texts[usize::from(is_exclusive)];
            let detail = format!("{} in body {text} {}", current.path, go_text(&shown));
            violations.push(current.invalid(current.value.clone(), detail));
        }
    }

    fn check_factor(&self, factor: f64, current: CorrelatedValue<'_>, violations: &mut Violations) {
        let factor = self.comparable(factor, "MultipleOf", current, violations);
        let is_positive = number(Some(&factor)).is_some_and(|factor| factor > 0.0);
        if !is_positive {
            let detail = format!(
                "factor MultipleOf declared for {} must be positive: {}",
                current.path,
                go_text(&factor)
            );
            return violations.push(current.invalid(factor, detail));
        }
        let is_multiple = match (current.value, &factor) {
            (Tree::Int(value), Tree::Int(factor)) => value % factor == 0,
            (value, factor) => {
                let (value, factor) = (number(Some(value)), number(Some(factor)));
                let (value, factor) = (value.unwrap_or_default(), factor.unwrap_or(1.0));
                is_whole(if factor < 1.0 {
                    1.0 / factor * value
                } else {
                    value / factor
                })
            }
        };
        if !is_multiple {
            let detail = format!(
                "{} in body should be a multiple of {}",
                current.path,
                go_text(&factor)
            );
            violations.push(current.invalid(current.value.clone(), detail));
        }
    }

    /// A limit as it is compared with the value: a whole number if the value is one and the limit fits the schema. A limit
    /// that does not fit is reported.
    fn comparable(
        &self,
        limit: f64,
        prefix: &str,
        current: CorrelatedValue<'_>,
        violations: &mut Violations,
    ) -> Tree {
        let mismatch = self.range_mismatch(&Tree::Float(limit), prefix, current);
        let is_whole = matches!(current.value, Tree::Int(_)) && mismatch.is_none();
        violations.extend(mismatch);
        match is_whole {
            true => Tree::Int(limit as i64),
            false => Tree::Float(limit),
        }
    }

    /// The violation by a number that does not fit the type and format of the schema.
    fn range_mismatch(
        &self,
        value: &Tree,
        prefix: &str,
        current: CorrelatedValue<'_>,
    ) -> Option<super::SchemaViolation> {
        if self.value_type != Some(Type::Integer) {
            return None;
        }
        let format = self.recognized_format();
        let (min, max) = match format {
            Some("int32") => (f64::from(i32::MIN), f64::from(i32::MAX)),
            _ => (i64::MIN as f64, i64::MAX as f64),
        };
        let number = number(Some(value))?;
        if number.fract() == 0.0 && (min..=max).contains(&number) {
            return None;
        }
        let format = match format {
            Some(format) => format!("with format {format}"),
            None => "(default format)".to_owned(),
        };
        let detail = format!(
            "{prefix} value must be of type integer {format} in {}",
            current.path
        );
        Some(without_path(detail))
    }
}

/// Whether a quotient counts as a whole number.
fn is_whole(number: f64) -> bool {
    if !number.is_finite() || number.abs() > MAX_EXACT {
        return false;
    }
    let whole = number.trunc();
    let difference = (number - whole).abs();
    difference == 0.0 || whole != 0.0 && difference / (number.abs() + whole.abs()) < EPSILON
}
