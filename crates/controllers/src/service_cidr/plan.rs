//! Whether a ServiceCIDR may be deleted. Pure.

use std::net::IpAddr;

use setpoint_values::Cidr;

/// Whether these ranges may be deleted: all addresses in use are covered by others.
pub(crate) fn can_delete(terminating: &[Cidr], others: &[Cidr], in_use: &[IpAddr]) -> bool {
    let is_covered = |range: &Cidr| others.iter().any(|other| other.covers(*range));
    if !terminating.is_empty() && terminating.iter().all(is_covered) {
        return true;
    }
    let needs = |address: &IpAddr| {
        terminating.iter().any(|range| range.contains(*address))
            && !others.iter().any(|other| other.contains(*address))
    };
    !in_use.iter().any(needs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(terminating: &str, others: &[&str], in_use: &[&str], expected: bool) {
        let range = |text: &&str| text.parse::<Cidr>().unwrap();
        let others: Vec<Cidr> = others.iter().map(range).collect();
        let in_use: Vec<IpAddr> = in_use.iter().map(|text| text.parse().unwrap()).collect();
        assert_eq!(can_delete(&[range(&terminating)], &others, &in_use), expected);
    }

    #[test]
    fn a_range_is_deleted_when_no_address_needs_it() {
        check("10.0.0.0/24", &[], &[], true);
        check("10.0.0.0/24", &[], &["10.0.0.9"], false);
        check("10.0.0.0/24", &[], &["10.0.1.9"], true);
        check("10.0.0.0/24", &["10.0.0.0/16"], &["10.0.0.9"], true);
        check("10.0.0.0/24", &["10.0.0.0/28"], &["10.0.0.9"], true);
        check("10.0.0.0/24", &["10.0.0.0/28"], &["10.0.0.99"], false);
        check("fd00::/64", &["10.0.0.0/16"], &["fd00::1"], false);
    }
}
