//! Errors of a source that does not go on as the grammar expects.

use super::Parser;
use crate::lexer::Token;

/// Symbols that an expression may begin with.
const EXPRESSION_START: [&str; 6] = ["[", "{", "(", ".", "-", "!"];
/// All symbols that may be expected where an expression may begin, in the order of error messages.
const START_ORDER: [&str; 11] = ["[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?"];
/// The other tokens that an expression may begin with, as error messages list them.
const START_TOKENS: &str = "'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER";

impl Parser {
    pub(super) fn expect_symbol(&mut self, symbol: &str) -> Option<()> {
        if self.take_symbol(symbol) {
            return Some(());
        }
        let (offset, text) = (self.offset(), self.current().text.clone());
        let next = self.tokens.get(self.at + 1).map(|next| &next.token);
        let is_end = self.current().token == Token::End;
        let message = match (symbol, next) {
            (_, Some(Token::Symbol(next))) if *next == symbol => {
                format!("extraneous input '{text}' expecting {}", expected_set(symbol))
            }
            (")", _) if is_end => format!("missing '{symbol}' at '{text}'"),
            (":", _) if !is_end => format!("missing '{symbol}' at '{text}'"),
            _ => format!("mismatched input '{text}' expecting {}", expected_set(symbol)),
        };
        self.fail(offset, format!("Syntax error: {message}"))
    }

    pub(super) fn expect_end(&mut self) -> bool {
        if self.current().token == Token::End {
            return true;
        }
        let (offset, text) = (self.offset(), self.current().text.clone());
        let next = self.tokens.get(self.at + 1).map(|next| &next.token);
        let what = if next == Some(&Token::End) {
            "extraneous"
        } else {
            "mismatched"
        };
        self.fail::<()>(
            offset,
            format!("Syntax error: {what} input '{text}' expecting <EOF>"),
        )
        .is_some()
    }

    /// Fails unless an expression may begin here, or one of these symbols follows.
    pub(super) fn check_start(&mut self, symbols: &[&str]) -> Option<()> {
        match starts(&self.current().token, symbols) {
            true => Some(()),
            false => self.fail_at_start(symbols),
        }
    }

    /// Fails because neither an expression nor one of these symbols is here.
    pub(super) fn fail_at_start<T>(&mut self, symbols: &[&str]) -> Option<T> {
        let (offset, text) = (self.offset(), self.current().text.clone());
        let next = self.tokens.get(self.at + 1).map(|next| &next.token);
        let what = match next.is_some_and(|next| starts(next, symbols)) {
            true => "extraneous",
            false => "mismatched",
        };
        let expected = start_set(symbols);
        self.fail(
            offset,
            format!("Syntax error: {what} input '{text}' expecting {expected}"),
        )
    }
}

/// Whether an expression may begin with this token, or it is one of these symbols.
fn starts(token: &Token, symbols: &[&str]) -> bool {
    match token {
        Token::Symbol(symbol) => EXPRESSION_START.contains(symbol) || symbols.contains(symbol),
        Token::End => false,
        _ => true,
    }
}

/// What an expression may begin with and these symbols, as errors list them.
fn start_set(symbols: &[&str]) -> String {
    let expected = START_ORDER
        .into_iter()
        .filter(|symbol| EXPRESSION_START.contains(symbol) || symbols.contains(symbol));
    let expected: Vec<String> = expected.map(|symbol| format!("'{symbol}'")).collect();
    format!("{{{}, {START_TOKENS}}}", expected.join(", "))
}

/// A closing bracket, as errors list it with what else may be there.
fn expected_set(symbol: &str) -> String {
    match symbol {
        "]" | "}" => format!("{{'{symbol}', ','}}"),
        _ => format!("'{symbol}'"),
    }
}
