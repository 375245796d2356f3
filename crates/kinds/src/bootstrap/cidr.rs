//! CIDRs: IP ranges such as `10.96.0.0/12`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An IP range: base address and prefix length.
///
/// ```
/// # use setpoint_kinds::bootstrap::Cidr;
/// let cidr: Cidr = "10.96.0.0/12".parse().unwrap();
/// assert_eq!(cidr.nth(1).unwrap().to_string(), "10.96.0.1");
/// assert!(cidr.contains("10.111.255.255".parse().unwrap()));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    /// All bits after the prefix are zero.
    base: IpAddr,
    prefix: u8,
}

/// A text is not an aligned CIDR.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid CIDR {0:?}: must be aligned, such as 10.96.0.0/12")]
pub struct InvalidCidr(String);

impl Cidr {
    /// The number of addresses.
    pub fn len(&self) -> u128 {
        1_u128
            .checked_shl(u32::from(self.bits() - self.prefix))
            .unwrap_or(u128::MAX)
    }

    pub fn is_empty(&self) -> bool {
        false
    }

    /// The address with this index, from zero.
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

impl FromStr for Cidr {
    type Err = InvalidCidr;

    fn from_str(text: &str) -> Result<Self, InvalidCidr> {
        let bad = || InvalidCidr(text.to_owned());
        let (base, prefix) = text.split_once('/').ok_or_else(bad)?;
        let cidr = Self {
            base: base.parse().map_err(|_| bad())?,
            prefix: prefix.parse().map_err(|_| bad())?,
        };
        let fits = cidr.prefix <= cidr.bits();
        let aligned = fits && value(cidr.base).is_multiple_of(cidr.len());
        aligned.then_some(cidr).ok_or_else(bad)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
    }
}
