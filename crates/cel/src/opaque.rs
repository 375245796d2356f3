//! Values of Kubernetes' libraries.

use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::Arc;

use setpoint_api::quantity::Quantity;

use crate::library::authorizer::{Check, Decision};
use crate::library::format::Format;
use crate::library::semver::Semver;
use crate::library::url::Url;

/// A value of a library's type.
#[derive(Debug, Clone)]
pub enum Opaque {
    Url(Arc<Url>),
    Quantity(Quantity),
    Format(&'static Format),
    Semver(Arc<Semver>),
    Ip(IpAddr),
    /// An address and the length of a prefix; the bits after the prefix may be set.
    Cidr(IpAddr, u8),
    Check(Arc<Check>),
    Decision(Arc<Decision>),
}

impl Opaque {
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Url(_) => "kubernetes.URL",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Ip(_) => "net.IP",
            Self::Cidr(..) => "net.CIDR",
            Self::Check(check) => check.type_name(),
            Self::Decision(_) => "kubernetes.authorization.Decision",
        }
    }

    /// The size that costs are computed from: the bytes of an address.
    pub(crate) fn cost_size(&self) -> u64 {
        match self {
            Self::Ip(address) => bits(*address) / 8,
            Self::Cidr(_, prefix) => u64::from(*prefix).div_ceil(8),
            _ => 1,
        }
    }
}

fn bits(address: IpAddr) -> u64 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl PartialEq for Opaque {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Url(own), Self::Url(other)) => own == other,
            (Self::Quantity(own), Self::Quantity(other)) => own == other,
            (Self::Format(own), Self::Format(other)) => own.name == other.name,
            (Self::Semver(own), Self::Semver(other)) => own.cmp(other).is_eq(),
            (Self::Ip(own), Self::Ip(other)) => own == other,
            (Self::Cidr(own, own_prefix), Self::Cidr(other, other_prefix)) => {
                (own, own_prefix) == (other, other_prefix)
            }
            (Self::Check(own), Self::Check(other)) => Arc::ptr_eq(own, other),
            (Self::Decision(own), Self::Decision(other)) => Arc::ptr_eq(own, other),
            _ => false,
        }
    }
}
