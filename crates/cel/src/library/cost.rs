//! Costs of calls at run time, in the units of cel-go and with Kubernetes' rules.

use crate::macros::SORT_BY_KEYS;
use crate::opaque::Opaque;
use crate::value::Value;

pub(crate) const SELECT: u64 = 1;
pub(crate) const LIST: u64 = 10;
pub(crate) const MAP: u64 = 30;
pub(crate) const STRUCT: u64 = 40;
/// The cost of a character when a string is read once.
pub(crate) const PER_CHARACTER: f64 = 0.1;
/// The cost of a character of a regular expression, for each unit of the text.
pub(crate) const PER_REGEX_CHARACTER: f64 = 0.25;
/// An authorization check: two fit into the limit of an expression.
pub(crate) const AUTHORIZATION: u64 = 350_000;

/// The cost of a call with these arguments.
pub(crate) fn of_call(
    function: &str,
    overload: Option<&str>,
    args: &[Value<'_>],
    result: Option<&Value<'_>>,
) -> u64 {
    let size = |at: usize| args.get(at).map_or(1, Value::cost_size);
    match function {
        "check" => AUTHORIZATION,
        "fieldSelector" | "labelSelector" => selector(size(1)),
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => args.first().map_or(0, traversal),
        "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" | "cidr" | "isIP" | "isCIDR"
        | "quantity" | "isQuantity" | "semver" | "isSemver" => scaled(size(0), PER_CHARACTER),
        "ip" if overload == Some("cidr_ip") => 1,
        "ip" => scaled(size(0), PER_CHARACTER),
        "replace" | "split" | "ip.isCanonical" => scaled(size(0), 2.0 * PER_CHARACTER),
        "join" => scaled(result.map_or(1, Value::cost_size), 2.0 * PER_CHARACTER),
        "find" | "findAll" | "matches" => regex(size(0), size(1)),
        "validate" => match args.first() {
            Some(Value::Opaque(Opaque::Format(format))) => regex(size(1), format.regex_size),
            _ => 1,
        },
        "containsIP" | "containsCIDR" => contains(function, overload, size(0), size(1)),
        "slice" | "lists.range" => allocating(result.map_or(1, Value::cost_size), 1.0),
        "reverse" => allocating(size(0), 1.0),
        "flatten" => allocating(size(0), flatten_depth(args.get(1))),
        "sort" | "distinct" => args.first().map_or(1, self_comparison),
        SORT_BY_KEYS => args.get(1).map_or(1, self_comparison),
        "_==_" if matches!(args.first(), Some(Value::Opaque(_))) => 1,
        _ => of_overload(overload.unwrap_or_default(), &size),
    }
}

/// A list of this size is created.
fn allocating(size: u64, factor: f64) -> u64 {
    ((size as f64 * factor) as u64).saturating_add(1 + LIST)
}

fn flatten_depth(depth: Option<&Value<'_>>) -> f64 {
    match depth {
        Some(Value::Int(depth)) if *depth >= 0 => *depth as f64,
        _ => 1.0,
    }
}

/// Each item of a list is compared with each.
fn self_comparison(list: &Value<'_>) -> u64 {
    let size = list.cost_size();
    let first = match list {
        Value::List(items) => items.get(0),
        _ => None,
    };
    let factor = match first {
        Some(Value::String(_) | Value::Bytes(_)) => 2.0 + PER_CHARACTER,
        _ => 2.0,
    };
    allocating(size.saturating_mul(size), factor)
}

fn contains(function: &str, overload: Option<&str>, own: u64, other: u64) -> u64 {
    let mut cost = scaled(own + own, PER_CHARACTER);
    if function == "containsCIDR" {
        cost += scaled(own, PER_CHARACTER) + 1;
    }
    if overload.is_some_and(|overload| overload.ends_with("_string")) {
        cost += scaled(other, PER_CHARACTER);
    }
    cost
}

fn of_overload(overload: &str, size: &impl Fn(usize) -> u64) -> u64 {
    match overload {
        "starts_with_string" | "ends_with_string" => scaled(size(1), PER_CHARACTER),
        "string_to_bytes" | "bytes_to_string" | "strings_quote" | "string_format" => {
            scaled(size(0), PER_CHARACTER)
        }
        "in_list" => size(1),
        _ if compares_content(overload) => scaled(size(0).min(size(1)), PER_CHARACTER),
        "add_string" | "add_bytes" => scaled(size(0) + size(1), PER_CHARACTER),
        "contains_string" => scaled(size(0), PER_CHARACTER) * scaled(size(1), PER_CHARACTER),
        "list_sets_contains_list" | "list_sets_intersects_list" => sets(size(0), size(1), 1.0),
        "list_sets_equivalent_list" => sets(size(0), size(1), 2.0),
        _ => 1,
    }
}

/// Each element of the one list is compared with each of the other.
fn sets(own: u64, other: u64, factor: f64) -> u64 {
    1 + scaled(own.saturating_mul(other), factor)
}

/// A string of this length matched by an expression of that length.
fn regex(text: u64, pattern: u64) -> u64 {
    scaled(text.saturating_add(1), PER_CHARACTER).saturating_mul(scaled(pattern, PER_REGEX_CHARACTER))
}

/// A selector of this length: it is parsed, and its requirements are built.
fn selector(length: u64) -> u64 {
    let requirements = scaled(length, 0.5);
    LIST + scaled(length, PER_CHARACTER) + requirements * (LIST + STRUCT)
}

pub(crate) fn scaled(size: u64, factor: f64) -> u64 {
    (size as f64 * factor).ceil() as u64
}

/// The cost of reading a value with everything in it.
fn traversal(value: &Value<'_>) -> u64 {
    match value {
        Value::String(text) => (text.as_str().len() as f64 * PER_CHARACTER) as u64,
        Value::Bytes(bytes) => (bytes.len() as f64 * PER_CHARACTER) as u64,
        Value::List(list) => list.iter().map(|item| traversal(&item)).sum(),
        Value::Map(map) => map
            .entries()
            .iter()
            .map(|(key, value)| traversal(key) + traversal(value))
            .sum(),
        _ => 1,
    }
}

/// Whether an overload compares its operands part by part, up to the end of the shorter one.
pub(crate) fn compares_content(overload: &str) -> bool {
    matches!(
        overload,
        "equals"
            | "not_equals"
            | "less_string"
            | "greater_string"
            | "less_equals_string"
            | "greater_equals_string"
            | "less_bytes"
            | "greater_bytes"
            | "less_equals_bytes"
            | "greater_equals_bytes"
    )
}
