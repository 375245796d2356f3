//! IP addresses and CIDRs.

use std::net::IpAddr;

use regex::Regex;
use setpoint_values::Cidr;

use super::{Builtin, no_such_overload};
use crate::opaque::Opaque;
use crate::value::Value;

pub(super) const FUNCTIONS: &[(&str, Builtin)] = &[
    ("ip", ip),
    ("isIP", |args, _| {
        text(args, |text| Ok(Value::Bool(parse_ip(text).is_ok())))
    }),
    ("ip.isCanonical", |args, _| {
        text(args, |text| Ok(Value::Bool(parse_ip(text)?.to_string() == text)))
    }),
    ("family", |args, _| {
        address(args, |one| Value::Int(if one.is_ipv4() { 4 } else { 6 }))
    }),
    ("isUnspecified", |args, _| {
        address(args, |one| Value::Bool(one.is_unspecified()))
    }),
    ("isLoopback", |args, _| {
        address(args, |one| Value::Bool(one.is_loopback()))
    }),
    ("isLinkLocalMulticast", |args, _| {
        address(args, |one| Value::Bool(is_link_local_multicast(one)))
    }),
    ("isLinkLocalUnicast", |args, _| {
        address(args, |one| Value::Bool(is_link_local_unicast(one)))
    }),
    ("isGlobalUnicast", |args, _| {
        address(args, |one| Value::Bool(is_global_unicast(one)))
    }),
    ("cidr", |args, _| text(args, parse_cidr)),
    ("isCIDR", |args, _| {
        text(args, |text| Ok(Value::Bool(parse_cidr(text).is_ok())))
    }),
    ("containsIP", contains_ip),
    ("containsCIDR", contains_cidr),
    ("prefixLength", |args, _| {
        cidr(args, |_, prefix| Value::Int(i64::from(prefix)))
    }),
    ("masked", |args, _| {
        cidr(args, |address, prefix| {
            Value::Opaque(Opaque::Cidr(first_address(address, prefix), prefix))
        })
    }),
];

type Outcome<'a> = Result<Value<'a>, String>;

fn text<'a>(args: &[Value<'a>], run: impl FnOnce(&str) -> Outcome<'a>) -> Outcome<'a> {
    match args {
        [Value::String(text)] => run(text.as_str()),
        _ => no_such_overload(),
    }
}

fn address<'a>(args: &[Value<'a>], run: impl FnOnce(IpAddr) -> Value<'a>) -> Outcome<'a> {
    match args {
        [Value::Opaque(Opaque::Ip(address))] => Ok(run(*address)),
        _ => no_such_overload(),
    }
}

fn cidr<'a>(args: &[Value<'a>], run: impl FnOnce(IpAddr, u8) -> Value<'a>) -> Outcome<'a> {
    match args {
        [Value::Opaque(Opaque::Cidr(address, prefix))] => Ok(run(*address, *prefix)),
        _ => no_such_overload(),
    }
}

fn ip<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    match args {
        [Value::String(text)] => Ok(Value::Opaque(Opaque::Ip(parse_ip(text.as_str())?))),
        [Value::Opaque(Opaque::Cidr(address, _))] => Ok(Value::Opaque(Opaque::Ip(*address))),
        _ => no_such_overload(),
    }
}

fn parse_ip(text: &str) -> Result<IpAddr, String> {
    if let Some((address, _)) = text.split_once('%')
        && address.parse::<IpAddr>().is_ok_and(|address| address.is_ipv6())
    {
        return Err(format!("IP address {text:?} with zone value is not allowed"));
    }
    let address: IpAddr = text.parse().map_err(|_| {
        format!(
            "IP Address {text:?} parse error during conversion from string: ParseAddr({text:?}): unable to parse IP"
        )
    })?;
    reject_mapped(address, text)
}

fn reject_mapped(address: IpAddr, text: &str) -> Result<IpAddr, String> {
    match address {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"))
        }
        address => Ok(address),
    }
}

fn parse_cidr<'a>(text: &str) -> Outcome<'a> {
    let problem = || {
        let prefix = "network address parse error during conversion from string";
        format!("{prefix}: {prefix}: netip.ParsePrefix({text:?}): no '/'")
    };
    let (address, length) = text.split_once('/').ok_or_else(problem)?;
    let address: IpAddr = address.parse().map_err(|_| problem())?;
    let is_plain =
        length == "0" || (!length.starts_with('0') && length.bytes().all(|byte| byte.is_ascii_digit()));
    let length: u8 = length.parse().ok().filter(|_| is_plain).ok_or_else(problem)?;
    Cidr::new(address, u32::from(length)).ok_or_else(problem)?;
    let address = reject_mapped(address, text)
        .map_err(|why| format!("network address parse error during conversion from string: {why}"))?;
    Ok(Value::Opaque(Opaque::Cidr(address, length)))
}

fn first_address(address: IpAddr, prefix: u8) -> IpAddr {
    Cidr::new(address, u32::from(prefix)).map_or(address, Cidr::first)
}

fn contains_ip<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    let (own, prefix, other) = match args {
        [
            Value::Opaque(Opaque::Cidr(own, prefix)),
            Value::Opaque(Opaque::Ip(other)),
        ] => (*own, *prefix, *other),
        [Value::Opaque(Opaque::Cidr(own, prefix)), Value::String(text)] => {
            // A text that is no address has this error upstream too.
            match parse_ip(text.as_str()) {
                Ok(other) => (*own, *prefix, other),
                Err(_) => return no_such_overload(),
            }
        }
        _ => return no_such_overload(),
    };
    let range = Cidr::new(own, u32::from(prefix));
    Ok(Value::Bool(range.is_some_and(|range| range.contains(other))))
}

fn contains_cidr<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    let [Value::Opaque(Opaque::Cidr(own, prefix)), other] = args else {
        return no_such_overload();
    };
    let other = match other {
        Value::String(text) => parse_cidr(text.as_str())?,
        other => other.clone(),
    };
    let Value::Opaque(Opaque::Cidr(other, other_prefix)) = other else {
        return no_such_overload();
    };
    let range = |address, prefix: u8| Cidr::new(address, u32::from(prefix));
    let covers = range(*own, *prefix)
        .zip(range(other, other_prefix))
        .is_some_and(|(own, other)| own.covers(other));
    Ok(Value::Bool(covers))
}

fn is_link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    }
}

fn is_link_local_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

fn is_global_unicast(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !(is_broadcast
        || address.is_unspecified()
        || address.is_loopback()
        || address.is_multicast()
        || is_link_local_unicast(address))
}
