//! Ranges of addresses, such as `10.96.0.0/12`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A range of addresses that share their first bits.
///
/// ```
/// # use setpoint_kinds::bootstrap::IpRange;
/// let range: IpRange = "10.96.0.0/12".parse().unwrap();
/// assert_eq!(range.nth(1).unwrap().to_string(), "10.96.0.1");
/// assert!(range.contains("10.111.255.255".parse().unwrap()));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpRange {
    /// All bits after the prefix are zero.
    base: IpAddr,
    prefix: u8,
}

/// Why a text is no range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no range of addresses such as 10.96.0.0/12")]
pub struct BadRange(String);

impl IpRange {
    /// How many addresses there are.
    pub fn len(&self) -> u128 {
        1_u128
            .checked_shl(u32::from(self.bits() - self.prefix))
            .unwrap_or(u128::MAX)
    }

    pub fn is_empty(&self) -> bool {
        false
    }

    /// The address at a place in the range, counted from zero.
    pub fn nth(&self, at: u128) -> Option<IpAddr> {
        if at >= self.len() {
            return None;
        }
        Some(match self.base {
            IpAddr::V4(base) => {
                let at = u32::try_from(at).ok()?;
                IpAddr::V4(Ipv4Addr::from(u32::from(base).checked_add(at)?))
            }
            IpAddr::V6(base) => IpAddr::V6(Ipv6Addr::from(u128::from(base).checked_add(at)?)),
        })
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.base, address) {
            (IpAddr::V4(_), IpAddr::V4(_)) | (IpAddr::V6(_), IpAddr::V6(_)) => {
                value(address) >= value(self.base) && value(address) - value(self.base) < self.len()
            }
            _ => false,
        }
    }

    pub fn is_v6(&self) -> bool {
        self.base.is_ipv6()
    }

    fn bits(&self) -> u8 {
        if self.base.is_ipv4() { 32 } else { 128 }
    }
}

fn value(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

impl FromStr for IpRange {
    type Err = BadRange;

    fn from_str(text: &str) -> Result<Self, BadRange> {
        let bad = || BadRange(text.to_owned());
        let (base, prefix) = text.split_once('/').ok_or_else(bad)?;
        let range = Self {
            base: base.parse().map_err(|_| bad())?,
            prefix: prefix.parse().map_err(|_| bad())?,
        };
        let fits = range.prefix <= range.bits();
        let aligned = fits && value(range.base).is_multiple_of(range.len());
        aligned.then_some(range).ok_or_else(bad)
    }
}

impl fmt::Display for IpRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
    }
}
