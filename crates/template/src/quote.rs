//! Quoted strings and characters as Go's `strconv` writes and reads them.

use crate::unicode::is_print;

/// The text of a literal that cannot be unquoted, as `strconv.ErrSyntax` prints it.
pub(crate) const INVALID_SYNTAX: &str = "invalid syntax";

/// A string in double quotes, as `strconv.Quote` writes it.
pub(crate) fn quote(text: &str) -> String {
    quoted(text, '"', false)
}

/// A string in double quotes with only ASCII characters.
pub(crate) fn quote_ascii(text: &str) -> String {
    quoted(text, '"', true)
}

/// A character in single quotes, as `strconv.QuoteRune` writes it.
pub(crate) fn quote_char(c: char, ascii: bool) -> String {
    quoted(c.encode_utf8(&mut [0; 4]), '\'', ascii)
}

/// `U+0041 'A'`, as `%#U` prints a character.
pub(crate) fn unicode_point(c: char) -> String {
    match is_print(c) {
        true => format!("U+{:04X} '{c}'", u32::from(c)),
        false => format!("U+{:04X}", u32::from(c)),
    }
}

fn quoted(text: &str, mark: char, ascii: bool) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push(mark);
    for c in text.chars() {
        push_escaped(&mut out, c, mark, ascii);
    }
    out.push(mark);
    out
}

fn push_escaped(out: &mut String, c: char, mark: char, ascii: bool) {
    if c == mark || c == '\\' {
        out.push('\\');
        out.push(c);
        return;
    }
    if (c.is_ascii() || !ascii) && is_print(c) {
        out.push(c);
        return;
    }
    let code = u32::from(c);
    match c {
        '\u{7}' => out.push_str("\\a"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{b}' => out.push_str("\\v"),
        _ if code < 0x20 || code == 0x7f => out.push_str(&format!("\\x{code:02x}")),
        _ if code < 0x10000 => out.push_str(&format!("\\u{code:04x}")),
        _ => out.push_str(&format!("\\U{code:08x}")),
    }
}

/// Whether a string can stand in back quotes unchanged, as `strconv.CanBackquote` decides.
pub(crate) fn can_backquote(text: &str) -> bool {
    text.chars()
        .all(|c| c != '\u{feff}' && c != '`' && c != '\u{7f}' && (c >= ' ' || c == '\t'))
}

/// The string of a literal in double or back quotes. Bytes that are not UTF-8 become U+FFFD.
pub(crate) fn unquote(literal: &str) -> Result<String, &'static str> {
    let mark = literal.chars().next().ok_or(INVALID_SYNTAX)?;
    let inner = literal
        .strip_prefix(mark)
        .and_then(|rest| rest.strip_suffix(mark))
        .ok_or(INVALID_SYNTAX)?;
    if mark == '`' {
        return Ok(inner.replace('\r', ""));
    }
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while !rest.is_empty() {
        let (unit, tail) = unquote_char(rest, mark)?;
        unit.push_to(&mut bytes);
        rest = tail;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The value of an escape sequence: a byte or a character.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unit {
    Byte(u8),
    Char(char),
}

impl Unit {
    fn push_to(self, bytes: &mut Vec<u8>) {
        match self {
            Self::Byte(byte) => bytes.push(byte),
            Self::Char(c) => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }

    pub(crate) fn code(self) -> u32 {
        match self {
            Self::Byte(byte) => u32::from(byte),
            Self::Char(c) => u32::from(c),
        }
    }
}

/// The first character or escape sequence of a literal in the given quotes, and the rest.
pub(crate) fn unquote_char(text: &str, mark: char) -> Result<(Unit, &str), &'static str> {
    let mut chars = text.chars();
    let c = chars.next().ok_or(INVALID_SYNTAX)?;
    if c == mark || c == '\n' {
        return Err(INVALID_SYNTAX);
    }
    if c != '\\' {
        return Ok((Unit::Char(c), chars.as_str()));
    }
    let escape = chars.next().ok_or(INVALID_SYNTAX)?;
    let rest = chars.as_str();
    let simple = match escape {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        '\\' => '\\',
        '\'' | '"' if escape == mark => escape,
        'x' => return byte_escape(rest, 2, 16),
        '0'..='7' => return byte_escape(&text[1..], 3, 8),
        'u' => return char_escape(rest, 4),
        'U' => return char_escape(rest, 8),
        _ => return Err(INVALID_SYNTAX),
    };
    Ok((Unit::Char(simple), rest))
}

fn byte_escape(rest: &str, digits: usize, base: u32) -> Result<(Unit, &str), &'static str> {
    let (code, tail) = escape_code(rest, digits, base)?;
    let byte = u8::try_from(code).map_err(|_| INVALID_SYNTAX)?;
    Ok((Unit::Byte(byte), tail))
}

fn char_escape(rest: &str, digits: usize) -> Result<(Unit, &str), &'static str> {
    let (code, tail) = escape_code(rest, digits, 16)?;
    let c = char::from_u32(code).ok_or(INVALID_SYNTAX)?;
    Ok((Unit::Char(c), tail))
}

fn escape_code(rest: &str, digits: usize, base: u32) -> Result<(u32, &str), &'static str> {
    let code = rest.get(..digits).ok_or(INVALID_SYNTAX)?;
    if !code.chars().all(|c| c.is_digit(base)) {
        return Err(INVALID_SYNTAX);
    }
    let value = u32::from_str_radix(code, base).map_err(|_| INVALID_SYNTAX)?;
    Ok((value, &rest[digits..]))
}
