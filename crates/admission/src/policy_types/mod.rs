//! Type checks of ValidatingAdmissionPolicies: warnings about expressions that do not fit the kinds that a policy matches.
//!
//! A controller writes them to `status.typeChecking`. They change nothing in how the policy is evaluated. The texts are
//! those of `staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/validating/typechecking.go` in Kubernetes.

mod schema;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Deserialize;
use setpoint_api::Gvk;
use setpoint_cel::{Type, ValueSchema};
use setpoint_kinds::admissionregistration::expressions::TypeChecker;
use setpoint_strategy::{Kind, Kinds};

use schema::schema_of;

/// At most so many kinds of one rule are checked.
const MAX_KINDS: usize = 10;

/// A warning about an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpressionWarning {
    /// The path of the expression: `spec.validations[0].expression`.
    pub field_ref: String,
    /// The errors for each kind.
    pub warning: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Policy {
    spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    param_kind: Option<ParamKind>,
    match_constraints: MatchConstraints,
    variables: Vec<Variable>,
    validations: Vec<Validation>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ParamKind {
    api_version: String,
    kind: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct MatchConstraints {
    resource_rules: Vec<Rule>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Rule {
    api_groups: Vec<String>,
    api_versions: Vec<String>,
    resources: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Variable {
    name: String,
    expression: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Validation {
    expression: String,
    message_expression: String,
}

/// Checks the validations and messages of a policy, which is in JSON. A policy that cannot be read has no warnings.
pub fn check_policy_types(policy: &[u8], kinds: &Kinds) -> Vec<ExpressionWarning> {
    let Ok(Policy { spec }) = serde_json::from_slice(policy) else {
        return Vec::new();
    };
    let checkers: Vec<(Gvk, TypeChecker)> = matched_kinds(&spec, kinds)
        .into_iter()
        .filter_map(|(gvk, kind)| Some((gvk, checker(&spec, &*kind, kinds)?)))
        .collect();
    let mut warnings = Vec::new();
    for (index, validation) in spec.validations.iter().enumerate() {
        for (field, source) in [
            ("expression", &validation.expression),
            ("messageExpression", &validation.message_expression),
        ] {
            let errors: Vec<String> = checkers
                .iter()
                .filter(|_| !source.is_empty())
                .filter_map(|(gvk, checker)| Some((gvk, checker.check(source).err()?)))
                .map(|(gvk, error)| format!("{}/{}, Kind={}: {error}\n", gvk.group, gvk.version, gvk.kind))
                .collect();
            if !errors.is_empty() {
                warnings.push(ExpressionWarning {
                    field_ref: format!("spec.validations[{index}].{field}"),
                    warning: errors.join("\n"),
                });
            }
        }
    }
    warnings
}

/// A checker for one kind; none if its schema is not known.
fn checker(spec: &Spec, kind: &dyn Kind, kinds: &Kinds) -> Option<TypeChecker> {
    let params = spec.param_kind.as_ref().map(|param| {
        let is_named = |kind: &&Arc<dyn Kind>| {
            let gvk = &kind.info().gvk;
            gvk.kind == param.kind && gvk.api_version() == param.api_version
        };
        let found = kinds.iter().find(is_named).and_then(|kind| schema_of(&**kind));
        found.unwrap_or_else(|| ValueSchema::scalar(Type::Dyn))
    });
    let mut checker = TypeChecker::new(schema_of(kind)?, params);
    for variable in &spec.variables {
        checker.add_variable(&variable.name, &variable.expression);
    }
    Some(checker)
}

/// The kinds that the rules of a policy name, by group, version and kind. Rules with wildcards name none.
fn matched_kinds(spec: &Spec, kinds: &Kinds) -> Vec<(Gvk, Arc<dyn Kind>)> {
    let mut found: BTreeSet<Gvk> = BTreeSet::new();
    for rule in &spec.match_constraints.resource_rules {
        if !add_kinds(rule, kinds, &mut found) {
            break;
        }
    }
    let find = |gvk: Gvk| {
        let kind = kinds.iter().find(|kind| kind.info().gvk == gvk)?.clone();
        Some((gvk, kind))
    };
    found.into_iter().filter_map(find).collect()
}

/// Adds the kinds of a rule. Returns whether there may be more: the limit ends the search.
fn add_kinds(rule: &Rule, kinds: &Kinds, found: &mut BTreeSet<Gvk>) -> bool {
    let has_wildcard = |list: &[String]| list.iter().any(|text| text.contains('*'));
    if has_wildcard(&rule.api_groups) || has_wildcard(&rule.api_versions) {
        return true;
    }
    let sorted = |list: &[String]| -> BTreeSet<String> {
        let named = list.iter().filter(|text| !text.contains(['*', '/']));
        named.cloned().collect()
    };
    let mut count = 0;
    for group in rule.api_groups.iter().collect::<BTreeSet<_>>() {
        for version in sorted(&rule.api_versions) {
            for resource in sorted(&rule.resources) {
                for gvk in kinds_of(kinds, group, &version, &resource) {
                    found.insert(gvk);
                    count += 1;
                    if count == MAX_KINDS {
                        return false;
                    }
                }
            }
        }
    }
    true
}

/// The kinds of a resource. Like upstream's mapper, an empty group is any group.
fn kinds_of(kinds: &Kinds, group: &str, version: &str, resource: &str) -> Vec<Gvk> {
    let is_named = |kind: &&Arc<dyn Kind>| {
        let gvr = &kind.info().gvr;
        gvr.resource == resource && gvr.version == version && (group.is_empty() || gvr.group == group)
    };
    kinds
        .iter()
        .filter(is_named)
        .map(|kind| kind.info().gvk.clone())
        .collect()
}

#[cfg(test)]
mod tests;
