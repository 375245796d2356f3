//! The lexer: splits a template into items, with the rules of Go's `text/template/parse/lex.go`. Start at
//! [`Lexer::next_item`]; `action.rs` has the items between delimiters.

mod action;
mod item;

pub(crate) use item::{Item, ItemKind};

/// The position in a template, and the state between two items.
#[derive(Debug)]
pub(crate) struct Lexer<'a> {
    input: &'a str,
    left: &'a str,
    right: &'a str,
    pos: usize,
    start: usize,
    at_eof: bool,
    paren_depth: i64,
    line: usize,
    start_line: usize,
    inside_action: bool,
    /// Whether `break` and `continue` are keywords: no function has that name.
    has_break: bool,
    has_continue: bool,
}

const LEFT_COMMENT: &str = "/*";
const RIGHT_COMMENT: &str = "*/";

/// The bytes of a trim marker and the space beside it.
const TRIM_MARKER_BYTES: usize = 2;

impl<'a> Lexer<'a> {
    pub(crate) fn new(input: &'a str, delims: (&'a str, &'a str)) -> Self {
        let or = |delim: &'a str, default| if delim.is_empty() { default } else { delim };
        Self {
            input,
            left: or(delims.0, "{{"),
            right: or(delims.1, "}}"),
            pos: 0,
            start: 0,
            at_eof: false,
            paren_depth: 0,
            line: 1,
            start_line: 1,
            inside_action: false,
            has_break: true,
            has_continue: true,
        }
    }

    /// Makes `break` and `continue` identifiers, for functions of these names.
    pub(crate) fn set_keywords(&mut self, has_break: bool, has_continue: bool) {
        (self.has_break, self.has_continue) = (has_break, has_continue);
    }

    pub(crate) fn next_item(&mut self) -> Item {
        match self.inside_action {
            true => self.lex_inside_action(),
            false => self.lex_text(),
        }
    }

    fn lex_text(&mut self) -> Item {
        loop {
            let Some(offset) = self.input[self.pos..].find(self.left) else {
                return self.lex_last_text();
            };
            if offset > 0 {
                let item = self.text_before_delim(offset);
                if !item.text.is_empty() {
                    return item;
                }
            }
            if let Some(item) = self.lex_left_delim() {
                return item;
            }
        }
    }

    fn lex_last_text(&mut self) -> Item {
        self.pos = self.input.len();
        if self.pos > self.start {
            self.line += newlines(&self.input[self.start..self.pos]);
            return self.item(ItemKind::Text);
        }
        self.item(ItemKind::Eof)
    }

    /// The text before a left delimiter, without the spaces that its trim marker removes.
    fn text_before_delim(&mut self, offset: usize) -> Item {
        self.pos += offset;
        let mut trimmed = 0;
        if has_left_trim_marker(&self.input[self.pos + self.left.len()..]) {
            let text = &self.input[self.start..self.pos];
            trimmed = text.len() - text.trim_end_matches(is_space).len();
        }
        self.pos -= trimmed;
        self.line += newlines(&self.input[self.start..self.pos]);
        let item = self.item(ItemKind::Text);
        self.pos += trimmed;
        self.ignore();
        item
    }

    /// The left delimiter; `None` once a comment was skipped.
    fn lex_left_delim(&mut self) -> Option<Item> {
        self.pos += self.left.len();
        let marker = match has_left_trim_marker(&self.input[self.pos..]) {
            true => TRIM_MARKER_BYTES,
            false => 0,
        };
        if self.input[self.pos + marker..].starts_with(LEFT_COMMENT) {
            self.pos += marker;
            self.ignore();
            return self.lex_comment();
        }
        let item = self.item(ItemKind::LeftDelim);
        self.inside_action = true;
        self.pos += marker;
        self.ignore();
        self.paren_depth = 0;
        Some(item)
    }

    fn lex_comment(&mut self) -> Option<Item> {
        self.pos += LEFT_COMMENT.len();
        let Some(offset) = self.input[self.pos..].find(RIGHT_COMMENT) else {
            return Some(self.error("unclosed comment"));
        };
        self.pos += offset + RIGHT_COMMENT.len();
        let Some(trim) = self.right_delim() else {
            return Some(self.error("comment ends before closing delimiter"));
        };
        self.line += newlines(&self.input[self.start..self.pos]);
        self.item(ItemKind::Text);
        if trim {
            self.pos += TRIM_MARKER_BYTES;
        }
        self.pos += self.right.len();
        if trim {
            self.skip_spaces();
        }
        self.ignore();
        None
    }

    /// Whether a right delimiter follows, and whether it has a trim marker.
    fn right_delim(&self) -> Option<bool> {
        let rest = &self.input[self.pos..];
        if has_right_trim_marker(rest) && rest[TRIM_MARKER_BYTES..].starts_with(self.right) {
            return Some(true);
        }
        rest.starts_with(self.right).then_some(false)
    }

    fn skip_spaces(&mut self) {
        let rest = &self.input[self.pos..];
        self.pos += rest.len() - rest.trim_start_matches(is_space).len();
    }

    /// The next character, which is consumed.
    fn next(&mut self) -> Option<char> {
        let Some(c) = self.input[self.pos..].chars().next() else {
            self.at_eof = true;
            return None;
        };
        self.pos += c.len_utf8();
        if c == '\n' {
            self.line += 1;
        }
        Some(c)
    }

    fn peek(&mut self) -> Option<char> {
        let c = self.next();
        self.backup();
        c
    }

    fn backup(&mut self) {
        if self.at_eof {
            return;
        }
        let Some(c) = self.input[..self.pos].chars().next_back() else {
            return;
        };
        self.pos -= c.len_utf8();
        if c == '\n' {
            self.line -= 1;
        }
    }

    /// The item from the start to the current position.
    fn item(&mut self, kind: ItemKind) -> Item {
        let item = Item {
            kind,
            pos: self.start,
            text: self.input[self.start..self.pos].to_owned(),
            line: self.start_line,
        };
        self.start = self.pos;
        self.start_line = self.line;
        item
    }

    fn ignore(&mut self) {
        self.line += newlines(&self.input[self.start..self.pos]);
        self.start = self.pos;
        self.start_line = self.line;
    }

    /// An error item. The rest of the input is dropped.
    fn error(&mut self, message: impl Into<String>) -> Item {
        let item = Item {
            kind: ItemKind::Error,
            pos: self.start,
            text: message.into(),
            line: self.start_line,
        };
        (self.start, self.pos, self.input) = (0, 0, "");
        item
    }
}

fn newlines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn has_left_trim_marker(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next() == Some('-') && chars.next().is_some_and(is_space)
}

fn has_right_trim_marker(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(is_space) && chars.next() == Some('-')
}
