//! The items between delimiters.

use super::{Item, ItemKind, Lexer, TRIM_MARKER_BYTES, has_right_trim_marker, is_space};
use crate::quote;
use crate::unicode::{is_digit, is_letter};

impl Lexer<'_> {
    pub(super) fn lex_inside_action(&mut self) -> Item {
        if self.right_delim().is_some() {
            return match self.paren_depth {
                0 => self.lex_right_delim(),
                _ => self.error("unclosed left paren"),
            };
        }
        let Some(c) = self.next() else {
            return self.error("unclosed action");
        };
        match c {
            _ if is_space(c) => self.lex_space(),
            '=' => self.item(ItemKind::Assign),
            ':' => match self.next() {
                Some('=') => self.item(ItemKind::Declare),
                _ => self.error("expected :="),
            },
            '|' => self.item(ItemKind::Pipe),
            '"' => self.lex_quoted('"'),
            '\'' => self.lex_quoted('\''),
            '`' => self.lex_raw_quote(),
            '$' => self.lex_name(ItemKind::Variable),
            '.' if !self.input[self.pos..].is_empty() && !self.digit_follows() => {
                self.lex_name(ItemKind::Field)
            }
            '.' | '+' | '-' | '0'..='9' => self.lex_number(),
            '(' => {
                self.paren_depth += 1;
                self.item(ItemKind::LeftParen)
            }
            ')' => self.lex_right_paren(),
            _ if is_alphanumeric(c) => self.lex_identifier(),
            ' '..='~' => self.item(ItemKind::Char),
            _ => self.error(format!(
                "unrecognized character in action: {}",
                quote::unicode_point(c)
            )),
        }
    }

    fn digit_follows(&self) -> bool {
        self.input[self.pos..].starts_with(|c: char| c.is_ascii_digit())
    }

    fn lex_right_delim(&mut self) -> Item {
        let trim = self.right_delim() == Some(true);
        if trim {
            self.pos += TRIM_MARKER_BYTES;
            self.ignore();
        }
        self.pos += self.right.len();
        let item = self.item(ItemKind::RightDelim);
        if trim {
            self.skip_spaces();
            self.ignore();
        }
        self.inside_action = false;
        item
    }

    fn lex_right_paren(&mut self) -> Item {
        self.paren_depth -= 1;
        match self.paren_depth < 0 {
            true => self.error("unexpected right paren"),
            false => self.item(ItemKind::RightParen),
        }
    }

    /// A run of spaces. The last one may belong to the trim marker of a right delimiter.
    fn lex_space(&mut self) -> Item {
        let mut spaces = 1;
        while self.peek().is_some_and(is_space) {
            self.next();
            spaces += 1;
        }
        let last = &self.input[self.pos - 1..];
        if has_right_trim_marker(last) && last[TRIM_MARKER_BYTES..].starts_with(self.right) {
            self.at_eof = false;
            self.backup();
            if spaces == 1 {
                return self.lex_right_delim();
            }
        }
        self.item(ItemKind::Space)
    }

    fn lex_identifier(&mut self) -> Item {
        let after = self.skip_alphanumeric();
        if !self.at_terminator() {
            return self.bad_character(after);
        }
        let kind = match &self.input[self.start..self.pos] {
            "true" | "false" => ItemKind::Bool,
            "break" if !self.has_break => ItemKind::Identifier,
            "continue" if !self.has_continue => ItemKind::Identifier,
            word => ItemKind::keyword(word).unwrap_or(ItemKind::Identifier),
        };
        self.item(kind)
    }

    /// A field or a variable; its first character is consumed. A period alone is the dot.
    fn lex_name(&mut self, kind: ItemKind) -> Item {
        if self.at_terminator() {
            return self.item(match kind {
                ItemKind::Field => ItemKind::Dot,
                _ => kind,
            });
        }
        let after = self.skip_alphanumeric();
        match self.at_terminator() {
            true => self.item(kind),
            false => self.bad_character(after),
        }
    }

    /// Skips letters and digits, and returns the character after them.
    fn skip_alphanumeric(&mut self) -> Option<char> {
        loop {
            let c = self.next();
            if !c.is_some_and(is_alphanumeric) {
                self.backup();
                return c;
            }
        }
    }

    fn bad_character(&mut self, c: Option<char>) -> Item {
        let point = c.map(quote::unicode_point).unwrap_or_default();
        self.error(format!("bad character {point}"))
    }

    /// Whether a name may end here.
    fn at_terminator(&mut self) -> bool {
        match self.peek() {
            None | Some('.' | ',' | '|' | ':' | ')' | '(') => true,
            Some(c) => is_space(c) || self.input[self.pos..].starts_with(self.right),
        }
    }

    fn lex_quoted(&mut self, mark: char) -> Item {
        loop {
            let c = match self.next() {
                Some('\\') => match self.next() {
                    None | Some('\n') => None,
                    Some(_) => continue,
                },
                Some('\n') => None,
                c => c,
            };
            match c {
                None if mark == '"' => return self.error("unterminated quoted string"),
                None => return self.error("unterminated character constant"),
                Some(c) if c == mark && mark == '"' => return self.item(ItemKind::String),
                Some(c) if c == mark => return self.item(ItemKind::CharConstant),
                Some(_) => {}
            }
        }
    }

    fn lex_raw_quote(&mut self) -> Item {
        loop {
            match self.next() {
                None => return self.error("unterminated raw quoted string"),
                Some('`') => return self.item(ItemKind::RawString),
                Some(_) => {}
            }
        }
    }

    fn lex_number(&mut self) -> Item {
        self.backup();
        if !self.scan_number() {
            return self.bad_number();
        }
        if matches!(self.peek(), Some('+' | '-')) {
            if !self.scan_number() || !self.input[..self.pos].ends_with('i') {
                return self.bad_number();
            }
            return self.item(ItemKind::Complex);
        }
        self.item(ItemKind::Number)
    }

    fn bad_number(&mut self) -> Item {
        let text = quote::quote(&self.input[self.start..self.pos]);
        self.error(format!("bad number syntax: {text}"))
    }

    fn scan_number(&mut self) -> bool {
        self.accept("+-");
        let mut digits = "0123456789_";
        if self.accept("0") {
            if self.accept("xX") {
                digits = "0123456789abcdefABCDEF_";
            } else if self.accept("oO") {
                digits = "01234567_";
            } else if self.accept("bB") {
                digits = "01_";
            }
        }
        self.accept_run(digits);
        if self.accept(".") {
            self.accept_run(digits);
        }
        let has_exponent = match digits.len() {
            11 => self.accept("eE"),
            23 => self.accept("pP"),
            _ => false,
        };
        if has_exponent {
            self.accept("+-");
            self.accept_run("0123456789_");
        }
        self.accept("i");
        if self.peek().is_some_and(is_alphanumeric) {
            self.next();
            return false;
        }
        true
    }

    fn accept(&mut self, valid: &str) -> bool {
        if self.next().is_some_and(|c| valid.contains(c)) {
            return true;
        }
        self.backup();
        false
    }

    fn accept_run(&mut self, valid: &str) {
        while self.accept(valid) {}
    }
}

fn is_alphanumeric(c: char) -> bool {
    c == '_' || is_letter(c) || is_digit(c)
}
