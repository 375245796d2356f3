//! PodDisruptionBudget: how many pods of a set may be evicted at a time.

use setpoint_api::table::Cell;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{
    FieldRef, NameRule, Names, RequestFacts, Rules, Strategy, Subresource, label_selector, top_level,
};

use crate::shared::{condition, int_or_percent};

const POLICIES: &[&str] = &["AlwaysAllow", "IfHealthyBudget"];
/// A label by which `policy/v1beta1` distinguished the meaning of an empty selector.
const RESERVED: &str = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match";

#[derive(Debug)]
pub struct PodDisruptionBudget;

impl Strategy for PodDisruptionBudget {
    const KIND: (&'static str, &'static str, &'static str) = ("policy", "v1", "PodDisruptionBudget");
    const NAMES: Names = Names::new("poddisruptionbudgets", "poddisruptionbudget").short(&["pdb"]);
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("Min Available", |budget, _| amount(budget, fields::MIN_AVAILABLE))
            .description("The minimum number of available pods."),
        Column::text("Max Unavailable", |budget, _| {
            amount(budget, fields::MAX_UNAVAILABLE)
        })
        .description("The maximum number of unavailable pods."),
        Column::number("Allowed Disruptions", |budget, _| {
            Cell::from(budget.at(fields::STATUS).at(fields::DISRUPTIONS_ALLOWED).int())
        })
        .description("The number of currently allowed disruptions."),
        columns::AGE,
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];
    const RULES: Rules = Rules::DEFAULT
        .name(NameRule::PathSegment)
        .no_unconditional_update()
        .validate_metadata_last()
        .unqualified_finalizers()
        .tracks_generation();

    fn prepare_create(budget: &mut Tree, _facts: &RequestFacts) {
        top_level::drop(budget, fields::STATUS);
        strip_reserved(budget);
    }

    fn prepare_update(budget: &mut Tree, old: &Tree, _facts: &RequestFacts) {
        top_level::keep(budget, old, fields::STATUS);
        if budget.at(&[fields::SPEC, fields::SELECTOR]) != old.at(&[fields::SPEC, fields::SELECTOR]) {
            strip_reserved(budget);
        }
    }

    fn validate(budget: &FieldRef<'_>, _facts: &RequestFacts) {
        let spec = budget.at(fields::SPEC);
        let amounts = [spec.at(fields::MIN_AVAILABLE), spec.at(fields::MAX_UNAVAILABLE)];
        if amounts.iter().all(FieldRef::is_set) {
            spec.invalid("minAvailable and maxUnavailable cannot be both set");
        }
        for amount in amounts.iter().filter(|amount| amount.is_set()) {
            int_or_percent::validate(amount);
            int_or_percent::validate_most(amount);
        }
        label_selector::validate(&spec.at(fields::SELECTOR));
        let policy = spec.at(fields::UNHEALTHY_POD_EVICTION_POLICY);
        if policy.is_set() && !POLICIES.contains(&policy.str()) {
            policy.not_supported(POLICIES);
        }
    }

    fn validate_status(budget: &FieldRef<'_>, _old: &FieldRef<'_>, _facts: &RequestFacts) {
        let status = budget.at(fields::STATUS);
        condition::validate(&status.at(fields::CONDITIONS));
        for count in [
            fields::DISRUPTIONS_ALLOWED,
            fields::CURRENT_HEALTHY,
            fields::DESIRED_HEALTHY,
            fields::EXPECTED_PODS,
        ] {
            status.at(count).not_negative();
        }
    }
}

/// Removes the reserved label from selectors that have other requirements, too.
fn strip_reserved(budget: &mut Tree) {
    let Some(selector) = budget.at_mut(&[fields::SPEC, fields::SELECTOR]) else {
        return;
    };
    let reserved = |expression: &Tree| expression.str_at(&[fields::KEY]) == Some(RESERVED);
    let labels = selector.get(fields::MATCH_LABELS).and_then(Tree::as_map);
    let alone = labels.is_none_or(|labels| labels.is_empty())
        && matches!(selector.items(fields::MATCH_EXPRESSIONS), [only]
            if reserved(only) && only.str_at(&[fields::OPERATOR]) == Some("Exists") && only.items(fields::VALUES).is_empty());
    if alone {
        return;
    }
    if let Some(Tree::List(expressions)) = selector.find_mut(fields::MATCH_EXPRESSIONS) {
        expressions.retain(|expression| !reserved(expression));
        if expressions.is_empty() {
            selector.take(&[fields::MATCH_EXPRESSIONS]);
        }
    }
}

fn amount(budget: &FieldRef<'_>, field: &str) -> Cell {
    let amount = budget.at(fields::SPEC).at(field);
    Cell::from(match amount.is_set() {
        true => int_or_percent::print(&amount),
        false => "N/A".to_owned(),
    })
}
