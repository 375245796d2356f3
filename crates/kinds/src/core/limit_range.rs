//! LimitRange: minimum, maximum and default resources of each object in a namespace.

use std::collections::BTreeSet;

use setpoint_api::Quantity;
use setpoint_schema::Tree;

use crate::columns::{self, Column};
use crate::field::FieldRef;
use crate::meta;
use crate::shared::{name, resources};
use crate::strategy::{Names, RequestFacts, Rules, Strategy};

const TYPES: &[&str] = &["Pod", "Container", "PersistentVolumeClaim"];

#[derive(Debug)]
pub struct LimitRange;

impl Strategy for LimitRange {
    const KIND: (&'static str, &'static str, &'static str) = ("", "v1", "LimitRange");
    const NAMES: Names = Names::new("limitranges", "limitrange").short(&["limits"]);
    const COLUMNS: &'static [Column] = &[columns::NAME, columns::CREATED_AT];
    const RULES: Rules = Rules {
        create_on_update: true,
        ..Rules::DEFAULT
    };

    fn default_fields(range: &mut Tree) {
        let Some(spec) = range.find_mut("spec") else {
            return;
        };
        for limit in spec.items_mut("limits") {
            if limit.str_at(&["type"]) == Some("Container") {
                copy_missing(limit, "default", "max");
                copy_missing(limit, "defaultRequest", "default");
                copy_missing(limit, "defaultRequest", "min");
            }
        }
    }

    /// A limit range without a name is named by its uid.
    fn prepare_create(range: &mut Tree, _facts: &RequestFacts) {
        if meta::name(range).is_empty() {
            let uid = meta::str(range, "uid").to_owned();
            meta::set(range, "name", uid);
        }
    }

    fn validate(range: &FieldRef<'_>) {
        let mut types = BTreeSet::new();
        for limit in range.at("spec").at("limits").items() {
            let kind = limit.at("type");
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
    let mut check = |field: &str| {
        for (name, amount) in limit.at(field).entries() {
            validate_name(kind, name, &amount);
            names.insert(name);
        }
    };
    check("max");
    check("min");
    if kind == "Pod" {
        for field in ["default", "defaultRequest"] {
            if !limit.at(field).is_empty() {
                limit
                    .at(field)
                    .forbidden("may not be specified when `type` is 'Pod'");
            }
        }
    } else {
        check("default");
        check("defaultRequest");
    }
    let sized = ["min", "max"]
        .iter()
        .any(|field| limit.at(field).key("storage").is_set());
    if kind == "PersistentVolumeClaim" && !sized {
        let errors = limit.errors().at("limits");
        errors.required("either minimum or maximum storage value is required, but neither was provided");
    }
    check("maxLimitRequestRatio");
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
    let amount = |field: &str| limit.at(field).key(name);
    let quantity_of = |field: &str| {
        if kind == "Pod" {
            None
        } else {
            amount(field).quantity()
        }
    };
    let (min, max) = (amount("min").quantity(), amount("max").quantity());
    let (default, request) = (quantity_of("default"), quantity_of("defaultRequest"));
    let report = |field: &str, shown: Quantity, words: &str| {
        amount(field).invalid_as(shown.to_string(), words);
    };
    if let Some((min, max)) = out_of_order(min, max) {
        report(
            "min",
            min,
            &format!("min value {min} is greater than max value {max}"),
        );
    }
    if let Some((min, request)) = out_of_order(min, request) {
        let words = format!("min value {min} is greater than default request value {request}");
        report("defaultRequest", request, &words);
    }
    if let Some((request, max)) = out_of_order(request, max) {
        let words = format!("default request value {request} is greater than max value {max}");
        report("defaultRequest", request, &words);
    }
    if let Some((request, default)) = out_of_order(request, default) {
        let words = format!("default request value {request} is greater than default limit value {default}");
        report("defaultRequest", request, &words);
    }
    if let Some((min, default)) = out_of_order(min, default) {
        report(
            "default",
            min,
            &format!("min value {min} is greater than default value {default}"),
        );
    }
    if let Some((default, max)) = out_of_order(default, max) {
        report(
            "default",
            max,
            &format!("default value {default} is greater than max value {max}"),
        );
    }
    validate_ratio(&amount("maxLimitRequestRatio"), min, max);
    if let (Some(default), Some(request)) = (default, request)
        && !resources::overcommits(name)
        && default != request
    {
        let words = format!("default value {default} must equal to defaultRequest value {request} in {name}");
        report("defaultRequest", request, &words);
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
