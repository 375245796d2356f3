//! IP addresses and CIDRs, with Kubernetes' messages.
//!
//! Old fields accept an address in any notation that all parsers read alike: `FE80::0` is valid, `010.0.0.1` is not.
//! New fields require the canonical text. A value that an update leaves unchanged is not checked again.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use setpoint_api::field::Errors;
use setpoint_values::Cidr;

const NO_ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const NO_RANGE: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// A parsed address, and how it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParsedAddress {
    /// An IPv4-mapped IPv6 address is an IPv4 address.
    pub ip: IpAddr,
    /// Whether no number has leading zeros, which some parsers read as octal.
    plain: bool,
    /// Whether it was an IPv4-mapped IPv6 address.
    mapped: bool,
}

/// A parsed CIDR, and how it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParsedCidr {
    pub ip: IpAddr,
    /// The prefix length.
    pub bits: u8,
    plain: bool,
    mapped: bool,
}

// === parsing ===

/// Parses an address in any notation.
pub fn parse(text: &str) -> Option<ParsedAddress> {
    let ip = if text.contains(':') {
        IpAddr::V6(parse_v6(text)?)
    } else {
        IpAddr::V4(parse_v4(text)?)
    };
    let mapped = match ip {
        IpAddr::V6(six) => six.to_ipv4_mapped(),
        IpAddr::V4(_) => None,
    };
    Some(ParsedAddress {
        ip: mapped.map_or(ip, IpAddr::V4),
        plain: text.parse::<IpAddr>().is_ok(),
        mapped: mapped.is_some(),
    })
}

/// Parses a CIDR in any notation.
pub fn parse_cidr(text: &str) -> Option<ParsedCidr> {
    let (ip, bits) = text.split_once('/')?;
    let ParsedAddress { ip, plain, mapped } = parse(ip)?;
    let max = if ip.is_ipv4() && !mapped { 32 } else { 128 };
    let prefix = decimal(bits).filter(|bits| *bits <= max)?;
    let plain = plain && (bits.len() == 1 || !bits.starts_with('0'));
    Some(ParsedCidr {
        ip,
        bits: u8::try_from(prefix).ok()?,
        plain,
        mapped,
    })
}

/// Whether it is an IPv6 address.
pub fn is_v6(text: &str) -> bool {
    parse(text).is_some_and(|address| address.ip.is_ipv6())
}

/// Whether the texts are two addresses or CIDRs, one of each family (dual-stack).
pub fn is_one_of_each<'a>(texts: impl Iterator<Item = &'a str>) -> bool {
    let families: Vec<bool> = texts
        .filter_map(|text| parse(text.split('/').next().unwrap_or_default()))
        .map(|address| address.ip.is_ipv6())
        .collect();
    matches!(families.as_slice(), [first, second] if first != second)
}

/// Numbers may have leading zeros.
fn parse_v4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        *octet = u8::try_from(decimal(parts.next()?)?).ok()?;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets))
}

fn parse_v6(text: &str) -> Option<Ipv6Addr> {
    if let Ok(ip) = text.parse() {
        return Some(ip);
    }
    let groups: Vec<String> = text.split(':').map(shorter).collect();
    groups.join(":").parse().ok()
}

/// A group of an IPv6 address without leading zeros; the last may be an IPv4 address.
fn shorter(group: &str) -> String {
    if group.contains('.') {
        return parse_v4(group).map_or_else(|| group.to_owned(), |ip| ip.to_string());
    }
    match group.trim_start_matches('0') {
        "" if !group.is_empty() => "0".to_owned(),
        rest => rest.to_owned(),
    }
}

fn decimal(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

// === impl ParsedCidr ===

impl ParsedCidr {
    /// The first address of the CIDR.
    pub fn first(&self) -> IpAddr {
        self.cidr().first()
    }

    /// Whether an address is in the CIDR.
    pub fn contains(&self, ip: IpAddr) -> bool {
        self.cidr().contains(ip)
    }

    /// The CIDR without how it was written. The prefix of an IPv4-mapped address may be longer than an IPv4 address.
    fn cidr(&self) -> Cidr {
        let bits = if self.ip.is_ipv4() { 32 } else { 128 };
        Cidr::new(self.ip, u32::from(self.bits.min(bits))).expect("the prefix is not longer than the address")
    }

    fn canonical(&self) -> String {
        format!("{}/{}", self.first(), self.bits)
    }
}

// === rules ===

/// Reports an invalid address, in a field that accepts any notation. Returns whether it is valid.
pub fn check(text: &str, errors: &Errors) -> bool {
    let Some(address) = parse(text) else {
        errors.invalid(text, NO_ADDRESS);
        return false;
    };
    if !address.plain {
        errors.invalid(text, "must not have leading 0s");
    }
    if address.mapped {
        errors.invalid(text, "must not be an IPv4-mapped IPv6 address");
    }
    address.plain && !address.mapped
}

/// Errors of an address that must be in canonical form.
pub fn strict(text: &str) -> Vec<String> {
    let Some(address) = parse(text) else {
        return vec![NO_ADDRESS.to_owned()];
    };
    let canonical = address.ip.to_string();
    if !address.plain {
        vec!["must not have leading 0s".to_owned()]
    } else if address.mapped {
        vec!["must not be an IPv4-mapped IPv6 address".to_owned()]
    } else if canonical != text {
        vec![format!("must be in canonical form ({canonical:?})")]
    } else {
        Vec::new()
    }
}

/// Reports an invalid CIDR, in a field that accepts any notation. Returns whether it is valid.
pub fn check_cidr(text: &str, errors: &Errors) -> bool {
    let violation = match parse_cidr(text) {
        None => NO_RANGE,
        Some(cidr) if !cidr.plain => "must not have leading 0s in IP or prefix length",
        Some(cidr) if cidr.mapped => "must not have an IPv4-mapped IPv6 address",
        Some(cidr) if cidr.first() != cidr.ip => "must not have bits set beyond the prefix length",
        Some(_) => return true,
    };
    errors.invalid(text, violation);
    false
}

/// Reports a CIDR that is not in canonical form.
pub fn check_strict_cidr(text: &str, errors: &Errors) {
    if !check_cidr(text, errors) {
        return;
    }
    let canonical = parse_cidr(text).map(|cidr| cidr.canonical());
    if let Some(canonical) = canonical.filter(|canonical| canonical != text) {
        errors.invalid(text, &format!("must be in canonical form ({canonical:?})"));
    }
}

/// Reports addresses that are not usable as endpoints: unspecified, loopback, link-local.
pub fn check_endpoint(text: &str, errors: &Errors) {
    let Some(ParsedAddress { ip, .. }) = parse(text) else {
        errors.invalid(text, "must be a valid IP address");
        return;
    };
    if ip.is_unspecified() {
        errors.invalid(text, &format!("may not be unspecified ({text})"));
    }
    if ip.is_loopback() {
        errors.invalid(text, "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    let (link_local, link_local_multicast) = match ip {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(ip) => (
            ip.segments()[0] & 0xffc0 == 0xfe80,
            ip.segments()[0] & 0xff0f == 0xff02,
        ),
    };
    if link_local {
        errors.invalid(
            text,
            "may not be in the link-local range (169.254.0.0/16, fe80::/10)",
        );
    }
    if link_local_multicast {
        errors.invalid(
            text,
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
        );
    }
}

// === warnings ===

/// The warning about a valid address that is not in canonical form.
pub fn warn(path: &str, text: &str) -> Option<String> {
    let address = parse(text)?;
    let canonical = address.ip.to_string();
    if !address.plain || address.mapped {
        return Some(format!(
            "{path}: non-standard IP address {text:?} is invalid: use {canonical:?}"
        ));
    }
    (address.ip.is_ipv6() && canonical != text).then(|| {
        format!("{path}: IPv6 address {text:?} should be in RFC 5952 canonical format ({canonical:?})")
    })
}

/// The warnings about a valid CIDR that is not in canonical form.
pub fn warn_cidr(path: &str, text: &str) -> Vec<String> {
    let Some(cidr) = parse_cidr(text) else {
        return Vec::new();
    };
    let canonical = cidr.canonical();
    let mut warnings = Vec::new();
    if cidr.first() != cidr.ip {
        let bits = if cidr.ip.is_ipv4() { 32 } else { 128 };
        warnings.push(format!(
            "{path}: CIDR value {text:?} is ambiguous in this context (should be {canonical:?} or \"{}/{bits}\"?)",
            cidr.ip
        ));
    }
    if !cidr.plain || cidr.mapped {
        warnings.push(format!(
            "{path}: non-standard CIDR value {text:?} is invalid: use {canonical:?}"
        ));
    }
    if warnings.is_empty() && cidr.ip.is_ipv6() && canonical != text {
        warnings.push(format!(
            "{path}: IPv6 CIDR value {text:?} should be in RFC 5952 canonical format ({canonical:?})"
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_with(rule: impl Fn(&str, &Errors), text: &str, expected: &[&str]) {
        let errors = Errors::default();
        rule(text, &errors);
        let found = errors.into_vec();
        assert_eq!(found.len(), expected.len(), "{text}: {found:?}");
        for (error, part) in found.iter().zip(expected) {
            assert!(error.message.contains(part), "{text}: {}", error.message);
        }
    }

    fn lenient(text: &str, expected: &[&str]) {
        check_with(|text, errors| _ = check(text, errors), text, expected);
    }

    fn check_cidrs(text: &str, expected: &[&str]) {
        check_with(check_strict_cidr, text, expected);
    }

    #[test]
    fn old_fields_accept_unambiguous_addresses() {
        lenient("10.0.0.1", &[]);
        lenient("FE80:0:0::1", &[]);
        lenient("010.0.0.1", &["leading 0s"]);
        lenient("::ffff:1.2.3.4", &["IPv4-mapped"]);
        lenient("fe80::00001", &["leading 0s"]);
        lenient("1.2.3", &["must be a valid IP"]);
        lenient("1.2.3.256", &["must be a valid IP"]);
        lenient("fe80::1%eth0", &["must be a valid IP"]);
        lenient("", &["must be a valid IP"]);
    }

    #[test]
    fn new_fields_require_canonical_addresses() {
        assert_eq!(strict("2001:db8::1"), Vec::<String>::new());
        assert_eq!(
            strict("2001:DB8::1"),
            ["must be in canonical form (\"2001:db8::1\")"]
        );
        check_cidrs("10.0.0.0/8", &[]);
        check_cidrs("10.0.0.1/8", &["bits set beyond"]);
        check_cidrs("10.0.0.0/08", &["leading 0s in IP or prefix"]);
        check_cidrs("10.0.0.0/33", &["must be a valid CIDR"]);
        check_cidrs("FD00::/64", &["canonical form (\"fd00::/64\")"]);
        check_cidrs("x", &["must be a valid CIDR"]);
    }

    #[test]
    fn endpoint_addresses_are_not_local() {
        check_with(check_endpoint, "10.0.0.1", &[]);
        check_with(check_endpoint, "127.0.0.1", &["loopback"]);
        check_with(check_endpoint, "::", &["may not be unspecified (::)"]);
        check_with(check_endpoint, "169.254.1.1", &["link-local range"]);
        check_with(check_endpoint, "224.0.0.5", &["link-local multicast"]);
    }

    #[test]
    fn a_cidr_contains_addresses_with_its_prefix() {
        let cidr = parse_cidr("10.1.0.0/16").unwrap();
        assert!(cidr.contains("10.1.255.255".parse().unwrap()));
        assert!(!cidr.contains("10.2.0.0".parse().unwrap()));
        assert!(!cidr.contains("fd00::".parse().unwrap()));
        assert!(
            parse_cidr("0.0.0.0/0")
                .unwrap()
                .contains("1.2.3.4".parse().unwrap())
        );
    }

    #[test]
    fn noncanonical_addresses_are_warned_about() {
        assert_eq!(warn("spec.ip", "10.0.0.1"), None);
        assert!(warn("spec.ip", "FD00::1").is_some_and(|warning| warning.contains("RFC 5952")));
        assert_eq!(warn_cidr("c", "10.0.0.0/8"), Vec::<String>::new());
        assert_eq!(
            warn_cidr("c", "10.0.0.1/8"),
            [
                "c: CIDR value \"10.0.0.1/8\" is ambiguous in this context (should be \"10.0.0.0/8\" or \"10.0.0.1/32\"?)"
            ]
        );
    }
}
