//! Parser: the source of an expression to its syntax tree, by recursive descent.
//!
//! The grammar is that of the language's specification
//! (<https://github.com/google/cel-spec/blob/master/doc/langdef.md>) with optional syntax (`a.?b`, `a[?0]`, `[?a]`).

mod aggregate;
mod expected;
mod identifier;

use std::sync::Arc;

use crate::ast::{Call, Expr, ExprKind, Literal, Select, operator};
use crate::lexer::{Token, TokenSpan, tokenize};
use crate::macros;
use crate::source::{CompileError, Issue, NO_POSITION};

pub use identifier::is_identifier;
pub(crate) use identifier::{is_reserved, is_word_reserved};

/// The longest source, in characters.
const MAX_SOURCE: usize = 100_000;
/// How deep brackets may be nested.
const MAX_DEPTH: usize = 100;
/// How deep the tree may be. A chain such as `a + b + c` is as deep as it is long.
const MAX_TREE_DEPTH: usize = 250;

/// A parsed expression and the number of its nodes.
#[derive(Debug)]
pub(crate) struct SyntaxTree {
    pub(crate) expr: Expr,
    pub(crate) nodes: usize,
}

/// Parses an expression.
pub(crate) fn parse(source: &str) -> Result<SyntaxTree, CompileError> {
    let length = source.chars().count();
    if length > MAX_SOURCE {
        return Err(CompileError::plain(format!(
            "expression code point size exceeds limit: size: {length}, limit {MAX_SOURCE}"
        )));
    }
    let (tokens, issues) = tokenize(source);
    let mut parser = Parser {
        tokens,
        at: 0,
        depth: 0,
        nodes: 0,
        issues,
    };
    let expr = parser.expression().filter(|_| parser.expect_end());
    match (expr, parser.issues.is_empty()) {
        (Some(expr), true) => Ok(SyntaxTree {
            expr,
            nodes: parser.nodes,
        }),
        _ => Err(CompileError::new(source, parser.issues)),
    }
}

/// The state of a parse. Functions return `None` after they reported an error, which ends the parse.
#[derive(Debug)]
pub(crate) struct Parser {
    tokens: Vec<TokenSpan>,
    at: usize,
    depth: usize,
    nodes: usize,
    issues: Vec<Issue>,
}

type Operators = &'static [(&'static str, &'static str)];

const RELATIONS: Operators = &[
    ("==", operator::EQUALS),
    ("!=", operator::NOT_EQUALS),
    ("<=", operator::LESS_EQUALS),
    (">=", operator::GREATER_EQUALS),
    ("<", operator::LESS),
    (">", operator::GREATER),
];
const SUMS: Operators = &[("+", operator::ADD), ("-", operator::SUBTRACT)];
const PRODUCTS: Operators = &[
    ("*", operator::MULTIPLY),
    ("/", operator::DIVIDE),
    ("%", operator::MODULO),
];

impl Parser {
    /// A new node.
    pub(crate) fn node(&mut self, offset: usize, kind: ExprKind) -> Expr {
        self.nodes += 1;
        let mut expr = Expr {
            id: self.nodes - 1,
            offset,
            depth: 1,
            kind,
        };
        let below = expr.children().into_iter().map(|child| child.depth).max();
        expr.depth += below.unwrap_or(0);
        expr
    }

    pub(crate) fn call(&mut self, offset: usize, function: &str, args: Vec<Expr>) -> Expr {
        let call = Call {
            function: function.into(),
            target: None,
            args,
        };
        self.node(offset, ExprKind::Call(Box::new(call)))
    }

    pub(crate) fn ident(&mut self, offset: usize, name: &Arc<str>) -> Expr {
        self.node(offset, ExprKind::Ident(name.clone()))
    }

    pub(crate) fn literal(&mut self, offset: usize, literal: Literal) -> Expr {
        self.node(offset, ExprKind::Literal(literal))
    }

    /// Reports an error and ends the parse.
    pub(crate) fn fail<T>(&mut self, offset: usize, message: impl Into<String>) -> Option<T> {
        let message = message.into();
        self.issues.push(Issue { offset, message });
        None
    }

    /// Ends the parse at a tree that is too deep to be walked.
    fn bounded(&mut self, expr: Expr) -> Option<Expr> {
        match expr.depth > MAX_TREE_DEPTH {
            true => self.fail(NO_POSITION, "max recursion depth exceeded"),
            false => Some(expr),
        }
    }

    fn current(&self) -> &TokenSpan {
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    fn offset(&self) -> usize {
        self.current().offset
    }

    fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self.current().token, Token::Symbol(own) if own == symbol)
    }

    fn take_symbol(&mut self, symbol: &str) -> bool {
        let found = self.is_symbol(symbol);
        self.at += usize::from(found);
        found
    }

    fn take_operator(&mut self, operators: Operators) -> Option<&'static str> {
        let found = operators.iter().find(|(symbol, _)| self.is_symbol(symbol))?;
        self.at += 1;
        Some(found.1)
    }

    fn expression(&mut self) -> Option<Expr> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.fail(
                NO_POSITION,
                format!("expression recursion limit exceeded: {MAX_DEPTH}"),
            );
        }
        let expr = self.conditional();
        self.depth -= 1;
        expr
    }

    fn conditional(&mut self) -> Option<Expr> {
        let condition = self.logical("||", operator::OR, |parser| {
            parser.logical("&&", operator::AND, Self::relation)
        })?;
        let offset = self.offset();
        if !self.take_symbol("?") {
            return Some(condition);
        }
        let yes = self.logical("||", operator::OR, |parser| {
            parser.logical("&&", operator::AND, Self::relation)
        })?;
        self.expect_symbol(":")?;
        let no = self.expression()?;
        Some(self.call(offset, operator::CONDITIONAL, vec![condition, yes, no]))
    }

    fn logical(
        &mut self,
        symbol: &str,
        function: &str,
        operand: impl Fn(&mut Self) -> Option<Expr>,
    ) -> Option<Expr> {
        let mut left = operand(self)?;
        loop {
            let offset = self.offset();
            if !self.take_symbol(symbol) {
                return Some(left);
            }
            let right = operand(self)?;
            let both = self.call(offset, function, vec![left, right]);
            left = self.bounded(both)?;
        }
    }

    fn relation(&mut self) -> Option<Expr> {
        let mut left = self.binary(SUMS, |parser| parser.binary(PRODUCTS, Self::unary))?;
        loop {
            let offset = self.offset();
            let function = match self.take_operator(RELATIONS) {
                Some(function) => function,
                None if self.take_word("in") => operator::IN,
                None => return Some(left),
            };
            let right = self.binary(SUMS, |parser| parser.binary(PRODUCTS, Self::unary))?;
            let both = self.call(offset, function, vec![left, right]);
            left = self.bounded(both)?;
        }
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = matches!(&self.current().token, Token::Ident(own) if &**own == word);
        self.at += usize::from(found);
        found
    }

    fn binary(&mut self, operators: Operators, operand: impl Fn(&mut Self) -> Option<Expr>) -> Option<Expr> {
        let mut left = operand(self)?;
        loop {
            let offset = self.offset();
            let Some(function) = self.take_operator(operators) else {
                return Some(left);
            };
            let right = operand(self)?;
            let both = self.call(offset, function, vec![left, right]);
            left = self.bounded(both)?;
        }
    }

    fn unary(&mut self) -> Option<Expr> {
        for (symbol, function) in [("!", operator::NOT), ("-", operator::NEGATE)] {
            let offset = self.offset();
            let mut count = 0;
            while self.is_symbol(symbol) && !(count == 0 && symbol == "-" && self.negative_literal_follows())
            {
                self.at += 1;
                count += 1;
            }
            if count == 0 {
                continue;
            }
            let operand = self.member()?;
            // Pairs cancel each other.
            return match count % 2 {
                0 => Some(operand),
                _ => Some(self.call(offset, function, vec![operand])),
            };
        }
        self.member()
    }

    /// Whether a minus sign and a number are here: one literal.
    fn negative_literal_follows(&self) -> bool {
        let next = self.tokens.get(self.at + 1).map(|next| &next.token);
        matches!(next, Some(Token::Int(_) | Token::Double(_)))
    }

    fn member(&mut self) -> Option<Expr> {
        let mut operand = self.primary()?;
        loop {
            let offset = self.offset();
            if self.take_symbol(".") {
                let selected = self.selection(operand, offset)?;
                operand = self.bounded(selected)?;
            } else if self.take_symbol("[") {
                self.check_start(&["?"])?;
                let is_optional = self.take_symbol("?");
                let index = self.expression()?;
                self.expect_symbol("]")?;
                let function = if is_optional {
                    operator::OPTIONAL_INDEX
                } else {
                    operator::INDEX
                };
                let selected = self.call(offset, function, vec![operand, index]);
                operand = self.bounded(selected)?;
            } else {
                return Some(operand);
            }
        }
    }

    fn selection(&mut self, operand: Expr, offset: usize) -> Option<Expr> {
        if self.take_symbol("?") {
            let name_offset = self.offset();
            let name = self.field_name()?;
            let name = self.literal(name_offset, Literal::String(name));
            return Some(self.call(offset, operator::OPTIONAL_SELECT, vec![operand, name]));
        }
        let name = self.field_name()?;
        let call_offset = self.offset();
        if self.take_symbol("(") {
            let args = self.expressions(")")?;
            return macros::expand_member(self, call_offset, operand, &name, args);
        }
        let select = Select {
            operand,
            field: name,
            test_only: false,
        };
        Some(self.node(offset, ExprKind::Select(Box::new(select))))
    }

    fn field_name(&mut self) -> Option<Arc<str>> {
        match self.current().token.clone() {
            Token::Ident(name) if !matches!(&*name, "true" | "false" | "null" | "in") => {
                self.at += 1;
                Some(name)
            }
            _ => {
                let offset = self.offset();
                // The end of the source has no text here.
                let text = match &self.current().token {
                    Token::End => String::new(),
                    _ => self.current().text.to_string(),
                };
                self.fail(
                    offset,
                    format!("Syntax error: no viable alternative at input '.{text}'"),
                )
            }
        }
    }

    /// Expressions separated by commas up to a closing bracket.
    fn expressions(&mut self, end: &str) -> Option<Vec<Expr>> {
        let mut all = Vec::new();
        if self.take_symbol(end) {
            return Some(all);
        }
        self.check_start(&[end])?;
        loop {
            all.push(self.expression()?);
            if !self.take_symbol(",") {
                self.expect_symbol(end)?;
                return Some(all);
            }
        }
    }

    fn primary(&mut self) -> Option<Expr> {
        let TokenSpan { token, offset, .. } = self.current().clone();
        self.at += 1;
        let literal = match token {
            Token::Symbol("-") => return self.negative_literal(offset),
            Token::Symbol("(") => {
                let inner = self.expression()?;
                self.expect_symbol(")")?;
                return Some(inner);
            }
            Token::Symbol("[") => return self.list(offset),
            Token::Symbol("{") => return self.map(offset),
            Token::Symbol(".") => {
                let name = self.field_name()?;
                return self.name(offset, &format!(".{name}").into());
            }
            Token::Int(i64::MIN) => return self.fail(offset, "invalid int literal"),
            Token::Int(number) => Literal::Int(number),
            Token::Uint(number) => Literal::Uint(number),
            Token::Double(number) => Literal::Double(number),
            Token::String(text) => Literal::String(text),
            Token::Bytes(bytes) => Literal::Bytes(bytes),
            Token::Ident(name) => match &*name {
                "true" => Literal::Bool(true),
                "false" => Literal::Bool(false),
                "null" => Literal::Null,
                _ => return self.name(offset, &name),
            },
            Token::Symbol(_) | Token::End => {
                self.at -= 1;
                return self.fail_at_start(&[]);
            }
        };
        Some(self.literal(offset, literal))
    }

    fn negative_literal(&mut self, offset: usize) -> Option<Expr> {
        let literal = match self.current().token {
            Token::Int(number) => Literal::Int(number.wrapping_neg()),
            Token::Double(number) => Literal::Double(-number),
            _ => return self.primary(),
        };
        self.at += 1;
        Some(self.literal(offset, literal))
    }

    /// An identifier, a call of a function, or a struct literal.
    fn name(&mut self, offset: usize, name: &Arc<str>) -> Option<Expr> {
        if is_reserved(name.trim_start_matches('.')) {
            return self.fail(offset, format!("reserved identifier: {name}"));
        }
        let call_offset = self.offset();
        if self.take_symbol("(") {
            let args = self.expressions(")")?;
            return macros::expand_global(self, call_offset, name, args);
        }
        if let Some(type_name) = self.struct_type(name) {
            return self.struct_literal(type_name);
        }
        Some(self.ident(offset, name))
    }
}

#[cfg(test)]
mod tests;
