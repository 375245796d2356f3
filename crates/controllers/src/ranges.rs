//! Ranges of addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A range of addresses, such as `10.0.0.0/24`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Range {
    base: IpAddr,
    bits: u32,
}

/// The text is no range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no range of addresses such as 10.0.0.0/24")]
pub struct NoRange(String);

impl Range {
    /// How many bits all addresses of it have in common.
    pub fn bits(self) -> u32 {
        self.bits
    }

    pub fn is_v4(self) -> bool {
        self.base.is_ipv4()
    }

    pub fn contains(self, address: IpAddr) -> bool {
        address.is_ipv4() == self.base.is_ipv4() && {
            let rest = width(address) - self.bits;
            number(address).checked_shr(rest) == number(self.base).checked_shr(rest)
        }
    }

    /// Whether all of the other's addresses are in this one.
    pub fn covers(self, other: Self) -> bool {
        self.bits <= other.bits && self.contains(other.base)
    }

    /// Whether the two have addresses in common.
    pub fn overlaps(self, other: Self) -> bool {
        self.covers(other) || other.covers(self)
    }

    /// The part of it with this number, if it is split into parts with so many bits in common.
    pub fn part(self, bits: u32, number_of: u128) -> Option<Self> {
        let (steps, rest) = (bits.checked_sub(self.bits)?, width(self.base).checked_sub(bits)?);
        if number_of.checked_shr(steps).unwrap_or(0) != 0 {
            return None;
        }
        let base = number(self.base) + number_of.checked_shl(rest).unwrap_or(0);
        let base = address(base, self.is_v4());
        Some(Self { base, bits })
    }
}

impl FromStr for Range {
    type Err = NoRange;

    /// Bits behind the range are dropped.
    fn from_str(text: &str) -> Result<Self, NoRange> {
        let parse = || {
            let (base, bits) = text.split_once('/')?;
            let base: IpAddr = base.parse().ok()?;
            let bits: u32 = bits.parse().ok()?;
            let rest = width(base).checked_sub(bits)?;
            let cut = number(base)
                .checked_shr(rest)
                .unwrap_or(0)
                .checked_shl(rest)
                .unwrap_or(0);
            let base = address(cut, base.is_ipv4());
            Some(Self { base, bits })
        };
        parse().ok_or_else(|| NoRange(text.to_owned()))
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.bits)
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

fn address(number: u128, v4: bool) -> IpAddr {
    match v4 {
        true => Ipv4Addr::from(u32::try_from(number).unwrap_or(u32::MAX)).into(),
        false => Ipv6Addr::from(number).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(range: &str, bits: u32, number: u128, expected: Option<&str>) {
        let range: Range = range.parse().unwrap();
        let part = range.part(bits, number).map(|part| part.to_string());
        assert_eq!(part.as_deref(), expected);
    }

    #[test]
    fn a_range_has_parts() {
        check("10.244.0.0/16", 24, 0, Some("10.244.0.0/24"));
        check("10.244.0.0/16", 24, 255, Some("10.244.255.0/24"));
        check("10.244.0.0/16", 24, 256, None);
        check("10.244.3.7/16", 24, 1, Some("10.244.1.0/24"));
        check("10.0.0.0/24", 16, 0, None);
        check("10.0.0.0/24", 24, 0, Some("10.0.0.0/24"));
        check("10.0.0.0/24", 33, 0, None);
        check("fd00::/48", 64, 3, Some("fd00:0:0:3::/64"));
        check("0.0.0.0/0", 1, 1, Some("128.0.0.0/1"));
    }

    #[test]
    fn two_ranges_overlap_if_one_is_in_the_other() {
        let overlap = |one: &str, two: &str| {
            let (one, two): (Range, Range) = (one.parse().unwrap(), two.parse().unwrap());
            one.overlaps(two)
        };
        assert!(overlap("10.0.0.0/8", "10.3.0.0/16") && overlap("10.3.0.0/16", "10.0.0.0/8"));
        assert!(!overlap("10.3.0.0/16", "10.4.0.0/16") && !overlap("::/0", "10.0.0.0/8"));
    }

    #[test]
    fn what_is_no_range_is_told() {
        for bad in ["", "10.0.0.0", "10.0.0.0/33", "x/8", "10.0.0.0/x"] {
            assert!(bad.parse::<Range>().is_err(), "{bad}");
        }
    }
}
