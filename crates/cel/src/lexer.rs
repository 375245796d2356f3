//! Tokens of an expression.

use std::sync::Arc;

use crate::source::Issue;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token {
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
    Ident(Arc<str>),
    /// An operator or a bracket.
    Symbol(&'static str),
    End,
}

/// A token, its position and its text, which errors quote.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TokenSpan {
    pub(crate) token: Token,
    pub(crate) offset: usize,
    pub(crate) text: Arc<str>,
}

/// Longer symbols come before their prefixes.
const SYMBOLS: [&str; 25] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":",
    "+", "*", "/", "%", "=",
];

/// Splits a source into tokens. Characters that begin no token are reported and left out.
pub(crate) fn tokenize(source: &str) -> (Vec<TokenSpan>, Vec<Issue>) {
    let characters: Vec<char> = source.chars().collect();
    let mut lexer = Lexer {
        characters: &characters,
        at: 0,
        issues: Vec::new(),
    };
    let mut tokens = Vec::new();
    while let Some(token) = lexer.next() {
        tokens.push(token);
    }
    tokens.push(TokenSpan {
        token: Token::End,
        offset: characters.len(),
        text: "<EOF>".into(),
    });
    (tokens, lexer.issues)
}

struct Lexer<'a> {
    characters: &'a [char],
    at: usize,
    issues: Vec<Issue>,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.characters.get(self.at + ahead).copied()
    }

    fn starts_with(&self, text: &str) -> bool {
        text.chars()
            .enumerate()
            .all(|(ahead, character)| self.peek(ahead) == Some(character))
    }

    fn text_from(&self, start: usize) -> String {
        self.characters[start..self.at].iter().collect()
    }

    fn report(&mut self, offset: usize, message: impl Into<String>) {
        let message = message.into();
        self.issues.push(Issue { offset, message });
    }

    fn next(&mut self) -> Option<TokenSpan> {
        loop {
            self.skip_blanks();
            let offset = self.at;
            let first = self.peek(0)?;
            let token = self.token(first);
            let text = self.text_from(offset);
            match token {
                Some(token) => {
                    let text = text.into();
                    return Some(TokenSpan { token, offset, text });
                }
                None if self.at > offset => {}
                None => {
                    self.at += 1;
                    self.report(
                        offset,
                        format!("Syntax error: token recognition error at: '{first}'"),
                    );
                }
            }
        }
    }

    fn skip_blanks(&mut self) {
        while let Some(character) = self.peek(0) {
            if matches!(character, ' ' | '\t' | '\n' | '\r' | '\u{c}') {
                self.at += 1;
            } else if self.starts_with("//") {
                while self.peek(0).is_some_and(|character| character != '\n') {
                    self.at += 1;
                }
            } else {
                return;
            }
        }
    }

    /// The token here. `None` without progress is an unknown character; with progress, an error that was reported.
    fn token(&mut self, first: char) -> Option<Token> {
        if let Some((is_raw, is_bytes, prefix)) = self.quote_prefix() {
            let token_start = self.at;
            self.at += prefix;
            return self.quoted(token_start, is_raw, is_bytes);
        }
        if first.is_ascii_digit() || (first == '.' && self.peek(1).is_some_and(|next| next.is_ascii_digit()))
        {
            return self.number();
        }
        if first.is_ascii_alphabetic() || first == '_' {
            let start = self.at;
            while self
                .peek(0)
                .is_some_and(|next| next.is_ascii_alphanumeric() || next == '_')
            {
                self.at += 1;
            }
            return Some(Token::Ident(self.text_from(start).into()));
        }
        let symbol = SYMBOLS.into_iter().find(|symbol| self.starts_with(symbol))?;
        if symbol == "=" {
            return None;
        }
        self.at += symbol.len();
        Some(Token::Symbol(symbol))
    }

    /// Whether a string begins here: raw, bytes, and the length of its prefix.
    fn quote_prefix(&self) -> Option<(bool, bool, usize)> {
        let (mut is_raw, mut is_bytes) = (false, false);
        for length in 0..3 {
            match self.peek(length)? {
                '"' | '\'' => return Some((is_raw, is_bytes, length)),
                'r' | 'R' if !is_raw => is_raw = true,
                'b' | 'B' if !is_bytes && !is_raw => is_bytes = true,
                _ => return None,
            }
        }
        None
    }

    fn quoted(&mut self, token_start: usize, is_raw: bool, is_bytes: bool) -> Option<Token> {
        let start = self.at;
        let quote = self.peek(0)?;
        let is_long = self.peek(1) == Some(quote) && self.peek(2) == Some(quote);
        let width = if is_long { 3 } else { 1 };
        self.at += width;
        let mut content = Content::default();
        loop {
            let ends = (0..width).all(|ahead| self.peek(ahead) == Some(quote));
            match self.peek(0) {
                _ if ends => break,
                None => return self.unterminated(start),
                Some('\n' | '\r') if !is_long => return self.unterminated(start),
                Some('\\') if !is_raw => self.escape(start, is_bytes, &mut content)?,
                Some('\\') => {
                    content.push('\\');
                    self.at += 1;
                    if let Some(next) = self.peek(0) {
                        content.push(next);
                        self.at += 1;
                    }
                }
                Some(character) => {
                    content.push(character);
                    self.at += 1;
                }
            }
        }
        self.at += width;
        if content.is_invalid {
            self.report(token_start, "unable to unescape string");
        }
        if is_bytes {
            return Some(Token::Bytes(content.bytes.into()));
        }
        Some(Token::String(
            String::from_utf8_lossy(&content.bytes).as_ref().into(),
        ))
    }

    fn unterminated(&mut self, start: usize) -> Option<Token> {
        let text = self.text_from(start);
        self.report(
            start,
            format!("Syntax error: token recognition error at: '{text}'"),
        );
        None
    }

    fn escape(&mut self, start: usize, is_bytes: bool, content: &mut Content) -> Option<()> {
        let code = self.peek(1);
        self.at += 2;
        let simple = match code {
            Some('a') => Some('\u{7}'),
            Some('b') => Some('\u{8}'),
            Some('f') => Some('\u{c}'),
            Some('n') => Some('\n'),
            Some('r') => Some('\r'),
            Some('t') => Some('\t'),
            Some('v') => Some('\u{b}'),
            Some(character @ ('\\' | '\'' | '"' | '`' | '?')) => Some(character),
            _ => None,
        };
        if let Some(character) = simple {
            content.push(character);
            return Some(());
        }
        let (digits, radix) = match code {
            Some('x' | 'X') => (2, 16),
            Some('u') => (4, 16),
            Some('U') => (8, 16),
            Some('0'..='3') => {
                self.at -= 1;
                (3, 8)
            }
            _ => return self.bad_escape(start),
        };
        let mut number = 0;
        for _ in 0..digits {
            let Some(digit) = self.peek(0).and_then(|character| character.to_digit(radix)) else {
                return self.bad_escape(start);
            };
            number = number * radix + digit;
            self.at += 1;
        }
        let is_byte = !matches!(code, Some('u' | 'U'));
        match (is_bytes, u8::try_from(number), char::from_u32(number)) {
            (true, Ok(byte), _) if is_byte => content.bytes.push(byte),
            (false, _, Some(character)) => content.push(character),
            _ => content.is_invalid = true,
        }
        Some(())
    }

    fn bad_escape(&mut self, start: usize) -> Option<()> {
        self.at = self.at.min(self.characters.len());
        self.unterminated(start).map(drop)
    }

    fn number(&mut self) -> Option<Token> {
        let start = self.at;
        if self.starts_with("0x") || self.starts_with("0X") {
            self.at += 2;
            let digits = self.digits(16);
            return self.integer(start, &digits, 16);
        }
        let mut digits = self.digits(10);
        let mut is_double = false;
        if self.peek(0) == Some('.') && self.peek(1).is_some_and(|next| next.is_ascii_digit()) {
            is_double = true;
            self.at += 1;
            digits = format!("{digits}.{}", self.digits(10));
        }
        let sign = usize::from(matches!(self.peek(1), Some('+' | '-')));
        if matches!(self.peek(0), Some('e' | 'E'))
            && self.peek(1 + sign).is_some_and(|next| next.is_ascii_digit())
        {
            is_double = true;
            let minus = if self.peek(1) == Some('-') { "-" } else { "" };
            self.at += 1 + sign;
            digits = format!("{digits}e{minus}{}", self.digits(10));
        }
        if !is_double {
            return self.integer(start, &digits, 10);
        }
        match digits.parse::<f64>() {
            Ok(number) if number.is_finite() => Some(Token::Double(number)),
            _ => {
                self.report(start, "invalid double literal");
                Some(Token::Double(0.0))
            }
        }
    }

    fn digits(&mut self, radix: u32) -> String {
        let start = self.at;
        while self.peek(0).is_some_and(|character| character.is_digit(radix)) {
            self.at += 1;
        }
        self.text_from(start)
    }

    fn integer(&mut self, start: usize, digits: &str, radix: u32) -> Option<Token> {
        if matches!(self.peek(0), Some('u' | 'U')) {
            self.at += 1;
            return match u64::from_str_radix(digits, radix) {
                Ok(number) => Some(Token::Uint(number)),
                Err(_) => {
                    self.report(start, "invalid uint literal");
                    Some(Token::Uint(0))
                }
            };
        }
        // One more than the greatest integer is the smallest one after a minus sign, which the parser negates.
        match u64::from_str_radix(digits, radix) {
            Ok(number) if number <= 1 << 63 => Some(Token::Int(number.cast_signed())),
            _ => {
                self.report(start, "invalid int literal");
                Some(Token::Int(0))
            }
        }
    }
}

/// The content of a string or bytes literal.
#[derive(Default)]
struct Content {
    bytes: Vec<u8>,
    /// Whether it has an escape of a character that does not exist, or of one that is no byte.
    is_invalid: bool,
}

impl Content {
    fn push(&mut self, character: char) {
        let mut buffer = [0; 4];
        self.bytes
            .extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
    }
}
