//! PriorityLevelConfiguration: how much of the server a group of flows gets, and what happens to the rest.

use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use super::{GROUP, validate_conditions};
use crate::at::At;
use crate::bootstrap;
use crate::columns::{self, Column, NONE};
use crate::strategy::{Names, Rules, Scope, Strategy, Subresource};

const TYPES: &[&str] = &["Exempt", "Limited"];
const RESPONSES: &[&str] = &["Queue", "Reject"];
const DEFAULT_SHARES: i64 = 30;
const DEFAULT_QUEUES: i64 = 64;
const DEFAULT_HAND: i64 = 8;
const DEFAULT_LENGTH: i64 = 50;
const MOST_QUEUES: i64 = 10_000_000;
/// How many bits of a hash tell flows apart.
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
            .about("Whether requests are limited at all."),
        Column::text("NominalConcurrencyShares", |level, _| {
            number(&level.at("spec").at("limited"), "nominalConcurrencyShares")
        })
        .about("Its share of the server."),
        Column::text("Queues", |level, _| number(&queuing(level), "queues")).about("How many queues it has."),
        Column::text("HandSize", |level, _| number(&queuing(level), "handSize"))
            .about("How many queues a flow may use."),
        Column::text("QueueLengthLimit", |level, _| {
            number(&queuing(level), "queueLengthLimit")
        })
        .about("How long a queue may get."),
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
            exempt.fill("nominalConcurrencyShares", 0);
            exempt.fill("lendablePercent", 0);
        }
        if let Some(limited) = spec.find_mut("limited") {
            limited.fill("nominalConcurrencyShares", DEFAULT_SHARES);
            limited.fill("lendablePercent", 0);
            if let Some(queuing) = limited.child("limitResponse").find_mut("queuing") {
                queuing.fill("queues", DEFAULT_QUEUES);
                queuing.fill("handSize", DEFAULT_HAND);
                queuing.fill("queueLengthLimit", DEFAULT_LENGTH);
            }
        }
    }

    fn validate(level: &At<'_>) {
        let (spec, own) = (level.at("spec"), level.at("metadata").at("name").str());
        let annotations = level.at("metadata").at("annotations");
        if annotations.key(ROUND_TRIP).is_set() {
            annotations.forbidden(&format!("annotation '{ROUND_TRIP}' is forbidden"));
        }
        validate_spec(&spec, own);
        validate_mandatory(&spec, own);
        validate_conditions(&level.at("status").at("conditions"));
        declared(&spec);
    }

    fn validate_status(level: &At<'_>, _old: &At<'_>) {
        validate_conditions(&level.at("status").at("conditions"));
    }
}

fn queuing<'a>(level: &At<'a>) -> At<'a> {
    level.at("spec").at("limited").at("limitResponse").at("queuing")
}

fn number(place: &At<'_>, field: &str) -> Cell {
    if place.is_set() {
        Cell::from(place.at(field).int())
    } else {
        Cell::from(NONE)
    }
}

fn validate_spec(spec: &At<'_>, own: &str) {
    let kind = spec.at("type");
    if (own == "exempt") != (kind.str() == "Exempt") {
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

fn validate_limited(limited: &At<'_>) {
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

fn validate_shares(level: &At<'_>) {
    if level.at("nominalConcurrencyShares").int() < 0 {
        level
            .at("nominalConcurrencyShares")
            .invalid("must be a non-negative integer");
    }
}

fn validate_lending(level: &At<'_>) {
    level.at("lendablePercent").within(0, 100);
}

fn validate_queuing(queuing: &At<'_>) {
    let (queues, hand) = (queuing.at("queues"), queuing.at("handSize"));
    for (place, most) in [
        (queuing.at("queueLengthLimit"), i64::MAX),
        (queues.clone(), MOST_QUEUES),
    ] {
        if place.int() <= 0 {
            place.invalid("must be positive");
        } else if place.int() > most {
            place.invalid(&format!("must not be greater than {most}"));
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

/// How many bits of a hash it takes to deal a hand out of a deck, at most.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "both numbers are small, and so is the result"
)]
fn entropy_bits(deck: i64, hand: i64) -> i64 {
    ((deck as f64).log2() * hand as f64).ceil() as i64
}

/// The two levels that every server has are fixed, but for what the exempt one lends.
fn validate_mandatory(spec: &At<'_>, own: &str) {
    match own {
        "catch-all" if bootstrap::spec_differs("PriorityLevelConfiguration", own, spec.value()) => {
            spec.invalid("spec of 'catch-all' must equal the fixed value");
        }
        "exempt" if spec.at("type").str() != "Exempt" || spec.at("limited").is_set() => {
            spec.invalid("spec of 'exempt' except the 'spec.exempt' field must equal the fixed value");
        }
        _ => {}
    }
}

/// Reports what the declared rules of the shape find, which come after all others: parts that the type does not have.
fn declared(spec: &At<'_>) {
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
