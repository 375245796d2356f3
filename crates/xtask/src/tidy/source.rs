//! One text file as the rules see it: its code without comments and literals, and which lines are tests.

use std::ops::Range;

use super::lexer::{self, Span, SpanKind, is_word};

/// A file of the tree. For files that are not Rust, `code` is empty and everything is text.
#[derive(Debug)]
pub(crate) struct Source {
    /// Relative to the root, with forward slashes.
    pub(crate) path: String,
    pub(crate) text: String,
    /// The text with comments and literals blanked out; same length, same lines.
    pub(crate) code: String,
    /// The text with everything but comments blanked out; same length, same lines.
    pub(crate) comments: String,
    literals: Vec<Range<usize>>,
    /// Byte ranges of test code.
    tests: Vec<Range<usize>>,
    /// The offset of each line's first byte.
    lines: Vec<usize>,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let spans = if path.ends_with(".rs") {
            lexer::split(text)
        } else {
            Vec::new()
        };
        let code = only(text, &spans, SpanKind::Code);
        let literals = spans
            .iter()
            .filter(|span| span.kind == SpanKind::Literal)
            .map(|span| span.range.clone())
            .collect();
        Self {
            path: path.to_owned(),
            comments: only(text, &spans, SpanKind::Comment),
            literals,
            tests: if is_test_path(path) {
                whole(text)
            } else {
                test_items(&code)
            },
            lines: line_starts(text),
            text: text.to_owned(),
            code,
        }
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The crate's folder name, if the file is under `crates/` or is part of an example.
    pub(crate) fn krate(&self) -> Option<&str> {
        self.in_crate().map(|(krate, _)| krate)
    }

    /// The path inside the crate: `src/http.rs`; nothing for a file that is in no crate of ours.
    pub(crate) fn inside(&self) -> &str {
        self.in_crate().map_or("", |(_, inside)| inside)
    }

    /// The crate's folder name and the path inside it.
    fn in_crate(&self) -> Option<(&str, &str)> {
        let mut homes = ["crates/", "examples/"].iter();
        homes.find_map(|home| self.path.strip_prefix(home)?.split_once('/'))
    }

    /// The number of the line that holds a byte, counted from one.
    pub(crate) fn line_at(&self, offset: usize) -> usize {
        self.lines.partition_point(|&start| start <= offset)
    }

    pub(crate) fn line_count(&self) -> usize {
        self.text.lines().count()
    }

    pub(crate) fn is_test(&self, offset: usize) -> bool {
        self.tests.iter().any(|range| range.contains(&offset))
    }

    /// Makes the whole file a test, since its parent declares it so.
    pub(crate) fn mark_test(&mut self) {
        self.tests = whole(&self.text);
    }

    /// Whether every byte is a test's.
    pub(crate) fn is_all_test(&self) -> bool {
        self.tests.first() == Some(&(0..self.text.len()))
    }

    /// Where a word or path stands in code that is not a test.
    pub(crate) fn production<'a>(&'a self, word: &'a str) -> impl Iterator<Item = usize> + 'a {
        find_word(&self.code, word).filter(|&offset| !self.is_test(offset))
    }

    /// Where any of the words stands in code that is not a test, at most once per line, in order.
    pub(crate) fn production_any<'a>(&'a self, words: &'a [&'a str]) -> Vec<(usize, &'a str)> {
        let mut found: Vec<(usize, &str)> = words
            .iter()
            .flat_map(|word| self.production(word).map(|offset| (offset, *word)))
            .collect();
        found.sort_unstable();
        found.dedup_by_key(|(offset, _)| self.line_at(*offset));
        found
    }

    /// String literals outside tests, with their offsets.
    pub(crate) fn production_literals(&self) -> impl Iterator<Item = (usize, &str)> {
        let outside = self.literals.iter().filter(|range| !self.is_test(range.start));
        outside.map(|range| (range.start, &self.text[range.clone()]))
    }

    /// Lines that no test item covers.
    pub(crate) fn production_lines(&self) -> usize {
        let tested: usize = self
            .tests
            .iter()
            .map(|range| self.line_at(range.end.max(1) - 1) + 1 - self.line_at(range.start))
            .sum();
        self.line_count().saturating_sub(tested)
    }

    /// Names of modules that are declared in other files and only exist in tests.
    pub(crate) fn test_modules(&self) -> Vec<&str> {
        let items = self.tests.iter().map(|range| &self.code[range.clone()]);
        items
            .filter_map(|item| item.trim_end().strip_suffix(';')?.trim_end().rsplit_once("mod "))
            .map(|(_, name)| name)
            .collect()
    }
}

/// Where a word or a path of words stands whole: not inside a longer identifier. A pattern that begins or ends with
/// another sign, such as `.await`, has no such edge there.
pub(crate) fn find_word<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_word_at = |text: &str, offset: usize| text.as_bytes().get(offset).copied().is_some_and(is_word);
    let opens = is_word_at(word, 0);
    let closes = word.bytes().last().is_some_and(is_word);
    let found = text.match_indices(word).map(|(offset, _)| offset);
    found.filter(move |&offset| {
        let goes_on_before = opens && offset > 0 && is_word_at(text, offset - 1);
        let goes_on_after = closes && is_word_at(text, offset + word.len());
        !goes_on_before && !goes_on_after
    })
}

/// The end of the block whose opening brace is at `open`.
pub(crate) fn block_end(code: &str, open: usize) -> usize {
    bracket_end(code, open, (b'{', b'}'))
}

/// The end of the pair of brackets whose opening one is at `open`.
pub(crate) fn bracket_end(code: &str, open: usize, (opening, closing): (u8, u8)) -> usize {
    let mut depth = 0usize;
    for (offset, byte) in code.bytes().enumerate().skip(open) {
        if byte == opening {
            depth += 1;
        } else if byte == closing {
            depth = depth.saturating_sub(1);
            if depth == 0 {
                return offset + 1;
            }
        }
    }
    code.len()
}

fn only(text: &str, spans: &[Span], kind: SpanKind) -> String {
    let mut kept: Vec<u8> = text
        .bytes()
        .map(|byte| if byte == b'\n' { byte } else { b' ' })
        .collect();
    for span in spans.iter().filter(|span| span.kind == kind) {
        kept[span.range.clone()].copy_from_slice(&text.as_bytes()[span.range.clone()]);
    }
    String::from_utf8(kept).expect("spans begin and end between characters")
}

fn line_starts(text: &str) -> Vec<usize> {
    std::iter::once(0)
        .chain(text.match_indices('\n').map(|(offset, _)| offset + 1))
        .collect()
}

fn whole(text: &str) -> Vec<Range<usize>> {
    std::iter::once(0..text.len()).collect()
}

/// Files that only a test build sees.
fn is_test_path(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/") || path.contains("/benches/")
}

/// What opens an item that is built for tests, or for tests and a feature that only tests of other crates enable.
const TEST_MARKERS: &[&str] = &["#[cfg(test)", "#[cfg(any(test,"];

/// The ranges of items under a test marker; the whole file for `#![cfg(test)]`.
fn test_items(code: &str) -> Vec<Range<usize>> {
    if code.contains("#![cfg(test)]") {
        return whole(code);
    }
    let mut items: Vec<Range<usize>> = Vec::new();
    for (offset, marker) in TEST_MARKERS.iter().flat_map(|marker| code.match_indices(marker)) {
        let attribute_end = offset + marker.len() + code[offset + marker.len()..].find(']').unwrap_or(0);
        items.push(offset..item_end(code, attribute_end + 1));
    }
    outermost(items)
}

/// Drops the items that lie inside another.
fn outermost(mut items: Vec<Range<usize>>) -> Vec<Range<usize>> {
    items.sort_by_key(|item| item.start);
    let mut end = 0;
    items.retain(|item| {
        let is_outside = item.start >= end;
        end = end.max(item.end);
        is_outside
    });
    items
}

/// An item ends with its semicolon or its block; a field, variant or arm with its comma.
fn item_end(code: &str, start: usize) -> usize {
    let comma_ends = !begins_item(&code[start..]);
    let mut depth = 0usize;
    for (offset, byte) in code.bytes().enumerate().skip(start) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            b';' if depth == 0 => return offset + 1,
            b',' if depth == 0 && comma_ends => return offset + 1,
            b'{' if depth == 0 => return block_end(code, offset),
            b'}' => return offset,
            _ => {}
        }
    }
    code.len()
}

const ITEM_WORDS: &[&str] = &[
    "async",
    "const",
    "enum",
    "extern",
    "fn",
    "impl",
    "macro_rules",
    "mod",
    "static",
    "struct",
    "trait",
    "type",
    "unsafe",
    "use",
];

/// Whether what follows, past attributes and visibility, is an item.
fn begins_item(code: &str) -> bool {
    let mut rest = code.trim_start();
    while let Some(attribute) = rest.strip_prefix("#[") {
        rest = attribute
            .split_once(']')
            .map_or("", |(_, after)| after)
            .trim_start();
    }
    if let Some(visible) = rest.strip_prefix("pub") {
        rest = visible.trim_start();
        if rest.starts_with('(') {
            rest = rest.split_once(')').map_or("", |(_, after)| after).trim_start();
        }
    }
    let word = rest
        .split(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .next();
    word.is_some_and(|word| ITEM_WORDS.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_found(text: &str, word: &str, lines: &[usize]) {
        let source = Source::new("crates/a/src/b.rs", text);
        let found: Vec<usize> = source
            .production(word)
            .map(|offset| source.line_at(offset))
            .collect();
        assert_eq!(found, lines);
    }

    #[test]
    fn a_word_in_code_is_found_on_its_line() {
        check_found("\nlet a = now();\n", "now", &[2]);
    }

    #[test]
    fn a_word_in_comments_and_strings_is_not_code() {
        check_found("// now\nlet a = \"now\";\n", "now", &[]);
    }

    #[test]
    fn a_part_of_an_identifier_is_not_the_word() {
        check_found("let a = nowhere + un_now;\n", "now", &[]);
    }

    #[test]
    fn a_pattern_that_begins_with_a_sign_may_follow_a_word() {
        check_found("a.now;\nb.nowhere;\n", ".now", &[1]);
    }

    #[test]
    fn test_modules_are_left_out_and_what_follows_is_not() {
        check_found(
            "#[cfg(test)]\nmod tests { fn f() { now() } }\nfn g() { now() }\n",
            "now",
            &[3],
        );
    }

    #[test]
    fn an_item_for_tests_or_a_feature_is_left_out() {
        check_found(
            "#[cfg(any(test, feature = \"kit\"))]\nmod kit { fn f() { now() } }\nfn g() { now() }\n",
            "now",
            &[3],
        );
    }

    #[test]
    fn a_test_item_inside_another_counts_once() {
        let source = Source::new(
            "a.rs",
            "#[cfg(test)]\nmod tests {\n#[cfg(test)]\nmod a;\n}\nfn g() {}\n",
        );
        assert_eq!(source.production_lines(), 1);
    }

    #[test]
    fn a_test_item_without_a_block_ends_at_its_semicolon() {
        check_found("#[cfg(test)]\nuse a::{now};\nfn g() { now() }\n", "now", &[3]);
    }

    #[test]
    fn a_test_field_ends_at_its_comma() {
        check_found(
            "struct S {\n#[cfg(test)]\nnow: u8,\nlater: now,\n}\n",
            "now",
            &[4],
        );
    }

    #[test]
    fn files_of_tests_hold_no_production_code() {
        let source = Source::new("crates/a/src/b/tests.rs", "fn f() { now() }");
        assert_eq!(source.production("now").count(), 0);
        assert_eq!(source.production_lines(), 0);
    }

    #[test]
    fn lines_of_tests_are_not_counted() {
        let source = Source::new("crates/a/src/b.rs", "fn a() {}\n\n#[cfg(test)]\nmod tests {\n}\n");
        assert_eq!(source.production_lines(), 2);
    }

    #[test]
    fn modules_declared_for_tests_are_known_by_name() {
        let source = Source::new(
            "crates/a/src/b.rs",
            "#[cfg(test)]\nmod script;\n#[cfg(test)]\nmod tests {}\n",
        );
        assert_eq!(source.test_modules(), ["script"]);
    }
}
