//! ResourceClaim: a request for devices, and their allocation.

use setpoint_api::table::Cell;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Strategy, Subresource};

use super::selector::Expressions;
use super::{GROUP, claim, format};

const MAX_RESERVED: usize = 256;

#[derive(Debug)]
pub struct ResourceClaim;

impl Strategy for ResourceClaim {
    const KIND: (&'static str, &'static str, &'static str) = (GROUP, "v1", "ResourceClaim");
    const NAMES: Names = Names::new("resourceclaims", "resourceclaim");
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("State", |claim, _| Cell::from(state(claim)))
            .description("The allocation state of the claim."),
        columns::AGE,
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];
    const RULES: Rules = Rules::DEFAULT.returns_deleted();

    fn default_fields(claim: &mut Tree) {
        claim::set_defaults(claim.child(fields::SPEC));
    }

    fn validate(claim: &FieldRef<'_>, _facts: &RequestFacts) {
        claim::validate(&claim.at(fields::SPEC), Expressions::New);
    }

    fn validate_for_update(_claim: &FieldRef<'_>, _old: &FieldRef<'_>, _facts: &RequestFacts) {}

    fn validate_update(claim: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        if !claim.at(fields::SPEC).is_same(&old.at(fields::SPEC)) {
            claim.at(fields::SPEC).invalid_as((), "field is immutable");
        }
    }

    fn validate_status(claim: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        let (status, before) = (claim.at(fields::STATUS), old.at(fields::STATUS));
        let reserved = status.at(fields::RESERVED_FOR);
        for consumer in reserved.items() {
            for field in [fields::RESOURCE, fields::NAME, fields::UID] {
                consumer.at(field).require();
            }
        }
        if !reserved.is_empty() && !status.at(fields::ALLOCATION).is_set() {
            reserved.forbidden("may not be specified when `allocated` is not set");
        }
        let deleting = claim.at(fields::METADATA).at(fields::DELETION_TIMESTAMP).is_set();
        if deleting && adds_items(&reserved, &before.at(fields::RESERVED_FOR)) {
            reserved.forbidden(
                "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set",
            );
        }
        let (allocation, had) = (status.at(fields::ALLOCATION), before.at(fields::ALLOCATION));
        if had.is_set() && allocation.is_set() && !allocation.is_same(&had) {
            allocation.invalid_as((), "field is immutable");
        }
        format::check_max_items(&reserved, MAX_RESERVED);
    }
}

fn adds_items(new: &FieldRef<'_>, old: &FieldRef<'_>) -> bool {
    let known = |item: &Tree| old.list().iter().any(|before| before.semantic_eq(item));
    !new.list().iter().all(known)
}

fn state(claim: &FieldRef<'_>) -> String {
    let deleted = claim.at(fields::METADATA).at(fields::DELETION_TIMESTAMP).is_set();
    let status = claim.at(fields::STATUS);
    let allocated = status.at(fields::ALLOCATION).is_set();
    let reserved = allocated && !status.at(fields::RESERVED_FOR).is_empty();
    let words = [
        (deleted, "deleted"),
        (!deleted && !allocated, "pending"),
        (allocated, "allocated"),
        (reserved, "reserved"),
    ];
    let words = words.into_iter().filter(|(holds, _)| *holds);
    words.map(|(_, word)| word).collect::<Vec<_>>().join(",")
}
