//! Execution of `range`.

use super::{Flow, State};
use crate::error::Error;
use crate::format;
use crate::parser::node::{Branch, Node};
use crate::value::{Operand, Value};

/// The index or key, and the element of one iteration.
type Iteration = (Operand, Operand);

impl<'t> State<'_, 't> {
    pub(super) fn walk_range(&mut self, dot: &Operand, node: &'t Node) -> Result<Flow, Error> {
        let Node::Range(branch) = node else {
            return Ok(Flow::Next);
        };
        self.at(node);
        let mark = self.vars.len();
        let value = self.eval_pipeline(dot, &branch.pipe)?.unwrapped();
        let ran = self.iterate(branch, &value.value)?;
        let flow = match &branch.else_list {
            Some(list) if !ran => self.walk_list(dot, list)?,
            _ => Flow::Next,
        };
        self.vars.truncate(mark);
        Ok(flow)
    }

    /// Executes the body for each element, and returns whether there was one.
    fn iterate(&mut self, branch: &'t Branch, value: &Value) -> Result<bool, Error> {
        match value {
            Value::Nil => Ok(false),
            Value::List(list) => {
                let items = list.items().iter().enumerate().map(|(i, item)| {
                    let index = Operand::new(Value::Int(i as i64));
                    (index, Operand::element(item.clone(), list.element()))
                });
                self.iterate_over(branch, items)
            }
            Value::Map(map) => {
                let entries = map.entries().into_iter().map(|(key, value)| {
                    let key = Operand::new(Value::string(key));
                    (key, Operand::element(value, map.element()))
                });
                self.iterate_over(branch, entries)
            }
            _ if value.as_integer().is_some() => self.iterate_to(branch, value),
            _ => {
                let text = self.describe(value)?;
                Err(self.error(format_args!("range can't iterate over {text}")))
            }
        }
    }

    /// The numbers from 0 up to the integer, in its type.
    fn iterate_to(&mut self, branch: &'t Branch, end: &Value) -> Result<bool, Error> {
        if branch.pipe.decl.len() > 1 {
            let text = self.describe(end)?;
            let message = format_args!("can't use {text} to iterate over more than one variable");
            return Err(self.error(message));
        }
        let number = |i: i128| match end {
            Value::Int64(_) => Value::Int64(i64::try_from(i).unwrap_or_default()),
            Value::Uint8(_) => Value::Uint8(u8::try_from(i).unwrap_or_default()),
            Value::Uint64(_) => Value::Uint64(u64::try_from(i).unwrap_or_default()),
            _ => Value::Int(i64::try_from(i).unwrap_or_default()),
        };
        let numbers = 0..end.as_integer().unwrap_or(0);
        self.iterate_over(
            branch,
            numbers.map(|i| (Operand::default(), Operand::new(number(i)))),
        )
    }

    fn describe(&self, value: &Value) -> Result<String, Error> {
        format::print_verb(value, 'v', self.run.context.budget()).map_err(|error| self.error(error))
    }

    fn iterate_over(
        &mut self,
        branch: &'t Branch,
        items: impl Iterator<Item = Iteration>,
    ) -> Result<bool, Error> {
        let mark = self.vars.len();
        let mut ran = false;
        for (index, element) in items {
            ran = true;
            self.step()?;
            self.assign(branch, index, &element)?;
            let flow = self.walk_list(&element, &branch.list)?;
            self.vars.truncate(mark);
            if flow == Flow::Break {
                break;
            }
        }
        Ok(ran)
    }

    /// Sets the variables of the loop: the element, or the index and the element.
    fn assign(&mut self, branch: &'t Branch, index: Operand, element: &Operand) -> Result<(), Error> {
        let names: Vec<&'t str> = branch
            .pipe
            .decl
            .iter()
            .map(|names| names.names[0].as_str())
            .collect();
        if branch.pipe.is_assign {
            return match names[..] {
                [key, value] => {
                    self.set_variable(key, index)?;
                    self.set_variable(value, element.clone())
                }
                [value] => self.set_variable(value, element.clone()),
                _ => Ok(()),
            };
        }
        let top = self.vars.len();
        if !names.is_empty() {
            self.vars[top - 1].1 = element.clone();
        }
        if names.len() > 1 {
            self.vars[top - 2].1 = index;
        }
        Ok(())
    }
}
