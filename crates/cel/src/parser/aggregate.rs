//! Lists, maps and struct literals.

use super::Parser;
use crate::ast::{Expr, ExprKind, ListItem, MapEntry, Struct, StructField};
use crate::lexer::Token;

impl Parser {
    /// The dotted name before an opening brace, if this is a struct literal.
    pub(super) fn struct_type(&mut self, first: &str) -> Option<String> {
        let mut name = first.to_owned();
        let mut at = self.at;
        loop {
            match (&self.tokens.get(at)?.token, &self.tokens.get(at + 1)?.token) {
                (Token::Symbol("{"), _) => {
                    self.at = at + 1;
                    return Some(name);
                }
                (Token::Symbol("."), Token::Ident(next)) => {
                    name = format!("{name}.{next}");
                    at += 2;
                }
                _ => return None,
            }
        }
    }

    pub(super) fn struct_literal(&mut self, type_name: String) -> Option<Expr> {
        let offset = self.tokens[self.at - 1].offset;
        let mut fields = Vec::new();
        while !self.take_symbol("}") {
            let optional = self.take_symbol("?");
            let name = self.field_name()?;
            let field_offset = self.offset();
            self.expect_symbol(":")?;
            fields.push(StructField {
                name,
                offset: field_offset,
                value: self.expression()?,
                optional,
            });
            if !self.take_symbol(",") && !self.is_symbol("}") {
                self.expect_symbol("}")?;
            }
        }
        let literal = Struct {
            type_name: type_name.into(),
            fields,
        };
        Some(self.node(offset, ExprKind::Struct(Box::new(literal))))
    }

    pub(super) fn list(&mut self, offset: usize) -> Option<Expr> {
        let mut items = Vec::new();
        self.check_start(&["]", ",", "?"])?;
        if self.take_symbol(",") {
            self.expect_symbol("]")?;
            return Some(self.node(offset, ExprKind::List(items)));
        }
        while !self.take_symbol("]") {
            let optional = self.take_symbol("?");
            let value = self.expression()?;
            items.push(ListItem { value, optional });
            if !self.take_symbol(",") && !self.is_symbol("]") {
                self.expect_symbol("]")?;
            }
        }
        Some(self.node(offset, ExprKind::List(items)))
    }

    pub(super) fn map(&mut self, offset: usize) -> Option<Expr> {
        let mut entries = Vec::new();
        self.check_start(&["}", ",", "?"])?;
        if self.take_symbol(",") {
            self.expect_symbol("}")?;
            return Some(self.node(offset, ExprKind::Map(entries)));
        }
        while !self.take_symbol("}") {
            let optional = self.take_symbol("?");
            let key = self.expression()?;
            self.expect_symbol(":")?;
            let value = self.expression()?;
            entries.push(MapEntry { key, value, optional });
            if !self.take_symbol(",") && !self.is_symbol("}") {
                self.expect_symbol("}")?;
            }
        }
        Some(self.node(offset, ExprKind::Map(entries)))
    }
}
