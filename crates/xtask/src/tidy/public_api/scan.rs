//! Items of a stretch of Rust code: attributes, visibility, keyword, name, header and body.

use std::ops::Range;

use crate::tidy::lexer::is_word;
use crate::tidy::source::{Source, block_end, bracket_end};

/// One item, by offsets into its source.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) attributes: Vec<Range<usize>>,
    /// `pub`; not `pub(crate)` and the like.
    pub(super) is_public: bool,
    /// `fn`, `struct`, `use`, ...; empty for a macro call.
    pub(super) keyword: &'static str,
    pub(super) name: String,
    /// From the visibility to the body or the semicolon, both excluded.
    pub(super) header: Range<usize>,
    /// Between the braces.
    pub(super) body: Option<Range<usize>>,
    end: usize,
}

const KEYWORDS: &[&str] = &[
    "const",
    "enum",
    "fn",
    "impl",
    "macro_rules",
    "mod",
    "static",
    "struct",
    "trait",
    "type",
    "union",
    "use",
];

/// Words before the keyword.
const MODIFIERS: &[&str] = &["pub", "async", "unsafe", "extern", "default", "auto"];

/// The items in a range, in order. Test items are left out.
pub(super) fn items(source: &Source, range: Range<usize>) -> Vec<Item> {
    let mut found = Vec::new();
    let mut at = range.start;
    while let Some(item) = next_item(&source.code[..range.end], at) {
        at = item.end.max(at + 1);
        if !source.is_test(item.header.start) {
            found.push(item);
        }
    }
    found
}

fn next_item(code: &str, from: usize) -> Option<Item> {
    let mut at = skip(code, from, |byte| byte.is_ascii_whitespace() || byte == b';');
    let mut attributes = Vec::new();
    while code[at..].starts_with('#') {
        let open = at + code[at..].find('[')?;
        let end = bracket_end(code, open, (b'[', b']'));
        attributes.push(at..end);
        at = skip(code, end, |byte| byte.is_ascii_whitespace());
    }
    if at >= code.len() {
        return None;
    }
    let (is_public, keyword, name) = classify(&code[at..]);
    let header_end = header_end(code, at, matches!(keyword, "use" | "const" | "static" | "type"));
    let has_body = code.as_bytes().get(header_end) == Some(&b'{');
    let end = if has_body {
        block_end(code, header_end)
    } else {
        (header_end + 1).min(code.len())
    };
    Some(Item {
        attributes,
        is_public,
        keyword,
        name,
        header: at..header_end,
        body: has_body.then(|| header_end + 1..end.saturating_sub(1).max(header_end + 1)),
        end,
    })
}

/// Whether the item is public, its keyword and its name.
fn classify(code: &str) -> (bool, &'static str, String) {
    let is_public = code
        .strip_prefix("pub")
        .is_some_and(|rest| rest.starts_with(char::is_whitespace) && !rest.trim_start().starts_with('('));
    let mut words = words(code).peekable();
    while let Some(word) = words.next() {
        let is_modifier = MODIFIERS.contains(&word)
            || matches!(word, "crate" | "super" | "in")
            || (word == "const"
                && words
                    .peek()
                    .is_some_and(|next| matches!(*next, "fn" | "async" | "unsafe")));
        if is_modifier {
            continue;
        }
        let keyword = KEYWORDS.iter().find(|keyword| **keyword == word);
        let name = words.next().unwrap_or_default().to_owned();
        return (is_public, keyword.copied().unwrap_or_default(), name);
    }
    (is_public, "", String::new())
}

/// The identifiers and keywords of a text.
pub(super) fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .filter(|word| !word.is_empty())
}

/// The offset of the semicolon, or of the brace of the body. A header that may have braces ends at its semicolon only.
fn header_end(code: &str, start: usize, has_braces: bool) -> usize {
    let mut depth = 0usize;
    for (offset, byte) in code.bytes().enumerate().skip(start) {
        match byte {
            b'{' if depth == 0 && !has_braces => return offset,
            b';' if depth == 0 => return offset,
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    code.len()
}

fn skip(code: &str, from: usize, is_skipped: impl Fn(u8) -> bool) -> usize {
    let rest = code.bytes().enumerate().skip(from);
    rest.into_iter()
        .find(|(_, byte)| !is_skipped(*byte))
        .map_or(code.len(), |(offset, _)| offset)
}

/// The pieces between a separator outside all brackets. The `>` of an arrow is no bracket.
pub(super) fn split_top(text: &str, separator: u8) -> Vec<&str> {
    let bytes = text.as_bytes();
    let (mut pieces, mut start, mut depth) = (Vec::new(), 0, 0usize);
    for (offset, &byte) in bytes.iter().enumerate() {
        let is_arrow = byte == b'>' && offset > 0 && matches!(bytes[offset - 1], b'-' | b'=');
        match byte {
            b'(' | b'[' | b'{' | b'<' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b'>' if !is_arrow => depth = depth.saturating_sub(1),
            _ if byte == separator && depth == 0 => {
                pieces.push(&text[start..offset]);
                start = offset + 1;
            }
            _ => {}
        }
    }
    pieces.push(&text[start..]);
    pieces.retain(|piece| !piece.trim().is_empty());
    pieces
}

/// The length of the generics `<...>` at the start of a text.
pub(super) fn generics_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    if bytes.first() != Some(&b'<') {
        return 0;
    }
    let mut depth = 0usize;
    for (offset, &byte) in bytes.iter().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' if offset > 0 && bytes[offset - 1] == b'-' => {}
            b'>' if depth <= 1 => return offset + 1,
            b'>' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

/// Where a word stands outside all brackets.
pub(super) fn find_top_word(text: &str, word: &str) -> Option<usize> {
    let found = text.match_indices(word).map(|(offset, _)| offset);
    found.into_iter().find(|&offset| {
        let before = text[..offset].bytes().last().is_none_or(|byte| !is_word(byte));
        let after = text[offset + word.len()..]
            .bytes()
            .next()
            .is_none_or(|byte| byte.is_ascii_whitespace());
        before && after && is_outside_brackets(&text[..offset])
    })
}

fn is_outside_brackets(text: &str) -> bool {
    let text = text.replace("->", "");
    let count = |letters: [char; 4]| text.matches(letters).count();
    count(['<', '(', '[', '{']) == count(['>', ')', ']', '}'])
}
