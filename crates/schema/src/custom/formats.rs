//! The string formats of OpenAPI schemas. Every string matches an unknown format.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

/// The formats of strings that validation knows, without hyphens.
const STRING_FORMATS: &[&str] = &[
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
    "k8sshortname",
    "k8slongname",
];

/// Whether validation knows a format of values of a type.
pub fn is_recognized(value_type: &str, format: &str) -> bool {
    match value_type {
        "" | "string" => STRING_FORMATS.contains(&format.replace('-', "").as_str()),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

/// Whether a string matches a format.
pub(super) fn matches(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => is_date_time(text),
        "date" => is_date(text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "email" => EMAIL.is_match(text.trim_matches([' ', '\t'])),
        "uri" => is_uri(text),
        "hostname" => is_hostname(text),
        "uuid" => UUID.is_match(text),
        "uuid3" => UUID.is_match(text) && digit_is(text, 12, "3"),
        "uuid4" => UUID.is_match(text) && digit_is(text, 12, "4") && digit_is(text, 16, "89ab"),
        "uuid5" => UUID.is_match(text) && digit_is(text, 12, "5") && digit_is(text, 16, "89ab"),
        "byte" => is_base64(text),
        "duration" => is_duration(text),
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "creditcard" => is_card(text),
        "ssn" => SSN.is_match(text),
        "hexcolor" => HEX_COLOR.is_match(text),
        "rgbcolor" => RGB_COLOR.is_match(text),
        "k8s-short-name" => is_label(text),
        "k8s-long-name" => text.len() <= 253 && !text.is_empty() && text.split('.').all(is_word),
        _ => true,
    }
}

static EMAIL: LazyLock<Regex> = LazyLock::new(|| compiled(r"^[^@\s<>()\[\],;:]+@[^@\s.]+(\.[^@\s.]+)*$"));
static UUID: LazyLock<Regex> =
    LazyLock::new(|| compiled(r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"));
static SSN: LazyLock<Regex> = LazyLock::new(|| compiled(r"^\d{3}[- ]?\d{2}[- ]?\d{4}$"));
static HEX_COLOR: LazyLock<Regex> = LazyLock::new(|| compiled(r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"));
static RGB_COLOR: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r"^rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*\)$",
    )
});
static DATE_TIME: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r"^(\d{4})-(\d{2})-(\d{2})[Tt ]([01]\d|2[0-3]):[0-5]\d(:([0-5]\d|60)([.,]\d+)?)?([Zz]|[+-]\d{2}:?\d{2})?$",
    )
});
static NUMBER_WITH_UNIT: LazyLock<Regex> = LazyLock::new(|| compiled(r"[0-9]+\s*([A-Za-zµ]+)"));
static DURATION: LazyLock<Regex> =
    LazyLock::new(|| compiled(r"^[-+]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h|d|w)"));

fn compiled(text: &str) -> Regex {
    Regex::new(text).expect("the expressions of formats are fixed")
}

fn digit_is(text: &str, at: usize, allowed: &str) -> bool {
    let digit = text.chars().filter(|digit| *digit != '-').nth(at);
    digit.is_some_and(|digit| allowed.contains(digit.to_ascii_lowercase()))
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts.as_slice() else {
        return false;
    };
    if year.len() != 4 || month.len() != 2 || day.len() != 2 {
        return false;
    }
    let (Ok(year), Ok(month), Ok(day)) = (year.parse::<u32>(), month.parse::<u32>(), day.parse::<u32>())
    else {
        return false;
    };
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        1..=12 => 31,
        _ => return false,
    };
    (1..=days).contains(&day)
}

fn is_date_time(text: &str) -> bool {
    text.len() >= 10 && text.is_char_boundary(10) && is_date(&text[..10]) && DATE_TIME.is_match(text)
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let max_bits = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.parse::<u32>().is_ok_and(|bits| bits <= max_bits)
}

/// Six, eight or twenty bytes, with colons or dashes between, or pairs of them with dots between.
fn is_mac(text: &str) -> bool {
    let hex = |part: &str, digits: usize| part.len() == digits && part.bytes().all(|b| b.is_ascii_hexdigit());
    for (separator, digits, counts) in [(':', 2, [6, 8, 20]), ('-', 2, [6, 8, 20]), ('.', 4, [3, 4, 10])] {
        let parts: Vec<&str> = text.split(separator).collect();
        if counts.contains(&parts.len()) && parts.iter().all(|part| hex(part, digits)) {
            return true;
        }
    }
    false
}

fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else {
        return text.starts_with('/');
    };
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme
                .chars()
                .all(|next| next.is_ascii_alphanumeric() || "+-.".contains(next))
    };
    let host = rest
        .strip_prefix("//")
        .map_or("", |rest| rest.split(['/', '?']).next().unwrap_or_default());
    is_scheme(scheme) && !rest.is_empty() && !host.contains(' ') && !text.contains(char::is_control)
}

fn is_hostname(text: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && part.len() <= 63
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    text.len() <= 255 && text.split('.').all(is_part)
}

fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    let padding = text.len() - body.len();
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"+/".contains(&byte);
    padding <= 2 && text.len().is_multiple_of(4) && !text.is_empty() && body.bytes().all(allowed)
}

/// Go's form, such as `1h30m`, or text with at least one number and unit, such as `5 Minutes`.
fn is_duration(text: &str) -> bool {
    has_unit(text) || is_go_duration(text)
}

/// Whether one of the numbers in the text has a unit of time, in any case, short or as a prefix of the word.
fn has_unit(text: &str) -> bool {
    const SHORT: &[&str] = &["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"];
    const WORDS: &[&str] = &["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
    let is_unit = |unit: &str| SHORT.contains(&unit) || WORDS.iter().any(|word| unit.starts_with(word));
    let mut numbers = NUMBER_WITH_UNIT.captures_iter(text);
    numbers.any(|found| is_unit(&found[1].to_lowercase()))
}

fn is_go_duration(text: &str) -> bool {
    let mut rest = text.trim_start_matches(['-', '+']);
    if rest == "0" {
        return true;
    }
    while let Some(part) = DURATION.find(rest) {
        rest = rest[part.end()..].trim_start();
        if rest.is_empty() {
            return true;
        }
    }
    false
}

fn is_isbn10(text: &str) -> bool {
    let digits: Vec<char> = text.chars().filter(|next| !"- ".contains(*next)).collect();
    let value = |at: usize, digit: char| match digit {
        'X' | 'x' if at == 9 => Some(10),
        digit => digit.to_digit(10),
    };
    let sum = digits.iter().enumerate().try_fold(0, |sum, (at, digit)| {
        Some(sum + (at as u32 + 1) * value(at, *digit)?)
    });
    digits.len() == 10 && sum.is_some_and(|sum| sum % 11 == 0)
}

fn is_isbn13(text: &str) -> bool {
    let digits: Option<Vec<u32>> = text
        .chars()
        .filter(|next| !"- ".contains(*next))
        .map(|digit| digit.to_digit(10))
        .collect();
    let Some(digits) = digits.filter(|digits| digits.len() == 13) else {
        return false;
    };
    let sum: u32 = digits
        .iter()
        .enumerate()
        .map(|(at, digit)| digit * if at % 2 == 0 { 1 } else { 3 })
        .sum();
    sum.is_multiple_of(10)
}

/// Luhn's check over thirteen to nineteen digits.
fn is_card(text: &str) -> bool {
    let digits: Vec<u32> = text.chars().filter_map(|digit| digit.to_digit(10)).collect();
    if !(13..=19).contains(&digits.len())
        || text
            .chars()
            .any(|next| !next.is_ascii_digit() && !"- ".contains(next))
    {
        return false;
    }
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(at, digit)| match at % 2 {
            0 => *digit,
            _ if *digit > 4 => digit * 2 - 9,
            _ => digit * 2,
        })
        .sum();
    sum.is_multiple_of(10)
}

fn is_label(text: &str) -> bool {
    text.len() <= 63 && is_word(text)
}

fn is_word(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(allowed) && !text.starts_with('-') && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(format: &str, good: &[&str], bad: &[&str]) {
        good.iter()
            .for_each(|text| assert!(matches(format, text), "{format}: {text}"));
        bad.iter()
            .for_each(|text| assert!(!matches(format, text), "{format}: {text}"));
    }

    #[test]
    fn formats_accept_and_reject_strings() {
        check(
            "date-time",
            &["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.678+01:00"],
            &["x", "2026-13-02T03:04:05Z"],
        );
        check("date", &["2024-02-29"], &["2023-02-29", "x"]);
        check("ipv4", &["1.2.3.4"], &["::1", "1.2.3"]);
        check("ipv6", &["::1"], &["1.2.3.4"]);
        check("cidr", &["10.0.0.0/8", "fd00::/64"], &["x", "10.0.0.0/33"]);
        check("mac", &["01:23:45:67:89:ab"], &["x"]);
        check("email", &["a@b.c", " a@b.c "], &["x"]);
        check(
            "uri",
            &["http://a/b", "http://a/b ", "urn:x"],
            &["::", "x", "http://a /b", "http://a/\n"],
        );
        check("uuid4", &["f47ac10b-58cc-4372-a567-0e02b2c3d479"], &["x"]);
        check("byte", &["YWJj"], &["!!"]);
        check("duration", &["1h30m", "5s", "5M", "2 weeks"], &["x", "1", "5q"]);
        check("isbn", &["0321751043", "978-0321751041"], &["x"]);
        check("creditcard", &["4111-1111-1111-1111"], &["4111-1111-1111-1112"]);
        check("k8s-short-name", &["a-b"], &["A_"]);
        check("no such format", &["anything"], &[]);
    }
}
