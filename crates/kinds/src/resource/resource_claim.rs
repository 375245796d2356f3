//! ResourceClaim: a request for devices, and their allocation.

use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use super::{GROUP, claim, format};
use crate::columns::{self, Column};
use crate::field::FieldRef;
use crate::strategy::{Names, Rules, Strategy, Subresource};

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
    const RULES: Rules = Rules {
        returns_deleted: true,
        ..Rules::DEFAULT
    };

    fn default_fields(claim: &mut Tree) {
        claim::set_defaults(claim.child("spec"));
    }

    fn validate(claim: &FieldRef<'_>) {
        claim::validate(&claim.at("spec"));
    }

    fn validate_for_update(_claim: &FieldRef<'_>, _old: &FieldRef<'_>) {}

    fn validate_update(claim: &FieldRef<'_>, old: &FieldRef<'_>) {
        if !claim.at("spec").is_same(&old.at("spec")) {
            claim.at("spec").invalid_as((), "field is immutable");
        }
    }

    fn validate_status(claim: &FieldRef<'_>, old: &FieldRef<'_>) {
        let (status, before) = (claim.at("status"), old.at("status"));
        let reserved = status.at("reservedFor");
        for consumer in reserved.items() {
            for field in ["resource", "name", "uid"] {
                consumer.at(field).require();
            }
        }
        if !reserved.is_empty() && !status.at("allocation").is_set() {
            reserved.forbidden("may not be specified when `allocated` is not set");
        }
        let deleting = claim.at("metadata").at("deletionTimestamp").is_set();
        if deleting && adds_items(&reserved, &before.at("reservedFor")) {
            reserved.forbidden(
                "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set",
            );
        }
        let (allocation, had) = (status.at("allocation"), before.at("allocation"));
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
    let deleted = claim.at("metadata").at("deletionTimestamp").is_set();
    let status = claim.at("status");
    let allocated = status.at("allocation").is_set();
    let reserved = allocated && !status.at("reservedFor").is_empty();
    let words = [
        (deleted, "deleted"),
        (!deleted && !allocated, "pending"),
        (allocated, "allocated"),
        (reserved, "reserved"),
    ];
    let words = words.into_iter().filter(|(holds, _)| *holds);
    words.map(|(_, word)| word).collect::<Vec<_>>().join(",")
}
