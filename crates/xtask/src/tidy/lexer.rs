//! Splits Rust text into code, comments and string literals.
//!
//! Enough of the language to know what a byte belongs to, and no more: rules look for words, not for syntax trees.

use std::ops::Range;

/// What a stretch of the file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpanKind {
    Code,
    /// Line and block comments, doc comments included.
    Comment,
    /// The content of a string or character literal, without its prefix and quotes.
    Literal,
}

/// A stretch of one kind. The spans of a file follow each other without a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) kind: SpanKind,
    pub(crate) range: Range<usize>,
}

/// Splits a file. Unfinished comments and literals run to the end of the file.
pub(crate) fn split(text: &str) -> Vec<Span> {
    let bytes = text.as_bytes();
    let mut spans = Vec::new();
    let (mut start, mut at) = (0, 0);
    while at < bytes.len() {
        let Some(found) = special_at(bytes, at) else {
            at += 1;
            continue;
        };
        push(&mut spans, SpanKind::Code, start..found.range.start);
        (start, at) = (found.range.end, found.resume);
        push(&mut spans, found.kind, found.range);
    }
    push(&mut spans, SpanKind::Code, start..bytes.len());
    spans
}

/// A comment or literal, and where to look for the next one: after the closing quote, which itself is code.
struct Special {
    kind: SpanKind,
    range: Range<usize>,
    resume: usize,
}

fn push(spans: &mut Vec<Span>, kind: SpanKind, range: Range<usize>) {
    if !range.is_empty() {
        spans.push(Span { kind, range });
    }
}

/// The comment or literal that opens exactly at `at`.
fn special_at(bytes: &[u8], at: usize) -> Option<Special> {
    match bytes[at] {
        b'/' if bytes.get(at + 1) == Some(&b'/') => Some(comment(at, line_end(bytes, at))),
        b'/' if bytes.get(at + 1) == Some(&b'*') => Some(comment(at, block_end(bytes, at))),
        b'"' => Some(literal(at + 1, quote_end(bytes, at + 1, b'"'), 1)),
        b'\'' => character(bytes, at),
        b'r' | b'b' | b'c' if starts_word(bytes, at) => raw_string(bytes, at),
        _ => None,
    }
}

fn comment(start: usize, end: usize) -> Special {
    Special {
        kind: SpanKind::Comment,
        range: start..end,
        resume: end,
    }
}

fn literal(start: usize, end: usize, closing: usize) -> Special {
    Special {
        kind: SpanKind::Literal,
        range: start..end,
        resume: end + closing,
    }
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..]
        .iter()
        .position(|&byte| byte == b'\n')
        .map_or(bytes.len(), |length| at + length)
}

/// Block comments nest.
fn block_end(bytes: &[u8], start: usize) -> usize {
    let (mut depth, mut at) = (0usize, start);
    while at < bytes.len() {
        match &bytes[at..bytes.len().min(at + 2)] {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    bytes.len()
}

fn quote_end(bytes: &[u8], start: usize, quote: u8) -> usize {
    let mut at = start;
    while at < bytes.len() && bytes[at] != quote {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at.min(bytes.len())
}

/// A quote opens a character when a closing quote follows one character or an escape; otherwise it is a lifetime.
fn character(bytes: &[u8], at: usize) -> Option<Special> {
    if bytes.get(at + 1) == Some(&b'\\') {
        return Some(literal(at + 1, quote_end(bytes, at + 1, b'\''), 1));
    }
    let width = std::str::from_utf8(&bytes[at + 1..])
        .ok()?
        .chars()
        .next()?
        .len_utf8();
    let end = at + 1 + width;
    (bytes.get(end) == Some(&b'\'')).then(|| literal(at + 1, end, 1))
}

fn starts_word(bytes: &[u8], at: usize) -> bool {
    at == 0 || !is_word(bytes[at - 1])
}

/// `r"..."`, `r#"..."#`, and the same after `b` or `c`. Plain `b"..."` is met at its quote.
fn raw_string(bytes: &[u8], at: usize) -> Option<Special> {
    let after_prefix = if bytes[at] == b'r' { at + 1 } else { at + 2 };
    if bytes.get(after_prefix - 1) != Some(&b'r') {
        return None;
    }
    let hashes = bytes[after_prefix..]
        .iter()
        .take_while(|&&byte| byte == b'#')
        .count();
    let quote = after_prefix + hashes;
    if bytes.get(quote) != Some(&b'"') {
        return None;
    }
    let closing: Vec<u8> = std::iter::once(b'"')
        .chain(std::iter::repeat_n(b'#', hashes))
        .collect();
    let start = quote + 1;
    let length = bytes[start..]
        .windows(closing.len())
        .position(|window| window == closing);
    let end = length.map_or(bytes.len(), |length| start + length);
    Some(literal(start, end, closing.len()))
}

/// Whether a byte may be part of an identifier.
pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, comments: &[&str], literals: &[&str]) {
        let spans = split(text);
        let of = |kind| -> Vec<&str> {
            spans
                .iter()
                .filter(|span| span.kind == kind)
                .map(|span| &text[span.range.clone()])
                .collect()
        };
        assert_eq!(of(SpanKind::Comment), comments);
        assert_eq!(of(SpanKind::Literal), literals);
    }

    #[test]
    fn a_line_comment_ends_with_its_line() {
        check("a // b \"c\"\n\"d\"", &["// b \"c\""], &["d"]);
    }

    #[test]
    fn block_comments_nest() {
        check("/* a /* b */ c */ d", &["/* a /* b */ c */"], &[]);
    }

    #[test]
    fn an_escaped_quote_does_not_end_a_string() {
        check(r#" "a\"b" + "c\\" "#, &[], &[r#"a\"b"#, r"c\\"]);
    }

    #[test]
    fn a_raw_string_ends_with_as_many_hashes_as_it_began() {
        check("r#\"a\"b\"# br\"c\" r\"d\"", &[], &["a\"b", "c", "d"]);
    }

    #[test]
    fn a_comment_inside_a_string_is_text() {
        check("\"https://a\" // b", &["// b"], &["https://a"]);
    }

    #[test]
    fn a_lifetime_is_not_a_character() {
        check(
            "fn f<'a>(x: &'a str) { '\"' ; '\\'' ; 'é' }",
            &[],
            &["\"", "\\'", "é"],
        );
    }

    #[test]
    fn a_raw_identifier_is_code() {
        check("let r#type = \"x\";", &[], &["x"]);
    }

    #[test]
    fn an_unfinished_literal_runs_to_the_end() {
        check("\"abc\\", &[], &["abc\\"]);
    }
}
