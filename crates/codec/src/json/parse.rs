//! The JSON parser.
//!
//! It is recursive, so depth is limited well below what a thread's stack holds. Deeper containers are skipped without
//! recursion: a body may have them in a field that its kind does not know.

use std::borrow::Cow;

use compact_str::CompactString;
use setpoint_schema::Tree;

use super::error::Error;
use super::invalid_utf8::{replace_invalid_utf8, restore_invalid_byte};

/// Deeper nesting is rejected, unless it is in a field that is dropped. Real objects stay below a tenth of this.
pub const MAX_DEPTH: usize = 512;

/// A parsed value in which containers deeper than [`MAX_DEPTH`] may have been cut off.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DepthLimitedTree {
    /// The value, with null for each container deeper than [`MAX_DEPTH`].
    pub(crate) tree: Tree,
    pub(crate) is_truncated: bool,
}

/// Parses one JSON value. Nothing but white space may follow it.
pub fn parse(bytes: &[u8]) -> Result<Tree, Error> {
    parse_at_depth(bytes, 0)
}

/// Parses one JSON value that will be nested below `depth` lists and maps of a tree.
pub(crate) fn parse_at_depth(bytes: &[u8], depth: usize) -> Result<Tree, Error> {
    let DepthLimitedTree { tree, is_truncated } = parse_depth_limited(bytes, depth)?;
    match is_truncated {
        true => Err(Error::Depth),
        false => Ok(tree),
    }
}

/// Parses one JSON value, and cuts off containers that are nested too deep.
pub(crate) fn parse_depth_limited(bytes: &[u8], depth: usize) -> Result<DepthLimitedTree, Error> {
    match std::str::from_utf8(bytes) {
        Ok(text) => parse_text(text, depth).map_err(|(error, _)| error),
        Err(_) => parse_text(&replace_invalid_utf8(bytes), depth)
            .map_err(|(error, at)| restore_invalid_byte(error, bytes, at)),
    }
}

/// On failure also returns the index in the text.
fn parse_text(text: &str, depth: usize) -> Result<DepthLimitedTree, (Error, usize)> {
    let mut parser = Parser {
        text,
        bytes: text.as_bytes(),
        at: 0,
        is_truncated: false,
    };
    let mut tree = Tree::Null;
    let read = parser.value(depth, &mut tree).and_then(|()| parser.end());
    match read {
        Ok(()) => Ok(DepthLimitedTree {
            tree,
            is_truncated: parser.is_truncated,
        }),
        Err(error) => Err((error, parser.at)),
    }
}

pub(super) struct Parser<'a> {
    text: &'a str,
    bytes: &'a [u8],
    /// The index of the next byte; on failure, of the invalid byte.
    pub(super) at: usize,
    /// Whether a container was too deep to keep.
    pub(super) is_truncated: bool,
}

impl<'a> Parser<'a> {
    fn end(&mut self) -> Result<(), Error> {
        match self.peek() {
            None => Ok(()),
            Some(byte) => Err(Error::Byte {
                byte,
                context: "after top-level value",
            }),
        }
    }

    /// The next byte that is not white space.
    pub(super) fn peek(&mut self) -> Option<u8> {
        while let Some(byte) = self.bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    /// Parses a value directly into its tree node: moving nodes costs more than parsing them.
    pub(super) fn value(&mut self, depth: usize, out: &mut Tree) -> Result<(), Error> {
        match self.peek().ok_or(Error::End)? {
            b'"' => *out = Tree::Str(CompactString::from(self.string()?)),
            b'{' => return self.object(depth + 1, out),
            b'[' => return self.list(depth + 1, out),
            b'-' | b'0'..=b'9' => *out = self.number()?,
            b't' => *out = self.literal("true", Tree::Bool(true))?,
            b'f' => *out = self.literal("false", Tree::Bool(false))?,
            b'n' => *out = self.literal("null", Tree::Null)?,
            byte => {
                return Err(Error::Byte {
                    byte,
                    context: "looking for beginning of value",
                });
            }
        }
        Ok(())
    }

    fn object(&mut self, depth: usize, out: &mut Tree) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return self.skip_container(depth);
        }
        self.at += 1;
        let map = out.map_or_default();
        if self.peek().ok_or(Error::End)? == b'}' {
            self.at += 1;
            return Ok(());
        }
        loop {
            let key = self.key()?;
            self.value(depth, map.push_null(CompactString::from(key)))?;
            match self.peek().ok_or(Error::End)? {
                b',' => self.at += 1,
                b'}' => break,
                byte => {
                    return Err(Error::Byte {
                        byte,
                        context: "after object key:value pair",
                    });
                }
            }
        }
        self.at += 1;
        Ok(())
    }

    /// A key and the colon after it.
    pub(super) fn key(&mut self) -> Result<Cow<'a, str>, Error> {
        match self.peek().ok_or(Error::End)? {
            b'"' => {}
            byte => {
                return Err(Error::Byte {
                    byte,
                    context: "looking for beginning of object key string",
                });
            }
        }
        let key = self.string()?;
        match self.peek().ok_or(Error::End)? {
            b':' => self.at += 1,
            byte => {
                return Err(Error::Byte {
                    byte,
                    context: "after object key",
                });
            }
        }
        Ok(key)
    }

    fn list(&mut self, depth: usize, out: &mut Tree) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return self.skip_container(depth);
        }
        self.at += 1;
        let mut items = Vec::new();
        if self.peek().ok_or(Error::End)? == b']' {
            self.at += 1;
            *out = Tree::List(items);
            return Ok(());
        }
        loop {
            self.value(depth, items.push_mut(Tree::Null))?;
            match self.peek().ok_or(Error::End)? {
                b',' => self.at += 1,
                b']' => break,
                byte => {
                    return Err(Error::Byte {
                        byte,
                        context: "after array element",
                    });
                }
            }
        }
        self.at += 1;
        *out = Tree::List(items);
        Ok(())
    }

    fn literal(&mut self, word: &'static str, value: Tree) -> Result<Tree, Error> {
        if self.bytes[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            return Ok(value);
        }
        let rest = &self.bytes[self.at..];
        let wrong = word
            .bytes()
            .zip(rest)
            .position(|(expected, actual)| expected != *actual);
        match wrong {
            None => Err(Error::End),
            Some(at) => {
                self.at += at;
                Err(Error::Byte {
                    byte: rest[at],
                    context: literal_context(word, at),
                })
            }
        }
    }

    fn string(&mut self) -> Result<Cow<'a, str>, Error> {
        let start = self.at + 1;
        self.at = plain_end(self.bytes, start);
        match self.bytes.get(self.at) {
            Some(b'"') => {
                let text = &self.text[start..self.at];
                self.at += 1;
                Ok(Cow::Borrowed(text))
            }
            Some(b'\\') => self.escaped_string(start),
            Some(byte) => Err(Error::Byte {
                byte: *byte,
                context: "in string literal",
            }),
            None => Err(Error::End),
        }
    }

    /// A string with escapes; `start` is its first byte and `at` the first escape.
    fn escaped_string(&mut self, start: usize) -> Result<Cow<'a, str>, Error> {
        let mut text = String::from(&self.text[start..self.at]);
        loop {
            let from = self.at;
            self.at = plain_end(self.bytes, from);
            text.push_str(&self.text[from..self.at]);
            match self.bytes.get(self.at).ok_or(Error::End)? {
                b'"' => break,
                b'\\' => {
                    self.at += 1;
                    text.push(self.escape()?);
                }
                byte => {
                    return Err(Error::Byte {
                        byte: *byte,
                        context: "in string literal",
                    });
                }
            }
        }
        self.at += 1;
        Ok(Cow::Owned(text))
    }

    fn escape(&mut self) -> Result<char, Error> {
        let byte = *self.bytes.get(self.at).ok_or(Error::End)?;
        let escaped = match byte {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'"' | b'\\' | b'/' => char::from(byte),
            b'u' => {
                self.at += 1;
                return self.unicode_escape();
            }
            byte => {
                return Err(Error::Byte {
                    byte,
                    context: "in string escape code",
                });
            }
        };
        self.at += 1;
        Ok(escaped)
    }

    /// A lone surrogate becomes U+FFFD.
    fn unicode_escape(&mut self) -> Result<char, Error> {
        let first = self.four_digits()?;
        if let Some(plain) = char::from_u32(first) {
            return Ok(plain);
        }
        if first >= 0xdc00 || !self.bytes[self.at..].starts_with(b"\\u") {
            return Ok(char::REPLACEMENT_CHARACTER);
        }
        let before = self.at;
        self.at += 2;
        let second = self.four_digits()?;
        if !(0xdc00..0xe000).contains(&second) {
            self.at = before;
            return Ok(char::REPLACEMENT_CHARACTER);
        }
        let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn four_digits(&mut self) -> Result<u32, Error> {
        let mut code = 0;
        for _ in 0..4 {
            let byte = *self.bytes.get(self.at).ok_or(Error::End)?;
            let digit = char::from(byte).to_digit(16);
            let context = "in \\u hexadecimal character escape";
            code = code * 16 + digit.ok_or(Error::Byte { byte, context })?;
            self.at += 1;
        }
        Ok(code)
    }

    fn number(&mut self) -> Result<Tree, Error> {
        let start = self.at;
        if self.bytes[self.at] == b'-' {
            self.at += 1;
        }
        match self.bytes.get(self.at) {
            Some(b'0') => self.at += 1,
            _ => self.digits("in numeric literal")?,
        }
        let mut whole = true;
        if self.bytes.get(self.at) == Some(&b'.') {
            whole = false;
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            whole = false;
            self.at += 1;
            if let Some(b'+' | b'-') = self.bytes.get(self.at) {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        numeric(&self.text[start..self.at], whole)
    }

    fn digits(&mut self, context: &'static str) -> Result<(), Error> {
        let count = self.bytes[self.at..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        self.at += count;
        match self.bytes.get(self.at) {
            _ if count > 0 => Ok(()),
            None => Err(Error::End),
            Some(byte) => Err(Error::Byte { byte: *byte, context }),
        }
    }
}

fn numeric(text: &str, whole: bool) -> Result<Tree, Error> {
    if whole && let Ok(number) = text.parse() {
        return Ok(Tree::Int(number));
    }
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(Tree::Float(number)),
        _ => Err(Error::Number(text.to_string())),
    }
}

/// The index of the first byte that is a quote, a backslash or a control character. Tests eight bytes at once.
fn plain_end(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let special = special_bytes(u64::from_le_bytes(*chunk));
        if special != 0 {
            return at + special.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while let Some(byte) = bytes.get(at) {
        if matches!(byte, b'"' | b'\\' | 0..=0x1f) {
            break;
        }
        at += 1;
    }
    at
}

/// A word whose lowest set bit lies in the first special byte. Bits above that one may be wrong.
fn special_bytes(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    let quote = word ^ (ONES * b'"' as u64);
    let backslash = word ^ (ONES * b'\\' as u64);
    let zero_in = |word: u64| word.wrapping_sub(ONES) & !word;
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    (zero_in(quote) | zero_in(backslash) | control) & HIGH
}

fn literal_context(word: &str, at: usize) -> &'static str {
    match (word, at) {
        ("true", 1) => "in literal true (expecting 'r')",
        ("true", 2) => "in literal true (expecting 'u')",
        ("true", _) => "in literal true (expecting 'e')",
        ("false", 1) => "in literal false (expecting 'a')",
        ("false", 2) => "in literal false (expecting 'l')",
        ("false", 3) => "in literal false (expecting 's')",
        ("false", _) => "in literal false (expecting 'e')",
        ("null", 1) => "in literal null (expecting 'u')",
        _ => "in literal null (expecting 'l')",
    }
}
