//! Tags of an HTML page: finds the attributes that have URLs. Everything else is copied as it is.

use super::Links;

/// A tag that is longer is copied as it is.
const MAX_TAG_BYTES: usize = 16 * 1024;

/// The attributes of elements that have URLs (upstream: `atomsToAttrs`).
const URL_ATTRIBUTES: &[(&str, &[&str])] = &[
    ("a", &["href"]),
    ("applet", &["codebase"]),
    ("area", &["href"]),
    ("audio", &["src"]),
    ("base", &["href"]),
    ("blockquote", &["cite"]),
    ("body", &["background"]),
    ("button", &["formaction"]),
    ("command", &["icon"]),
    ("del", &["cite"]),
    ("embed", &["src"]),
    ("form", &["action"]),
    ("frame", &["longdesc", "src"]),
    ("head", &["profile"]),
    ("html", &["manifest"]),
    ("iframe", &["longdesc", "src"]),
    ("img", &["longdesc", "src", "usemap"]),
    ("input", &["src", "usemap", "formaction"]),
    ("ins", &["cite"]),
    ("link", &["href"]),
    ("object", &["classid", "codebase", "data", "usemap"]),
    ("q", &["cite"]),
    ("script", &["src"]),
    ("source", &["src"]),
    ("video", &["poster", "src"]),
];

/// Elements whose content is text, whatever it looks like.
const RAW_TEXT: [&str; 9] = [
    "iframe", "noembed", "noframes", "noscript", "script", "style", "textarea", "title", "xmp",
];

/// Rewrites the links of a page that comes in pieces.
pub(super) struct TagScanner {
    links: Links,
    /// The beginning of a tag, or of the end of raw text, whose rest has not come yet.
    pending: Vec<u8>,
    /// The element whose raw text is being read.
    raw_text: Option<&'static str>,
}

/// An attribute: its name, and where its value is in the tag, without quotes.
struct Attribute<'a> {
    name: &'a [u8],
    value: std::ops::Range<usize>,
}

impl TagScanner {
    pub(super) fn new(links: Links) -> Self {
        Self {
            links,
            pending: Vec::new(),
            raw_text: None,
        }
    }

    /// The rewritten text, as far as its tags are complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut input = std::mem::take(&mut self.pending);
        input.extend_from_slice(bytes);
        let mut out = Vec::with_capacity(input.len());
        let mut rest = &input[..];
        while !rest.is_empty() {
            let length = match self.raw_text {
                Some(element) => self.raw_text_length(element, rest),
                None => text_length(rest),
            };
            out.extend_from_slice(&rest[..length]);
            rest = &rest[length..];
            if rest.is_empty() {
                break;
            }
            match tag_length(rest) {
                Some(length) if self.raw_text.is_none() => {
                    self.write_tag(&rest[..length], &mut out);
                    rest = &rest[length..];
                }
                _ if rest.len() > MAX_TAG_BYTES => {
                    out.extend_from_slice(rest);
                    break;
                }
                _ => {
                    self.pending = rest.to_vec();
                    break;
                }
            }
        }
        out
    }

    /// What is left at the end of the page.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.pending)
    }

    /// How much of this is raw text for certain. It ends with the end tag of its element.
    fn raw_text_length(&mut self, element: &str, rest: &[u8]) -> usize {
        let end_bytes = "</".len() + element.len();
        let is_end = |candidate: &[u8]| {
            candidate.starts_with(b"</") && candidate[2..].eq_ignore_ascii_case(element.as_bytes())
        };
        match rest.windows(end_bytes).position(is_end) {
            Some(at) => {
                self.raw_text = None;
                at
            }
            None => rest.len() - (end_bytes - 1).min(rest.len()),
        }
    }

    fn write_tag(&mut self, tag: &[u8], out: &mut Vec<u8>) {
        let name_bytes = tag[1..].iter().take_while(|byte| !ends_name(**byte)).count();
        let name = &tag[1..=name_bytes];
        let is = |element: &str| name.eq_ignore_ascii_case(element.as_bytes());
        if !tag.ends_with(b"/>") {
            self.raw_text = RAW_TEXT.into_iter().find(|element| is(element));
        }
        let urls = URL_ATTRIBUTES.iter().find(|(element, _)| is(element));
        let urls = urls.map_or(&[][..], |(_, attributes)| attributes);
        let mut copied = 0;
        let mut at = 1 + name_bytes;
        while let Some(attribute) = next_attribute(tag, &mut at) {
            let has_url = urls
                .iter()
                .any(|url| attribute.name.eq_ignore_ascii_case(url.as_bytes()));
            let value = std::str::from_utf8(&tag[attribute.value.clone()]).ok();
            let rewritten = value.filter(|_| has_url);
            if let Some(url) = rewritten.and_then(|value| self.links.through_proxy(value)) {
                out.extend_from_slice(&tag[copied..attribute.value.start]);
                out.extend_from_slice(url.as_bytes());
                copied = attribute.value.end;
            }
        }
        out.extend_from_slice(&tag[copied..]);
    }
}

/// The bytes in front of the next tag.
fn text_length(rest: &[u8]) -> usize {
    find(rest, b"<").unwrap_or(rest.len())
}

/// The length of the tag, of the comment or of the character `<` with which this begins; `None` if it is not complete.
fn tag_length(rest: &[u8]) -> Option<usize> {
    match rest.get(1)? {
        b'!' if rest.starts_with(b"<!--") => {
            let end = find(&rest[4..], b"-->")?;
            Some(4 + end + 3)
        }
        b'!' if b"<!--".starts_with(rest) => None,
        b'!' | b'?' | b'/' => find(rest, b">").map(|at| at + 1),
        first if first.is_ascii_alphabetic() => start_tag_length(rest),
        _ => Some(1),
    }
}

/// The length of a start tag. A `>` in quotes does not end it; quotes are those behind `=`.
fn start_tag_length(rest: &[u8]) -> Option<usize> {
    let (mut quote, mut previous) = (None, b'<');
    for (at, byte) in rest.iter().copied().enumerate() {
        match quote {
            Some(end) if byte == end => quote = None,
            Some(_) => continue,
            None if byte == b'>' => return Some(at + 1),
            None if previous == b'=' && matches!(byte, b'"' | b'\'') => quote = Some(byte),
            None => {}
        }
        if !byte.is_ascii_whitespace() {
            previous = byte;
        }
    }
    None
}

/// The next attribute that has a value, from here on.
fn next_attribute<'a>(tag: &'a [u8], at: &mut usize) -> Option<Attribute<'a>> {
    loop {
        skip(tag, at, |byte| byte.is_ascii_whitespace() || byte == b'/');
        let start = *at;
        skip(tag, at, |byte| !ends_name(byte) && byte != b'=');
        let name = &tag[start..*at];
        skip(tag, at, |byte| byte.is_ascii_whitespace());
        match tag.get(*at)? {
            b'>' => return None,
            b'=' => {
                *at += 1;
                let value = attribute_value(tag, at)?;
                return Some(Attribute { name, value });
            }
            _ => {}
        }
    }
}

fn attribute_value(tag: &[u8], at: &mut usize) -> Option<std::ops::Range<usize>> {
    skip(tag, at, |byte| byte.is_ascii_whitespace());
    let quote = *tag.get(*at)?;
    if !matches!(quote, b'"' | b'\'') {
        let start = *at;
        skip(tag, at, |byte| !byte.is_ascii_whitespace() && byte != b'>');
        return Some(start..*at);
    }
    *at += 1;
    let start = *at;
    skip(tag, at, |byte| byte != quote);
    let value = start..*at;
    *at += 1;
    Some(value)
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

fn ends_name(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>')
}

fn skip(tag: &[u8], at: &mut usize, is_skipped: impl Fn(u8) -> bool) {
    while tag.get(*at).is_some_and(|byte| is_skipped(*byte)) {
        *at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::links;
    use super::*;

    /// Rewrites the page as a whole and byte by byte. `PREFIX` stands for the path up to `/proxy`.
    #[track_caller]
    fn check(page: &str, expected: &str) {
        let expected = expected.replace("PREFIX", &links().prefix);
        for piece in [1, 7, page.len().max(1)] {
            let mut tags = TagScanner::new(links());
            let mut out: Vec<u8> = page
                .as_bytes()
                .chunks(piece)
                .flat_map(|bytes| tags.push(bytes))
                .collect();
            out.extend(tags.finish());
            assert_eq!(String::from_utf8(out).unwrap(), expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn attributes_with_urls_are_rewritten() {
        check(r#"<a href="/x">y</a>"#, r#"<a href="PREFIX/x">y</a>"#);
        check(
            "<p><IMG alt='/n' SRC = '/x' usemap=/m><br/>",
            "<p><IMG alt='/n' SRC = 'PREFIX/x' usemap=PREFIX/m><br/>",
        );
        check(
            r#"<a title="a>b" href="/x?a=1&amp;b=2" class=c>"#,
            r#"<a title="a>b" href="PREFIX/x?a=1&amp;b=2" class=c>"#,
        );
        check("<link disabled href=/x />", "<link disabled href=PREFIX/x />");
    }

    #[test]
    fn everything_else_is_copied() {
        for page in [
            "",
            "a < b <",
            "<a href=\"x\"><p href=\"/x\"><a data-href='/x'>",
            "<!-- <a href=\"/x\"> -->",
            "<!doctype html><a href>",
            "<script>\"<a href='/x'>\"</script>",
            "<a href=\"/x",
            "<a =\"/x\" / = ='/y'>",
        ] {
            check(page, page);
        }
    }

    #[test]
    fn tags_after_raw_text_are_rewritten() {
        check(
            "<script src=/s>a</b></SCRIPT><a href='/x'>",
            "<script src=PREFIX/s>a</b></SCRIPT><a href='PREFIX/x'>",
        );
    }

    #[test]
    fn a_tag_without_an_end_is_not_collected() {
        let mut tags = TagScanner::new(links());
        let long = format!("<a {}", "b".repeat(2 * MAX_TAG_BYTES));
        assert_eq!(tags.push(long.as_bytes()).len(), long.len());
        assert!(tags.finish().is_empty());
    }
}
