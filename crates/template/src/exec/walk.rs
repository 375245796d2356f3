//! Execution of texts and actions.

use super::{Flow, State};
use crate::error::Error;
use crate::format;
use crate::parser::node::{Branch, List, Node, TemplateCall};
use crate::quote;
use crate::value::{Operand, Value};

impl<'t> State<'_, 't> {
    pub(super) fn walk_list(&mut self, dot: &Operand, list: &'t List) -> Result<Flow, Error> {
        self.at(list);
        for node in &list.nodes {
            let flow = self.walk(dot, node)?;
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn walk(&mut self, dot: &Operand, node: &'t Node) -> Result<Flow, Error> {
        self.at(node);
        self.step()?;
        match node {
            Node::Text(text) => self.write(&text.text)?,
            Node::Action(action) => {
                let value = self.eval_pipeline(dot, &action.pipe)?;
                if action.pipe.decl.is_empty() {
                    self.print(node, &value)?;
                }
            }
            Node::If(branch) | Node::With(branch) => {
                return self.nested(|state| state.walk_branch(dot, branch));
            }
            Node::Range(_) => return self.nested(|state| state.walk_range(dot, node)),
            Node::Template(call) => self.nested(|state| state.walk_template(dot, node, call))?,
            Node::Break(_) => return Ok(Flow::Break),
            Node::Continue(_) => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    fn print(&mut self, node: &'t Node, operand: &Operand) -> Result<(), Error> {
        self.at(node);
        let text = match &operand.value {
            Value::Nil => return self.write("<no value>"),
            Value::String(text) => return self.write(text),
            Value::Function(_) => {
                let type_name = operand.value.type_name();
                return Err(self.error(format_args!("can't print {node} of type {type_name}")));
            }
            value => format::print([value], self.run.context.budget()),
        };
        let text = text.map_err(|error| self.error(error))?;
        self.write(&text)
    }

    fn walk_branch(&mut self, dot: &Operand, branch: &'t Branch) -> Result<Flow, Error> {
        let mark = self.vars.len();
        let value = self.eval_pipeline(dot, &branch.pipe)?;
        let flow = if value.value.is_true() {
            let inner = if branch.keyword == "with" { &value } else { dot };
            self.walk_list(inner, &branch.list)
        } else if let Some(list) = &branch.else_list {
            self.walk_list(dot, list)
        } else {
            Ok(Flow::Next)
        };
        self.vars.truncate(mark);
        flow
    }

    fn walk_template(&mut self, dot: &Operand, node: &'t Node, call: &'t TemplateCall) -> Result<(), Error> {
        self.at(node);
        let Some(tree) = self.run.set.find_tree(&call.name) else {
            let name = quote::quote(&call.name);
            return Err(self.error(format_args!("template {name} not defined")));
        };
        let dot = match &call.pipe {
            Some(pipe) => self.eval_pipeline(dot, pipe)?,
            None => Operand::default(),
        };
        let mut state = State::new(self.run, tree, dot.clone());
        state.walk_list(&dot, &tree.root)?;
        Ok(())
    }
}
