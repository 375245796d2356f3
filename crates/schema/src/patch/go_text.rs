//! Values in Go's `%v` format, as in messages of the reference server: `map[a:1 b:[x <nil>]]`, with sorted keys.

use std::fmt::Write;

use super::copy::last_pairs;
use crate::tree::Tree;

/// Numbers from [`LARGE`] on and below [`SMALL`] are formatted with an exponent.
const LARGE: f64 = 1e21;
const SMALL: f64 = 1e-4;

/// A value in Go's `%v` format.
pub fn go_text(value: &Tree) -> String {
    let mut text = String::new();
    push(value, &mut text);
    text
}

/// A list in Go's `%v` format.
pub(super) fn go_list(items: &[Tree]) -> String {
    let mut text = String::new();
    push_list(items, &mut text);
    text
}

/// The Go type of a value after JSON decoding.
pub fn go_type(value: &Tree) -> &'static str {
    match value {
        Tree::Null => "%!s(<nil>)",
        Tree::Bool(_) => "bool",
        Tree::Int(_) => "int64",
        Tree::Float(_) => "float64",
        Tree::Str(_) => "string",
        Tree::List(_) => "[]interface {}",
        Tree::Map(_) => "map[string]interface {}",
    }
}

/// Go's `reflect.Kind` of a value after JSON decoding.
pub(super) fn go_kind(value: &Tree) -> &'static str {
    match value {
        Tree::List(_) => "slice",
        Tree::Map(_) => "map",
        scalar => go_type(scalar),
    }
}

fn push(value: &Tree, text: &mut String) {
    match value {
        Tree::Null => text.push_str("<nil>"),
        Tree::Bool(value) => push_display(value, text),
        Tree::Int(number) => push_display(number, text),
        Tree::Float(number) => push_float(*number, text),
        Tree::Str(value) => text.push_str(value),
        Tree::List(items) => push_list(items, text),
        Tree::Map(map) => {
            let mut pairs = last_pairs(map);
            pairs.sort_by_key(|(key, _)| *key);
            text.push_str("map[");
            for (at, (key, value)) in pairs.into_iter().enumerate() {
                push_display(format_args!("{}{key}:", space(at)), text);
                push(value, text);
            }
            text.push(']');
        }
    }
}

fn push_list(items: &[Tree], text: &mut String) {
    text.push('[');
    for (at, item) in items.iter().enumerate() {
        text.push_str(space(at));
        push(item, text);
    }
    text.push(']');
}

fn space(at: usize) -> &'static str {
    if at == 0 { "" } else { " " }
}

fn push_float(number: f64, text: &mut String) {
    if number == 0.0 || (SMALL..LARGE).contains(&number.abs()) {
        return push_display(number, text);
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let (sign, exponent) = exponent
        .strip_prefix('-')
        .map_or(('+', exponent), |exponent| ('-', exponent));
    push_display(format_args!("{digits}e{sign}{exponent:0>2}"), text);
}

fn push_display(value: impl std::fmt::Display, text: &mut String) {
    write!(text, "{value}").expect("a string takes any text");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: impl Into<Tree>, text: &str) {
        assert_eq!(go_text(&value.into()), text);
    }

    #[test]
    fn keys_are_sorted_and_the_later_of_two_counts() {
        let mut map = crate::tree::Map::default();
        map.push("b", 1);
        map.push("a", "x y");
        map.push("b", vec![Tree::Null, true.into()]);
        check(map, "map[a:x y b:[<nil> true]]");
    }

    #[test]
    fn numbers_far_from_one_have_an_exponent_of_two_digits() {
        check(1.5, "1.5");
        check(1e6, "1000000");
        check(1e21, "1e+21");
        check(0.00001, "1e-05");
        check(-2.5e-7, "-2.5e-07");
        check(80, "80");
    }
}
