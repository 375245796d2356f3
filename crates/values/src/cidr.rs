//! CIDRs: ranges of IP addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A CIDR, such as `10.0.0.0/24`.
///
/// ```
/// # use setpoint_values::Cidr;
/// let cidr: Cidr = "10.96.0.0/12".parse().unwrap();
/// assert_eq!(cidr.nth(1).unwrap().to_string(), "10.96.0.1");
/// assert!(cidr.contains("10.111.255.255".parse().unwrap()));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cidr {
    /// All bits after the prefix are zero.
    base: IpAddr,
    /// At most the bits of the address family.
    prefix_len: u32,
}

/// The text is not a CIDR.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a CIDR such as 10.0.0.0/24")]
pub struct InvalidCidr(String);

impl Cidr {
    /// The CIDR with this prefix length that an address is in; `None` if the prefix is longer than an address.
    pub fn new(address: IpAddr, prefix_len: u32) -> Option<Self> {
        let rest = width(address).checked_sub(prefix_len)?;
        let prefix = number(address).checked_shr(rest).unwrap_or(0);
        let base = from_number(prefix.checked_shl(rest).unwrap_or(0), address.is_ipv4());
        Some(Self { base, prefix_len })
    }

    /// The first address.
    pub fn first(self) -> IpAddr {
        self.base
    }

    /// The prefix length.
    pub fn prefix_len(self) -> u32 {
        self.prefix_len
    }

    /// Whether its addresses are IPv4 addresses.
    pub fn is_v4(self) -> bool {
        self.base.is_ipv4()
    }

    /// Whether its addresses are IPv6 addresses.
    pub fn is_v6(self) -> bool {
        self.base.is_ipv6()
    }

    /// The number of addresses. Of `::/0` it is one less, which is the greatest number there is.
    pub fn size(self) -> u128 {
        let rest = width(self.base) - self.prefix_len;
        1_u128.checked_shl(rest).unwrap_or(u128::MAX)
    }

    /// The address with this index, from zero.
    pub fn nth(self, index: u128) -> Option<IpAddr> {
        (index < self.size()).then(|| from_number(number(self.base) + index, self.is_v4()))
    }

    /// Whether an address is in the range.
    pub fn contains(self, address: IpAddr) -> bool {
        address.is_ipv4() == self.base.is_ipv4() && Self::new(address, self.prefix_len) == Some(self)
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
        let base = from_number(base, self.is_v4());
        Some(Self { base, prefix_len })
    }
}

impl FromStr for Cidr {
    type Err = InvalidCidr;

    /// The bits of the address after the prefix are dropped, as the flags of Kubernetes' components do.
    fn from_str(text: &str) -> Result<Self, InvalidCidr> {
        let parse = || {
            let (address, prefix_len) = text.split_once('/')?;
            let is_number = prefix_len.bytes().all(|byte| byte.is_ascii_digit());
            let prefix_len = prefix_len.parse().ok().filter(|_| is_number)?;
            Self::new(address.parse().ok()?, prefix_len)
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

fn from_number(number: u128, v4: bool) -> IpAddr {
    match v4 {
        true => Ipv4Addr::from(u32::try_from(number).unwrap_or(u32::MAX)).into(),
        false => Ipv6Addr::from(number).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_subnet(range: &str, prefix_len: u32, number: u128, expected: Option<&str>) {
        let range: Cidr = range.parse().unwrap();
        let subnet = range.subnet(prefix_len, number).map(|subnet| subnet.to_string());
        assert_eq!(subnet.as_deref(), expected);
    }

    #[test]
    fn a_cidr_has_subnets() {
        check_subnet("10.244.0.0/16", 24, 0, Some("10.244.0.0/24"));
        check_subnet("10.244.0.0/16", 24, 255, Some("10.244.255.0/24"));
        check_subnet("10.244.0.0/16", 24, 256, None);
        check_subnet("10.244.3.7/16", 24, 1, Some("10.244.1.0/24"));
        check_subnet("10.0.0.0/24", 16, 0, None);
        check_subnet("10.0.0.0/24", 24, 0, Some("10.0.0.0/24"));
        check_subnet("10.0.0.0/24", 33, 0, None);
        check_subnet("fd00::/48", 64, 3, Some("fd00:0:0:3::/64"));
        check_subnet("0.0.0.0/0", 1, 1, Some("128.0.0.0/1"));
    }

    #[track_caller]
    fn check_addresses(range: &str, size: u128, second: &str, last: &str) {
        let range: Cidr = range.parse().unwrap();
        let nth = |index| range.nth(index).map(|address| address.to_string());
        assert_eq!(range.size(), size);
        assert_eq!(nth(1).as_deref(), Some(second));
        assert_eq!(nth(size - 1).as_deref(), Some(last));
        assert_eq!(nth(size), None);
    }

    #[test]
    fn addresses_have_indexes_from_zero() {
        check_addresses("10.96.0.0/12", 1 << 20, "10.96.0.1", "10.111.255.255");
        check_addresses("fd00::/112", 1 << 16, "fd00::1", "fd00::ffff");
        check_addresses("0.0.0.0/0", 1 << 32, "0.0.0.1", "255.255.255.255");
        assert_eq!("10.0.0.1/32".parse::<Cidr>().unwrap().size(), 1);
    }

    #[test]
    fn a_cidr_contains_addresses_with_its_prefix() {
        let contains = |range: &str, address: &str| {
            let range: Cidr = range.parse().unwrap();
            range.contains(address.parse().unwrap())
        };
        assert!(contains("10.1.0.0/16", "10.1.255.255"));
        assert!(!contains("10.1.0.0/16", "10.2.0.0"));
        assert!(!contains("10.1.0.0/16", "fd00::"));
        assert!(contains("0.0.0.0/0", "1.2.3.4"));
        assert!(contains("::/0", "fd00::1") && !contains("::/0", "1.2.3.4"));
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
    fn bits_after_the_prefix_are_dropped() {
        let cidr: Cidr = "10.96.3.1/12".parse().unwrap();
        assert_eq!(cidr, "10.96.0.0/12".parse().unwrap());
    }

    #[test]
    fn text_that_is_not_a_cidr_is_rejected() {
        for bad in [
            "",
            "10.0.0.0",
            "10.0.0.0/33",
            "x/8",
            "10.0.0.0/x",
            "10.0.0.0/+8",
            "10.0.0.0/",
        ] {
            assert!(bad.parse::<Cidr>().is_err(), "{bad}");
        }
    }
}
