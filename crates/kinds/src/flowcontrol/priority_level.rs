//! PriorityLevelConfiguration: the concurrency limit of a priority level, and how excess requests are queued.

use setpoint_api::table::Cell;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::{self, Column, NONE};
use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Scope, Strategy, Subresource};

use super::{GROUP, validate_conditions};
use crate::bootstrap;

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
        Column::text("Type", |level, _| {
            columns::or_empty(&level.at(fields::SPEC).at(fields::TYPE))
        })
        .description("Exempt or Limited."),
        Column::text("NominalConcurrencyShares", |level, _| {
            number(
                &level.at(fields::SPEC).at(fields::LIMITED),
                fields::NOMINAL_CONCURRENCY_SHARES,
            )
        })
        .description("The nominal concurrency shares."),
        Column::text("Queues", |level, _| number(&queuing(level), fields::QUEUES))
            .description("The number of queues."),
        Column::text("HandSize", |level, _| number(&queuing(level), fields::HAND_SIZE))
            .description("The hand size: the number of queues of one flow."),
        Column::text("QueueLengthLimit", |level, _| {
            number(&queuing(level), fields::QUEUE_LENGTH_LIMIT)
        })
        .description("The queue length limit."),
        columns::AGE,
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];
    const RULES: Rules = Rules::DEFAULT.tracks_generation();

    fn default_fields(level: &mut Tree) {
        let spec = level.child(fields::SPEC);
        if let Some(exempt) = spec.find_mut(fields::EXEMPT) {
            exempt.set_default(fields::NOMINAL_CONCURRENCY_SHARES, 0);
            exempt.set_default(fields::LENDABLE_PERCENT, 0);
        }
        if let Some(limited) = spec.find_mut(fields::LIMITED) {
            limited.set_default(fields::NOMINAL_CONCURRENCY_SHARES, DEFAULT_SHARES);
            limited.set_default(fields::LENDABLE_PERCENT, 0);
            if let Some(queuing) = limited.child(fields::LIMIT_RESPONSE).find_mut(fields::QUEUING) {
                queuing.set_default(fields::QUEUES, DEFAULT_QUEUES);
                queuing.set_default(fields::HAND_SIZE, DEFAULT_HAND);
                queuing.set_default(fields::QUEUE_LENGTH_LIMIT, DEFAULT_LENGTH);
            }
        }
    }

    fn validate(level: &FieldRef<'_>, _facts: &RequestFacts) {
        let (spec, name) = (
            level.at(fields::SPEC),
            level.at(fields::METADATA).at(fields::NAME).str(),
        );
        let annotations = level.at(fields::METADATA).at(fields::ANNOTATIONS);
        if annotations.key(ROUND_TRIP).is_set() {
            annotations.forbidden(&format!("annotation '{ROUND_TRIP}' is forbidden"));
        }
        validate_spec(&spec, name);
        validate_mandatory(&spec, name);
        validate_conditions(&level.at(fields::STATUS).at(fields::CONDITIONS));
        validate_declarative(&spec);
    }

    fn validate_status(level: &FieldRef<'_>, _old: &FieldRef<'_>, _facts: &RequestFacts) {
        validate_conditions(&level.at(fields::STATUS).at(fields::CONDITIONS));
    }
}

fn queuing<'a>(level: &FieldRef<'a>) -> FieldRef<'a> {
    level
        .at(fields::SPEC)
        .at(fields::LIMITED)
        .at(fields::LIMIT_RESPONSE)
        .at(fields::QUEUING)
}

fn number(parent: &FieldRef<'_>, field: &str) -> Cell {
    if parent.is_set() {
        Cell::from(parent.at(field).int())
    } else {
        Cell::from(NONE)
    }
}

fn validate_spec(spec: &FieldRef<'_>, name: &str) {
    let kind = spec.at(fields::TYPE);
    if (name == "exempt") != (kind.str() == "Exempt") {
        kind.invalid("must be 'Exempt' if and only if `name` is 'exempt'");
    }
    kind.one_of(TYPES);
    if kind.str() == "Exempt" && spec.at(fields::EXEMPT).is_set() {
        validate_shares(&spec.at(fields::EXEMPT));
        validate_lending(&spec.at(fields::EXEMPT));
    }
    if kind.str() == "Limited" && spec.at(fields::LIMITED).is_set() {
        validate_limited(&spec.at(fields::LIMITED));
    }
}

fn validate_limited(limited: &FieldRef<'_>) {
    validate_shares(limited);
    let response = limited.at(fields::LIMIT_RESPONSE);
    response.at(fields::TYPE).one_of(RESPONSES);
    if response.at(fields::TYPE).str() == "Queue" && response.at(fields::QUEUING).is_set() {
        validate_queuing(&response.at(fields::QUEUING));
    }
    validate_lending(limited);
    if limited.at(fields::BORROWING_LIMIT_PERCENT).int() < 0 {
        limited
            .at(fields::BORROWING_LIMIT_PERCENT)
            .invalid("if specified, must be a non-negative integer");
    }
}

fn validate_shares(level: &FieldRef<'_>) {
    if level.at(fields::NOMINAL_CONCURRENCY_SHARES).int() < 0 {
        level
            .at(fields::NOMINAL_CONCURRENCY_SHARES)
            .invalid("must be a non-negative integer");
    }
}

fn validate_lending(level: &FieldRef<'_>) {
    level.at(fields::LENDABLE_PERCENT).in_range(0, 100);
}

fn validate_queuing(queuing: &FieldRef<'_>) {
    let (queues, hand) = (queuing.at(fields::QUEUES), queuing.at(fields::HAND_SIZE));
    for (field, max) in [
        (queuing.at(fields::QUEUE_LENGTH_LIMIT), i64::MAX),
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
        "exempt" if spec.at(fields::TYPE).str() != "Exempt" || spec.at(fields::LIMITED).is_set() => {
            spec.invalid("spec of 'exempt' except the 'spec.exempt' field must equal the fixed value");
        }
        _ => {}
    }
}

/// Reports what upstream's declarative validation reports, which runs last: fields that do not match the type.
fn validate_declarative(spec: &FieldRef<'_>) {
    let kind = spec.at(fields::TYPE).str();
    if kind != "Exempt" && spec.at(fields::EXEMPT).is_set() {
        spec.at(fields::EXEMPT).forbidden("");
    }
    if kind == "Limited" {
        spec.at(fields::LIMITED).require();
    } else if spec.at(fields::LIMITED).is_set() {
        spec.at(fields::LIMITED).forbidden("");
    }
    spec.at(fields::TYPE).require();
    if spec.at(fields::LIMITED).is_set() {
        let response = spec.at(fields::LIMITED).at(fields::LIMIT_RESPONSE);
        if response.at(fields::TYPE).str() == "Queue" {
            if !response.at(fields::QUEUING).is_set() {
                response.at(fields::QUEUING).required("");
            }
        } else if response.at(fields::QUEUING).is_set() {
            response.at(fields::QUEUING).forbidden("");
        }
        response.at(fields::TYPE).require();
    }
}
