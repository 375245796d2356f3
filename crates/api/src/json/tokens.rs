//! [`Tokens`]: the grammar of JSON, without types.

use serde::de::{Error as _, Expected, IgnoredAny, Unexpected};
use serde_json::{Error, Number};

/// The most nested objects and arrays that are read, as in `serde_json`. Skipped values may be nested deeper.
const MAX_DEPTH: u8 = 127;

/// A position in JSON text. Each function reads one token, and whitespace before it.
#[derive(Debug)]
pub(super) struct Tokens<'a> {
    text: &'a str,
    /// Offset of the next byte.
    at: usize,
    /// The number of objects and arrays around the position.
    depth: u8,
    /// The last string with escapes, or the brackets around a value that is skipped.
    scratch: String,
}

/// A string literal in the text, without its quotes.
#[derive(Debug, Clone, Copy)]
struct Literal {
    start: usize,
    end: usize,
    has_escapes: bool,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(json: &'a [u8]) -> Result<Self, Error> {
        let text = std::str::from_utf8(json).map_err(|_| Error::custom("invalid unicode code point"))?;
        Ok(Self {
            text,
            at: 0,
            depth: 0,
            scratch: String::new(),
        })
    }

    /// The first byte of the next token.
    pub(super) fn peek(&mut self) -> Result<u8, Error> {
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            if !is_space(byte) {
                return Ok(*byte);
            }
            self.at += 1;
        }
        Err(self.malformed())
    }

    /// Checks that nothing but whitespace follows.
    pub(super) fn finish(&mut self) -> Result<(), Error> {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        match rest.iter().all(is_space) {
            true => Ok(()),
            false => Err(self.malformed()),
        }
    }

    /// Enters the object or array whose bracket is next.
    pub(super) fn enter(&mut self) -> Result<(), Error> {
        if self.depth == MAX_DEPTH {
            return Err(Error::custom("recursion limit exceeded"));
        }
        self.depth += 1;
        self.at += 1;
        Ok(())
    }

    /// Leaves the object or array that ends with this bracket.
    pub(super) fn leave(&mut self, bracket: u8) -> Result<(), Error> {
        self.expect(bracket)?;
        self.depth -= 1;
        Ok(())
    }

    /// Whether the array has another element, at which the position is then.
    pub(super) fn next_element(&mut self, is_first: &mut bool) -> Result<bool, Error> {
        if self.peek()? == b']' {
            return Ok(false);
        }
        if !std::mem::take(is_first) {
            self.expect(b',')?;
        }
        Ok(true)
    }

    /// The next key of the object, if there is one. The position is then at its value.
    pub(super) fn next_key(&mut self, is_first: &mut bool) -> Result<Option<&str>, Error> {
        if self.peek()? == b'}' {
            return Ok(None);
        }
        if !std::mem::take(is_first) {
            self.expect(b',')?;
        }
        let key = self.literal()?;
        self.expect(b':')?;
        self.unescape(key).map(Some)
    }

    /// A string.
    pub(super) fn string(&mut self) -> Result<&str, Error> {
        let literal = self.literal()?;
        self.unescape(literal)
    }

    /// `null`, `true` or `false`.
    pub(super) fn word(&mut self, word: &str) -> Result<(), Error> {
        self.peek()?;
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return Err(self.malformed());
        }
        self.at += word.len();
        Ok(())
    }

    /// A number.
    pub(super) fn number(&mut self) -> Result<Number, Error> {
        let literal = self.number_literal()?;
        if literal.len() < 19 && literal.bytes().all(|byte| byte.is_ascii_digit()) {
            let integer = literal
                .bytes()
                .fold(0, |value, digit| value * 10 + u64::from(digit - b'0'));
            return Ok(integer.into());
        }
        literal.parse()
    }

    /// The characters of a number.
    fn number_literal(&mut self) -> Result<&'a str, Error> {
        self.peek()?;
        let rest = &self.text[self.at..];
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let (literal, _) = rest.split_at(rest.bytes().take_while(is_part).count());
        if !has_number_syntax(literal.as_bytes()) {
            return Err(self.malformed());
        }
        self.at += literal.len();
        Ok(literal)
    }

    /// Skips a value, however deep it is nested.
    pub(super) fn skip(&mut self) -> Result<(), Error> {
        self.scratch.clear();
        loop {
            match self.peek()? {
                b'"' => drop(self.literal()?),
                bracket @ (b'{' | b'[') => {
                    self.at += 1;
                    if self.peek()? != bracket + 2 {
                        self.scratch.push(bracket.into());
                        self.skip_key(bracket)?;
                        continue;
                    }
                    self.at += 1;
                }
                b'n' => self.word("null")?,
                b't' => self.word("true")?,
                b'f' => self.word("false")?,
                _ => drop(self.number_literal()?),
            }
            if self.skip_brackets()? {
                return Ok(());
            }
        }
    }

    /// Skips what follows a skipped value: closing brackets, or a comma and a key. Returns whether no bracket is left open.
    fn skip_brackets(&mut self) -> Result<bool, Error> {
        while let Some(&bracket) = self.scratch.as_bytes().last() {
            // The closing bracket is two characters after the opening one.
            if self.peek()? != bracket + 2 {
                self.expect(b',')?;
                self.skip_key(bracket)?;
                return Ok(false);
            }
            self.at += 1;
            self.scratch.pop();
        }
        Ok(true)
    }

    /// Skips a key and its colon, if the bracket is that of an object.
    fn skip_key(&mut self, bracket: u8) -> Result<(), Error> {
        if bracket == b'{' {
            self.literal()?;
            self.expect(b':')?;
        }
        Ok(())
    }

    /// The error for a value that is not of the expected type.
    #[cold]
    pub(super) fn invalid_type(&mut self, expected: &dyn Expected) -> Error {
        match self.unexpected(expected) {
            Ok(error) | Err(error) => error,
        }
    }

    fn unexpected(&mut self, expected: &dyn Expected) -> Result<Error, Error> {
        let invalid = |unexpected: Unexpected<'_>| Error::invalid_type(unexpected, expected);
        Ok(match self.peek()? {
            b'"' => invalid(Unexpected::Str(self.string()?)),
            b'{' => invalid(Unexpected::Map),
            b'[' => invalid(Unexpected::Seq),
            b'n' => self.word("null").map(|()| invalid(Unexpected::Other("null")))?,
            b't' => self.word("true").map(|()| invalid(Unexpected::Bool(true)))?,
            b'f' => self.word("false").map(|()| invalid(Unexpected::Bool(false)))?,
            _ => {
                let number = self.number()?;
                let float = || Unexpected::Float(number.as_f64().unwrap_or_default());
                let signed = || number.as_i64().map_or_else(float, Unexpected::Signed);
                invalid(number.as_u64().map_or_else(signed, Unexpected::Unsigned))
            }
        })
    }

    /// The error with the line and the column of this position, unless it has some.
    #[cold]
    pub(super) fn locate(&self, error: Error) -> Error {
        if error.line() > 0 {
            return error;
        }
        let read = &self.text[..self.at.min(self.text.len())];
        let line = 1 + read.matches('\n').count();
        let column = read.len() - read.rfind('\n').map_or(0, |newline| newline + 1);
        Error::custom(format_args!("{error} at line {line} column {column}"))
    }

    /// The error for text that is not JSON: that of `serde_json`, which finds it again.
    #[cold]
    fn malformed(&self) -> Error {
        let error = serde_json::from_str::<IgnoredAny>(self.text).err();
        error.unwrap_or_else(|| self.locate(Error::custom("expected another value")))
    }

    fn expect(&mut self, byte: u8) -> Result<(), Error> {
        if self.peek()? != byte {
            return Err(self.malformed());
        }
        self.at += 1;
        Ok(())
    }

    fn literal(&mut self) -> Result<Literal, Error> {
        self.expect(b'"')?;
        let bytes = self.text.as_bytes();
        let start = self.at;
        let mut has_escapes = false;
        loop {
            self.at += plain_prefix(&bytes[self.at..]);
            match bytes.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    has_escapes = true;
                    self.at += self.escape_length()?;
                }
                _ => return Err(self.malformed()),
            }
        }
        let end = self.at;
        self.at += 1;
        Ok(Literal {
            start,
            end,
            has_escapes,
        })
    }

    /// The length of the escape sequence whose backslash is next.
    fn escape_length(&self) -> Result<usize, Error> {
        let rest = &self.text.as_bytes()[self.at + 1..];
        let is_code_point = || {
            rest.get(1..5)
                .is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
        };
        match rest.first() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(2),
            Some(b'u') if is_code_point() => Ok(6),
            _ => Err(self.malformed()),
        }
    }

    fn unescape(&mut self, literal: Literal) -> Result<&str, Error> {
        let Literal { start, end, .. } = literal;
        if !literal.has_escapes {
            return Ok(&self.text[start..end]);
        }
        self.scratch = serde_json::from_str(&self.text[start - 1..=end])?;
        Ok(&self.scratch)
    }
}

fn is_space(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\t' | b'\r')
}

/// Whether these are an integer without leading zeros, and then optionally a fraction and an exponent.
fn has_number_syntax(literal: &[u8]) -> bool {
    let literal = literal.strip_prefix(b"-").unwrap_or(literal);
    let (integer, mut rest) = split_digits(literal);
    if integer.is_empty() || (integer.len() > 1 && integer[0] == b'0') {
        return false;
    }
    if let Some(fraction) = rest.strip_prefix(b".") {
        let (digits, after) = split_digits(fraction);
        if digits.is_empty() {
            return false;
        }
        rest = after;
    }
    let Some((b'e' | b'E', exponent)) = rest.split_first() else {
        return rest.is_empty();
    };
    let exponent = exponent
        .strip_prefix(b"-")
        .or(exponent.strip_prefix(b"+"))
        .unwrap_or(exponent);
    !exponent.is_empty() && exponent.iter().all(u8::is_ascii_digit)
}

fn split_digits(bytes: &[u8]) -> (&[u8], &[u8]) {
    bytes.split_at(bytes.iter().take_while(|byte| byte.is_ascii_digit()).count())
}

/// The number of bytes before the first quote, backslash or control character: eight bytes at a time.
pub(super) fn plain_prefix(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    let mut length = 0;
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        let word = chunk.try_into().map_or(0, u64::from_le_bytes);
        let control = word.wrapping_sub(ONES * 0x20);
        let quote = (word ^ (ONES * u64::from(b'"'))).wrapping_sub(ONES);
        let backslash = (word ^ (ONES * u64::from(b'\\'))).wrapping_sub(ONES);
        let special = (control | quote | backslash) & !word & HIGH;
        if special != 0 {
            return length + special.trailing_zeros() as usize / 8;
        }
        length += 8;
    }
    let is_plain = |byte: &&u8| !matches!(byte, b'"' | b'\\' | 0..0x20);
    length + chunks.remainder().iter().take_while(is_plain).count()
}
