//! Execution of a parsed template, with the rules and error messages of Go's `text/template/exec.go`. Start at
//! [`execute`]; `walk.rs` has the actions, `eval.rs` the pipelines, `call.rs` the calls of functions.

mod argument;
mod call;
mod eval;
mod field;
mod range;
mod walk;

use std::cell::{Cell, RefCell};

use crate::error::Error;
use crate::functions::Context;
use crate::parser::Tree;
use crate::parser::node::Site;
use crate::quote;
use crate::template::Template;
use crate::value::{Operand, Value};

/// Executes the template of a name and returns its output.
pub(crate) fn execute(
    set: &Template,
    tree: &Tree,
    data: Value,
    context: Context<'_>,
) -> Result<String, Error> {
    let run = Run {
        set,
        context,
        out: RefCell::new(String::new()),
        depth: Cell::new(0),
    };
    let dot = Operand::new(data);
    State::new(&run, tree, dot.clone()).walk_list(&dot, &tree.root)?;
    Ok(run.out.into_inner())
}

/// What one execution shares between the templates that it calls.
struct Run<'t> {
    set: &'t Template,
    context: Context<'t>,
    out: RefCell<String>,
    depth: Cell<usize>,
}

/// The state of one template: its variables, and the node that errors are located at.
struct State<'r, 't> {
    run: &'r Run<'t>,
    tree: &'t Tree,
    node: Option<&'t dyn Site>,
    vars: Vec<(&'t str, Operand)>,
}

/// How the execution goes on after a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    /// The next node.
    Next,
    /// The end of the loop.
    Break,
    /// The next iteration of the loop.
    Continue,
}

impl<'r, 't> State<'r, 't> {
    fn new(run: &'r Run<'t>, tree: &'t Tree, dot: Operand) -> Self {
        Self {
            run,
            tree,
            node: None,
            vars: vec![("$", dot)],
        }
    }

    fn at(&mut self, node: &'t dyn Site) {
        self.node = Some(node);
    }

    /// An error at the current node.
    fn error(&self, message: impl std::fmt::Display) -> Error {
        let name = &self.tree.name;
        let Some(node) = self.node else {
            return Error::Execution(format!("template: {name}: {message}"));
        };
        let before = self.tree.source.text.get(..node.pos()).unwrap_or_default();
        let line = 1 + before.bytes().filter(|byte| *byte == b'\n').count();
        let column = before.len() - before.rfind('\n').map_or(0, |newline| newline + 1);
        Error::Execution(format!(
            "template: {}:{line}:{column}: executing {} at <{node}>: {message}",
            self.tree.source.name,
            quote::quote(name),
        ))
    }

    /// Takes a step of the budget.
    fn step(&self) -> Result<(), Error> {
        self.run.context.charge(1).map_err(|error| self.error(error))
    }

    /// Runs a function one level deeper, within the limits.
    fn nested<T>(&mut self, run: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        self.step()?;
        let depth = self.run.depth.get();
        let limit = self.run.context.limits().depth;
        if depth >= limit {
            return Err(self.error(format_args!("exceeded maximum template depth ({limit})")));
        }
        self.run.depth.set(depth + 1);
        let result = run(self);
        self.run.depth.set(depth);
        result
    }

    fn write(&self, text: &str) -> Result<(), Error> {
        let mut out = self.run.out.borrow_mut();
        let limit = self.run.context.limits().output_bytes;
        if out.len() + text.len() > limit {
            return Err(self.error(format_args!("exceeded the limit of {limit} bytes of output")));
        }
        out.push_str(text);
        Ok(())
    }

    fn set_variable(&mut self, name: &str, value: Operand) -> Result<(), Error> {
        match self.vars.iter_mut().rev().find(|(known, _)| *known == name) {
            Some((_, slot)) => {
                *slot = value;
                Ok(())
            }
            None => Err(self.error(format_args!("undefined variable: {name}"))),
        }
    }

    fn variable(&self, name: &str) -> Result<Operand, Error> {
        match self.vars.iter().rev().find(|(known, _)| *known == name) {
            Some((_, value)) => Ok(value.clone()),
            None => Err(self.error(format_args!("undefined variable: {name}"))),
        }
    }
}
