//! The parser's window on the items: up to three can be put back.

use super::Parser;
use crate::error::Error;
use crate::lexer::{Item, ItemKind};

impl Parser<'_, '_> {
    pub(super) fn next(&mut self) -> Item {
        if self.peek_count > 0 {
            self.peek_count -= 1;
        } else {
            self.tokens[0] = self.shared.lexer.next_item();
        }
        self.tokens[self.peek_count].clone()
    }

    pub(super) fn backup(&mut self) {
        self.peek_count += 1;
    }

    pub(super) fn backup2(&mut self, first: Item) {
        self.tokens[1] = first;
        self.peek_count = 2;
    }

    pub(super) fn backup3(&mut self, first: Item, second: Item) {
        self.tokens[1] = second;
        self.tokens[2] = first;
        self.peek_count = 3;
    }

    pub(super) fn peek(&mut self) -> Item {
        if self.peek_count == 0 {
            self.peek_count = 1;
            self.tokens[0] = self.shared.lexer.next_item();
        }
        self.tokens[self.peek_count - 1].clone()
    }

    pub(super) fn next_non_space(&mut self) -> Item {
        loop {
            let token = self.next();
            if token.kind != ItemKind::Space {
                return token;
            }
        }
    }

    pub(super) fn peek_non_space(&mut self) -> Item {
        let token = self.next_non_space();
        self.backup();
        token
    }

    pub(super) fn expect(&mut self, kind: ItemKind, context: &str) -> Result<Item, Error> {
        let token = self.next_non_space();
        match token.kind == kind {
            true => Ok(token),
            false => Err(self.unexpected(&token, context)),
        }
    }

    pub(super) fn error(&self, message: impl std::fmt::Display) -> Error {
        let line = self.tokens[0].line;
        Error::parse(format!("template: {}:{line}: {message}", self.shared.name))
    }

    pub(super) fn unexpected(&self, token: &Item, context: &str) -> Error {
        if token.kind != ItemKind::Error {
            return self.error(format_args!("unexpected {token} in {context}"));
        }
        let mut extra = String::new();
        if self.action_line != 0 && self.action_line != token.line {
            let started = format!(" started at {}:{}", self.shared.name, self.action_line);
            extra = match token.text.ends_with(" action") {
                true => started,
                false => format!(" in action{started}"),
            };
        }
        self.error(format_args!("{token}{extra}"))
    }
}
