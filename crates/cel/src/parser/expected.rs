//! Errors of a source that does not go on as the grammar expects.

use super::Parser;
use crate::lexer::Token;

/// What an expression may begin with, as errors list it.
pub(super) const EXPRESSION_START: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

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
}

/// A closing bracket, as errors list it with what else may be there.
fn expected_set(symbol: &str) -> String {
    match symbol {
        "]" | "}" => format!("{{'{symbol}', ','}}"),
        _ => format!("'{symbol}'"),
    }
}
