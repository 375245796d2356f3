//! Pipelines, commands and operands.

use super::Parser;
use super::node::{Command, Names, Operand, Pipe};
use super::number::Number;
use crate::error::Error;
use crate::lexer::{Item, ItemKind};
use crate::quote;

impl Parser<'_, '_> {
    /// A pipeline up to the item that ends it.
    pub(super) fn pipeline(&mut self, context: &str, end: ItemKind) -> Result<Pipe, Error> {
        let mut pipe = Pipe {
            pos: self.peek_non_space().pos,
            is_assign: false,
            decl: Vec::new(),
            cmds: Vec::new(),
        };
        while self.declaration(&mut pipe, context)? {}
        loop {
            let token = self.next_non_space();
            match token.kind {
                kind if kind == end => {
                    self.check_pipeline(&pipe, context)?;
                    return Ok(pipe);
                }
                kind if starts_operand(kind) => {
                    self.backup();
                    pipe.cmds.push(self.command()?);
                }
                _ => return Err(self.unexpected(&token, context)),
            }
        }
    }

    /// Reads a declared variable, if there is one, and returns whether another follows.
    fn declaration(&mut self, pipe: &mut Pipe, context: &str) -> Result<bool, Error> {
        let variable = self.peek_non_space();
        if variable.kind != ItemKind::Variable {
            return Ok(false);
        }
        self.next();
        let after = self.peek();
        let next = self.peek_non_space();
        if matches!(next.kind, ItemKind::Assign | ItemKind::Declare) {
            pipe.is_assign = next.kind == ItemKind::Assign;
            self.declare(pipe, &variable);
            return Ok(false);
        }
        if next.kind == ItemKind::Char && next.text == "," {
            self.declare(pipe, &variable);
            if context == "range" && pipe.decl.len() < 2 {
                return match self.peek_non_space().kind {
                    ItemKind::Variable | ItemKind::RightDelim | ItemKind::RightParen => Ok(true),
                    _ => Err(self.error("range can only initialize variables")),
                };
            }
            return Err(self.error(format_args!("too many declarations in {context}")));
        }
        match after.kind {
            ItemKind::Space => self.backup3(variable, after),
            _ => self.backup2(variable),
        }
        Ok(false)
    }

    fn declare(&mut self, pipe: &mut Pipe, variable: &Item) {
        self.next_non_space();
        pipe.decl.push(names(variable.pos, &variable.text));
        self.vars.push(variable.text.clone());
    }

    fn check_pipeline(&self, pipe: &Pipe, context: &str) -> Result<(), Error> {
        if pipe.cmds.is_empty() {
            return Err(self.error(format_args!("missing value for {context}")));
        }
        for (i, command) in pipe.cmds.iter().enumerate().skip(1) {
            if command.args.first().is_some_and(is_constant) {
                let stage = i + 1;
                return Err(self.error(format_args!("non executable command in pipeline stage {stage}")));
            }
        }
        Ok(())
    }

    fn command(&mut self) -> Result<Command, Error> {
        let mut command = Command {
            pos: self.peek_non_space().pos,
            args: Vec::new(),
        };
        loop {
            self.peek_non_space();
            command.args.extend(self.operand()?);
            let token = self.next();
            match token.kind {
                ItemKind::Space => continue,
                ItemKind::RightDelim | ItemKind::RightParen => self.backup(),
                ItemKind::Pipe => {}
                _ => return Err(self.unexpected(&token, "operand")),
            }
            break;
        }
        match command.args.is_empty() {
            true => Err(self.error("empty command")),
            false => Ok(command),
        }
    }

    /// A term with the fields that follow it.
    fn operand(&mut self) -> Result<Option<Operand>, Error> {
        let Some(term) = self.term()? else {
            return Ok(None);
        };
        if self.peek().kind != ItemKind::Field {
            return Ok(Some(term));
        }
        let pos = self.peek().pos;
        let mut fields = Vec::new();
        while self.peek().kind == ItemKind::Field {
            fields.push(self.next().text[1..].to_owned());
        }
        let chain = |mut names: Names| {
            names.pos = pos;
            names.names.append(&mut fields.clone());
            names
        };
        Ok(Some(match term {
            Operand::Field(names) => Operand::Field(chain(names)),
            Operand::Variable(names) => Operand::Variable(chain(names)),
            _ if is_constant(&term) => {
                let text = quote::quote(&term.to_string());
                return Err(self.error(format_args!("unexpected . after term {text}")));
            }
            _ => Operand::Chain {
                pos,
                node: Box::new(term),
                fields,
            },
        }))
    }

    fn term(&mut self) -> Result<Option<Operand>, Error> {
        let token = self.next_non_space();
        let pos = token.pos;
        Ok(Some(match token.kind {
            ItemKind::Identifier => {
                if !(self.shared.syntax.has_function)(&token.text) {
                    let name = quote::quote(&token.text);
                    return Err(self.error(format_args!("function {name} not defined")));
                }
                Operand::Function {
                    pos,
                    name: token.text,
                }
            }
            ItemKind::Dot => Operand::Dot(pos),
            ItemKind::Nil => Operand::Nil(pos),
            ItemKind::Variable => self.variable(&token)?,
            ItemKind::Field => Operand::Field(names(pos, &token.text[1..])),
            ItemKind::Bool => Operand::Bool(pos, token.text == "true"),
            ItemKind::CharConstant | ItemKind::Complex | ItemKind::Number => {
                let number = Number::parse(pos, &token.text, token.kind);
                Operand::Number(number.map_err(|error| self.error(error))?)
            }
            ItemKind::LeftParen => {
                const CONTEXT: &str = "parenthesized pipeline";
                let pipe = self.nested(|parser| parser.pipeline(CONTEXT, ItemKind::RightParen))?;
                Operand::Pipe(pipe)
            }
            ItemKind::String | ItemKind::RawString => Operand::Text {
                pos,
                text: quote::unquote(&token.text).map_err(|error| self.error(error))?,
                quoted: token.text,
            },
            _ => {
                self.backup();
                return Ok(None);
            }
        }))
    }

    fn variable(&self, token: &Item) -> Result<Operand, Error> {
        if !self.vars.contains(&token.text) {
            let name = quote::quote(&token.text);
            return Err(self.error(format_args!("undefined variable {name}")));
        }
        Ok(Operand::Variable(names(token.pos, &token.text)))
    }
}

fn names(pos: usize, text: &str) -> Names {
    Names {
        pos,
        names: vec![text.to_owned()],
    }
}

/// Whether an operand cannot be executed, nor have fields.
fn is_constant(operand: &Operand) -> bool {
    matches!(
        operand,
        Operand::Bool(..) | Operand::Dot(_) | Operand::Nil(_) | Operand::Number(_) | Operand::Text { .. }
    )
}

fn starts_operand(kind: ItemKind) -> bool {
    matches!(
        kind,
        ItemKind::Bool
            | ItemKind::CharConstant
            | ItemKind::Complex
            | ItemKind::Dot
            | ItemKind::Field
            | ItemKind::Identifier
            | ItemKind::Number
            | ItemKind::Nil
            | ItemKind::RawString
            | ItemKind::String
            | ItemKind::Variable
            | ItemKind::LeftParen
    )
}
