//! LimitRange: minimum, maximum and default resources of each object in a namespace.

use std::collections::BTreeSet;

use setpoint_api::Quantity;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Strategy, meta, name};

use crate::shared::resources;

const TYPES: &[&str] = &["Pod", "Container", "PersistentVolumeClaim"];

#[derive(Debug)]
pub struct LimitRange;

impl Strategy for LimitRange {
    const KIND: (&'static str, &'static str, &'static str) = ("", "v1", "LimitRange");
    const NAMES: Names = Names::new("limitranges", "limitrange").short(&["limits"]);
    const COLUMNS: &'static [Column] = &[columns::NAME, columns::CREATED_AT];
    const RULES: Rules = Rules::DEFAULT.create_on_update();

    fn default_fields(range: &mut Tree) {
        let Some(spec) = range.find_mut(fields::SPEC) else {
            return;
        };
        for limit in spec.items_mut(fields::LIMITS) {
            if limit.str_at(&[fields::TYPE]) == Some("Container") {
                copy_missing(limit, fields::DEFAULT, fields::MAX);
                copy_missing(limit, fields::DEFAULT_REQUEST, fields::DEFAULT);
                copy_missing(limit, fields::DEFAULT_REQUEST, fields::MIN);
            }
        }
    }

    /// A limit range without a name is named by its uid.
    fn prepare_create(range: &mut Tree, _facts: &RequestFacts) {
        if meta::name(range).is_empty() {
            let uid = meta::str(range, fields::UID).to_owned();
            meta::set(range, fields::NAME, uid);
        }
    }

    fn validate(range: &FieldRef<'_>, _facts: &RequestFacts) {
        let mut types = BTreeSet::new();
        for limit in range.at(fields::SPEC).at(fields::LIMITS).items() {
            let kind = limit.at(fields::TYPE);
            validate_type(&kind);
            if !types.insert(kind.str()) {
                kind.duplicate();
            }
            validate_limit(&limit, kind.str());
        }
    }
}

/// Fills missing entries of one resource list from another.
fn copy_missing(limit: &mut Tree, into: &str, from: &str) {
    let Some(Tree::Map(amounts)) = limit.get(from).cloned() else {
        return;
    };
    let into = limit.child(into);
    for (name, amount) in amounts.iter() {
        into.set_default(name, amount.clone());
    }
    resources::sort(into.map_or_default());
}

fn validate_type(kind: &FieldRef<'_>) {
    let violations = name::check_qualified_name(kind.str());
    if violations.is_empty() && !kind.str().contains('/') && !TYPES.contains(&kind.str()) {
        kind.invalid("must be a standard limit type or fully qualified");
    }
    name::report(kind.str(), violations, kind.errors());
}

fn validate_limit(limit: &FieldRef<'_>, kind: &str) {
    let mut names = BTreeSet::new();
    let mut check = |field: &'static str| {
        for (name, amount) in limit.at(field).entries() {
            validate_name(kind, name, &amount);
            names.insert(name);
        }
    };
    check(fields::MAX);
    check(fields::MIN);
    if kind == "Pod" {
        for field in [fields::DEFAULT, fields::DEFAULT_REQUEST] {
            if !limit.at(field).is_empty() {
                limit
                    .at(field)
                    .forbidden("may not be specified when `type` is 'Pod'");
            }
        }
    } else {
        check(fields::DEFAULT);
        check(fields::DEFAULT_REQUEST);
    }
    let sized = [fields::MIN, fields::MAX]
        .iter()
        .any(|field| limit.at(field).key("storage").is_set());
    if kind == "PersistentVolumeClaim" && !sized {
        let errors = limit.errors().at(fields::LIMITS);
        errors.required("either minimum or maximum storage value is required, but neither was provided");
    }
    check(fields::MAX_LIMIT_REQUEST_RATIO);
    for name in names {
        validate_amounts(limit, kind, name);
    }
}

fn validate_name(kind: &str, text: &str, amount: &FieldRef<'_>) {
    match kind {
        "Pod" | "Container" => resources::validate_container_name(text, amount),
        _ => _ = resources::validate_name(text, amount),
    }
}

/// Validates the values of one resource: min, default request, default and max must be in this order.
fn validate_amounts(limit: &FieldRef<'_>, kind: &str, name: &str) {
    let amount = |field: &'static str| limit.at(field).key(name);
    let quantity_of = |field: &'static str| {
        if kind == "Pod" {
            None
        } else {
            amount(field).quantity()
        }
    };
    let (min, max) = (amount(fields::MIN).quantity(), amount(fields::MAX).quantity());
    let (default, request) = (quantity_of(fields::DEFAULT), quantity_of(fields::DEFAULT_REQUEST));
    let report = |field: &'static str, shown: Quantity, words: &str| {
        amount(field).invalid_as(shown.to_string(), words);
    };
    if let Some((min, max)) = out_of_order(min, max) {
        report(
            fields::MIN,
            min,
            &format!("min value {min} is greater than max value {max}"),
        );
    }
    if let Some((min, request)) = out_of_order(min, request) {
        let words = format!("min value {min} is greater than default request value {request}");
        report(fields::DEFAULT_REQUEST, request, &words);
    }
    if let Some((request, max)) = out_of_order(request, max) {
        let words = format!("default request value {request} is greater than max value {max}");
        report(fields::DEFAULT_REQUEST, request, &words);
    }
    if let Some((request, default)) = out_of_order(request, default) {
        let words = format!("default request value {request} is greater than default limit value {default}");
        report(fields::DEFAULT_REQUEST, request, &words);
    }
    if let Some((min, default)) = out_of_order(min, default) {
        report(
            fields::DEFAULT,
            min,
            &format!("min value {min} is greater than default value {default}"),
        );
    }
    if let Some((default, max)) = out_of_order(default, max) {
        report(
            fields::DEFAULT,
            max,
            &format!("default value {default} is greater than max value {max}"),
        );
    }
    validate_ratio(&amount(fields::MAX_LIMIT_REQUEST_RATIO), min, max);
    if let (Some(default), Some(request)) = (default, request)
        && !resources::overcommits(name)
        && default != request
    {
        let words = format!("default value {default} must equal to defaultRequest value {request} in {name}");
        report(fields::DEFAULT_REQUEST, request, &words);
    }
}

fn out_of_order(less: Option<Quantity>, more: Option<Quantity>) -> Option<(Quantity, Quantity)> {
    less.zip(more).filter(|(less, more)| less > more)
}

#[allow(clippy::cast_precision_loss, reason = "a ratio is shown with six digits")]
fn validate_ratio(ratio: &FieldRef<'_>, min: Option<Quantity>, max: Option<Quantity>) {
    let Some(value) = ratio.quantity() else {
        return;
    };
    if value < Quantity::from_milli(1000) {
        ratio.invalid(&format!("ratio {value} is less than 1"));
    }
    if let (Some(min), Some(max)) = (min, max) {
        let max_ratio = max.milli_value() as f64 / min.milli_value() as f64;
        if value.milli_value() as f64 / 1000.0 > max_ratio {
            ratio.invalid(&format!("ratio {value} is greater than max/min = {max_ratio:.6}"));
        }
    }
}
