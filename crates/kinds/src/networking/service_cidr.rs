//! ServiceCIDR: IP ranges for cluster IPs.

use setpoint_api::table::Cell;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::go_dump::GoDump;
use setpoint_strategy::{FieldRef, Names, RequestFacts, Scope, Strategy, Subresource, ip, meta, top_level};

#[derive(Debug)]
pub struct ServiceCidr;

impl Strategy for ServiceCidr {
    const KIND: (&'static str, &'static str, &'static str) = ("networking.k8s.io", "v1", "ServiceCIDR");
    const NAMES: Names = Names::new("servicecidrs", "servicecidr");
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("CIDRs", |object, _| {
            let cidrs: Vec<&str> = object.at(fields::SPEC).at(fields::CIDRS).strs().collect();
            Cell::from(cidrs.join(","))
        })
        .description("The CIDRs."),
        columns::AGE,
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];

    fn prepare_status(object: &mut Tree, old: &Tree, _facts: &RequestFacts) {
        top_level::keep_all_except(object, old, &[fields::METADATA, fields::STATUS]);
        meta::keep_for_status(object, old);
    }

    fn validate(object: &FieldRef<'_>, _facts: &RequestFacts) {
        let cidrs = object.at(fields::SPEC).at(fields::CIDRS);
        match cidrs.len() {
            0 => return cidrs.required("at least one CIDR required"),
            1 | 2 => {}
            _ => return cidrs.invalid_as(GoDump(&object.at(fields::SPEC)), "may only hold up to 2 values"),
        }
        for cidr in cidrs.items() {
            ip::check_strict_cidr(cidr.str(), cidr.errors());
        }
        let valid = cidrs.strs().all(|cidr| ip::parse_cidr(cidr).is_some());
        if cidrs.len() == 2 && valid && !ip::is_one_of_each(cidrs.strs()) {
            cidrs.invalid(
                "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64",
            );
        }
    }

    fn validate_for_update(_object: &FieldRef<'_>, _old: &FieldRef<'_>, _facts: &RequestFacts) {}

    // A CIDR of the other family may be added once; nothing else may change.
    fn validate_update(object: &FieldRef<'_>, old: &FieldRef<'_>, facts: &RequestFacts) {
        let (cidrs, old) = (
            object.at(fields::SPEC).at(fields::CIDRS),
            old.at(fields::SPEC).at(fields::CIDRS),
        );
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
                Self::validate(object, facts);
            }
            _ => cidrs.invalid("field is immutable"),
        }
    }
}
