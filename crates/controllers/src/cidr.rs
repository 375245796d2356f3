//! CIDR ranges.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A CIDR range, such as `10.0.0.0/24`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cidr {
    base: IpAddr,
    prefix_len: u32,
}

/// The text is not a CIDR.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a CIDR such as 10.0.0.0/24")]
pub struct InvalidCidr(String);

impl Cidr {
    /// The prefix length.
    pub fn prefix_len(self) -> u32 {
        self.prefix_len
    }

    pub fn is_v4(self) -> bool {
        self.base.is_ipv4()
    }

    pub fn contains(self, address: IpAddr) -> bool {
        address.is_ipv4() == self.base.is_ipv4() && {
            let rest = width(address) - self.prefix_len;
            number(address).checked_shr(rest) == number(self.base).checked_shr(rest)
        }
    }

    /// Whether all addresses of the other are in this one.
    pub fn covers(self, other: Self) -> bool {
        self.prefix_len <= other.prefix_len && self.contains(other.base)
    }

    /// Whether the two have addresses in common.
    pub fn overlaps(self, other: Self) -> bool {
        self.covers(other) || other.covers(self)
    }

    /// The subnet with this index, if the range is split into subnets of this prefix length.
    pub fn subnet(self, prefix_len: u32, index: u128) -> Option<Self> {
        let (steps, rest) = (
            prefix_len.checked_sub(self.prefix_len)?,
            width(self.base).checked_sub(prefix_len)?,
        );
        if index.checked_shr(steps).unwrap_or(0) != 0 {
            return None;
        }
        let base = number(self.base) + index.checked_shl(rest).unwrap_or(0);
        let base = address(base, self.is_v4());
        Some(Self { base, prefix_len })
    }
}

impl FromStr for Cidr {
    type Err = InvalidCidr;

    /// Host prefix_len are dropped.
    fn from_str(text: &str) -> Result<Self, InvalidCidr> {
        let parse = || {
            let (base, prefix_len) = text.split_once('/')?;
            let base: IpAddr = base.parse().ok()?;
            let prefix_len: u32 = prefix_len.parse().ok()?;
            let rest = width(base).checked_sub(prefix_len)?;
            let cut = number(base)
                .checked_shr(rest)
                .unwrap_or(0)
                .checked_shl(rest)
                .unwrap_or(0);
            let base = address(cut, base.is_ipv4());
            Some(Self { base, prefix_len })
        };
        parse().ok_or_else(|| InvalidCidr(text.to_owned()))
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix_len)
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
    fn check(range: &str, prefix_len: u32, number: u128, expected: Option<&str>) {
        let range: Cidr = range.parse().unwrap();
        let subnet = range.subnet(prefix_len, number).map(|subnet| subnet.to_string());
        assert_eq!(subnet.as_deref(), expected);
    }

    #[test]
    fn a_cidr_has_subnets() {
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
            let (one, two): (Cidr, Cidr) = (one.parse().unwrap(), two.parse().unwrap());
            one.overlaps(two)
        };
        assert!(overlap("10.0.0.0/8", "10.3.0.0/16") && overlap("10.3.0.0/16", "10.0.0.0/8"));
        assert!(!overlap("10.3.0.0/16", "10.4.0.0/16") && !overlap("::/0", "10.0.0.0/8"));
    }

    #[test]
    fn text_that_is_not_a_cidr_is_rejected() {
        for bad in ["", "10.0.0.0", "10.0.0.0/33", "x/8", "10.0.0.0/x"] {
            assert!(bad.parse::<Cidr>().is_err(), "{bad}");
        }
    }
}
