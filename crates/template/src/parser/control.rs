//! Actions: those with a keyword, and pipelines.

use super::node::{Action, Branch, List, Node, TemplateCall};
use super::{Clause, Parser};
use crate::error::Error;
use crate::lexer::ItemKind;

impl Parser<'_, '_> {
    pub(super) fn action(&mut self) -> Result<Clause, Error> {
        let token = self.next_non_space();
        let node = match token.kind {
            ItemKind::Else => return self.else_control(),
            ItemKind::End => {
                self.expect(ItemKind::RightDelim, "end")?;
                return Ok(Clause::End);
            }
            ItemKind::Block => self.block_control()?,
            ItemKind::Break => {
                self.loop_control("{{break}}")?;
                Node::Break(token.pos)
            }
            ItemKind::Continue => {
                self.loop_control("{{continue}}")?;
                Node::Continue(token.pos)
            }
            ItemKind::If => Node::If(self.branch("if")?),
            ItemKind::Range => Node::Range(self.branch("range")?),
            ItemKind::With => Node::With(self.branch("with")?),
            ItemKind::Template => self.template_control()?,
            _ => {
                self.backup();
                let pos = self.peek().pos;
                let pipe = self.pipeline("command", ItemKind::RightDelim)?;
                Node::Action(Action { pos, pipe })
            }
        };
        Ok(Clause::Node(node))
    }

    fn loop_control(&mut self, keyword: &str) -> Result<(), Error> {
        let token = self.next_non_space();
        if token.kind != ItemKind::RightDelim {
            return Err(self.unexpected(&token, keyword));
        }
        match self.range_depth {
            0 => Err(self.error(format_args!("{keyword} outside {{{{range}}}}"))),
            _ => Ok(()),
        }
    }

    fn branch(&mut self, keyword: &'static str) -> Result<Branch, Error> {
        let vars = self.vars.len();
        let branch = self.nested(|parser| parser.branch_of(keyword));
        self.vars.truncate(vars);
        branch
    }

    fn branch_of(&mut self, keyword: &'static str) -> Result<Branch, Error> {
        let pipe = self.pipeline(keyword, ItemKind::RightDelim)?;
        let is_range = usize::from(keyword == "range");
        self.range_depth += is_range;
        let (list, next) = self.item_list()?;
        self.range_depth -= is_range;
        let else_list = match next {
            Clause::Else { pos } => Some(self.else_list(keyword, pos)?),
            _ => None,
        };
        Ok(Branch {
            keyword,
            pipe,
            list,
            else_list,
        })
    }

    /// The alternative of a branch. `else if` and `else with` are a branch inside of it, without an `end` of its own.
    fn else_list(&mut self, keyword: &str, pos: usize) -> Result<List, Error> {
        let chained = match (keyword, self.peek().kind) {
            ("if", ItemKind::If) => {
                self.next();
                Node::If(self.branch("if")?)
            }
            ("with", ItemKind::With) => {
                self.next();
                Node::With(self.branch("with")?)
            }
            _ => {
                let (list, next) = self.item_list()?;
                return match next {
                    Clause::End => Ok(list),
                    _ => Err(self.error("expected end; found {{else}}")),
                };
            }
        };
        Ok(List {
            pos,
            nodes: vec![chained],
        })
    }

    fn else_control(&mut self) -> Result<Clause, Error> {
        let peek = self.peek_non_space();
        if matches!(peek.kind, ItemKind::If | ItemKind::With) {
            return Ok(Clause::Else { pos: peek.pos });
        }
        let pos = self.expect(ItemKind::RightDelim, "else")?.pos;
        Ok(Clause::Else { pos })
    }

    fn block_control(&mut self) -> Result<Node, Error> {
        const CONTEXT: &str = "block clause";
        let token = self.next_non_space();
        let name = self.template_name(&token, CONTEXT)?;
        let pipe = self.pipeline(CONTEXT, ItemKind::RightDelim)?;
        let is_closed = self.nested(|parser| {
            let mut block = Parser::new(parser.shared);
            let (root, end) = block.item_list()?;
            if let Clause::Else { .. } = end {
                return Ok(false);
            }
            block.add(name.clone(), root)?;
            Ok(true)
        })?;
        if !is_closed {
            return Err(self.error(format_args!("unexpected {{{{else}}}} in {CONTEXT}")));
        }
        Ok(Node::Template(TemplateCall {
            pos: token.pos,
            name,
            pipe: Some(pipe),
        }))
    }

    fn template_control(&mut self) -> Result<Node, Error> {
        const CONTEXT: &str = "template clause";
        let token = self.next_non_space();
        let name = self.template_name(&token, CONTEXT)?;
        let mut pipe = None;
        if self.next_non_space().kind != ItemKind::RightDelim {
            self.backup();
            pipe = Some(self.pipeline(CONTEXT, ItemKind::RightDelim)?);
        }
        Ok(Node::Template(TemplateCall {
            pos: token.pos,
            name,
            pipe,
        }))
    }
}
