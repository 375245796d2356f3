//! PriorityLevelConfiguration: the concurrency limit of a priority level, and how excess requests are queued.

use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use super::{GROUP, validate_conditions};
use crate::bootstrap;
use crate::columns::{self, Column, NONE};
use crate::field::FieldRef;
use crate::strategy::{Names, Rules, Scope, Strategy, Subresource};

const TYPES: &[&str] = &["Exempt", "Limited"];
const RESPONSES: &[&str] = &["Queue", "Reject"];
const DEFAULT_SHARES: i64 = 30;
const DEFAULT_QUEUES: i64 = 64;
const DEFAULT_HAND: i64 = 8;
const DEFAULT_LENGTH: i64 = 50;
const MAX_QUEUES: i64 = 10_000_000;
/// The size of the hash from which a flow's queues are dealt.
const HASH_BITS: i64 = 60;
const ROUND_TRIP: &str = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";

#[derive(Debug)]
pub struct PriorityLevelConfiguration;

impl Strategy for PriorityLevelConfiguration {
    const KIND: (&'static str, &'static str, &'static str) = (GROUP, "v1", "PriorityLevelConfiguration");
    const NAMES: Names = Names::new("prioritylevelconfigurations", "prioritylevelconfiguration");
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("Type", |level, _| columns::or_empty(&level.at("spec").at("type")))
            .description("Exempt or Limited."),
        Column::text("NominalConcurrencyShares", |level, _| {
            number(&level.at("spec").at("limited"), "nominalConcurrencyShares")
        })
        .description("The nominal concurrency shares."),
        Column::text("Queues", |level, _| number(&queuing(level), "queues"))
            .description("The number of queues."),
        Column::text("HandSize", |level, _| number(&queuing(level), "handSize"))
            .description("The hand size: the number of queues of one flow."),
        Column::text("QueueLengthLimit", |level, _| {
            number(&queuing(level), "queueLengthLimit")
        })
        .description("The queue length limit."),
        columns::AGE,
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];
    const RULES: Rules = Rules {
        tracks_generation: true,
        ..Rules::DEFAULT
    };

    fn default_fields(level: &mut Tree) {
        let spec = level.child("spec");
        if let Some(exempt) = spec.find_mut("exempt") {
            exempt.set_default("nominalConcurrencyShares", 0);
            exempt.set_default("lendablePercent", 0);
        }
        if let Some(limited) = spec.find_mut("limited") {
            limited.set_default("nominalConcurrencyShares", DEFAULT_SHARES);
            limited.set_default("lendablePercent", 0);
            if let Some(queuing) = limited.child("limitResponse").find_mut("queuing") {
                queuing.set_default("queues", DEFAULT_QUEUES);
                queuing.set_default("handSize", DEFAULT_HAND);
                queuing.set_default("queueLengthLimit", DEFAULT_LENGTH);
            }
        }
    }

    fn validate(level: &FieldRef<'_>) {
        let (spec, name) = (level.at("spec"), level.at("metadata").at("name").str());
        let annotations = level.at("metadata").at("annotations");
        if annotations.key(ROUND_TRIP).is_set() {
            annotations.forbidden(&format!("annotation '{ROUND_TRIP}' is forbidden"));
        }
        validate_spec(&spec, name);
        validate_mandatory(&spec, name);
        validate_conditions(&level.at("status").at("conditions"));
        validate_declarative(&spec);
    }

    fn validate_status(level: &FieldRef<'_>, _old: &FieldRef<'_>) {
        validate_conditions(&level.at("status").at("conditions"));
    }
}

fn queuing<'a>(level: &FieldRef<'a>) -> FieldRef<'a> {
    level.at("spec").at("limited").at("limitResponse").at("queuing")
}

fn number(parent: &FieldRef<'_>, field: &str) -> Cell {
    if parent.is_set() {
        Cell::from(parent.at(field).int())
    } else {
        Cell::from(NONE)
    }
}

fn validate_spec(spec: &FieldRef<'_>, name: &str) {
    let kind = spec.at("type");
    if (name == "exempt") != (kind.str() == "Exempt") {
        kind.invalid("must be 'Exempt' if and only if `name` is 'exempt'");
    }
    kind.one_of(TYPES);
    if kind.str() == "Exempt" && spec.at("exempt").is_set() {
        validate_shares(&spec.at("exempt"));
        validate_lending(&spec.at("exempt"));
    }
    if kind.str() == "Limited" && spec.at("limited").is_set() {
        validate_limited(&spec.at("limited"));
    }
}

fn validate_limited(limited: &FieldRef<'_>) {
    validate_shares(limited);
    let response = limited.at("limitResponse");
    response.at("type").one_of(RESPONSES);
    if response.at("type").str() == "Queue" && response.at("queuing").is_set() {
        validate_queuing(&response.at("queuing"));
    }
    validate_lending(limited);
    if limited.at("borrowingLimitPercent").int() < 0 {
        limited
            .at("borrowingLimitPercent")
            .invalid("if specified, must be a non-negative integer");
    }
}

fn validate_shares(level: &FieldRef<'_>) {
    if level.at("nominalConcurrencyShares").int() < 0 {
        level
            .at("nominalConcurrencyShares")
            .invalid("must be a non-negative integer");
    }
}

fn validate_lending(level: &FieldRef<'_>) {
    level.at("lendablePercent").in_range(0, 100);
}

fn validate_queuing(queuing: &FieldRef<'_>) {
    let (queues, hand) = (queuing.at("queues"), queuing.at("handSize"));
    for (field, max) in [
        (queuing.at("queueLengthLimit"), i64::MAX),
        (queues.clone(), MAX_QUEUES),
    ] {
        if field.int() <= 0 {
            field.invalid("must be positive");
        } else if field.int() > max {
            field.invalid(&format!("must not be greater than {max}"));
        }
    }
    let (deck, size) = (queues.int(), hand.int());
    if size <= 0 {
        hand.invalid("must be positive");
    } else if size > deck {
        hand.invalid(&format!("should not be greater than queues ({deck})"));
    } else if entropy_bits(deck, size) > HASH_BITS {
        hand.invalid(&format!(
            "required entropy bits of deckSize {deck} and handSize {size} should not be greater than {HASH_BITS}"
        ));
    }
}

/// The number of hash bits needed to deal a hand of queues, at most.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "both numbers are small, and so is the result"
)]
fn entropy_bits(deck: i64, hand: i64) -> i64 {
    ((deck as f64).log2() * hand as f64).ceil() as i64
}

/// The specs of the mandatory levels are fixed, except for what `exempt` lends.
fn validate_mandatory(spec: &FieldRef<'_>, name: &str) {
    match name {
        "catch-all" if bootstrap::spec_differs("PriorityLevelConfiguration", name, spec.value()) => {
            spec.invalid("spec of 'catch-all' must equal the fixed value");
        }
        "exempt" if spec.at("type").str() != "Exempt" || spec.at("limited").is_set() => {
            spec.invalid("spec of 'exempt' except the 'spec.exempt' field must equal the fixed value");
        }
        _ => {}
    }
}

/// Reports what upstream's declarative validation reports, which runs last: fields that do not match the type.
fn validate_declarative(spec: &FieldRef<'_>) {
    let kind = spec.at("type").str();
    if kind != "Exempt" && spec.at("exempt").is_set() {
        spec.at("exempt").forbidden("");
    }
    if kind == "Limited" {
        spec.at("limited").require();
    } else if spec.at("limited").is_set() {
        spec.at("limited").forbidden("");
    }
    spec.at("type").require();
    if spec.at("limited").is_set() {
        let response = spec.at("limited").at("limitResponse");
        if response.at("type").str() == "Queue" {
            if !response.at("queuing").is_set() {
                response.at("queuing").required("");
            }
        } else if response.at("queuing").is_set() {
            response.at("queuing").forbidden("");
        }
        response.at("type").require();
    }
}
