//! Whether a range of service addresses may go: pure.

use std::net::IpAddr;

use crate::ranges::Range;

/// Whether these ranges may go, though others stay: nobody has an address that only they cover.
pub(crate) fn may_go(going: &[Range], others: &[Range], in_use: &[IpAddr]) -> bool {
    let is_covered = |range: &Range| others.iter().any(|other| other.covers(*range));
    if !going.is_empty() && going.iter().all(is_covered) {
        return true;
    }
    let needs = |address: &IpAddr| {
        going.iter().any(|range| range.contains(*address))
            && !others.iter().any(|other| other.contains(*address))
    };
    !in_use.iter().any(needs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(going: &str, others: &[&str], in_use: &[&str], expected: bool) {
        let range = |text: &&str| text.parse::<Range>().unwrap();
        let others: Vec<Range> = others.iter().map(range).collect();
        let in_use: Vec<IpAddr> = in_use.iter().map(|text| text.parse().unwrap()).collect();
        assert_eq!(may_go(&[range(&going)], &others, &in_use), expected);
    }

    #[test]
    fn a_range_goes_when_nobody_needs_it() {
        check("10.0.0.0/24", &[], &[], true);
        check("10.0.0.0/24", &[], &["10.0.0.9"], false);
        check("10.0.0.0/24", &[], &["10.0.1.9"], true);
        check("10.0.0.0/24", &["10.0.0.0/16"], &["10.0.0.9"], true);
        check("10.0.0.0/24", &["10.0.0.0/28"], &["10.0.0.9"], true);
        check("10.0.0.0/24", &["10.0.0.0/28"], &["10.0.0.99"], false);
        check("fd00::/64", &["10.0.0.0/16"], &["fd00::1"], false);
    }
}
