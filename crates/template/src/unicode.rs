//! Character classes as Go's `unicode` package has them: by general category, which differs from Rust's derived
//! properties for marks and letter numbers.

use std::sync::LazyLock;

use regex::Regex;

static LETTER: LazyLock<Regex> = LazyLock::new(|| class(r"^\p{L}$"));
static DIGIT: LazyLock<Regex> = LazyLock::new(|| class(r"^\p{Nd}$"));
static PRINT: LazyLock<Regex> = LazyLock::new(|| class(r"^[\p{L}\p{M}\p{N}\p{P}\p{S}]$"));

fn class(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is constant")
}

fn is_in(class: &Regex, c: char) -> bool {
    class.is_match(c.encode_utf8(&mut [0; 4]))
}

/// Whether Go's `unicode.IsLetter` holds.
pub(crate) fn is_letter(c: char) -> bool {
    match c.is_ascii() {
        true => c.is_ascii_alphabetic(),
        false => is_in(&LETTER, c),
    }
}

/// Whether Go's `unicode.IsDigit` holds.
pub(crate) fn is_digit(c: char) -> bool {
    match c.is_ascii() {
        true => c.is_ascii_digit(),
        false => is_in(&DIGIT, c),
    }
}

/// Whether Go's `unicode.IsPrint` holds: a letter, mark, number, punctuation mark, symbol, or the ASCII space.
pub(crate) fn is_print(c: char) -> bool {
    match c.is_ascii() {
        true => (' '..='~').contains(&c),
        false => is_in(&PRINT, c),
    }
}

/// Whether Go's `unicode.IsSpace` holds.
pub(crate) fn is_space(c: char) -> bool {
    matches!(
        c,
        '\t' | '\n' | '\u{b}' | '\u{c}' | '\r' | ' ' | '\u{85}' | '\u{a0}'
    ) || (!c.is_ascii() && c.is_whitespace())
}
