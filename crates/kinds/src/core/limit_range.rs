//! LimitRange: how much one object of a namespace may ask for, and what it gets if it does not ask.

use std::collections::BTreeSet;

use setpoint_api::Quantity;
use setpoint_schema::Tree;

use crate::at::At;
use crate::columns::{self, Column};
use crate::meta;
use crate::shared::{name, resources};
use crate::strategy::{Facts, Names, Rules, Strategy};

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
                fill(limit, "default", "max");
                fill(limit, "defaultRequest", "default");
                fill(limit, "defaultRequest", "min");
            }
        }
    }

    /// A range without a name is called by its uid.
    fn prepare_create(range: &mut Tree, _facts: &Facts) {
        if meta::name(range).is_empty() {
            let uid = meta::str(range, "uid").to_owned();
            meta::set(range, "name", uid);
        }
    }

    fn validate(range: &At<'_>) {
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

/// What one list of amounts lacks comes from another.
fn fill(limit: &mut Tree, into: &str, from: &str) {
    let Some(Tree::Map(amounts)) = limit.get(from).cloned() else {
        return;
    };
    let into = limit.child(into);
    for (name, amount) in amounts.iter() {
        into.fill(name, amount.clone());
    }
    resources::sort(into.map_or_default());
}

fn validate_type(kind: &At<'_>) {
    let complaints = name::qualified(kind.str());
    if complaints.is_empty() && !kind.str().contains('/') && !TYPES.contains(&kind.str()) {
        kind.invalid("must be a standard limit type or fully qualified");
    }
    name::report(kind.str(), complaints, kind.errors());
}

fn validate_limit(limit: &At<'_>, kind: &str) {
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
        let place = limit.errors().at("limits");
        place.required("either minimum or maximum storage value is required, but neither was provided");
    }
    check("maxLimitRequestRatio");
    for name in names {
        validate_amounts(limit, kind, name);
    }
}

fn validate_name(kind: &str, text: &str, amount: &At<'_>) {
    match kind {
        "Pod" | "Container" => resources::validate_container_name(text, amount),
        _ => _ = resources::validate_name(text, amount),
    }
}

/// The amounts of one resource: the least, what is given and the most, in this order.
fn validate_amounts(limit: &At<'_>, kind: &str, name: &str) {
    let amount = |field: &str| limit.at(field).key(name);
    let given = |field: &str| {
        if kind == "Pod" {
            None
        } else {
            amount(field).quantity()
        }
    };
    let (min, max) = (amount("min").quantity(), amount("max").quantity());
    let (default, request) = (given("default"), given("defaultRequest"));
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
fn validate_ratio(ratio: &At<'_>, min: Option<Quantity>, max: Option<Quantity>) {
    let Some(given) = ratio.quantity() else {
        return;
    };
    if given < Quantity::from_milli(1000) {
        ratio.invalid(&format!("ratio {given} is less than 1"));
    }
    if let (Some(min), Some(max)) = (min, max) {
        let most = max.milli_value() as f64 / min.milli_value() as f64;
        if given.milli_value() as f64 / 1000.0 > most {
            ratio.invalid(&format!("ratio {given} is greater than max/min = {most:.6}"));
        }
    }
}
