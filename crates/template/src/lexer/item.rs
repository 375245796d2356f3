//! The items (tokens) of a template.

use std::fmt;

use crate::quote;

/// A token with its position in the input.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) kind: ItemKind,
    /// The byte at which the item starts.
    pub(crate) pos: usize,
    pub(crate) text: String,
    /// The line at which the item starts, from 1.
    pub(crate) line: usize,
}

/// The type of a token. Those from `Block` on are keywords.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ItemKind {
    /// An error of the lexer; the text is its message.
    Error,
    Bool,
    /// A printable ASCII character without a meaning of its own, such as a comma.
    Char,
    CharConstant,
    Complex,
    Assign,
    Declare,
    Eof,
    Field,
    Identifier,
    LeftDelim,
    LeftParen,
    Number,
    Pipe,
    RawString,
    RightDelim,
    RightParen,
    Space,
    String,
    Text,
    Variable,
    Block,
    Break,
    Continue,
    Dot,
    Define,
    Else,
    End,
    If,
    Nil,
    Range,
    Template,
    With,
}

impl ItemKind {
    /// The keyword of a name.
    pub(crate) fn keyword(name: &str) -> Option<Self> {
        Some(match name {
            "block" => Self::Block,
            "break" => Self::Break,
            "continue" => Self::Continue,
            "define" => Self::Define,
            "else" => Self::Else,
            "end" => Self::End,
            "if" => Self::If,
            "range" => Self::Range,
            "nil" => Self::Nil,
            "template" => Self::Template,
            "with" => Self::With,
            _ => return None,
        })
    }
}

/// The longest text that an error message quotes.
const QUOTED_CHARS: usize = 10;

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ItemKind::Eof => f.write_str("EOF"),
            ItemKind::Error => f.write_str(&self.text),
            kind if kind >= ItemKind::Block => write!(f, "<{}>", self.text),
            _ if self.text.len() > QUOTED_CHARS => {
                let start: String = self.text.chars().take(QUOTED_CHARS).collect();
                write!(f, "{}...", quote::quote(&start))
            }
            _ => f.write_str(&quote::quote(&self.text)),
        }
    }
}
