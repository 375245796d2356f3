//! `urlParse` and `urlJoin`, by the rules of Go's `net/url`.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::super::Type::{Map as Dict, String as Text};
use super::super::{Context, Row, row};
use super::list::NIL_DEREFERENCE;
use super::text::text;
use crate::quote::quote;
use crate::value::{Operand, Value};

pub(super) const ROWS: &[Row] = &[
    row("urlParse", &[Text], url_parse),
    row("urlJoin", &[Dict], url_join),
];

/// The parts of a URL, unescaped.
#[derive(Debug, Default)]
struct Url {
    scheme: String,
    opaque: String,
    userinfo: Option<String>,
    host: String,
    path: String,
    query: String,
    fragment: String,
}

fn url_parse(_: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let source = args[0].as_str();
    let url =
        parse(source).map_err(|error| format!("unable to parse url: parse {}: {error}", quote(source)))?;
    let hostname = match url.host.strip_prefix('[').and_then(|host| host.split_once(']')) {
        Some((host, _)) => host.to_owned(),
        None => url.host.split(':').next().unwrap_or_default().to_owned(),
    };
    let entries = [
        ("scheme", url.scheme),
        ("host", url.host),
        ("hostname", hostname),
        ("path", url.path),
        ("query", url.query),
        ("opaque", url.opaque),
        ("fragment", url.fragment),
        ("userinfo", url.userinfo.unwrap_or_default()),
    ];
    let entries = entries.map(|(key, value)| (key.to_owned(), Value::string(value)));
    Ok(Value::map(BTreeMap::from(entries)))
}

fn parse(source: &str) -> Result<Url, String> {
    if source.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    let mut url = Url::default();
    let (rest, fragment) = source.split_once('#').unwrap_or((source, ""));
    url.fragment = unescape(fragment)?;
    let rest = split_scheme(&mut url, rest)?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    url.query = query.to_owned();
    if !rest.starts_with('/') {
        if !url.scheme.is_empty() {
            url.opaque = rest.to_owned();
            return Ok(url);
        }
        if rest
            .split('/')
            .next()
            .is_some_and(|segment| segment.contains(':'))
        {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    let path = match rest.strip_prefix("//") {
        Some(after) if !url.scheme.is_empty() || !rest.starts_with("///") => {
            let end = after.find('/').unwrap_or(after.len());
            split_authority(&mut url, &after[..end])?;
            &after[end..]
        }
        _ => rest,
    };
    url.path = unescape(path)?;
    Ok(url)
}

fn split_scheme<'s>(url: &mut Url, source: &'s str) -> Result<&'s str, String> {
    for (i, c) in source.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if i > 0 => {}
            ':' if i == 0 => return Err("missing protocol scheme".to_owned()),
            ':' => {
                url.scheme = source[..i].to_lowercase();
                return Ok(&source[i + 1..]);
            }
            _ => break,
        }
    }
    Ok(source)
}

fn split_authority(url: &mut Url, authority: &str) -> Result<(), String> {
    let (userinfo, host) = match authority.rsplit_once('@') {
        Some((userinfo, host)) => (Some(userinfo), host),
        None => (None, authority),
    };
    let after = host.rsplit_once(']').map_or(host, |(_, after)| after);
    if let Some((_, port)) = after.split_once(':')
        && !port.bytes().all(|byte| byte.is_ascii_digit())
    {
        return Err(format!("invalid port {} after host", quote(&format!(":{port}"))));
    }
    if host.contains(' ') {
        return Err(format!("invalid character {} in host name", quote(" ")));
    }
    url.host = unescape(host)?;
    url.userinfo = userinfo.map(str::to_owned);
    Ok(())
}

fn unescape(source: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(source.len());
    let mut rest = source.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        if *first != b'%' {
            bytes.push(*first);
            rest = tail;
            continue;
        }
        let digits = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let Some(byte) = byte else {
            let shown = String::from_utf8_lossy(&rest[..rest.len().min(3)]);
            return Err(format!("invalid URL escape {}", quote(&shown)));
        };
        bytes.push(byte);
        rest = &tail[2..];
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The text with all characters escaped but letters, digits and the given ones.
fn escape(source: &str, allowed: &str) -> String {
    let mut out = String::new();
    for byte in source.bytes() {
        let c = char::from(byte);
        match c.is_ascii_alphanumeric() || "-_.~".contains(c) || allowed.contains(c) {
            true => out.push(c),
            false => {
                // Writing to a string cannot fail.
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

fn url_join(_: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let entry = |key: &str| match args[0].as_map().and_then(|map| map.find(key)) {
        None => Ok(String::new()),
        Some(Value::String(value)) => Ok(value.to_string()),
        Some(Value::Nil) => Err(NIL_DEREFERENCE.to_owned()),
        Some(value) => Err(format!(
            "unable to parse {key} key, must be of type string, but {} found",
            value.kind_name()
        )),
    };
    let (scheme, host, path) = (entry("scheme")?, entry("host")?, entry("path")?);
    let (query, opaque, fragment) = (entry("query")?, entry("opaque")?, entry("fragment")?);
    let userinfo = entry("userinfo")?;
    let mut out = String::new();
    if !scheme.is_empty() {
        out.push_str(&format!("{scheme}:"));
    }
    if !opaque.is_empty() {
        out.push_str(&opaque);
    } else {
        let has_authority = !host.is_empty() || !userinfo.is_empty();
        if has_authority || (!scheme.is_empty() && !path.is_empty()) {
            out.push_str("//");
        }
        if !userinfo.is_empty() {
            out.push_str(&format!("{userinfo}@"));
        }
        out.push_str(&escape(&host, "!$&'()*+,;=:[]<>\""));
        if !path.is_empty() && !path.starts_with('/') && !host.is_empty() {
            out.push('/');
        }
        out.push_str(&escape(&path, "$&+,/:;=@"));
    }
    if !query.is_empty() {
        out.push_str(&format!("?{query}"));
    }
    if !fragment.is_empty() {
        out.push_str(&format!("#{}", escape(&fragment, "!$&'()*+,/:;=?@")));
    }
    text(out)
}
