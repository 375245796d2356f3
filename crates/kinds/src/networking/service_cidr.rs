//! ServiceCIDR: ranges of addresses for services.

use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use crate::at::At;
use crate::columns::{self, Column};
use crate::shared::internal::Internal;
use crate::shared::ip;
use crate::strategy::{Facts, Names, Scope, Strategy, Subresource};
use crate::{meta, parts};

#[derive(Debug)]
pub struct ServiceCidr;

impl Strategy for ServiceCidr {
    const KIND: (&'static str, &'static str, &'static str) = ("networking.k8s.io", "v1", "ServiceCIDR");
    const NAMES: Names = Names::new("servicecidrs", "servicecidr");
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("CIDRs", |object, _| {
            let cidrs: Vec<&str> = object.at("spec").at("cidrs").strs().collect();
            Cell::from(cidrs.join(","))
        })
        .about("The ranges."),
        columns::AGE,
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];

    fn prepare_status(object: &mut Tree, old: &Tree, _facts: &Facts) {
        parts::keep_all_but(object, old, &["metadata", "status"]);
        meta::keep_for_status(object, old);
    }

    fn validate(object: &At<'_>) {
        let cidrs = object.at("spec").at("cidrs");
        match cidrs.len() {
            0 => return cidrs.required("at least one CIDR required"),
            1 | 2 => {}
            _ => return cidrs.invalid_as(Internal(&object.at("spec")), "may only hold up to 2 values"),
        }
        for cidr in cidrs.items() {
            ip::check_strict_range(cidr.str(), cidr.errors());
        }
        let valid = cidrs.strs().all(|cidr| ip::parse_range(cidr).is_some());
        if cidrs.len() == 2 && valid && !ip::is_one_of_each(cidrs.strs()) {
            cidrs.invalid(
                "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64",
            );
        }
    }

    fn validate_again(_object: &At<'_>, _old: &At<'_>) {}

    // A range of the other family may be added once; nothing else changes.
    fn validate_update(object: &At<'_>, old: &At<'_>) {
        let (cidrs, old) = (object.at("spec").at("cidrs"), old.at("spec").at("cidrs"));
        match (old.len(), cidrs.len()) {
            (before, now) if before == now => {
                for (cidr, old) in cidrs.items().zip(old.items()) {
                    cidr.immutable(&old);
                }
            }
            (1, 2) => {
                for (cidr, old) in cidrs.items().zip(old.items()) {
                    cidr.immutable(&old);
                }
                Self::validate(object);
            }
            _ => cidrs.invalid("field is immutable"),
        }
    }
}
