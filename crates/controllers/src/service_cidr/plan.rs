//! Whether a range of service addresses may go: pure.

use std::net::IpAddr;

/// A range of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    base: IpAddr,
    bits: u32,
}

impl Range {
    /// Reads `10.0.0.0/24`; nothing if it is no range.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (base, bits) = text.split_once('/')?;
        let base: IpAddr = base.parse().ok()?;
        let bits: u32 = bits.parse().ok()?;
        (bits <= width(base)).then_some(Self { base, bits })
    }

    pub(crate) fn contains(self, address: IpAddr) -> bool {
        address.is_ipv4() == self.base.is_ipv4() && {
            let rest = width(address) - self.bits;
            number(address).checked_shr(rest) == number(self.base).checked_shr(rest)
        }
    }

    /// Whether all of the other's addresses are in this one.
    fn covers(self, other: Self) -> bool {
        self.bits <= other.bits && self.contains(other.base)
    }
}

fn width(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

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
        let range = |text: &&str| Range::parse(text).unwrap();
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
