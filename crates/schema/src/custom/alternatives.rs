//! Validation of `anyOf`, `oneOf`, `allOf` and `not`.

use super::validate::{CorrelatedValue, Violations, without_path};
use super::{Schema, SchemaViolation, ValueValidation};

/// Reports the violations of the logical junctors. They are not ratcheted by themselves: the caller ratchets the whole value.
pub(super) fn check_alternatives(
    rules: &ValueValidation,
    current: CorrelatedValue<'_>,
    violations: &mut Violations,
) {
    let path = || current.path.to_string();
    let violations_of = |schema: &Schema| {
        let mut found = Vec::new();
        schema.check_unratcheted(current, &mut found);
        found
    };
    if !rules.any_of.is_empty() {
        let outcome = Outcome::of(rules.any_of.iter().map(violations_of));
        if outcome.valid == 0 {
            let detail = format!("{:?} must validate at least one schema (anyOf)", path());
            violations.push(without_path(detail));
            violations.extend(outcome.nearest);
        }
    }
    if !rules.one_of.is_empty() {
        let outcome = Outcome::of(rules.one_of.iter().map(violations_of));
        if outcome.valid != 1 {
            let what = match outcome.valid {
                0 => "Found none valid".to_owned(),
                valid => format!("Found {valid} valid alternatives"),
            };
            let detail = format!(
                "{:?} must validate one and only one schema (oneOf). {what}",
                path()
            );
            violations.push(without_path(detail));
            violations.extend(outcome.nearest);
        }
    }
    if !rules.all_of.is_empty() {
        let found: Vec<SchemaViolation> = rules.all_of.iter().flat_map(violations_of).collect();
        if !found.is_empty() {
            violations.extend(found);
            let detail = format!("{:?} must validate all the schemas (allOf)", path());
            violations.push(without_path(detail));
        }
    }
    if rules
        .not
        .as_ref()
        .is_some_and(|not| violations_of(not).is_empty())
    {
        let detail = format!("{:?} must not validate the schema (not)", path());
        violations.push(without_path(detail));
    }
}

/// The outcome of validating a value by several schemas.
struct Outcome {
    /// The number of schemas by which the value is valid.
    valid: usize,
    /// The fewest violations; none if the value is valid by some schema.
    nearest: Violations,
}

impl Outcome {
    /// Each item is the violations of one schema. Only the fewest are kept: each may hold a copy of the value.
    fn of(alternatives: impl Iterator<Item = Violations>) -> Self {
        let (mut valid, mut nearest): (usize, Option<Violations>) = (0, None);
        for found in alternatives {
            valid += usize::from(found.is_empty());
            if nearest.as_ref().is_none_or(|nearest| found.len() < nearest.len()) {
                nearest = Some(found);
            }
        }
        Outcome {
            valid,
            nearest: nearest.unwrap_or_default(),
        }
    }
}
