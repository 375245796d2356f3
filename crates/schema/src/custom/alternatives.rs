//! Validation of `anyOf`, `oneOf`, `allOf` and `not`.

use super::validate::{CorrelatedValue, Violations, without_path};
use super::{Schema, SchemaViolation, ValueValidation};

/// Reports the violations of the logical junctors. They are not ratcheted by themselves: the caller ratchets the whole value.
pub(super) fn check_alternatives(
    rules: &ValueValidation,
    current: CorrelatedValue<'_>,
    violations: &mut Violations,
) {
    let violations_of = |schema: &Schema| {
        let mut found = Vec::new();
        schema.check_unratcheted(current, &mut found);
        found
    };
    if !rules.any_of.is_empty() {
        let found: Vec<Vec<SchemaViolation>> = rules.any_of.iter().map(violations_of).collect();
        if found.iter().all(|found| !found.is_empty()) {
            let detail = format!("{:?} must validate at least one schema (anyOf)", current.path);
            violations.push(without_path(detail));
            violations.extend(found.into_iter().min_by_key(Vec::len).into_iter().flatten());
        }
    }
    if !rules.one_of.is_empty() {
        let found: Vec<Vec<SchemaViolation>> = rules.one_of.iter().map(violations_of).collect();
        let valid = found.iter().filter(|found| found.is_empty()).count();
        if valid != 1 {
            let what = match valid {
                0 => "Found none valid".to_owned(),
                valid => format!("Found {valid} valid alternatives"),
            };
            let detail = format!(
                "{:?} must validate one and only one schema (oneOf). {what}",
                current.path
            );
            violations.push(without_path(detail));
            if valid == 0 {
                violations.extend(found.into_iter().min_by_key(Vec::len).into_iter().flatten());
            }
        }
    }
    if !rules.all_of.is_empty() {
        let found: Vec<SchemaViolation> = rules.all_of.iter().flat_map(violations_of).collect();
        if !found.is_empty() {
            violations.extend(found);
            let detail = format!("{:?} must validate all the schemas (allOf)", current.path);
            violations.push(without_path(detail));
        }
    }
    if rules
        .not
        .as_ref()
        .is_some_and(|not| violations_of(not).is_empty())
    {
        let detail = format!("{:?} must not validate the schema (not)", current.path);
        violations.push(without_path(detail));
    }
}
