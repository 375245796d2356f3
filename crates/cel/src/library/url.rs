//! URLs, with the rules of Go's `net/url`.

use std::sync::Arc;

use regex::Regex;

use super::{Builtin, no_such_overload};
use crate::opaque::Opaque;
use crate::value::Value;

pub(super) const FUNCTIONS: &[(&str, Builtin)] = &[
    ("url", parse_arg),
    ("isURL", is_url),
    ("getScheme", |args, _| {
        part(args, |url| Value::string(url.scheme.as_str()))
    }),
    ("getHost", |args, _| {
        part(args, |url| Value::string(url.host.as_str()))
    }),
    ("getHostname", |args, _| {
        part(args, |url| Value::string(url.hostname()))
    }),
    ("getPort", |args, _| part(args, |url| Value::string(url.port()))),
    ("getEscapedPath", |args, _| {
        part(args, |url| Value::string(url.escaped_path()))
    }),
    ("getQuery", query),
];

/// A parsed URL.
#[derive(Debug, PartialEq, Eq)]
pub struct Url {
    scheme: String,
    host: String,
    path: String,
    query: String,
}

type Outcome<'a> = Result<Value<'a>, String>;

fn parse_arg<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    match args {
        [Value::String(text)] => match parse(text.as_str()) {
            Ok(url) => Ok(Value::Opaque(Opaque::Url(Arc::new(url)))),
            Err(why) => Err(format!("URL parse error during conversion from string: {why}")),
        },
        _ => no_such_overload(),
    }
}

fn is_url<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    match args {
        [Value::String(text)] => Ok(Value::Bool(parse(text.as_str()).is_ok())),
        _ => no_such_overload(),
    }
}

fn part<'a>(args: &[Value<'a>], run: impl FnOnce(&Url) -> Value<'a>) -> Outcome<'a> {
    match args {
        [Value::Opaque(Opaque::Url(url))] => Ok(run(url)),
        _ => no_such_overload(),
    }
}

/// Parses an absolute URL or an absolute path.
pub(super) fn parse(text: &str) -> Result<Url, String> {
    let problem = |why: &str| format!("parse {text:?}: {why}");
    if text.is_empty() {
        return Err(problem("empty url"));
    }
    if text.chars().any(|character| character.is_ascii_control()) {
        return Err(problem("net/url: invalid control character in URL"));
    }
    let (text_without_fragment, _) = text.split_once('#').unwrap_or((text, ""));
    let (scheme, rest) =
        split_scheme(text_without_fragment).ok_or_else(|| problem("missing protocol scheme"))?;
    if scheme.is_empty() && !rest.starts_with('/') {
        return Err(problem("invalid URI for request"));
    }
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (host, path) = match rest.strip_prefix("//") {
        Some(rest) => rest.find('/').map_or((rest, ""), |at| rest.split_at(at)),
        None => ("", rest),
    };
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    check_host(host).map_err(|why| problem(&why))?;
    check_escapes(path).map_err(|why| problem(&why))?;
    Ok(Url {
        scheme: scheme.to_lowercase(),
        host: host.to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
    })
}

/// The scheme, which may be empty, and what follows it; `None` if there is only a colon.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    for (at, character) in text.char_indices() {
        match character {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return None,
            ':' => return Some((&text[..at], &text[at + 1..])),
            _ => return Some(("", text)),
        }
    }
    Some(("", text))
}

fn check_host(host: &str) -> Result<(), String> {
    let port = match host.strip_prefix('[') {
        Some(rest) => {
            let (_, after) = rest.split_once(']').ok_or("missing ']' in host")?;
            after
        }
        None => host.rfind(':').map_or("", |at| &host[at..]),
    };
    if !port.is_empty()
        && !port
            .strip_prefix(':')
            .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
    {
        return Err(format!("invalid port {port:?} after host"));
    }
    match host.chars().find(|character| " \"<>\\^`{|}".contains(*character)) {
        Some(character) => Err(format!(
            "invalid character {:?} in host name",
            character.to_string()
        )),
        None => check_escapes(host),
    }
}

fn check_escapes(text: &str) -> Result<(), String> {
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        let digits = rest.as_bytes().get(at + 1..at + 3);
        if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
            let shown: String = rest[at..].chars().take(3).collect();
            return Err(format!("invalid URL escape {shown:?}"));
        }
        rest = &rest[at + 3..];
    }
    Ok(())
}

impl Url {
    fn hostname(&self) -> &str {
        match self.host.strip_prefix('[') {
            Some(rest) => rest.split_once(']').map_or(rest, |(name, _)| name),
            None => self.host.rsplit_once(':').map_or(&self.host, |(name, _)| name),
        }
    }

    fn port(&self) -> &str {
        let after = match self.host.rfind(']') {
            Some(at) => &self.host[at + 1..],
            None => &self.host,
        };
        after.rsplit_once(':').map_or("", |(_, port)| port)
    }

    fn escaped_path(&self) -> String {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@%!'()*[]".contains(&byte);
        self.path
            .bytes()
            .map(|byte| match is_plain(byte) {
                true => char::from(byte).to_string(),
                false => format!("%{byte:02X}"),
            })
            .collect()
    }
}

/// Keys and their values, in the order of their first appearance. Malformed pairs are left out.
fn query<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    let [Value::Opaque(Opaque::Url(url))] = args else {
        return no_such_overload();
    };
    let mut entries: Vec<(String, Vec<Value<'a>>)> = Vec::new();
    for pair in url
        .query
        .split('&')
        .filter(|pair| !pair.is_empty() && !pair.contains(';'))
    {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (Some(key), Some(value)) = (unescape(key), unescape(value)) else {
            continue;
        };
        match entries.iter_mut().find(|(own, _)| *own == key) {
            Some((_, values)) => values.push(Value::string(value)),
            None => entries.push((key, vec![Value::string(value)])),
        }
    }
    let entries = entries
        .into_iter()
        .map(|(key, values)| (Value::string(key), Value::list(values)));
    Ok(Value::map(entries.collect()))
}

fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            other => other,
        });
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
