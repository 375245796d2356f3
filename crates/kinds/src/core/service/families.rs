//! Cluster IPs and IP families of a service.

use std::collections::{BTreeSet, HashSet};

use setpoint_schema::fields;
use setpoint_strategy::{FieldRef, ip};

use super::{NO_ADDRESS, is_headless};

const FAMILIES: &[&str] = &["IPv4", "IPv6"];
const FAMILY_POLICIES: &[&str] = &["PreferDualStack", "RequireDualStack", "SingleStack"];

/// Reports addresses and families that do not match.
pub(super) fn validate(spec: &FieldRef<'_>, old: Option<&FieldRef<'_>>) {
    if spec.at(fields::TYPE).str() == "ExternalName" {
        return;
    }
    let addresses = spec.at(fields::CLUSTER_IPS);
    validate_first(&spec.at(fields::CLUSTER_IP), &addresses);
    validate_families(spec);
    let valid = validate_addresses(&addresses, old);
    if addresses.len() > 2 {
        addresses.invalid("may only hold up to 2 values");
    }
    if !valid {
        return;
    }
    if addresses.len() > 1 && !ip::is_one_of_each(addresses.strs()) {
        addresses.invalid("may specify no more than one IP for each IP family");
    }
    if !is_headless(spec) {
        validate_matching(&addresses, &spec.at(fields::IP_FAMILIES));
    }
}

/// `clusterIP` must be the first of `clusterIPs`.
fn validate_first(address: &FieldRef<'_>, addresses: &FieldRef<'_>) {
    match (address.str(), addresses.strs().next()) {
        ("", None) => {}
        ("", Some(_)) => addresses.invalid("must be empty when `clusterIP` is not specified"),
        (_, None) => addresses.required(""),
        (single, Some(first)) if single != first => addresses.invalid("first value must match `clusterIP`"),
        _ => {}
    }
}

fn validate_families(spec: &FieldRef<'_>) {
    let mut seen = BTreeSet::new();
    for family in spec.at(fields::IP_FAMILIES).items() {
        if !FAMILIES.contains(&family.str()) {
            family.not_supported(FAMILIES);
        }
        if !seen.insert(family.str()) {
            family.duplicate();
        }
    }
    let policy = spec.at(fields::IP_FAMILY_POLICY);
    if policy.is_set() && !FAMILY_POLICIES.contains(&policy.str()) {
        policy.not_supported(FAMILY_POLICIES);
    }
}

/// Reports invalid cluster IPs; a single `None` is allowed.
fn validate_addresses(addresses: &FieldRef<'_>, old: Option<&FieldRef<'_>>) -> bool {
    let before: HashSet<&str> = old
        .map(|old| old.at(fields::CLUSTER_IPS).strs().collect())
        .unwrap_or_default();
    let mut valid = true;
    for (at, address) in addresses.items().enumerate() {
        if at == 0 && address.str() == NO_ADDRESS {
            if addresses.len() > 1 {
                valid = false;
                addresses.invalid("'None' must be the first and only value");
            }
        } else if !before.contains(address.str()) {
            valid &= ip::check(address.str(), address.errors());
        }
    }
    valid
}

fn validate_matching(addresses: &FieldRef<'_>, families: &FieldRef<'_>) {
    let pairs = addresses.items().zip(families.strs());
    for (at, (address, family)) in pairs.enumerate() {
        if FAMILIES.contains(&family) && ip::is_v6(address.str()) != (family == "IPv6") {
            let detail = format!("expected an {family} value as indicated by `ipFamilies[{at}]`");
            address.invalid(&detail);
        }
    }
}
